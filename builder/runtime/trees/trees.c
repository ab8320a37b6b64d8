/*
 * A block of rows passes through a tree at once: the mask of the rows at a node, one byte each, is split between its
 * children by one comparison of the block's ranks. What arrives at a leaf takes its number.
 */
#include "trees/trees.h"

#include <stddef.h>
#include <string.h>

enum { ROWS = 64 };

typedef uint8_t ranks8 __attribute__((vector_size(ROWS)));
typedef uint16_t ranks16 __attribute__((vector_size(2 * ROWS)));

/* The missing values of a column have the rank of one side; NaN is zero where no value is missing. */
static int is_missing(const cf_tree_column *c, float x) {
    if (c->missing == CF_MISSING_NONE) return 0;
    return x != x || (c->missing == CF_MISSING_ZERO && x <= 1e-35f && x >= -1e-35f);
}

static uint32_t rank_value(const cf_tree_column *c, const float *thresholds, float x, uint32_t most) {
    if (is_missing(c, x)) return c->missing_left ? 0 : most;
    if (x != x) x = 0;
    if (c->categories) {
        const uint32_t *words = (const uint32_t *)(const void *)thresholds;
        if (!(x > -1.0f && x < 32.0f * (float)c->count)) return 1;
        if (x < 0 && c->categories == CF_CATEGORIES_NOT_NEGATIVE) return 1;
        const uint32_t category = (uint32_t)x;
        return ~words[category / 32] >> category % 32 & 1;
    }
    uint32_t below = 0;
    for (uint32_t size = (uint32_t)c->count; size > 0;) {
        const uint32_t half = size - size / 2;
        below += thresholds[below + half - 1] < x ? half : 0;
        size -= half;
    }
    return below;
}

#define ADD(NAME, NUMBER)                                                                                              \
    static void NAME(const cf_trees *t, int64_t rows, const uint16_t *leaf, const NUMBER *leaves, NUMBER *sums) {      \
        for (int64_t r = 0; r < rows; r++) {                                                                           \
            for (int64_t i = 0; i < t->width; i++) sums[r * t->outputs + i] += leaves[leaf[r] * t->width + i];         \
        }                                                                                                              \
    }

ADD(add_floats, float)
ADD(add_doubles, double)

/* Adds a leaf of a tree to the sums of each row; `first`: the number of the tree's first leaf. */
static void add_leaves(const cf_trees *t, int64_t tree, int64_t rows, const uint16_t *leaf, int64_t first, void *sums) {
    const int64_t from = first * t->width, to = t->groups[tree];
    if (t->doubles) {
        add_doubles(t, rows, leaf, (const double *)t->leaves + from, (double *)sums + to);
    } else {
        add_floats(t, rows, leaf, (const float *)t->leaves + from, (float *)sums + to);
    }
}

#define TREES(NAME, RANKS, RANK, MOST)                                                                                 \
    static void NAME(const cf_trees *t, const float *x, int64_t rows, void *sums, RANKS *ranks, RANKS *masks) {        \
        for (int64_t c = 0; c < t->columns; c++) {                                                                     \
            const cf_tree_column *column = t->column + c;                                                              \
            RANK *to = (RANK *)(ranks + c);                                                                            \
            for (int64_t r = 0; r < ROWS; r++) {                                                                       \
                const float value = r < rows ? x[r * t->features + column->feature] : 0.0f;                            \
                to[r] = (RANK)rank_value(column, t->thresholds + column->thresholds, value, MOST);                     \
            }                                                                                                          \
        }                                                                                                              \
        const cf_tree_node *node = t->node;                                                                            \
        int64_t first = 0;                                                                                             \
        for (int64_t tree = 0; tree < t->trees; tree++) {                                                              \
            const int32_t nodes = t->counts[tree];                                                                     \
            masks[0] = (RANKS){0} - 1;                                                                                 \
            for (int32_t i = 0; i < nodes; i++, node++) {                                                              \
                const RANKS left = (RANKS)(ranks[node->column] <= (RANKS){0} + (RANK)node->rank), here = masks[i];     \
                masks[node->left] = here & left;                                                                       \
                masks[node->right] = here & ~left;                                                                     \
            }                                                                                                          \
            uint16_t numbers[ROWS] = {0};                                                                              \
            for (int32_t leaf = 1; leaf <= nodes; leaf++) {                                                            \
                const RANK *at = (const RANK *)(masks + nodes + leaf);                                                 \
                for (int r = 0; r < ROWS; r++) numbers[r] |= (uint16_t)(at[r] ? leaf : 0);                             \
            }                                                                                                          \
            add_leaves(t, tree, rows, numbers, first, sums);                                                           \
            first += nodes + 1;                                                                                        \
        }                                                                                                              \
    }

TREES(run_bytes, ranks8, uint8_t, 255)
TREES(run_words, ranks16, uint16_t, 65535)

void cf_run_trees(const cf_trees *t, const float *x, void *sums, void *scratch) {
    const size_t size = (size_t)t->outputs * (t->doubles ? sizeof(double) : sizeof(float));
    int words = 0;
    for (int64_t c = 0; c < t->columns; c++) words |= !t->column[c].categories && t->column[c].count > 255;
    for (int64_t row = 0; row < t->rows; row += ROWS) {
        const int64_t rows = t->rows - row < ROWS ? t->rows - row : ROWS;
        uint8_t *to = (uint8_t *)sums + (size_t)row * size;
        for (int64_t r = 0; r < rows; r++) memcpy(to + (size_t)r * size, t->bases, size);
        const float *from = x + row * t->features;
        if (words) {
            run_words(t, from, rows, to, scratch, (ranks16 *)scratch + t->columns);
        } else {
            run_bytes(t, from, rows, to, scratch, (ranks8 *)scratch + t->columns);
        }
    }
}
