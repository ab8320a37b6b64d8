/* Floats rounded to bytes: what integer GEMM reads, and what a layer before it stores for it. */
#ifndef COLDFORGE_ROUNDING_H
#define COLDFORGE_ROUNDING_H

#include "fused/indirection.h"

typedef int8_t byte_vec __attribute__((vector_size(CF_LANES)));
typedef int8_t loose_byte_vec __attribute__((vector_size(CF_LANES), aligned(1), may_alias));

/* How floats are rounded: Quantisation in builder/compiler/lower/steps/quantisation.py, as vectors. */
typedef struct {
    vec inverse, low, high, magic; /* 1 / scale; the range of byte - zero */
    ivec offset;
    int nan_is_low; /* NaN, which stands for 0, can become the least number */
} cf_quantiser;

/* `offset` is added to byte - zero. */
INLINE cf_quantiser quantiser(float scale, int32_t zero, int32_t offset) {
    const vec magic = splat(12582912.0f); /* 1.5 * 2^23: adding it rounds to a whole number */
    return (cf_quantiser){splat(1.0f / scale), splat((float)-zero),           splat((float)(255 - zero)), magic,
                          isplat(offset) - (ivec)magic, zero == 0};
}

/* How the output of `layer` is rounded to bytes, if it is. */
INLINE cf_quantiser output_quantiser(const cf_layer *layer) {
    return quantiser(layer->rounded_scale, layer->rounded_zero, layer->rounded_zero - CF_BYTES_LESS);
}

/*
 * The same for numbers that are yet to be clamped to layer->low ... high. A product with one positive factor keeps the
 * order of numbers, so clamping it to the products of the bounds gives the same bits, and both clamps are one.
 */
INLINE cf_quantiser clamping_quantiser(const cf_layer *layer) {
    cf_quantiser q = output_quantiser(layer);
    const vec low = clamp(splat(layer->low) * q.inverse, q.low, q.high);
    q.high = clamp(splat(layer->high) * q.inverse, q.low, q.high);
    q.low = low;
    q.nan_is_low = low[0] == 0.0f;
    return q;
}

/*
 * Round CF_LANES floats: to the nearest, ties to even; NaN becomes 0. The clamp stands between the multiplication and
 * the addition that rounds, so that no compiler contracts them to one operation, whose result would differ.
 */
INLINE ivec rounded(const cf_quantiser *q, vec x) {
    vec scaled = x * q->inverse;
    if (q->nan_is_low) {
        scaled = number_at_least(scaled, q->low);
    } else {
        scaled = at_least((vec)((ivec)scaled & (scaled == scaled)), q->low);
    }
    scaled = at_most(scaled, q->high);
    return (ivec)(scaled + q->magic) + q->offset;
}

/* Store the first n lanes, or all, as bytes. */
INLINE void store_bytes(int8_t *to, ivec lanes, int64_t n) {
    const byte_vec bytes = __builtin_convertvector(lanes, byte_vec);
    if (n >= CF_LANES) {
        *(loose_byte_vec *)to = bytes;
        return;
    }
#if CF_LANES == 16 && defined(__AVX512F__)
    _mm512_mask_cvtepi32_storeu_epi8(to, (__mmask16)((1u << n) - 1u), (__m512i)lanes);
#else
    for (int64_t size = CF_LANES / 2, at = 0; size > 0; size /= 2) {
        if ((n & size) == 0) continue;
        memcpy(to + at, (const int8_t *)&bytes + at, (size_t)size);
        at += size;
    }
#endif
}

/* Store two whole vectors. */
INLINE void store_two(int8_t *to, int8_t *to_next, ivec lanes, ivec next) {
#if CF_LANES == 8 && defined(__AVX2__) && CF_BYTES_LESS == 0
    const __m256i words = _mm256_packs_epi32((__m256i)lanes, (__m256i)next), bytes = _mm256_packus_epi16(words, words);
    const __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
    _mm_storel_epi64((__m128i *)(void *)to, both);
    _mm_storeh_pi((__m64 *)(void *)to_next, (__m128)both);
#else
    store_bytes(to, lanes, CF_LANES);
    store_bytes(to_next, next, CF_LANES);
#endif
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
