/* Vectors of CF_LANES floats in GCC's and Clang's vector extensions. */
#ifndef COLDFORGE_VECTOR_H
#define COLDFORGE_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

/* A register tile of the float32 micro-kernels has CF_MR rows (pixels) and CF_NR columns (output channels). */
#ifndef CF_LANES
#if defined(__AVX512F__)
#define CF_LANES 16
#elif defined(__AVX2__)
#define CF_LANES 8
#else
#define CF_LANES 4
#endif
#endif
#if CF_LANES == 16
#define CF_NR 32
#define CF_MR 12
#else
#define CF_NR 16
#define CF_MR 6
#endif
enum { CF_PANEL = 16 }; /* output channels of a packed panel of weights: a cache line of floats */

/* What is stored for a byte is less than it by this: arm64's dot products take signed bytes, others' unsigned ones. */
#ifndef CF_BYTES_LESS
#if defined(__aarch64__)
#define CF_BYTES_LESS 128
#else
#define CF_BYTES_LESS 0
#endif
#endif

/* Nothing here passes vectors between translation units. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#define INLINE static inline __attribute__((always_inline))
/* Has a pointer computed where it is used. Compilers would keep a dozen of them on the stack, and load each before
 * use. */
#define ADDRESS(pointer) __asm__("" : "+r"(pointer))
#define UNROLL _Pragma("GCC unroll 64")
#define ROLLED _Pragma("GCC unroll 1")
#define EIGHT_AT_A_TIME _Pragma("GCC unroll 8")

typedef float vec __attribute__((vector_size(CF_LANES * 4)));
typedef int32_t ivec __attribute__((vector_size(CF_LANES * 4)));
typedef uint32_t unsigned_ivec __attribute__((vector_size(CF_LANES * 4)));
typedef float loose_vec __attribute__((vector_size(CF_LANES * 4), aligned(4), may_alias));
typedef int32_t loose_ivec __attribute__((vector_size(CF_LANES * 4), aligned(4), may_alias));

INLINE vec load(const float *p) { return *(const loose_vec *)p; }
INLINE void store(float *p, vec v) { *(loose_vec *)p = v; }
INLINE vec splat(float x) { return x - (vec){0}; }
INLINE ivec isplat(int32_t x) { return x - (ivec){0}; }
INLINE vec zero(void) { return (vec){0}; }

INLINE vec choose(ivec mask, vec yes, vec no) { return (vec)((mask & (ivec)yes) | (~mask & (ivec)no)); }
/* Half a vector: of the channels that a tile ends with, where registers are wide. */
typedef float half_vec __attribute__((vector_size(CF_LANES * 2)));
typedef float loose_half_vec __attribute__((vector_size(CF_LANES * 2), aligned(4), may_alias));
INLINE half_vec load_half(const float *p) { return *(const loose_half_vec *)p; }
INLINE half_vec splat_half(float x) { return x - (half_vec){0}; }
INLINE vec widen_half(half_vec v) {
    vec whole = {0};
    memcpy(&whole, &v, sizeof v);
    return whole;
}
INLINE void store_half(float *p, vec v) {
    half_vec half;
    memcpy(&half, &v, sizeof half);
    *(loose_half_vec *)p = half;
}

/* max(v, low) and min(v, high), NaN where v is NaN. Compilers find x86's own instruction for the general form, but not
 * where a bound is constant, and NEON's not at all. */
#if CF_LANES == 4 && defined(__ARM_NEON)
INLINE vec at_least(vec v, vec low) { return (vec)vmaxq_f32((float32x4_t)v, (float32x4_t)low); }
INLINE vec at_most(vec v, vec high) { return (vec)vminq_f32((float32x4_t)v, (float32x4_t)high); }
#elif CF_LANES == 8 && defined(__AVX2__)
INLINE vec at_least(vec v, vec low) { return (vec)_mm256_max_ps((__m256)low, (__m256)v); }
INLINE vec at_most(vec v, vec high) { return (vec)_mm256_min_ps((__m256)high, (__m256)v); }
#elif CF_LANES == 16 && defined(__AVX512F__)
INLINE vec at_least(vec v, vec low) { return (vec)_mm512_max_ps((__m512)low, (__m512)v); }
INLINE vec at_most(vec v, vec high) { return (vec)_mm512_min_ps((__m512)high, (__m512)v); }
#elif CF_LANES == 4 && defined(__wasm_simd128__)
INLINE vec at_least(vec v, vec low) { return (vec)wasm_f32x4_pmax((v128_t)v, (v128_t)low); }
INLINE vec at_most(vec v, vec high) { return (vec)wasm_f32x4_pmin((v128_t)v, (v128_t)high); }
#else
INLINE vec at_least(vec v, vec low) { return choose(low > v, low, v); }
INLINE vec at_most(vec v, vec high) { return choose(high < v, high, v); }
#endif
INLINE vec clamp(vec v, vec low, vec high) { return at_most(at_least(v, low), high); }

#if defined(__x86_64__)
INLINE float square_root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
#else
INLINE float square_root(float x) { return __builtin_sqrtf(x); } /* one instruction, as errno is not wanted */
#endif

/* max(v, low), and low where v is NaN. */
#if CF_LANES == 4 && defined(__ARM_NEON)
INLINE vec number_at_least(vec v, vec low) { return (vec)vmaxnmq_f32((float32x4_t)v, (float32x4_t)low); }
#elif CF_LANES == 8 && defined(__AVX2__)
INLINE vec number_at_least(vec v, vec low) { return (vec)_mm256_max_ps((__m256)v, (__m256)low); }
#elif CF_LANES == 16 && defined(__AVX512F__)
INLINE vec number_at_least(vec v, vec low) { return (vec)_mm512_max_ps((__m512)v, (__m512)low); }
#elif CF_LANES == 4 && defined(__wasm_simd128__)
INLINE vec number_at_least(vec v, vec low) { return (vec)wasm_f32x4_pmax((v128_t)low, (v128_t)v); }
#else
INLINE vec number_at_least(vec v, vec low) { return choose(v > low, v, low); }
#endif

/* Load and store the first n < CF_LANES lanes. Memory past them is not touched; the other lanes load as zeros. */
#if CF_LANES == 8 && defined(__AVX2__)
INLINE __m256i first_lanes(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE vec load_some(const float *p, int64_t n) { return (vec)_mm256_maskload_ps(p, first_lanes(n)); }
INLINE void store_some(float *p, vec v, int64_t n) { _mm256_maskstore_ps(p, first_lanes(n), (__m256)v); }
#elif CF_LANES == 16 && defined(__AVX512F__)
INLINE vec load_some(const float *p, int64_t n) {
    return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1u), p);
}
INLINE void store_some(float *p, vec v, int64_t n) {
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1u), (__m512)v);
}
#else
INLINE vec load_some(const float *p, int64_t n) {
    float lanes[CF_LANES] = {0};
    for (int64_t i = 0; i < n; i++) lanes[i] = p[i];
    return load(lanes);
}
INLINE void store_some(float *p, vec v, int64_t n) {
    float lanes[CF_LANES];
    store(lanes, v);
    for (int64_t i = 0; i < n; i++) p[i] = lanes[i];
}
#endif

INLINE vec load_upto(const float *p, int64_t n) { return n >= CF_LANES ? load(p) : load_some(p, n); }
INLINE void store_upto(float *p, vec v, int64_t n) {
    if (n >= CF_LANES) {
        store(p, v);
    } else {
        store_some(p, v, n);
    }
}

INLINE int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

#endif
