/* The ranks of a block of rows: for each column, the number of its thresholds below each row's value. */
#ifndef COLDFORGE_RANK_H
#define COLDFORGE_RANK_H

#include "fused/vector.h"
#include "trees/search.h"

INLINE int is_missing(const cf_tree_column *c, float x) {
    if (c->missing == CF_MISSING_NONE) return 0;
    return x != x || (c->missing == CF_MISSING_ZERO && x <= 1e-35f && x >= -1e-35f);
}

/* The bits of a value's ranks, in a column of categories and those alike. NaN is zero where no value is missing. */
INLINE const uint8_t *find_bits(const cf_trees_data *d, const cf_tree_column *c, float x) {
    int64_t row = 0;
    if (!is_missing(c, x)) {
        if (x != x) x = 0;
        const int known = (c->categories == CF_CATEGORIES_TRUNCATED ? x > -1.0f : x >= 0) && x < (float)c->count;
        row = known ? 2 + (int64_t)x : 1;
    }
    return (const uint8_t *)(d->thresholds + c->thresholds) + row * ((c->alike + 7) / 8);
}

/* ranks[column] of a row, or ranks[column][row] of a block's rows. */
#define RANK(NAME, RANK_TYPE, MOST)                                                                                    \
    typedef RANK_TYPE NAME##_eight __attribute__((vector_size(8 * sizeof(RANK_TYPE))));                                \
    static void NAME##_row(const cf_trees *t, const cf_trees_data *d, const float *x, RANK_TYPE *ranks) {              \
        for (int64_t c = 0, count; c < t->columns; c += count) {                                                       \
            const cf_tree_column *columns = d->columns + c;                                                            \
            if (columns->categories) {                                                                                 \
                const uint8_t *bits = find_bits(d, columns, x[columns->feature]);                                      \
                count = columns->alike;                                                                                \
                for (int64_t i = 0; i < count; i += 8) { /* It may end in columns that are ranked next. */             \
                    const NAME##_eight bit = {1, 2, 4, 8, 16, 32, 64, 128};                                            \
                    const NAME##_eight own = bit & ((NAME##_eight){0} + bits[i / 8]);                                  \
                    const NAME##_eight eight = (NAME##_eight)(own != 0) & 1;                                           \
                    memcpy(ranks + c + i, &eight, sizeof eight);                                                       \
                }                                                                                                      \
                continue;                                                                                              \
            }                                                                                                          \
            for (count = 1; count < CF_COLUMNS && c + count < t->columns && !columns[count].categories;) count++;      \
            int32_t below[CF_COLUMNS];                                                                                 \
            search_columns(d, columns, count, x, below);                                                               \
            for (int64_t i = 0; i < count; i++) {                                                                      \
                const RANK_TYPE absent = columns[i].missing_left ? 0 : MOST;                                           \
                const int missing = is_missing(columns + i, x[columns[i].feature]);                                    \
                ranks[c + i] = missing ? absent : (RANK_TYPE)below[i];                                                 \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void NAME##_categories(const cf_trees_data *d, const cf_tree_column *c, const float *x, int64_t rows,       \
                                  int64_t features, RANK_TYPE *ranks) {                                                \
        const uint8_t *from[CF_TREE_ROWS];                                                                             \
        uint8_t bits[CF_TREE_ROWS];                                                                                    \
        for (int64_t r = 0; r < CF_TREE_ROWS; r++) {                                                                   \
            from[r] = find_bits(d, c, r < rows ? x[r * features + c->feature] : 0);                                    \
        }                                                                                                              \
        for (int32_t i = 0; i < c->alike; i++) {                                                                       \
            if (i % 8 == 0) {                                                                                          \
                for (int r = 0; r < CF_TREE_ROWS; r++) bits[r] = from[r][i / 8];                                       \
            }                                                                                                          \
            for (int r = 0; r < CF_TREE_ROWS; r++) ranks[i * CF_TREE_ROWS + r] = bits[r] >> i % 8 & 1;                 \
        }                                                                                                              \
    }                                                                                                                  \
    static void NAME##_rows(const cf_trees *t, const cf_trees_data *d, const float *x, int64_t rows,                   \
                            RANK_TYPE *ranks) {                                                                        \
        for (int64_t c = 0, count; c < t->columns; c += count, ranks += count * CF_TREE_ROWS) {                        \
            const cf_tree_column *column = d->columns + c;                                                             \
            count = column->alike;                                                                                     \
            if (column->categories) {                                                                                  \
                NAME##_categories(d, column, x, rows, t->features, ranks);                                             \
                continue;                                                                                              \
            }                                                                                                          \
            for (int64_t row = 0; row < rows; row += CF_RANKED) {                                                      \
                float values[CF_RANKED];                                                                               \
                int32_t below[CF_RANKED];                                                                              \
                for (int64_t i = 0; i < CF_RANKED; i++) {                                                              \
                    const int64_t at = row + i < rows ? row + i : row;                                                 \
                    values[i] = x[at * t->features + column->feature];                                                 \
                }                                                                                                      \
                search(d->thresholds + column->thresholds, column->count, values, below);                              \
                const int32_t absent = column->missing_left ? 0 : MOST, zero = column->missing == CF_MISSING_ZERO;     \
                const int32_t most = column->missing == CF_MISSING_NONE ? 0 : -1;                                      \
                for (int i = 0; i < CF_RANKED; i++) {                                                                  \
                    const float x_i = values[i];                                                                       \
                    const int32_t gone = -((x_i != x_i) | (zero & (x_i <= 1e-35f) & (x_i >= -1e-35f))) & most;         \
                    ranks[row + i] = (RANK_TYPE)((absent & gone) | (below[i] & ~gone));                                \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

RANK(rank_bytes, uint8_t, 255)
RANK(rank_words, uint16_t, 65535)
#undef RANK

#endif
