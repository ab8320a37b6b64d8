/*
 * How a matrix product is divided: among threads, and into blocks that fit the caches.
 *
 * The product is C = A B with M rows (output pixels), N columns (output channels) and K = KH * KW * input channels. As
 * in BLIS and XNNPACK, a register tile has MR rows and NR columns, a task works on at most MC rows, and K is cut into
 * blocks of at most KC.
 */
#ifndef COLDFORGE_BLOCKING_H
#define COLDFORGE_BLOCKING_H

#include "fused/fused.h"
#include "fused/vector.h"

enum {
    CF_MC = 192,                   /* rows (output pixels) of a task's block */
    CF_ROW_BLOCKS_FROM = 8,        /* tiles of rows: fewer are not divided among threads, columns are */
    CF_L2_INPUT_BYTES = 160 << 10, /* input of such a block: it stays in the second-level cache */
    CF_GEMV_PIXELS = 3             /* with no more rows in the whole layer, reading the weights is all the work */
};

/*
 * Threads for so many multiply-adds: another one costs a microsecond or two before it helps. `rate` is roughly what
 * one thread does in a nanosecond.
 */
INLINE int64_t threads_for(cf_context *context, int64_t work, int64_t rate) {
    enum { WORTH_NS = 1500 };
    return work < WORTH_NS * rate ? 1 : (int64_t)cf_threads(context);
}

/* cf_parallel_for, or all tasks here if `threads` is 1. */
INLINE void run_tasks(cf_context *context, int64_t threads, int64_t tasks, cf_task run, void *argument) {
    if (threads > 1) {
        cf_parallel_for(context, tasks, run, argument);
    } else {
        for (int64_t task = 0; task < tasks; task++) run(argument, task, 0);
    }
}

/*
 * Partition the tiles of one group among tasks: *m_blocks blocks of rows of tiles, each of at most `max_m_tiles`, times
 * *n_blocks blocks of columns of tiles. Every thread gets at least three tasks, and all threads get equally many: first
 * by smaller blocks of rows, then by blocks of columns; and by more blocks of rows where there are too few columns, or
 * where that does not come out even.
 */
INLINE void partition(int64_t threads, int64_t groups, int64_t m_tiles, int64_t n_tiles, int64_t max_m_tiles,
                      int64_t *m_blocks, int64_t *n_blocks) {
    *m_blocks = ceil_div(m_tiles, max_m_tiles);
    *n_blocks = 1;
    if (threads == 1) return;
    const int64_t wanted = 3 * threads;
    if (*m_blocks * groups < wanted) {
        *m_blocks = max64(*m_blocks, min64(ceil_div(wanted, groups), 2 * m_tiles / CF_ROW_BLOCKS_FROM));
    }
    if (*m_blocks >= threads) *m_blocks = min64(ceil_div(*m_blocks, threads) * threads, m_tiles);
    *n_blocks = min64(ceil_div(wanted, *m_blocks * groups), n_tiles);
    if (*m_blocks * *n_blocks * groups < wanted) {
        *m_blocks = max64(*m_blocks, min64(ceil_div(wanted, *n_blocks * groups), m_tiles / 2));
    }
    if (*m_blocks * *n_blocks * groups % threads != 0 && m_tiles >= threads) {
        *m_blocks = ceil_div(*m_blocks, threads) * threads;
        *n_blocks = min64(ceil_div(wanted, *m_blocks * groups), n_tiles);
    }
}

/* An odd number of cache lines: planes of a picture must not share cache sets. */
INLINE int64_t odd_lines(int64_t floats) { return (ceil_div(floats, 16) | 1) * 16; }

/* The first of `count` items that belongs to part `part`, of `parts` parts of about equal size. Part `parts` begins at
 * `count`. */
INLINE int64_t part_start(int64_t count, int64_t part, int64_t parts) { return part * count / parts; }

/* MR of the next tile when `rest` rows remain and tiles have at most `max_mr`: all tiles get about equal heights. */
INLINE int64_t balanced_mr(int64_t rest, int64_t max_mr) { return ceil_div(rest, ceil_div(rest, max_mr)); }

/* How many tiles of that height follow one another. */
INLINE int64_t equal_tiles(int64_t rest, int64_t max_mr) {
    const int64_t tiles = ceil_div(rest, max_mr), taller = rest % tiles;
    return taller != 0 ? taller : tiles;
}

#endif
