/* Sums and products with one side repeated, and copies that change the layout. */
#include "ops/kernels.h"

#include <stddef.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 8, BLOCK = 16 /* rows and columns that are turned round in the first-level cache */ };
typedef float vector __attribute__((vector_size(4 * LANES)));

/* op is constant; a and b are numbers or vectors. */
#define APPLY(op, a, b) ((op) == CF_BROADCAST_ADD ? (a) + (b) : (op) == CF_BROADCAST_MULTIPLY ? (a) * (b) : (a))

/* rows x columns numbers that lie side by side; of the other array too, or one for all. */
INLINE void straight(const cf_broadcast_op op, const int one_for_all, const cf_broadcast *d, int64_t rows,
                     const float *source, const float *other, float *target) {
    for (int64_t r = 0; r < rows; r++) {
        int64_t c = 0;
        for (; c + LANES <= d->dims[3]; c += LANES) {
            vector a, b = {0};
            memcpy(&a, source + c, sizeof a);
            if (op != CF_BROADCAST_COPY && !one_for_all) memcpy(&b, other + c, sizeof b);
            if (op != CF_BROADCAST_COPY && one_for_all) b = *other - b; /* minus zero stays minus zero */
            a = APPLY(op, a, b);
            memcpy(target + c, &a, sizeof a);
        }
        for (; c < d->dims[3]; c++) {
            const float b = op == CF_BROADCAST_COPY ? 0.0f : other[one_for_all ? 0 : c];
            target[c] = APPLY(op, source[c], b);
        }
        source += d->source[2];
        if (op != CF_BROADCAST_COPY) other += d->other[2];
        target += d->target[2];
    }
}

/* Any strides, a block at a time; a column of it is read along the rows. */
INLINE void turned(const cf_broadcast_op op, const cf_broadcast *d, int64_t rows, const float *source,
                   const float *other, float *target) {
    for (int64_t from = 0; from < rows; from += BLOCK) {
        const int64_t to = from + BLOCK < rows ? from + BLOCK : rows;
        for (int64_t first = 0; first < d->dims[3]; first += BLOCK) {
            const int64_t last = first + BLOCK < d->dims[3] ? first + BLOCK : d->dims[3];
            for (int64_t r = from; r < to; r++) {
                for (int64_t c = first; c < last; c++) {
                    const float a = source[r * d->source[2] + c * d->source[3]];
                    const float b = op == CF_BROADCAST_COPY ? 0.0f : other[r * d->other[2] + c * d->other[3]];
                    target[r * d->target[2] + c] = APPLY(op, a, b);
                }
            }
        }
    }
}

/* Three planes as pixels: with the count known, the compiler turns whole vectors round. */
static void pixels(const cf_broadcast *d, int64_t rows, const float *restrict source, float *restrict target) {
    const int64_t plane = d->source[3];
    for (int64_t r = 0; r < rows; r++) {
        target[3 * r] = source[r];
        target[3 * r + 1] = source[plane + r];
        target[3 * r + 2] = source[2 * plane + r];
    }
}

/* Rows that follow each other along the third dimension. */
INLINE void rows_of(const cf_broadcast_op op, const cf_broadcast *d, int64_t rows, const float *source,
                    const float *other, float *target) {
    if (d->source[3] == 1 && d->other[3] == 1) {
        straight(op, 0, d, rows, source, other, target);
    } else if (d->source[3] == 1 && d->other[3] == 0) {
        straight(op, 1, d, rows, source, other, target);
    } else if (op == CF_BROADCAST_COPY && d->dims[3] == 3 && d->source[2] == 1 && d->target[2] == 3) {
        pixels(d, rows, source, target);
    } else {
        turned(op, d, rows, source, other, target);
    }
}

/* Where row number `row` of the first three dimensions begins. */
INLINE int64_t place(const cf_broadcast *d, const int64_t *strides, int64_t row) {
    const int64_t in_plane = row % d->dims[2], plane = row / d->dims[2];
    return plane / d->dims[1] * strides[0] + plane % d->dims[1] * strides[1] + in_plane * strides[2];
}

void cf_run_broadcast(const cf_broadcast *d, int64_t from, int64_t to, const float *source, const float *other,
                      float *target) {
    while (from < to) {
        const int64_t rest = d->dims[2] - from % d->dims[2], rows = to - from < rest ? to - from : rest;
        const float *a = source + place(d, d->source, from);
        const float *b = other == NULL ? NULL : other + place(d, d->other, from);
        float *out = target + place(d, d->target, from);
        switch (d->op) {
        case CF_BROADCAST_COPY: rows_of(CF_BROADCAST_COPY, d, rows, a, b, out); break;
        case CF_BROADCAST_ADD: rows_of(CF_BROADCAST_ADD, d, rows, a, b, out); break;
        case CF_BROADCAST_MULTIPLY: rows_of(CF_BROADCAST_MULTIPLY, d, rows, a, b, out); break;
        }
        from += rows;
    }
}
