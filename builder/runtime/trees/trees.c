/* Ensembles of trees for one instruction set: compiled once for each, with CF_TABLE as this copy's name. */
#include "trees/block.h"
#include "trees/rank.h"
#include "trees/walk.h"

#ifndef CF_TABLE
#define CF_TABLE cf_trees_v3
#endif

/* A block of rows. Its memory is aligned to CF_TREE_ROWS bytes. */
typedef struct {
    const cf_trees *trees;
    const cf_trees_data *data;
    int64_t rows;
    void *ranks;     /* [columns][CF_TREE_ROWS], or of up to CF_WALKED_ROWS [rows][columns] */
    row_mask *masks; /* for each slot that a block passes in one tree */
    void *sums;      /* [outputs][CF_TREE_ROWS] */
    int32_t *indices; /* [rows][trees], or NULL */
} row_block;

/* A tree's leaves are added to the sums of its outputs, of one row or of all. The sums begin with the bases. */
#define SUMS(NUMBER, begin, add_to_row, add_to_rows, end)                                                              \
    static void begin(const row_block *b) {                                                                            \
        for (int64_t i = 0; i < b->trees->outputs * CF_TREE_ROWS; i++) {                                               \
            ((NUMBER *)b->sums)[i] = ((const NUMBER *)b->data->bases)[i / CF_TREE_ROWS];                               \
        }                                                                                                              \
    }                                                                                                                  \
    INLINE void add_to_row(const row_block *b, const cf_tree *tree, int64_t count, int64_t row,                        \
                           const int32_t *found) {                                                                     \
        const int64_t width = b->trees->width;                                                                         \
        const NUMBER *leaves = (const NUMBER *)b->data->leaves;                                                        \
        NUMBER *sums = (NUMBER *)b->sums + row;                                                                        \
        if (b->trees->outputs == 1) {                                                                                  \
            NUMBER sum = *sums;                                                                                        \
            for (int64_t t = 0; t < count; t++) sum += leaves[tree[t].leaf + found[t]];                                \
            *sums = sum;                                                                                               \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t t = 0; t < count; t++) {                                                                          \
            const NUMBER *values = leaves + (tree[t].leaf + found[t]) * width;                                         \
            NUMBER *to = sums + tree[t].output * CF_TREE_ROWS;                                                         \
            for (int64_t i = 0; i < width; i++) to[i * CF_TREE_ROWS] += values[i];                                     \
        }                                                                                                              \
    }                                                                                                                  \
    INLINE void add_to_rows(const row_block *b, const cf_tree *tree, const uint8_t *low, const int32_t *leaves) {      \
        const int64_t width = b->trees->width;                                                                         \
        const NUMBER *values = (const NUMBER *)b->data->leaves + tree->leaf * width;                                   \
        NUMBER *sums = (NUMBER *)b->sums + tree->output * CF_TREE_ROWS;                                                \
        for (int64_t i = 0; i < width; i++, values++, sums += CF_TREE_ROWS) {                                          \
            if (low != NULL && width == 1) {                                                                           \
                EIGHT_AT_A_TIME for (int r = 0; r < CF_TREE_ROWS; r++) sums[r] += values[low[r]];                      \
            } else if (low != NULL) {                                                                                  \
                EIGHT_AT_A_TIME for (int r = 0; r < CF_TREE_ROWS; r++) sums[r] += values[low[r] * width];              \
            } else {                                                                                                   \
                EIGHT_AT_A_TIME for (int r = 0; r < CF_TREE_ROWS; r++) sums[r] += values[leaves[r] * width];           \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void end(const row_block *b, NUMBER *to) {                                                                  \
        for (int64_t row = 0; row < b->rows; row++) {                                                                  \
            for (int64_t i = 0; i < b->trees->outputs; i++) {                                                          \
                *to++ = ((const NUMBER *)b->sums)[i * CF_TREE_ROWS + row];                                             \
            }                                                                                                          \
        }                                                                                                              \
    }

SUMS(float, begin_floats, add_floats_to_row, add_floats_to_rows, end_floats)
SUMS(double, begin_doubles, add_doubles_to_row, add_doubles_to_rows, end_doubles)
#undef SUMS

INLINE const void *find_slots(const int wide, const row_block *b, const cf_tree *tree) {
    if (tree->large) return b->data->large + tree->first;
    return (const uint8_t *)b->data->small + tree->first * (int64_t)(wide ? sizeof(cf_wide_slot) : sizeof(cf_narrow_slot));
}

/* Adds the leaves of one row in up to CF_WALKS trees of one kind. */
INLINE void walk_trees(const int words, const int wide, const row_block *b, const cf_tree *tree, int64_t count,
                       int64_t row) {
    const uint8_t *ranks = (const uint8_t *)b->ranks + row * b->trees->columns * (words ? 2 : 1);
    cf_walk walk;
    int32_t leaves[CF_WALKS];
    for (int64_t i = 0; i < CF_WALKS; i++) {
        walk.slots[i] = find_slots(wide, b, tree + (i < count ? i : 0));
        walk.ranks[i] = ranks;
    }
    if (tree->large) {
        walk_large(words, &walk, leaves);
    } else {
        walk_small(words, wide, &walk, leaves);
        for (int64_t i = 0; i < count; i++) leaves[i] -= tree[i].nodes;
    }
    if (b->indices != NULL) {
        int32_t *to = b->indices + row * b->trees->trees + (tree - b->data->trees);
        for (int64_t i = 0; i < count; i++) to[i] = leaves[i];
    }
    if (b->trees->doubles) {
        add_doubles_to_row(b, tree, count, row, leaves);
    } else {
        add_floats_to_row(b, tree, count, row, leaves);
    }
}

INLINE void add_all(const row_block *b, const cf_tree *tree, const uint8_t *low, const int32_t *leaves) {
    if (b->indices != NULL) {
        int32_t *to = b->indices + (tree - b->data->trees);
        for (int64_t r = 0; r < b->rows; r++) to[r * b->trees->trees] = low != NULL ? low[r] : leaves[r];
    }
    if (b->trees->doubles) {
        add_doubles_to_rows(b, tree, low, leaves);
    } else {
        add_floats_to_rows(b, tree, low, leaves);
    }
}

/* Passes all rows through a tree. */
INLINE void pass_rows(const int words, const int wide, const row_block *b, const cf_tree *tree) {
    const void *slots = find_slots(wide, b, tree);
    if (!tree->large) {
        const row_bytes numbers = pass_block(words, wide, slots, tree->nodes, b->ranks, b->masks);
        add_all(b, tree, (const uint8_t *)&numbers, NULL);
        return;
    }
    const int32_t top = tree->nodes < CF_TOP ? tree->nodes : CF_TOP;
    const row_bytes from = pass_top(words, slots, top, b->ranks, b->masks);
    int32_t leaves[CF_TREE_ROWS];
    for (int64_t row = 0; row < CF_TREE_ROWS; row += CF_LARGE_WALKS) {
        const void *ranks = (const uint8_t *)b->ranks + row * (words ? 2 : 1);
        walk_rows(words, slots, ranks, (const uint8_t *)&from + row, leaves + row);
    }
    add_all(b, tree, NULL, leaves);
}

INLINE void add_up(const int words, const int wide, const row_block *b) {
    const cf_tree *tree = b->data->trees, *end = tree + b->trees->trees;
    if (b->rows > CF_WALKED_ROWS) {
        for (; tree < end; tree++) pass_rows(words, wide, b, tree);
        return;
    }
    while (tree < end) {
        int64_t count = 1;
        while (count < CF_WALKS && tree + count < end && tree[count].large == tree->large) count++;
        for (int64_t row = 0; row < b->rows; row++) walk_trees(words, wide, b, tree, count, row);
        tree += count;
    }
}

typedef struct {
    const cf_trees *trees;
    const cf_trees_data *data;
} cf_trees_plan;

static void run_block(void *argument, int64_t task, uint32_t thread) {
    const cf_trees_plan *plan = argument;
    const cf_trees *t = plan->trees;
    const int64_t row = task * CF_TREE_ROWS;
    uint8_t *memory = (uint8_t *)plan->data->scratch + (int64_t)thread * t->scratch;
    row_block b = {t, plan->data, t->rows - row < CF_TREE_ROWS ? t->rows - row : CF_TREE_ROWS, memory, NULL, NULL, NULL};
    if (plan->data->indices != NULL) b.indices = plan->data->indices + row * t->trees;
    b.sums = memory += t->columns * CF_TREE_ROWS * (t->words ? 2 : 1);
    b.masks = (row_mask *)(void *)(memory + t->outputs * CF_TREE_ROWS * (t->doubles ? 8 : 4));
    const float *x = plan->data->x + row * t->features;
    (t->doubles ? begin_doubles : begin_floats)(&b);
    if (b.rows > CF_WALKED_ROWS) {
        if (t->words) {
            rank_words_rows(t, plan->data, x, b.rows, b.ranks);
        } else {
            rank_bytes_rows(t, plan->data, x, b.rows, b.ranks);
        }
    }
    for (int64_t i = 0; i < b.rows && b.rows <= CF_WALKED_ROWS; i++) {
        if (t->words) {
            rank_words_row(t, plan->data, x + i * t->features, (uint16_t *)b.ranks + i * t->columns);
        } else {
            rank_bytes_row(t, plan->data, x + i * t->features, (uint8_t *)b.ranks + i * t->columns);
        }
    }
    if (t->words) {
        add_up(1, 1, &b);
    } else if (t->wide) {
        add_up(0, 1, &b);
    } else {
        add_up(0, 0, &b);
    }
    if (t->doubles) {
        end_doubles(&b, (double *)plan->data->sums + row * t->outputs);
    } else {
        end_floats(&b, (float *)plan->data->sums + row * t->outputs);
    }
}

void CF_TABLE(cf_context *context, const cf_trees *trees, const cf_trees_data *data);
void CF_TABLE(cf_context *context, const cf_trees *trees, const cf_trees_data *data) {
    cf_trees_plan plan = {trees, data};
    cf_parallel_for(context, (trees->rows + CF_TREE_ROWS - 1) / CF_TREE_ROWS, run_block, &plan);
}
