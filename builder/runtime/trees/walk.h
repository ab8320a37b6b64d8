/*
 * Walks down trees, several at the same time, since each step of one waits for its loads: a few rows through small
 * trees, and all rows of a block through large ones.
 */
#ifndef COLDFORGE_WALK_H
#define COLDFORGE_WALK_H

#include "fused/vector.h"
#include "trees/search.h"

enum {
    CF_WALKS = 8,
    CF_COMPLETE_WALKS = 16,
    CF_LARGE_WALKS = 32 /* of rows in one large tree, whose slots come from caches that are farther away */
};

/* A row in each tree: the tree's slots, and the row's ranks. */
typedef struct {
    const void *slots[CF_WALKS];
    const void *ranks[CF_WALKS];
} cf_walk;

INLINE uint32_t rank_at(const int words, const void *ranks, int64_t at) {
    return words ? ((const uint16_t *)ranks)[at] : ((const uint8_t *)ranks)[at];
}

/* Finds the slots of the leaves in small trees. */
INLINE void walk_small(const int words, const int wide, const cf_walk *walk, int32_t *slots) {
    const int bits = wide ? 16 : 8;
    const uint32_t mask = wide ? 0xffff : 0xff;
    uint32_t at[CF_WALKS], moved = 1;
    UNROLL for (int i = 0; i < CF_WALKS; i++) at[i] = 0;
    while (moved) {
        moved = 0;
        UNROLL for (int i = 0; i < CF_WALKS; i++) {
            uint64_t slot; /* as a number, from which a shift takes either child */
            if (wide) {
                memcpy(&slot, (const cf_wide_slot *)walk->slots[i] + at[i], sizeof(cf_wide_slot));
            } else {
                uint32_t narrow;
                memcpy(&narrow, (const cf_narrow_slot *)walk->slots[i] + at[i], sizeof narrow);
                slot = narrow;
            }
            const uint32_t rank = rank_at(words, walk->ranks[i], (int64_t)(slot & mask));
            const int right = rank > (slot >> bits & mask);
            const uint32_t next = (uint32_t)(slot >> (2 * bits + bits * right)) & mask;
            moved |= next ^ at[i];
            at[i] = next;
            KEEP(at[i]);
        }
    }
    UNROLL for (int i = 0; i < CF_WALKS; i++) slots[i] = (int32_t)at[i];
}

/* Takes a step of a walk down a complete tree, of a row whose ranks are `stride` apart. */
INLINE uint32_t step_complete(const int words, const cf_complete_slot *slots, const void *ranks, int64_t stride,
                              int64_t row, uint32_t at) {
    const cf_complete_slot slot = slots[at];
    const uint32_t rank = rank_at(words, ranks, slot.column * stride + row);
    return 2 * at + 1 + (rank > slot.rank);
}

/* Finds the numbers of the leaves in complete trees of `nodes` each. */
INLINE void walk_complete(const int words, const cf_walk *walk, int32_t nodes, int32_t *leaves) {
    uint32_t at[CF_WALKS] = {0};
    for (int32_t first = 1; first <= nodes; first *= 2) {
        UNROLL for (int i = 0; i < CF_WALKS; i++) {
            at[i] = step_complete(words, walk->slots[i], walk->ranks[i], 1, 0, at[i]);
            KEEP(at[i]);
        }
    }
    UNROLL for (int i = 0; i < CF_WALKS; i++) leaves[i] = (int32_t)at[i] - nodes;
}

/* The same for CF_COMPLETE_WALKS rows in one complete tree, which have passed its first `top` nodes: see walk_rows. */
INLINE void walk_complete_rows(const int words, const cf_complete_slot *slots, const void *ranks, const uint8_t *from,
                               int32_t top, int32_t nodes, int32_t *leaves) {
    uint32_t at[CF_COMPLETE_WALKS];
    UNROLL for (int i = 0; i < CF_COMPLETE_WALKS; i++) at[i] = (uint32_t)top + from[i];
    for (int32_t first = top + 1; first <= nodes; first *= 2) {
        UNROLL for (int i = 0; i < CF_COMPLETE_WALKS; i++) {
            at[i] = step_complete(words, slots, ranks, CF_TREE_ROWS, i, at[i]);
            KEEP(at[i]);
        }
    }
    UNROLL for (int i = 0; i < CF_COMPLETE_WALKS; i++) leaves[i] = (int32_t)at[i] - nodes;
}

/* Takes a step of a walk down a large tree, of a row whose ranks are `stride` apart; -1, or 0 if it was at a leaf. */
INLINE int32_t step_large(const int words, const cf_large_slot *slots, const void *ranks, int64_t stride, int64_t row,
                          int32_t *at) {
    const cf_large_slot slot = slots[*at];
    const uint32_t rank = rank_at(words, ranks, slot.column * stride + row);
    int32_t goes = -(slot.next >= 0);
    KEEP(goes);
    *at = ((slot.next + (rank > slot.rank)) & goes) | (*at & ~goes);
    KEEP(*at);
    return goes;
}

/* Finds the numbers of the leaves in large trees. */
INLINE void walk_large(const int words, const cf_walk *walk, int32_t *leaves) {
    int32_t at[CF_WALKS] = {0}, inner = -1;
    while (inner < 0) {
        inner = 0;
        UNROLL for (int i = 0; i < CF_WALKS; i++) {
            inner |= step_large(words, walk->slots[i], walk->ranks[i], 1, 0, &at[i]);
        }
    }
    UNROLL for (int i = 0; i < CF_WALKS; i++) leaves[i] = ~((const cf_large_slot *)walk->slots[i])[at[i]].next;
}

/* The same for CF_LARGE_WALKS rows in one large tree, each with a slot that it goes on `from`; `ranks`: of the first of
 * them, those of the others behind it. */
INLINE void walk_rows(const int words, const cf_large_slot *slots, const void *ranks, const uint8_t *from,
                      int32_t *leaves) {
    int32_t at[CF_LARGE_WALKS], inner = -1;
    UNROLL for (int i = 0; i < CF_LARGE_WALKS; i++) at[i] = from[i];
    while (inner < 0) {
        inner = 0;
        UNROLL for (int i = 0; i < CF_LARGE_WALKS; i++) {
            inner |= step_large(words, slots, ranks, CF_TREE_ROWS, i, &at[i]);
        }
    }
    UNROLL for (int i = 0; i < CF_LARGE_WALKS; i++) leaves[i] = ~slots[at[i]].next;
}

#endif
