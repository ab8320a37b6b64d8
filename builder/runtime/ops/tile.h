/* The micro-kernel that dot.c and convolution.c are built on: one register tile of a matrix product. */
#ifndef COLDFORGE_TILE_H
#define COLDFORGE_TILE_H

#include <stdint.h>

enum { CF_TILE_MR = 6, CF_TILE_NR = 16 };

/*
 * sum[r][c] += sum over i < k of a[r * a_row + i * a_step] * b[i * b_row + c], for r < mr and c < nr.
 * mr is at most CF_TILE_MR, nr one of the widths that cf_tile_nr gives. The columns of b are dense; the rows of sum are
 * CF_TILE_NR apart.
 */
void cf_microkernel_f32(int mr, int nr, int64_t k, const float *a, int64_t a_row, int64_t a_step, const float *b,
                        int64_t b_row, float *sum);

/*
 * NR of the tile that begins at column *at of total. Where few columns are left, the tile moves *at back and computes
 * some columns again, rather than narrow to what is left. The next tile begins at *at + NR.
 */
static inline int cf_tile_nr(int64_t total, int64_t *at) {
    const int64_t rest = total - *at;
    if (rest >= 16) return 16;
    if (total < 4) return (int)total;
    const int width = total >= 8 ? 8 : 4;
    if (rest < width) *at = total - width;
    return width;
}

/* MR of the next tile, when rest rows remain: all tiles get about equal heights. */
static inline int cf_tile_mr(int64_t rest) {
    if (rest <= CF_TILE_MR) return (int)rest;
    const int64_t tiles = (rest + CF_TILE_MR - 1) / CF_TILE_MR;
    return (int)((rest + tiles - 1) / tiles);
}

#endif
