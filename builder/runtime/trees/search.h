/*
 * Searches for the ranks of values in the binary search tree of a column's thresholds: see cf_tree_column. The rank of
 * NaN is that of zero.
 */
#ifndef COLDFORGE_SEARCH_H
#define COLDFORGE_SEARCH_H

#include "fused/vector.h"
#include "trees/trees.h"

enum { CF_COLUMNS = 16 /* of a row that are searched for at the same time: one search is a chain of loads */ };

/* Has a number kept in a register: compilers make jumps of masks, which are guessed wrong, and vectors of walks. */
#define KEEP(number) __asm__("" : "+r"(number))

#if defined(__AVX512F__)
enum { CF_RANKED = 64 /* values that are searched for at the same time */ };
typedef __m512 cf_floats;
typedef __m512i cf_places;

INLINE cf_places begin_search(void) { return _mm512_set1_epi32(1); }

INLINE cf_floats load_values(const float *x) {
    const __m512 loaded = _mm512_loadu_ps(x);
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(loaded, loaded, _CMP_ORD_Q), loaded);
}

/* The numbers at the last bits of `at` in a table of CF_LANES. */
INLINE cf_floats look_up_lanes(const float *t, cf_places at) { return _mm512_permutexvar_ps(at, _mm512_loadu_ps(t)); }

/* The numbers at the last bits of `at`, the highest of which is `bit`, in a table of two halves. */
INLINE cf_floats choose_half(cf_floats low, cf_floats high, cf_places at, const int bit) {
    return _mm512_mask_blend_ps(_mm512_test_epi32_mask(at, _mm512_set1_epi32(1 << bit)), low, high);
}

INLINE cf_floats gather(const float *t, cf_places at) { return _mm512_i32gather_ps(at, t, 4); }

INLINE cf_places go_down(cf_places at, cf_floats threshold, cf_floats value) {
    const cf_places left = _mm512_add_epi32(at, at);
    return _mm512_mask_add_epi32(left, _mm512_cmp_ps_mask(threshold, value, _CMP_LT_OQ), left, _mm512_set1_epi32(1));
}

INLINE void store_ranks(int32_t *below, cf_places at, int32_t count) {
    _mm512_storeu_si512(below, _mm512_sub_epi32(at, _mm512_set1_epi32(count)));
}
#elif defined(__AVX2__)
enum { CF_RANKED = 32 };
typedef __m256 cf_floats;
typedef __m256i cf_places;

INLINE cf_places begin_search(void) { return _mm256_set1_epi32(1); }

INLINE cf_floats load_values(const float *x) {
    const __m256 loaded = _mm256_loadu_ps(x);
    return _mm256_and_ps(loaded, _mm256_cmp_ps(loaded, loaded, _CMP_ORD_Q));
}

INLINE cf_floats look_up_lanes(const float *t, cf_places at) {
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(t), at);
}

INLINE cf_floats choose_half(cf_floats low, cf_floats high, cf_places at, const int bit) {
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(at, 31 - bit)));
}

INLINE cf_floats gather(const float *t, cf_places at) { return _mm256_i32gather_ps(t, at, 4); }

INLINE cf_places go_down(cf_places at, cf_floats threshold, cf_floats value) {
    const cf_places right = _mm256_castps_si256(_mm256_cmp_ps(threshold, value, _CMP_LT_OQ)); /* -1 */
    return _mm256_sub_epi32(_mm256_add_epi32(at, at), right);
}

INLINE void store_ranks(int32_t *below, cf_places at, int32_t count) {
    _mm256_storeu_si256((__m256i *)(void *)below, _mm256_sub_epi32(at, _mm256_set1_epi32(count)));
}
#else
enum { CF_RANKED = 16 };
#endif

#if defined(__AVX2__)
/* The numbers at the last bits of `at` in a table of SIZE. */
#define LOOK_UP(SIZE, HALF, BIT, low)                                                                                  \
    INLINE cf_floats look_up_##SIZE(const float *t, cf_places at) {                                                    \
        return choose_half(low(t, at), low(t + HALF, at), at, BIT);                                                    \
    }
#if !defined(__AVX512F__)
LOOK_UP(16, 8, 3, look_up_lanes)
LOOK_UP(32, 16, 4, look_up_16)
#else
INLINE cf_floats look_up_32(const float *t, cf_places at) {
    return _mm512_permutex2var_ps(_mm512_loadu_ps(t), at, _mm512_loadu_ps(t + 16));
}
#endif
LOOK_UP(64, 32, 5, look_up_32)
LOOK_UP(128, 64, 6, look_up_64)
#undef LOOK_UP

enum { CF_LOOKED_UP = 64 /* leaves that are looked up in registers */ };

/* Adds to the sum of each row of a block that of CF_LOOKED_UP leaves which has the row's number. */
INLINE void add_looked_up(const float *leaves, const uint8_t *numbers, float *sums) {
    typedef uint8_t lane_bytes __attribute__((vector_size(CF_LANES)));
    UNROLL for (int row = 0; row < CF_TREE_ROWS; row += CF_LANES, sums += CF_LANES) {
        lane_bytes narrow;
        memcpy(&narrow, numbers + row, sizeof narrow);
        const cf_floats leaf = look_up_64(leaves, (cf_places)__builtin_convertvector(narrow, ivec));
        cf_floats sum;
        memcpy(&sum, sums, sizeof sum);
        sum += leaf;
        memcpy(sums, &sum, sizeof sum);
    }
}

/* Finds the ranks of CF_RANKED values. The first thresholds are looked up in registers, since a load of a single number
 * for each value is what takes time. */
INLINE void search(const float *t, int32_t count, const float *x, int32_t *below) {
    enum { VECTORS = CF_RANKED / CF_LANES };
    cf_floats values[VECTORS];
    cf_places at[VECTORS];
    UNROLL for (int i = 0; i < VECTORS; i++) values[i] = load_values(x + i * CF_LANES);
    UNROLL for (int i = 0; i < VECTORS; i++) at[i] = begin_search();
#define LEVEL(look_up, table)                                                                                          \
    UNROLL for (int i = 0; i < VECTORS; i++) at[i] = go_down(at[i], look_up(table, at[i]), values[i])
    for (int32_t size = 1; size < CF_LANES && size < count; size *= 2) LEVEL(look_up_lanes, t);
    if (count > CF_LANES) LEVEL(look_up_lanes, t + CF_LANES);
#if !defined(__AVX512F__)
    if (count > 16) LEVEL(look_up_16, t + 16);
#endif
    if (count > 32) LEVEL(look_up_32, t + 32);
    if (count > 64) LEVEL(look_up_64, t + 64);
    if (count > 128) LEVEL(look_up_128, t + 128);
    for (int32_t size = 256; size < count; size *= 2) LEVEL(gather, t);
#undef LEVEL
    UNROLL for (int i = 0; i < VECTORS; i++) store_ranks(below + i * CF_LANES, at[i], count);
}
#else
/* Finds the ranks of CF_RANKED values. */
INLINE void search(const float *t, int32_t count, const float *x, int32_t *below) {
    float values[CF_RANKED];
    UNROLL for (int i = 0; i < CF_RANKED; i++) values[i] = x[i] == x[i] ? x[i] : 0;
    UNROLL for (int i = 0; i < CF_RANKED; i++) below[i] = 1;
    for (int32_t size = 1; size < count; size *= 2) {
        UNROLL for (int i = 0; i < CF_RANKED; i++) below[i] += below[i] + (t[below[i]] < values[i]);
    }
    UNROLL for (int i = 0; i < CF_RANKED; i++) below[i] -= count;
}
#endif

/* Finds the ranks of the values of `columns` of one row, which are at most CF_COLUMNS, at the same time. */
INLINE void search_columns(const cf_trees_data *d, const cf_tree_column *columns, int64_t count, const float *x,
                           int32_t *below) {
    const float *thresholds[CF_COLUMNS];
    float values[CF_COLUMNS];
    int32_t counts[CF_COLUMNS], most = 0;
    for (int64_t i = 0; i < CF_COLUMNS; i++) {
        const cf_tree_column *column = columns + (i < count ? i : 0);
        const float value = x[column->feature];
        values[i] = value == value ? value : 0;
        thresholds[i] = d->thresholds + column->thresholds;
        counts[i] = column->count;
        most = counts[i] > most ? counts[i] : most;
        below[i] = 1;
    }
    for (int32_t size = 1; size < most; size *= 2) {
        for (int i = 0; i < CF_COLUMNS; i++) {
            const int32_t inner = -(below[i] < counts[i]), at = below[i] & inner;
            below[i] += (below[i] + (thresholds[i][at] < values[i])) & inner;
            KEEP(below[i]);
        }
    }
    for (int i = 0; i < CF_COLUMNS; i++) below[i] -= counts[i];
}

#endif
