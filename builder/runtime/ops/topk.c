/* The k largest values of each row, found with a heap that lives in the output. */
#include "ops/kernels.h"

#include <string.h>

/* A float's place in the total order, as an integer. */
static int32_t place(float value) {
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits < 0 ? bits ^ INT32_MAX : bits;
}

/* Whether the value at index a comes before the one at index b. */
static int before(const float *values, int32_t a, int32_t b) {
    const int32_t left = place(values[a]), right = place(values[b]);
    return left != right ? left > right : a < b;
}

/* Put index at the root of a heap of count indices whose root comes last of all, and let it sink. */
static void sink(const float *values, int32_t *heap, int64_t root, int64_t count, int32_t index) {
    for (;;) {
        int64_t child = 2 * root + 1;
        if (child >= count) break;
        if (child + 1 < count && before(values, heap[child], heap[child + 1])) child++;
        if (!before(values, index, heap[child])) break;
        heap[root] = heap[child];
        root = child;
    }
    heap[root] = index;
}

static void row(const cf_topk *t, const float *values, float *out_values, int32_t *heap) {
    for (int64_t i = 0; i < t->k; i++) heap[i] = (int32_t)i;
    for (int64_t i = t->k / 2; i-- > 0;) sink(values, heap, i, t->k, heap[i]);
    for (int64_t i = t->k; i < t->length; i++) {
        if (before(values, (int32_t)i, heap[0])) sink(values, heap, 0, t->k, (int32_t)i);
    }
    /* The root is the last of what remains: swap it to the end. */
    for (int64_t count = t->k - 1; count > 0; count--) {
        const int32_t last = heap[count];
        heap[count] = heap[0];
        sink(values, heap, 0, count, last);
    }
    for (int64_t i = 0; i < t->k; i++) out_values[i] = values[heap[i]];
}

void cf_run_topk(const cf_topk *t, const float *values, float *out_values, int32_t *out_indices) {
    if (t->k <= 0) return;
    for (int64_t i = 0; i < t->batch; i++) {
        row(t, values + i * t->length, out_values + i * t->k, out_indices + i * t->k);
    }
}
