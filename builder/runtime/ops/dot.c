/* Batched matrix multiplication. */
#include <string.h>

#include "ops/tile.h"
#include "ops/types.h"

#define REAL float
#define NAME(word) word##_f32
#define TILE_LINKAGE /* also convolution.c's */
#include "ops/dot_real.inc"
#undef REAL
#undef NAME
#undef TILE_LINKAGE

#define REAL double
#define NAME(word) word##_f64
#define TILE_LINKAGE static
#include "ops/dot_real.inc"
#undef REAL
#undef NAME
#undef TILE_LINKAGE

/* One matrix, any strides. */
#define LOOP_NEST(suffix, element, accumulator)                                                        \
    CF_RARE void any_##suffix(const cf_dot *d, const element *lhs, const element *rhs, element *out) { \
        for (int64_t m = 0; m < d->m; m++) {                                                           \
            for (int64_t n = 0; n < d->n; n++) {                                                       \
                const element *left = lhs + m * d->lhs_m, *right = rhs + n * d->rhs_n;                 \
                accumulator sum = 0;                                                                   \
                for (int64_t k = 0; k < d->k; k++) {                                                   \
                    sum += (accumulator)left[k * d->lhs_k] * (accumulator)right[k * d->rhs_k];         \
                }                                                                                      \
                out[m * d->out_m + n * d->out_n] = (element)sum;                                       \
            }                                                                                          \
        }                                                                                              \
    }
CF_FOR_EACH_TYPE(LOOP_NEST)

static size_t size_of(cf_dtype dtype) {
    switch (dtype) {
    case CF_S8: case CF_U8: return 1;
    case CF_F16: case CF_S16: case CF_U16: return 2;
    case CF_F64: case CF_S64: case CF_U64: return 8;
    default: return 4;
    }
}

static int fast(const cf_dot *d, const void *lhs, const void *rhs, void *out) {
    if (d->dtype == CF_F32) return fast_f32(d, lhs, rhs, out);
    return d->dtype == CF_F64 && fast_f64(d, lhs, rhs, out);
}

void cf_run_dot_at(const cf_dot *d, int64_t b, const void *lhs, const void *rhs, void *out) {
    const int64_t size = (int64_t)size_of(d->dtype);
    const void *left = (const char *)lhs + b * d->lhs_batch * size;
    const void *right = (const char *)rhs + b * d->rhs_batch * size;
    void *result = (char *)out + b * d->out_batch * size;
    if (!fast(d, left, right, result)) CF_DISPATCH(d->dtype, any, d, left, right, result)
}

void cf_run_dot(const cf_dot *d, const void *lhs, const void *rhs, void *out) {
    for (int64_t b = 0; b < d->batch; b++) cf_run_dot_at(d, b, lhs, rhs, out);
}
