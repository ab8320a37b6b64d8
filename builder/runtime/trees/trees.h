/* Ensembles of decision trees over ranks: see builder/importers/trees/ranks.py. */
#ifndef COLDFORGE_TREES_H
#define COLDFORGE_TREES_H

#include <stdint.h>

typedef enum { CF_MISSING_NONE, CF_MISSING_NAN, CF_MISSING_ZERO } cf_missing;

/* What a column of categories takes for one, its fraction cut off: numbers above -1, or those that are not negative. */
typedef enum { CF_NO_CATEGORIES, CF_CATEGORIES_TRUNCATED, CF_CATEGORIES_NOT_NEGATIVE } cf_categories;

/* A feature whose value becomes a rank: the number of its thresholds below it; or, of categories, 0 if it is among
 * them and 1 if not. `thresholds`: the first of `count` sorted numbers, or of as many words of 32 categories. */
typedef struct {
    int32_t feature, missing, missing_left, categories, count, thresholds;
} cf_tree_column;

/* A node: rows whose rank is at most `rank` go to slot `left`. The slots of a tree are its nodes and then its leaves. */
typedef struct {
    uint16_t column, rank, left, right;
} cf_tree_node;

typedef struct {
    int64_t rows, features, columns, trees, outputs;
    int64_t width;      /* of a leaf: a tree adds to so many outputs, from that of its group on */
    int32_t most_slots; /* of the largest tree */
    int32_t doubles;    /* whether leaves, bases and sums are of float64, and not of float32 */
    const cf_tree_column *column;
    const float *thresholds;
    const cf_tree_node *node;
    const int32_t *counts, *groups; /* for each tree: its nodes, and the output that it adds to */
    const void *leaves, *bases;
} cf_trees;

/* Adds up the leaves of `rows` rows of float32 features to the bases, in the order of the trees. */
void cf_run_trees(const cf_trees *trees, const float *x, void *sums, void *scratch);

#endif
