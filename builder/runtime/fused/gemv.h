/* GEMV: a layer of few pixels. Its weights are read once, and the time that takes is the layer's. */
#ifndef COLDFORGE_GEMV_H
#define COLDFORGE_GEMV_H

#include "fused/gemm.h"

enum { CF_GEMV_NR = 32 }; /* output channels of a tile */

/*
 * Add to sums: mr <= CF_GEMV_PIXELS pixels times 32 (or the last 16) channels, over one block of K. Each sum is kept in
 * `chains` parts, which hide the latency of the additions. mr, vectors and chains are constants. There is no prefetch,
 * because the processor reads ahead by itself.
 */
INLINE void gemv_microkernel(const int mr, const int vectors, const int chains, const cf_k_block *block,
                             int64_t panel_stride, const float *const *inputs, const float *weights, float *sums) {
    enum { PER_PANEL = CF_PANEL / CF_LANES };
    vec sum[4][CF_GEMV_PIXELS][CF_GEMV_NR / CF_LANES];
    UNROLL for (int c = 0; c < chains; c++) {
        UNROLL for (int r = 0; r < mr; r++) { UNROLL for (int v = 0; v < vectors; v++) sum[c][r][v] = zero(); }
    }
    for (int64_t s = 0; s < block->segments; s++) {
        const float *in[CF_GEMV_PIXELS];
        UNROLL for (int r = 0; r < mr; r++) in[r] = inputs[r] + block->offsets[s];
        int64_t k = 0;
        for (; k + chains <= block->segment_length; k += chains) {
            UNROLL for (int c = 0; c < chains; c++) {
                UNROLL for (int v = 0; v < vectors; v++) {
                    const vec w =
                        load(weights + (v / PER_PANEL) * panel_stride + (v % PER_PANEL) * CF_LANES + c * CF_PANEL);
                    UNROLL for (int r = 0; r < mr; r++) sum[c][r][v] += splat(in[r][k + c]) * w;
                }
            }
            weights += chains * CF_PANEL;
        }
        for (; k < block->segment_length; k++) {
            UNROLL for (int v = 0; v < vectors; v++) {
                const vec w = load(weights + (v / PER_PANEL) * panel_stride + (v % PER_PANEL) * CF_LANES);
                UNROLL for (int r = 0; r < mr; r++) sum[0][r][v] += splat(in[r][k]) * w;
            }
            weights += CF_PANEL;
        }
    }
    UNROLL for (int r = 0; r < mr; r++) {
        UNROLL for (int v = 0; v < vectors; v++) {
            float *row_sums = sums + r * CF_GEMV_NR + v * CF_LANES;
            vec total = sum[0][r][v];
            UNROLL for (int c = 1; c < chains; c++) total += sum[c][r][v];
            store(row_sums, load(row_sums) + total);
        }
    }
}

/* Add to sums: all pixels times `panels` panels, one or two, from number `panel` on. */
static void gemv_panels(const cf_gemm *g, const float *const *in, int64_t panel, int64_t panels, float *sums) {
    enum { TWO = CF_GEMV_NR / CF_LANES, ONE = CF_PANEL / CF_LANES, KC = CF_L1_WEIGHT_BYTES / 4 / CF_GEMV_NR };
    _Alignas(64) float buffer[KC * CF_GEMV_NR];
    cf_k_block block = {0};
    while (next_k_block(&g->indirection, g->layer->weight_type == CF_FLOAT32 ? g->indirection.k : KC, &block)) {
        int64_t panel_stride;
        const float *from = block_weights(g, panel, panels, block.begin, block.k, buffer, &panel_stride);
        if (panels > 1) {
            switch (g->pixels) {
            case 1: gemv_microkernel(1, TWO, CF_LANES == 16 ? 4 : 2, &block, panel_stride, in, from, sums); break;
            case 2: gemv_microkernel(2, TWO, CF_LANES == 16 ? 2 : 1, &block, panel_stride, in, from, sums); break;
            case 3: gemv_microkernel(3, TWO, CF_LANES == 16 ? 2 : 1, &block, panel_stride, in, from, sums); break;
            }
        } else {
            switch (g->pixels) {
            case 1: gemv_microkernel(1, ONE, 4, &block, panel_stride, in, from, sums); break;
            case 2: gemv_microkernel(2, ONE, 2, &block, panel_stride, in, from, sums); break;
            case 3: gemv_microkernel(3, ONE, 2, &block, panel_stride, in, from, sums); break;
            }
        }
    }
}

static void gemv_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_gemm *g = argument;
    const int64_t n_block = task % g->n_blocks, group = task / g->n_blocks;
    cf_pixel_pointers pointers;
    set_pixel_pointers(&pointers, g->layer, g->data, 0, g->pixels, group * g->group_in_channels);
    const int64_t pairs = ceil_div(g->panels, 2);
    const int64_t end = min64(g->panels, 2 * part_start(pairs, n_block + 1, g->n_blocks));
    for (int64_t panel = 2 * part_start(pairs, n_block, g->n_blocks); panel < end; panel += 2) {
        const int64_t channels = min64(CF_GEMV_NR, g->group_out_channels - panel * CF_PANEL);
        const int64_t channel = group * g->group_out_channels + panel * CF_PANEL;
        _Alignas(64) float sums[CF_GEMV_PIXELS * CF_GEMV_NR] = {0};
        for (int64_t r = 0; r < g->pixels; r++) {
            memcpy(sums + r * CF_GEMV_NR, g->data->bias + channel, (size_t)channels * sizeof *sums);
        }
        gemv_panels(g, pointers.input, group * g->panels + panel, ceil_div(channels, CF_PANEL), sums);
        run_epilogue(g->layer, g->data, &pointers, 0, g->pixels, channel, channels, sums, CF_GEMV_NR);
    }
}

#endif
