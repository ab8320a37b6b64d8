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
    if (tree->kind != CF_TREE_SMALL) return b->data->large + tree->first;
    const size_t size = wide ? sizeof(cf_wide_slot) : sizeof(cf_narrow_slot);
    return (const uint8_t *)b->data->small + (size_t)tree->first * size;
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
    if (tree->kind == CF_TREE_LARGE) {
        walk_large(words, &walk, leaves);
    } else if (tree->kind == CF_TREE_COMPLETE) {
        walk_complete(words, &walk, tree->nodes, leaves);
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
#if defined(__AVX2__)
    const int looked_up = low != NULL && tree->kind == CF_TREE_COMPLETE && tree->nodes == CF_LOOKED_UP - 1;
    if (looked_up && b->trees->width == 1 && !b->trees->doubles) {
        add_looked_up((const float *)b->data->leaves + tree->leaf, low, (float *)b->sums + tree->output * CF_TREE_ROWS);
        return;
    }
#endif
    if (b->trees->doubles) {
        add_doubles_to_rows(b, tree, low, leaves);
    } else {
        add_floats_to_rows(b, tree, low, leaves);
    }
}

/* Passes all rows through a tree. */
INLINE void pass_rows(const int words, const int wide, const row_block *b, const cf_tree *tree) {
    const void *slots = find_slots(wide, b, tree);
    const int32_t top = tree->nodes < CF_TOP ? tree->nodes : CF_TOP;
    int32_t leaves[CF_TREE_ROWS];
    if (tree->kind == CF_TREE_SMALL) {
        const row_bytes numbers = pass_block(words, wide, slots, tree->nodes, b->ranks, b->masks);
        add_all(b, tree, (const uint8_t *)&numbers, NULL);
    } else if (tree->kind == CF_TREE_COMPLETE) {
        const row_bytes from = pass_complete(words, slots, top, b->ranks, b->masks);
        if (top == tree->nodes) {
            add_all(b, tree, (const uint8_t *)&from, NULL);
            return;
        }
        for (int64_t row = 0; row < CF_TREE_ROWS; row += CF_COMPLETE_WALKS) {
            const void *ranks = (const uint8_t *)b->ranks + row * (words ? 2 : 1);
            walk_complete_rows(words, slots, ranks, (const uint8_t *)&from + row, top, tree->nodes, leaves + row);
        }
        add_all(b, tree, NULL, leaves);
    } else {
        const row_bytes from = pass_top(words, slots, top, b->ranks, b->masks);
        for (int64_t row = 0; row < CF_TREE_ROWS; row += CF_LARGE_WALKS) {
            const void *ranks = (const uint8_t *)b->ranks + row * (words ? 2 : 1);
            walk_rows(words, slots, ranks, (const uint8_t *)&from + row, leaves + row);
        }
        add_all(b, tree, NULL, leaves);
    }
}

/* Whether a row may walk down both trees at the same time. */
INLINE int are_alike(const cf_tree *tree, const cf_tree *other) {
    return tree->kind == other->kind && (tree->kind != CF_TREE_COMPLETE || tree->nodes == other->nodes);
}

/* Adds up all trees for `count` blocks. Each tree passes all of them while its slots are in a near cache. */
INLINE void add_up(const int words, const int wide, const row_block *blocks, int64_t count) {
    const cf_tree *trees = blocks->data->trees, *end = trees + blocks->trees->trees;
    const row_block *last = blocks + count - 1;
    const int walked = last->rows <= CF_WALKED_ROWS;
    for (const cf_tree *tree = trees; tree < end && count > walked; tree++) {
        for (const row_block *b = blocks; b < blocks + count - walked; b++) pass_rows(words, wide, b, tree);
    }
    for (const cf_tree *tree = trees; tree < end && walked;) {
        int64_t alike = 1;
        while (alike < CF_WALKS && tree + alike < end && are_alike(tree, tree + alike)) alike++;
        for (int64_t row = 0; row < last->rows; row++) walk_trees(words, wide, last, tree, alike, row);
        tree += alike;
    }
}

/* `blocks`: of a task. */
typedef struct {
    const cf_trees *trees;
    const cf_trees_data *data;
    int64_t blocks;
} cf_trees_plan;

/* Begins the sums of a block whose first row is `row`, and finds its ranks. */
static void begin_block(row_block *b, int64_t row) {
    const cf_trees *t = b->trees;
    const float *x = b->data->x + row * t->features;
    (t->doubles ? begin_doubles : begin_floats)(b);
    if (b->rows > CF_WALKED_ROWS) {
        if (t->words) {
            rank_words_rows(t, b->data, x, b->rows, b->ranks);
        } else {
            rank_bytes_rows(t, b->data, x, b->rows, b->ranks);
        }
        return;
    }
    for (int64_t i = 0; i < b->rows; i++, x += t->features) {
        if (t->words) {
            rank_words_row(t, b->data, x, (uint16_t *)b->ranks + i * t->columns);
        } else {
            rank_bytes_row(t, b->data, x, (uint8_t *)b->ranks + i * t->columns);
        }
    }
}

static void run_blocks(void *argument, int64_t task, uint32_t thread) {
    const cf_trees_plan *plan = argument;
    const cf_trees *t = plan->trees;
    const cf_trees_data *data = plan->data;
    const int64_t ranks = t->columns * CF_TREE_ROWS * (t->words ? 2 : 1);
    const int64_t sums = t->outputs * CF_TREE_ROWS * (t->doubles ? 8 : 4);
    const int64_t first = task * plan->blocks * CF_TREE_ROWS;
    uint8_t *memory = (uint8_t *)data->scratch + (int64_t)thread * t->scratch;
    row_mask *masks = (row_mask *)(void *)(memory + t->blocks * (ranks + sums));
    row_block blocks[CF_TREE_BLOCKS];
    int64_t count = 0;
    for (int64_t row = first; count < plan->blocks && row < t->rows; row += CF_TREE_ROWS, memory += ranks + sums) {
        row_block *b = &blocks[count++];
        *b = (row_block){t, data, t->rows - row, memory, masks, memory + ranks, NULL};
        if (b->rows > CF_TREE_ROWS) b->rows = CF_TREE_ROWS;
        if (data->indices != NULL) b->indices = data->indices + row * t->trees;
        begin_block(b, row);
    }
    if (t->words) {
        add_up(1, 1, blocks, count);
    } else if (t->wide) {
        add_up(0, 1, blocks, count);
    } else {
        add_up(0, 0, blocks, count);
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = (first + i * CF_TREE_ROWS) * t->outputs;
        if (t->doubles) {
            end_doubles(&blocks[i], (double *)data->sums + at);
        } else {
            end_floats(&blocks[i], (float *)data->sums + at);
        }
    }
}

void CF_TABLE(cf_context *context, const cf_trees *trees, const cf_trees_data *data);
void CF_TABLE(cf_context *context, const cf_trees *trees, const cf_trees_data *data) {
    const int64_t blocks = (trees->rows + CF_TREE_ROWS - 1) / CF_TREE_ROWS, threads = cf_threads(context);
    const int64_t fewest = (blocks + trees->blocks - 1) / trees->blocks;
    const int64_t tasks = (fewest + threads - 1) / threads * threads; /* so that all threads have as many */
    cf_trees_plan plan = {trees, data, (blocks + tasks - 1) / tasks};
    cf_parallel_for(context, (blocks + plan.blocks - 1) / plan.blocks, run_blocks, &plan);
}
