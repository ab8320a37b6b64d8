/*
 * The algorithm "direct": a convolution as an implicit GEMM, im2col by indirection. Pixels x (KH KW C) times (KH KW C)
 * x channels; a dense layer is the case KH = KW = 1. Layers of few pixels are GEMVs.
 */
#ifndef COLDFORGE_DIRECT_H
#define COLDFORGE_DIRECT_H

#include "fused/gemm.h"
#include "fused/gemv.h"
#include "fused/halo.h"

/* On one thread, which may be that of a task, if `context` is NULL. */
static void run_direct(cf_context *context, const cf_layer *layer, const cf_layer_data *data, cf_halos *halos) {
    cf_gemm g; /* not cleared: its offsets are more than a small layer's work */
    const cf_view *in = &layer->input;
    g.layer = layer;
    g.data = data;
    g.indirection.segments = 0;
    g.images = CF_HAS_ONE_BY_ONE && layer->one_by_one ? layer->batch : 1;
    g.pixels = layer->batch / g.images * layer->out[0] * layer->out[1];
    g.group_in_channels = layer->in_channels / layer->groups;
    g.group_out_channels = layer->out_channels / layer->groups;
    g.panels = ceil_div(g.group_out_channels, CF_PANEL);
    g.indirection.k = layer->kernel[0] * layer->kernel[1] * g.group_in_channels;
    const int dense_rows = in->pixel == g.group_in_channels && layer->dilation[1] == 1;
    const int64_t taps_across = dense_rows ? 1 : layer->kernel[1];
    g.indirection.segment_length = dense_rows ? layer->kernel[1] * g.group_in_channels : g.group_in_channels;
    for (int64_t y = 0; y < layer->kernel[0]; y++) {
        for (int64_t x = 0; x < taps_across; x++) {
            g.indirection.offsets[g.indirection.segments++] =
                y * layer->dilation[0] * in->row + x * layer->dilation[1] * in->pixel;
        }
    }
    const int64_t work = g.images * g.pixels * g.indirection.k * layer->out_channels;
    const int64_t threads =
        context == NULL ? 1 : threads_for(context, work, g.pixels <= CF_GEMV_PIXELS ? 20 : 40);
    if (g.pixels <= CF_GEMV_PIXELS) {
        g.n_blocks = threads == 1 ? 1 : min64(2 * threads, ceil_div(g.panels, g.pixels == 1 ? CF_GEMV_PANELS : 2));
        run_with_halos(context, halos, threads, g.n_blocks * layer->groups, gemv_task, &g);
        return;
    }
    g.mr = g.group_out_channels <= CF_NR / 2 ? CF_HALF_MR : CF_MR;
    const int64_t pixel_bytes = 4 * layer->in_channels * layer->stride[0] * layer->stride[1];
    const int64_t m_tiles = ceil_div(g.pixels, g.mr);
    const int64_t max_m_tiles = max64(4, min64(CF_L2_INPUT_BYTES / pixel_bytes, CF_MC) / g.mr);
    partition(threads, layer->groups, m_tiles, ceil_div(g.panels, CF_NR / CF_PANEL), max_m_tiles, &g.m_blocks,
              &g.n_blocks);
    run_with_halos(context, halos, threads, g.m_blocks * g.n_blocks * layer->groups, gemm_task, &g);
}

#endif
