/*
 * Convolution with integer sums, as an implicit GEMM: the input is quantised into scratch first, then pixels x (KH KW
 * C) times (KH KW C) x channels. The sums are exact, so an answer depends neither on threads nor on tiles nor, until
 * the epilogue, on the instruction set.
 */
#ifndef COLDFORGE_INTEGER_GEMM_H
#define COLDFORGE_INTEGER_GEMM_H

#include "fused/epilogue.h"
#include "fused/integer_microkernel.h"
#if CF_TILES
#include "fused/integer_tiles.h"
#endif
#include "fused/quantise.h"

enum { CF_L1_WEIGHT_BYTES = CF_NR << 10 }; /* weights that stay in the first-level cache beside some pixels */

/* Put a panel's int8 weights for a block of K into the form that is multiplied. */
static void repack_panel(const int8_t *weights, const cf_k_block *block, int8_t *buffer) {
#if CF_MATRIX
    pair_panel(weights, block->segments, block->segment_length, buffer);
#else
    enum { PER_PANEL = CF_PANEL / CF_LANES };
    for (int64_t k = 0; k < block->k; k++) {
        UNROLL for (int i = 0; i < CF_WORDS; i++) {
            UNROLL for (int v = 0; v < PER_PANEL; v++) {
                *(loose_ivec *)(buffer + (i * PER_PANEL + v) * CF_LANES * 4) =
                    weight_word(weights + v * CF_LANES * 4, i);
            }
        }
        weights += CF_PANEL * CF_QUAD;
        buffer += CF_QUAD_BYTES;
    }
#endif
}

/* How many quads of room `segments` segments of `quads` quads take in the form that is multiplied. */
INLINE int64_t repacked_quads(int64_t segments, int64_t quads) {
#if CF_MATRIX
    return segments * paired_quads(quads);
#else
    return segments * quads;
#endif
}

/* The most quads of a block of K whose repacked weights have room for `room` quads. */
INLINE int64_t quads_in(int64_t room, int64_t segment_length) {
    const int64_t segment = repacked_quads(1, segment_length);
    /* An even number has room for a piece of a segment, whatever its length. */
    return room >= segment ? room / segment * segment_length : room & ~INT64_C(1);
}

/* Set the weights of `panels` panels for p's block of K: where they lie, or repacked, in `buffer`. */
static void set_weights(cf_integer_params *p, int64_t panels, int8_t *buffer) {
    const int64_t all = p->gemm->indirection.k * CF_PANEL * CF_QUAD;
    const int8_t *from =
        (const int8_t *)p->gemm->data.weights + p->channel / CF_PANEL * all + p->block.begin * CF_PANEL * CF_QUAD;
    p->weights = buffer == NULL ? from : buffer;
    p->panel_stride =
        buffer == NULL ? all : repacked_quads(p->block.segments, p->block.segment_length) * CF_QUAD_BYTES;
    if (buffer == NULL) return;
    for (int64_t i = 0; i < panels; i++) repack_panel(from + i * all, &p->block, buffer + i * p->panel_stride);
}

/* MR of the next tile when `rest` pixels remain, and how many tiles of that height follow one another. */
INLINE int64_t tile_height(int64_t rest) {
    const int64_t mr = balanced_mr(rest, CF_INTEGER_MR);
    if (!CF_MATRIX || mr % 2 == 0 || rest <= CF_GEMV_PIXELS) return mr;
    return min64(mr + 1, rest / 2 * 2); /* pixels come in twos; and Clang spills the sums of five */
}
INLINE int64_t tiles_of(int64_t rest, int64_t mr) {
    return mr == balanced_mr(rest, CF_INTEGER_MR) ? equal_tiles(rest, CF_INTEGER_MR) : rest / mr;
}

/* All pixels of a block times p->n_tiles tiles from p->channel on, K block by K block. */
static void integer_gemm_block(cf_integer_params *p, const cf_pixel_pointers *pointers, int64_t count, int64_t channels,
                               int64_t width) {
    const cf_integer_gemm *m = p->gemm;
    const int in_registers = simple_epilogue(&m->layer, &m->data) && channels == p->n_tiles * width;
    const int64_t panels = ceil_div(channels, CF_PANEL);
    const int half = width < CF_NR;
    _Alignas(64) float sums[CF_MC * CF_NR];
    const cf_integer_microkernel *microkernels = integer_microkernels[!half];
    int8_t *buffer = NULL;
    int64_t kc = m->indirection.k;
#if CF_REPACKS
    _Alignas(64) int8_t repacked[CF_L1_WEIGHT_BYTES];
    if (m->pixels <= CF_GEMV_PIXELS) {
        microkernels = integer_gemv_microkernels[!half];
    } else {
        buffer = repacked;
        kc = quads_in(CF_L1_WEIGHT_BYTES / (panels * CF_QUAD_BYTES), m->indirection.segment_length);
    }
#endif
    while (next_k_block(&m->indirection, kc, &p->block)) {
        p->first = p->block.begin == 0;
        p->last = p->block.begin + p->block.k == m->indirection.k;
        set_weights(p, panels, buffer);
        const int64_t size = p->n_tiles * width / CF_PANEL * p->panel_stride;
        /* What is repacked is read in one go, and so are the weights of a few pixels. */
        const int prefetches = buffer == NULL && count > CF_GEMV_PIXELS;
        p->ahead_step = prefetches ? ceil_div(width / CF_PANEL * CF_QUAD_BYTES, ceil_div(count, CF_INTEGER_MR)) : 0;
        for (int64_t at = 0; at < count;) {
            p->ahead = p->weights + (prefetches ? size + size * at / count : 0);
            const int64_t mr = tile_height(count - at), equal = tiles_of(count - at, mr);
            microkernels[mr](p, equal, pointers->input + at, sums + at * CF_NR,
                             in_registers && stores_floats(&m->data) ? pointers->output + at : NULL,
                             in_registers && stored_bytes(&m->data) != NULL ? pointers->rounded + at : NULL,
                             m->data.residual != NULL ? pointers->residual + at : NULL);
            at += mr * equal;
        }
    }
    if (!in_registers) run_epilogue(&m->layer, &m->data, pointers, 0, count, p->channel, channels, sums, CF_NR);
}

static void integer_gemm_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_integer_gemm *m = argument;
    const cf_layer *layer = &m->layer;
    const int64_t n_block = task % m->n_blocks, m_block = task / m->n_blocks;
    const int64_t m_tiles = ceil_div(m->pixels, CF_TASK_MR), n_tiles = ceil_div(layer->out_channels, CF_NR);
    const int64_t first = part_start(m_tiles, m_block, m->m_blocks) * CF_TASK_MR;
    const int64_t count = min64(part_start(m_tiles, m_block + 1, m->m_blocks) * CF_TASK_MR, m->pixels) - first;
    const int64_t end = min64(part_start(n_tiles, n_block + 1, m->n_blocks) * CF_NR, layer->out_channels);
    int64_t channel = part_start(n_tiles, n_block, m->n_blocks) * CF_NR;
    cf_pixel_pointers pointers;
    set_pixel_pointers(&pointers, layer, &m->data, first, count, 0);
#if CF_TILES
    if (m->pixels > CF_GEMV_PIXELS) {
        tiled_task(m, &pointers, first, count, channel, end, thread);
        return;
    }
#endif
    /* Tiles side by side whose weights stay in the first-level cache: all their channels are computed for MR
     * pixels, then for the next MR. */
    const int64_t quads = repacked_quads(m->indirection.segments, m->indirection.segment_length),
                  cached_tiles = CF_L1_WEIGHT_BYTES / (quads * CF_QUAD_BYTES * (CF_NR / CF_PANEL));
    const int64_t max_n_tiles = simple_epilogue(layer, &m->data) ? max64(cached_tiles, 1) : 1;
    while (channel < end) {
        const int64_t rest = end - channel, width = rest <= CF_NR / 2 ? CF_NR / 2 : CF_NR;
        cf_integer_params params = {
            .gemm = m, .channel = channel, .n_tiles = min64(max_n_tiles, max64(rest / width, 1))};
        if (stored_bytes(&m->data) != NULL) params.rounding = clamping_quantiser(layer);
        const int64_t channels = min64(rest, params.n_tiles * width);
        integer_gemm_block(&params, &pointers, count, channels, width);
        channel += channels;
    }
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

static void run_integer_gemm(cf_context *context, const cf_layer *layer, const cf_layer_data *data) {
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
    run_tasks(context, threads, m.m_blocks * m.n_blocks, integer_gemm_task, &m);
}

#endif
