/* CF_LANES numbers of float16, bfloat16 or int8 as floats. */
#ifndef COLDFORGE_WIDEN_H
#define COLDFORGE_WIDEN_H

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

#endif
