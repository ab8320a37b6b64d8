/*
 * Weights of float16, bfloat16 or int8 as floats. A block of a panel is dequantised where it is first used, into a
 * buffer that stays in the first-level cache, and then serves a whole block of pixels as float32 weights do.
 */
#ifndef COLDFORGE_DEQUANTISE_H
#define COLDFORGE_DEQUANTISE_H

#include "fused/fused.h"
#include "fused/vector.h"

typedef uint16_t loose_halves __attribute__((vector_size(CF_LANES * 2), aligned(2), may_alias));
typedef int8_t loose_bytes __attribute__((vector_size(CF_LANES), aligned(1), may_alias));

INLINE ivec widen(const uint16_t *p) { return __builtin_convertvector(*(const loose_halves *)p, ivec); }

INLINE vec from_bfloat16(const uint16_t *p) { return (vec)(widen(p) << 16); }

#if CF_LANES == 16 && defined(__AVX512F__)
INLINE vec from_float16(const uint16_t *p) { return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)); }
#elif CF_LANES == 8 && defined(__F16C__)
INLINE vec from_float16(const uint16_t *p) { return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)); }
#elif CF_LANES == 4 && defined(__ARM_NEON)
INLINE vec from_float16(const uint16_t *p) { return (vec)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
#else
/* The exponents' biases differ by 112. One multiplication corrects that, for subnormal numbers too. Infinities
 * would come out wrong, but no weight is infinite. */
INLINE vec from_float16(const uint16_t *p) {
    const ivec bits = widen(p);
    const vec magnitude = (vec)((bits & isplat(0x7fff)) << 13) * splat(0x1p112f);
    return (vec)((ivec)magnitude | (bits & isplat(0x8000)) << 16);
}
#endif

INLINE vec from_int8(const int8_t *p) { return __builtin_convertvector(*(const loose_bytes *)p, vec); }

/*
 * `count` weights of one panel as floats, from number `first` of the layer on; both are multiples of CF_PANEL. Returns
 * where they lie if they are float32, else `buffer`. `panel`: the panel's number, for the scales.
 */
static const float *dequantise(const cf_layer *layer, const cf_layer_data *data, int64_t panel, int64_t first,
                               int64_t count, float *buffer) {
    switch (layer->weight_type) {
    case CF_FLOAT32: return (const float *)data->weights + first;
    case CF_FLOAT16: {
        const uint16_t *from = (const uint16_t *)data->weights + first;
        for (int64_t i = 0; i < count; i += CF_LANES) store(buffer + i, from_float16(from + i));
        break;
    }
    case CF_BFLOAT16: {
        const uint16_t *from = (const uint16_t *)data->weights + first;
        for (int64_t i = 0; i < count; i += CF_LANES) store(buffer + i, from_bfloat16(from + i));
        break;
    }
    case CF_INT8: {
        enum { VECTORS = CF_PANEL / CF_LANES };
        const int8_t *from = (const int8_t *)data->weights + first;
        vec scale[VECTORS];
        UNROLL for (int v = 0; v < VECTORS; v++) scale[v] = load(data->weight_scale + panel * CF_PANEL + v * CF_LANES);
        for (int64_t i = 0; i < count; i += CF_PANEL) {
            UNROLL for (int v = 0; v < VECTORS; v++) {
                store(buffer + i + v * CF_LANES, from_int8(from + i + v * CF_LANES) * scale[v]);
            }
        }
        break;
    }
    }
    return buffer;
}

#endif
