/* Strided copies. */
#include "ops/kernels.h"

#include <string.h>

/* One dimension; the sizes of real tensors are constants, so that memcpy becomes a move. */
static void copy_row(int64_t count, int64_t size, const char *src, int64_t src_step, char *dst, int64_t dst_step) {
#define CASE(bytes)                                                                                    \
    case bytes:                                                                                        \
        for (int64_t i = 0; i < count; i++, src += src_step, dst += dst_step) memcpy(dst, src, bytes); \
        break;
    switch (size) {
        CASE(1)
        CASE(2)
        CASE(4)
        CASE(8)
        CASE(16)
    default:
        for (int64_t i = 0; i < count; i++, src += src_step, dst += dst_step) memcpy(dst, src, (size_t)size);
    }
#undef CASE
}

/* What a copy comes down to: bytes moved together, and the dimensions around them, outermost first. */
typedef struct {
    int32_t rank;
    int64_t dims[8], src_step[8], dst_step[8]; /* bytes */
    int64_t item_size;
} plan;

/* Drop dimensions of 1, join those that lie the same way in both tensors, and dense ones into the item. */
static plan simplify(const cf_copy *c) {
    plan p = {.item_size = c->item_size};
    for (int32_t i = 0; i < c->rank; i++) {
        if (c->dims[i] == 1) continue;
        const int64_t src = c->src_stride[i] * c->item_size, dst = c->dst_stride[i] * c->item_size;
        const int32_t last = p.rank - 1;
        if (last >= 0 && p.src_step[last] == src * c->dims[i] && p.dst_step[last] == dst * c->dims[i]) {
            p.dims[last] *= c->dims[i];
            p.src_step[last] = src;
            p.dst_step[last] = dst;
        } else {
            p.dims[p.rank] = c->dims[i];
            p.src_step[p.rank] = src;
            p.dst_step[p.rank] = dst;
            p.rank++;
        }
    }
    while (p.rank > 0 && p.src_step[p.rank - 1] == p.item_size && p.dst_step[p.rank - 1] == p.item_size) {
        p.item_size *= p.dims[--p.rank];
    }
    return p;
}

void cf_run_copy(const cf_copy *c, const void *source, void *target) {
    for (int32_t i = 0; i < c->rank; i++) {
        if (c->dims[i] <= 0) return;
    }
    const plan p = simplify(c);
    const char *src = source;
    char *dst = target;
    if (p.rank == 0) {
        if (src != dst) memcpy(dst, src, (size_t)p.item_size);
        return;
    }
    const int32_t row = p.rank - 1;
    int64_t index[8] = {0};
    for (;;) {
        copy_row(p.dims[row], p.item_size, src, p.src_step[row], dst, p.dst_step[row]);
        int32_t i = row - 1;
        for (; i >= 0; i--) {
            src += p.src_step[i];
            dst += p.dst_step[i];
            if (++index[i] < p.dims[i]) break;
            src -= p.src_step[i] * p.dims[i];
            dst -= p.dst_step[i] * p.dims[i];
            index[i] = 0;
        }
        if (i < 0) return;
    }
}
