/* The register tile that dot.c and convolution.c are built on. */
#ifndef COLDFORGE_TILE_H
#define COLDFORGE_TILE_H

#include <stdint.h>

enum { CF_TILE_ROWS = 6, CF_TILE_COLUMNS = 16 };

/*
 * sum[r][c] += sum over i < count of a[r * a_row + i * a_step] * b[i * b_row + c]
 * for r < rows <= CF_TILE_ROWS and c < columns, one of the widths cf_tile_columns gives. The columns of b are
 * dense; the rows of sum are CF_TILE_COLUMNS apart.
 */
void cf_tile_f32(int rows, int columns, int64_t count, const float *a, int64_t a_row, int64_t a_step,
                 const float *b, int64_t b_row, float *sum);

/*
 * The width of the tile that begins at column *at of total, or of one that begins earlier: rather than
 * narrow to the rest, a tile moves back and computes a few columns again. Go on at *at + width.
 */
static inline int cf_tile_columns(int64_t total, int64_t *at) {
    const int64_t rest = total - *at;
    if (rest >= 16) return 16;
    if (total < 4) return (int)total;
    const int width = total >= 8 ? 8 : 4;
    if (rest < width) *at = total - width;
    return width;
}

/* The rows of the next tile, when rest remain: tiles of about equal height. */
static inline int cf_tile_rows(int64_t rest) {
    if (rest <= CF_TILE_ROWS) return (int)rest;
    const int64_t tiles = (rest + CF_TILE_ROWS - 1) / CF_TILE_ROWS;
    return (int)((rest + tiles - 1) / tiles);
}

#endif
