/* A stable merge sort of indices under XLA's compiled comparator, then one gather per input. */
#include "ops/kernels.h"

#include <string.h>

/* One column of each input: element i of input n lies at base[n] + i * step[n]. */
typedef struct {
    int32_t inputs;
    char *base[16];
    int64_t step[16]; /* bytes */
} column;

static int precedes(const column *c, cf_comparator less, int64_t left, int64_t right) {
    const void *operands[32];
    for (int32_t n = 0; n < c->inputs; n++) {
        operands[2 * n] = c->base[n] + left * c->step[n];
        operands[2 * n + 1] = c->base[n] + right * c->step[n];
    }
    uint8_t result = 0;
    less(&result, NULL, operands, NULL, NULL, NULL);
    return result != 0;
}

/* Merge the sorted from[low..middle) and from[middle..high) into to[low..high). */
static void merge(const column *c, cf_comparator less, const int64_t *from, int64_t *to, int64_t low, int64_t middle,
                  int64_t high) {
    int64_t left = low, right = middle, at = low;
    if (middle < high && precedes(c, less, from[middle], from[middle - 1])) {
        while (left < middle && right < high) {
            /* The left one of two equals comes first, which makes the sort stable. */
            to[at++] = precedes(c, less, from[right], from[left]) ? from[right++] : from[left++];
        }
    }
    while (left < middle) to[at++] = from[left++];
    while (right < high) to[at++] = from[right++];
}

/* The order of the column's elements, in one of the two arrays of length indices. */
static const int64_t *order(const column *c, cf_comparator less, int64_t length, int64_t *from, int64_t *to) {
    for (int64_t i = 0; i < length; i++) from[i] = i;
    for (int64_t width = 1; width < length; width *= 2) {
        for (int64_t low = 0; low < length; low += 2 * width) {
            const int64_t middle = low + width < length ? low + width : length;
            const int64_t high = middle + width < length ? middle + width : length;
            merge(c, less, from, to, low, middle, high);
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static void gather(const int64_t *from, int64_t length, int64_t size, char *base, int64_t step, char *dense) {
#define CASE(bytes)                                                                                   \
    case bytes:                                                                                       \
        for (int64_t i = 0; i < length; i++) memcpy(dense + i * bytes, base + from[i] * step, bytes); \
        for (int64_t i = 0; i < length; i++) memcpy(base + i * step, dense + i * bytes, bytes);       \
        break;
    switch (size) {
        CASE(1)
        CASE(2)
        CASE(4)
        CASE(8)
    default:
        for (int64_t i = 0; i < length; i++) memcpy(dense + i * size, base + from[i] * step, (size_t)size);
        for (int64_t i = 0; i < length; i++) memcpy(base + i * step, dense + i * size, (size_t)size);
    }
#undef CASE
}

void cf_run_sort(const cf_sort *s, cf_comparator less, void *const *data, void *scratch) {
    if (s->length < 2) return;
    int64_t *indices = scratch;
    char *dense = (char *)(indices + 2 * s->length);
    for (int64_t o = 0; o < s->outer; o++) {
        for (int64_t i = 0; i < s->inner; i++) {
            column c = {.inputs = s->inputs};
            for (int32_t n = 0; n < s->inputs; n++) {
                c.base[n] = (char *)data[n] + (o * s->length * s->inner + i) * s->item_size[n];
                c.step[n] = s->inner * s->item_size[n];
            }
            const int64_t *sorted = order(&c, less, s->length, indices, indices + s->length);
            for (int32_t n = 0; n < s->inputs; n++) {
                gather(sorted, s->length, s->item_size[n], c.base[n], c.step[n], dense);
            }
        }
    }
}
