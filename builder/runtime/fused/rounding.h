/* Floats rounded to bytes: what integer GEMM reads, and what a layer before it stores for it. */
#ifndef COLDFORGE_ROUNDING_H
#define COLDFORGE_ROUNDING_H

#include "fused/indirection.h"

typedef int8_t byte_vec __attribute__((vector_size(CF_LANES)));
typedef int8_t loose_byte_vec __attribute__((vector_size(CF_LANES), aligned(1), may_alias));

/* How floats are rounded: Quantisation in builder/lower/program.py, as vectors. */
typedef struct {
    vec inverse, low, high, magic; /* 1 / scale; the range of byte - zero */
    ivec offset;
} cf_quantiser;

/* `offset` is added to byte - zero. */
INLINE cf_quantiser quantiser(float scale, int32_t zero, int32_t offset) {
    const vec magic = splat(12582912.0f); /* 1.5 * 2^23: adding it rounds to a whole number */
    return (cf_quantiser){splat(1.0f / scale), splat((float)-zero), splat((float)(255 - zero)), magic,
                          isplat(offset) - (ivec)magic};
}

/* How the output of `layer` is rounded to bytes, if it is. */
INLINE cf_quantiser output_quantiser(const cf_layer *layer) {
    return quantiser(layer->rounded_scale, layer->rounded_zero, layer->rounded_zero - CF_BYTES_LESS);
}

/*
 * Round CF_LANES floats: to the nearest, ties to even; NaN becomes 0. The clamp stands between the multiplication and
 * the addition that rounds, so that no compiler contracts them to one operation, whose result would differ.
 */
INLINE ivec rounded(const cf_quantiser *q, vec x) {
    vec scaled = x * q->inverse;
    scaled = (vec)((ivec)scaled & (scaled == scaled));
    scaled = clamp(scaled, q->low, q->high);
    return (ivec)(scaled + q->magic) + q->offset;
}

/* Store the first n lanes, or all, as bytes. */
INLINE void store_bytes(int8_t *to, ivec lanes, int64_t n) {
    const byte_vec bytes = __builtin_convertvector(lanes, byte_vec);
    if (n >= CF_LANES) {
        *(loose_byte_vec *)to = bytes;
    } else {
        for (int64_t i = 0; i < n; i++) to[i] = bytes[i];
    }
}

/* Store `channels` channels from `channel` on of pixels at ... at + count as bytes; `values` has a pointer to each. */
static void store_rounded(const cf_layer *layer, const cf_pixel_pointers *pointers, int64_t at, int64_t count,
                          int64_t channel, int64_t channels, float *const *values) {
    const cf_quantiser q = output_quantiser(layer);
    for (int64_t i = 0; i < count; i++) {
        const float *from = values[i] + channel;
        int8_t *to = pointers->rounded[at + i] + channel;
        for (int64_t j = 0; j < channels; j += CF_LANES) {
            store_bytes(to + j, rounded(&q, load_upto(from + j, channels - j)), channels - j);
        }
    }
}

#endif
