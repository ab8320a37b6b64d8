/*
 * Convolution with integer sums, as an implicit GEMM: the input is quantised into scratch first, then pixels x (KH KW
 * C) times (KH KW C) x channels. The sums are exact, so an answer depends neither on threads nor on tiles nor, until
 * the epilogue, on the instruction set.
 */
#ifndef COLDFORGE_INTEGER_GEMM_H
#define COLDFORGE_INTEGER_GEMM_H

#include "fused/integer_layer.h"
#if CF_TILES
#include "fused/integer_tiles.h"
#else
#include "fused/integer_block.h"
#endif
#include "fused/halo.h"
#include "fused/quantise.h"

static void integer_gemm_task(void *argument, int64_t task, uint32_t thread) {
    const cf_integer_gemm *m = argument;
    const cf_layer *layer = &m->layer;
    const int64_t n_block = task % m->n_blocks, m_block = task / m->n_blocks;
    const int64_t m_tiles = ceil_div(m->pixels, CF_TASK_MR), n_tiles = ceil_div(layer->out_channels, CF_NR);
    const int64_t first = part_start(m_tiles, m_block, m->m_blocks) * CF_TASK_MR;
    const int64_t count = min64(part_start(m_tiles, m_block + 1, m->m_blocks) * CF_TASK_MR, m->pixels) - first;
    const int64_t end = min64(part_start(n_tiles, n_block + 1, m->n_blocks) * CF_NR, layer->out_channels);
    const int64_t channel = part_start(n_tiles, n_block, m->n_blocks) * CF_NR;
    cf_pixel_pointers pointers;
    set_pixel_pointers(&pointers, layer, &m->data, first, count, 0);
#if CF_TILES
    tiled_task(m, &pointers, first, count, channel, end, thread);
#else
    (void)thread;
    blocked_task(m, &pointers, count, channel, end);
#endif
}

/* The offsets of all taps in the input, whose rows and pixels are so many quads apart, and what they read. */
static void plan_indirection(cf_indirection *indirection, const cf_layer *layer, int64_t row, int64_t pixel) {
    const int64_t quads = ceil_div(layer->in_channels, CF_QUAD);
    /* Adjacent taps are one segment. */
    const int64_t together = layer->dilation[1] == 1 && pixel == quads ? layer->kernel[1] : 1;
    indirection->segments = 0;
    for (int64_t y = 0; y < layer->kernel[0]; y++) {
        for (int64_t x = 0; x < layer->kernel[1]; x += together) {
            indirection->offsets[indirection->segments++] =
                y * layer->dilation[0] * row + x * layer->dilation[1] * pixel;
        }
    }
    indirection->segment_length = together * quads;
    indirection->k = indirection->segments * indirection->segment_length;
}

/* The layer that computes `joined` output pixels as one: see builder/compiler/lower/pixel_packing.py. */
static cf_layer join_pixels(const cf_layer *layer) {
    cf_layer wide = *layer;
    const int64_t joined = max64(layer->joined, 1);
    cf_view *const stored[] = {&wide.output, &wide.residual, &wide.second, &wide.rounded};
    wide.out[1] /= joined;
    wide.out_channels *= joined;
    wide.kernel[1] += (joined - 1) * layer->stride[1];
    wide.stride[1] *= joined;
    for (int i = 0; i < 4; i++) stored[i]->pixel *= joined;
    return wide;
}

_Static_assert(CF_FORM == CF_PAIRS || CF_BYTES_LESS == (CF_FORM == CF_SIGNED ? 128 : 0), "bytes in another form");

/* Plan sums over bytes where they lie. */
static void plan_in_place(cf_integer_gemm *m) {
    const cf_view in = m->layer.input;
    m->layer.input = (cf_view){in.first / CF_QUAD, in.image / CF_QUAD, in.row / CF_QUAD, in.pixel / CF_QUAD};
    plan_indirection(&m->indirection, &m->layer, m->layer.input.row, m->layer.input.pixel);
}

/* Plan the quantisation, and the indirection over the quantised picture. */
static void plan_quantised(cf_integer_gemm *m, cf_quantisation *q, const cf_layer *layer, const cf_layer_data *data) {
    const cf_view *in = &layer->input;
    q->layer = layer;
    q->output = (cf_quantised *)data->scratch;
    q->input = (const char *)data->input +
               (in->first - layer->padding[0] * in->row - layer->padding[1] * in->pixel) * value_size(layer);
    q->batch = layer->batch;
    q->channels = ceil_div(layer->in_channels, CF_QUAD) * CF_QUAD;
    q->offset = m->offset;
    int64_t size[2];
    for (int i = 0; i < 2; i++) {
        /* A dimension with one tap reads nothing between the strides. */
        q->sample[i] = layer->kernel[i] == 1 ? layer->stride[i] : 1;
        m->layer.stride[i] = layer->kernel[i] == 1 ? 1 : layer->stride[i];
        m->layer.padding[i] = 0;
        size[i] = (layer->out[i] - 1) * m->layer.stride[i] + (layer->kernel[i] - 1) * layer->dilation[i] + 1;
    }
    q->rows = size[0];
    q->columns = size[1];
    const int64_t quads = q->channels / CF_QUAD, row = q->columns * quads;
    m->layer.input = (cf_view){0, q->rows * row * CF_WORDS, row * CF_WORDS, quads * CF_WORDS};
    m->data.input = data->scratch;
    plan_indirection(&m->indirection, &m->layer, row, quads);
}

static void run_integer_gemm(cf_context *context, const cf_layer *layer, const cf_layer_data *data,
                             cf_halos *halos) {
    cf_integer_gemm m; /* not cleared: its offsets are more than a small layer's work */
    m.layer = *layer;
    m.data = *data;
    m.offset = stored_offset(layer);
    m.quantised = 0;
    if (layer->input_rounded && CF_FORM != CF_PAIRS) {
        plan_in_place(&m);
    } else {
        cf_quantisation q;
        plan_quantised(&m, &q, layer, data);
        quantise_input(context, &q);
        m.quantised = q.batch * q.rows * q.columns * q.channels * (int64_t)sizeof(cf_quantised);
    }
    m.pixels = layer->batch * layer->out[0] * layer->out[1];
    const int64_t work = m.pixels * m.indirection.k * CF_QUAD * layer->out_channels;
    const int64_t threads = threads_for(context, work, 80);
    const int64_t m_tiles = ceil_div(m.pixels, CF_TASK_MR), n_tiles = ceil_div(layer->out_channels, CF_NR);
#if CF_TILES
    plan_tiles(&m, data->scratch + (m.quantised + 63) / 64 * 16);
    const int64_t max_m_tiles = m.tiling.most_rows / CF_TASK_MR;
#else
    const int64_t bytes = layer->in_channels * (int64_t)sizeof(cf_quantised) * m.layer.stride[0] * m.layer.stride[1];
    const int64_t max_m_tiles = max64(4, min64(CF_L2_INPUT_BYTES / bytes, CF_MC) / CF_TASK_MR);
#endif
    partition(threads, 1, m_tiles, n_tiles, max_m_tiles, &m.m_blocks, &m.n_blocks);
    run_with_halos(context, halos, threads, m.m_blocks * m.n_blocks, integer_gemm_task, &m);
}

#endif
