/* Ensembles of decision trees over ranks: see builder/importers/trees/ranks.py. */
#ifndef COLDFORGE_TREES_H
#define COLDFORGE_TREES_H

#include "platform/threads.h"

#include <stdint.h>

enum {
    CF_TREE_ROWS = 64, /* of a block: they pass through the trees together */
    CF_TREE_BLOCKS = 16, /* pass through a tree one after the other, while its slots are in a near cache */
    CF_TOP = 63, /* nodes of a large tree that a block passes together before its rows walk alone */
    CF_JOINED = 3, /* levels of a complete tree that a block passes without masks in memory */
    CF_WALKED_ROWS = 12 /* up to so many rows of a block, each walks down the trees alone */
};

typedef enum { CF_MISSING_NONE, CF_MISSING_NAN, CF_MISSING_ZERO } cf_missing;

/* What a column of categories takes for one, its fraction cut off: numbers above -1, or those that are not negative. */
typedef enum { CF_NO_CATEGORIES, CF_CATEGORIES_TRUNCATED, CF_CATEGORIES_NOT_NEGATIVE } cf_categories;

/*
 * A feature whose value becomes a rank: the number of its thresholds below it; or, of categories, 0 if it is among them
 * and 1 if not. `thresholds`: the first of `count` numbers, a power of two, which are a binary search tree: number 1 is
 * its root, and behind number i come 2 i, for values up to it, and 2 i + 1. A search ends at `count` and the rank.
 * Number 0 is not used, and infinities fill up the last level. Or, in a column of categories, the first of the bits
 * that are the ranks in it and in those behind it, `alike` in all: a row of bytes for a missing value, one for a value
 * that no column has for a category, and one for each of `count` categories.
 */
typedef struct {
    int32_t feature, missing, missing_left, categories, count, thresholds, alike;
} cf_tree_column;

/*
 * A slot of a small tree, of up to 255 nodes: its inner nodes, and then its leaves. Rows whose rank is at most `rank`
 * go to slot `left`. A leaf sends all rows to itself. In a narrow ensemble each of the four has one byte, and two
 * otherwise.
 */
typedef struct {
    uint16_t column, rank, left, right;
} cf_wide_slot;

typedef struct {
    uint8_t column, rank, left, right;
} cf_narrow_slot;

/* A slot of a large tree. Rows whose rank is at most `rank` go to slot `next`, and others to the one behind it. A leaf
 * has the complement of its number as `next`. */
typedef struct {
    uint16_t column, rank;
    int32_t next;
} cf_large_slot;

/* A slot of a complete tree, whose leaves all have the same depth, CF_JOINED or more. It has inner nodes alone: behind
 * slot i are 2 i + 1, for rows whose rank is at most `rank`, and 2 i + 2. */
typedef struct {
    uint16_t column, rank;
} cf_complete_slot;

typedef enum { CF_TREE_SMALL, CF_TREE_COMPLETE, CF_TREE_LARGE } cf_tree_kind;

/* A tree of `nodes` inner nodes. `first`: the first of its slots. */
typedef struct {
    int32_t nodes, kind, first, leaf, output;
} cf_tree;

typedef struct {
    int64_t rows, features, columns, trees, outputs;
    int64_t width;      /* of a leaf: a tree adds to so many outputs, from `output` on */
    int32_t words;      /* whether a rank has two bytes */
    int32_t wide;       /* whether small trees have a cf_wide_slot */
    int32_t doubles;    /* whether leaves, bases and sums are of float64, and not of float32 */
    int32_t blocks;     /* that scratch is for, CF_TREE_BLOCKS at most: a thread takes them together */
    int64_t scratch;    /* bytes for each thread */
} cf_trees;

typedef struct {
    const float *x; /* [rows, features] */
    const cf_tree_column *columns;
    const float *thresholds;
    const cf_tree *trees;
    const void *small;
    const cf_large_slot *large; /* and two slots of complete trees in the place of one */
    const void *leaves; /* [leaves, width] */
    const void *bases;  /* [outputs] */
    void *sums;         /* [rows, outputs] */
    int32_t *indices;   /* [rows, trees], the number of each tree's leaf; or NULL */
    void *scratch;
} cf_trees_data;

/* Adds up the leaves of rows to the bases, in the order of the trees. */
typedef void (*cf_trees_layer)(cf_context *context, const cf_trees *trees, const cf_trees_data *data);

#endif
