/* The element types a loop nest is generated for: X(suffix, element, accumulator). */
#ifndef COLDFORGE_TYPES_H
#define COLDFORGE_TYPES_H

#include "ops/kernels.h"

/* A half as it is stored; WebAssembly has no _Float16, but clang's storage type. */
#ifdef __wasm__
typedef __fp16 cf_half;
#else
typedef _Float16 cf_half;
#endif

/* Modulo 2^n it does not matter whether integers have a sign, and unsigned overflow is defined. */
#define CF_FOR_EACH_TYPE(X)    \
    X(f32, float, float)       \
    X(f64, double, double)     \
    X(f16, cf_half, float)     \
    X(u8, uint8_t, uint32_t)   \
    X(u16, uint16_t, uint32_t) \
    X(u32, uint32_t, uint32_t) \
    X(u64, uint64_t, uint64_t)

/* On the loop nests, which are seldom needed: compiled for size. */
#define CF_RARE __attribute__((cold)) static

/* Call name_<type>(...) for the elements of dtype. */
#define CF_DISPATCH(dtype, name, ...)                         \
    switch (dtype) {                                          \
    case CF_F32: name##_f32(__VA_ARGS__); break;              \
    case CF_F64: name##_f64(__VA_ARGS__); break;              \
    case CF_F16: name##_f16(__VA_ARGS__); break;              \
    case CF_S8: case CF_U8: name##_u8(__VA_ARGS__); break;    \
    case CF_S16: case CF_U16: name##_u16(__VA_ARGS__); break; \
    case CF_S32: case CF_U32: name##_u32(__VA_ARGS__); break; \
    case CF_S64: case CF_U64: name##_u64(__VA_ARGS__); break; \
    }

#endif
