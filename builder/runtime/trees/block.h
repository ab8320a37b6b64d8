/*
 * A block of rows in a small tree, or in the first nodes of a large one. The rows at a node, as a mask, are split
 * between its children by one comparison of the block's ranks (RapidScorer, https://doi.org/10.1145/3219819.3219857).
 * Rows that arrive at a leaf take its number.
 */
#ifndef COLDFORGE_BLOCK_H
#define COLDFORGE_BLOCK_H

#include "fused/vector.h"
#include "trees/trees.h"

typedef uint8_t row_bytes __attribute__((vector_size(CF_TREE_ROWS)));

#if defined(__AVX512BW__)
typedef uint64_t row_mask; /* a bit for each row */

INLINE row_mask compare_bytes(const uint8_t *ranks, uint8_t rank) {
    row_mask left = _mm512_cmple_epu8_mask(_mm512_load_si512(ranks), _mm512_set1_epi8((char)rank));
    __asm__("" : "+r"(left));
    return left;
}

INLINE row_mask compare_words(const uint16_t *ranks, uint16_t rank) {
    const __m512i most = _mm512_set1_epi16((short)rank);
    const uint64_t low = _mm512_cmple_epu16_mask(_mm512_load_si512(ranks), most);
    return low | (uint64_t)_mm512_cmple_epu16_mask(_mm512_load_si512(ranks + 32), most) << 32;
}

INLINE row_bytes take_number(row_bytes numbers, row_mask here, row_bytes number) {
    return (row_bytes)_mm512_mask_mov_epi8((__m512i)numbers, here, (__m512i)number);
}

/* Adds a power of two to the numbers of some rows, whose bit it is. */
INLINE row_bytes set_bit(row_bytes numbers, row_mask here, uint8_t bit) {
    return (row_bytes)_mm512_mask_add_epi8((__m512i)numbers, here, (__m512i)numbers, _mm512_set1_epi8((char)bit));
}

INLINE row_mask no_row(void) { return 0; }

INLINE row_mask every_row(void) { return ~UINT64_C(0); }
#else
typedef row_bytes row_mask; /* a byte for each row */
typedef uint16_t row_words __attribute__((vector_size(2 * CF_TREE_ROWS)));

INLINE row_mask compare_bytes(const uint8_t *ranks, uint8_t rank) {
    return (row_mask)(*(const row_bytes *)(const void *)ranks <= (row_bytes){0} + rank);
}

INLINE row_mask compare_words(const uint16_t *ranks, uint16_t rank) {
    return __builtin_convertvector((row_words)(*(const row_words *)(const void *)ranks <= (row_words){0} + rank),
                                   row_mask);
}

INLINE row_bytes take_number(row_bytes numbers, row_mask here, row_bytes number) { return numbers | (here & number); }

INLINE row_bytes set_bit(row_bytes numbers, row_mask here, uint8_t bit) {
    return numbers | (here & ((row_bytes){0} + bit));
}

INLINE row_mask no_row(void) { return (row_mask){0}; }

INLINE row_mask every_row(void) { return (row_mask){0} - 1; }
#endif

/* The rows of a block whose ranks in a column are at most `rank`. */
INLINE row_mask compare_ranks(const int words, const void *ranks, int64_t column, uint16_t rank) {
    const int64_t first = column * CF_TREE_ROWS;
    return words ? compare_words((const uint16_t *)ranks + first, rank)
                 : compare_bytes((const uint8_t *)ranks + first, (uint8_t)rank);
}

/* The numbers of the leaves of all rows; masks: memory for one of each slot. */
INLINE row_bytes pass_block(const int words, const int wide, const void *slots, int32_t nodes, const void *ranks,
                            row_mask *masks) {
    masks[0] = every_row();
    for (int32_t i = 0; i < nodes; i++) {
        cf_wide_slot slot;
        if (wide) {
            slot = ((const cf_wide_slot *)slots)[i];
        } else {
            const cf_narrow_slot narrow = ((const cf_narrow_slot *)slots)[i];
            slot = (cf_wide_slot){narrow.column, narrow.rank, narrow.left, narrow.right};
        }
        const row_mask here = masks[i], left = compare_ranks(words, ranks, slot.column, slot.rank);
        masks[slot.left] = here & left;
        masks[slot.right] = here & ~left;
    }
    const row_bytes one = (row_bytes){0} + 1;
    row_bytes number = {0}, numbers = {0};
    for (int32_t leaf = 1; leaf <= nodes; leaf++) {
        number += one;
        numbers = take_number(numbers, masks[nodes + leaf], number);
    }
    return numbers;
}

/* The rows of `here` that go right at a node. */
INLINE row_mask find_right(const int words, const cf_complete_slot *slot, const void *ranks, row_mask here) {
    return here & ~compare_ranks(words, ranks, slot->column, slot->rank);
}

/*
 * The ways of all rows through the first `nodes` of a complete tree, which are CF_JOINED levels or more: a bit for each
 * level, the last of them the lowest. The last levels need no memory for masks.
 */
INLINE row_bytes pass_complete(const int words, const cf_complete_slot *slots, int32_t nodes, const void *ranks,
                               row_mask *masks) {
    const int64_t last = (nodes + 1) >> CF_JOINED;
    row_bytes numbers = {0};
    masks[0] = every_row();
    for (int64_t first = 1; first < last; first *= 2) {
        row_mask bit = no_row();
        for (int64_t i = first - 1; i < 2 * first - 1; i++) {
            const row_mask here = masks[i], right = find_right(words, slots + i, ranks, here);
            masks[2 * i + 1] = here & ~right;
            masks[2 * i + 2] = right;
            bit |= right;
        }
        numbers = set_bit(numbers, bit, (uint8_t)((nodes + 1) / 2 / first));
    }
    row_mask bits[CF_JOINED] = {no_row(), no_row(), no_row()};
    for (int64_t i = last - 1; i < 2 * last - 1; i++) {
        const row_mask here = masks[i], right = find_right(words, slots + i, ranks, here), left = here & ~right;
        const row_mask right_of_left = find_right(words, slots + 2 * i + 1, ranks, left);
        const row_mask right_of_right = find_right(words, slots + 2 * i + 2, ranks, right);
        bits[2] |= right;
        bits[1] |= right_of_left | right_of_right;
        bits[0] |= find_right(words, slots + 4 * i + 3, ranks, left & ~right_of_left);
        bits[0] |= find_right(words, slots + 4 * i + 4, ranks, right_of_left);
        bits[0] |= find_right(words, slots + 4 * i + 5, ranks, right & ~right_of_right);
        bits[0] |= find_right(words, slots + 4 * i + 6, ranks, right_of_right);
    }
    UNROLL for (int level = 0; level < CF_JOINED; level++) {
        numbers = set_bit(numbers, bits[level], (uint8_t)(1 << level));
    }
    return numbers;
}

/* The slots that all rows reach through the first `count` nodes of a large tree, whose children are its first slots. */
INLINE row_bytes pass_top(const int words, const cf_large_slot *slots, int32_t count, const void *ranks,
                          row_mask *masks) {
    const row_bytes one = (row_bytes){0} + 1;
    row_bytes number = {0}, numbers = {0};
    masks[0] = every_row();
    for (int32_t i = 0; i <= 2 * count; i++, number += one) {
        const cf_large_slot slot = slots[i];
        const row_mask here = masks[i];
        if (slot.next < 0 || slot.next > 2 * count) {
            numbers = take_number(numbers, here, number);
            continue;
        }
        const row_mask left = compare_ranks(words, ranks, slot.column, slot.rank);
        masks[slot.next] = here & left;
        masks[slot.next + 1] = here & ~left;
    }
    return numbers;
}

#endif
