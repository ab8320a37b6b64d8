/*
 * GEMM over a block of pixels and a range of channel panels of one group: loops around the micro-kernels. Weights that
 * are not float32 are dequantised here, a block at a time.
 */
#ifndef COLDFORGE_GEMM_H
#define COLDFORGE_GEMM_H

#include "fused/dequantise.h"
#include "fused/gemm_microkernel.h"

enum {
    CF_KC = 256,                    /* of a block of K: its weights for one tile stay in the first-level cache */
    CF_L1_WEIGHT_BYTES = 16 << 10,  /* weights of several tiles that stay in the first-level cache beside some pixels */
    CF_MAX_N_TILES = CF_MC / CF_MR, /* tiles side by side: one row of them fits into the sums */
    /* Floats of dequantised weights: a block of K for one tile, or all of K for several tiles. */
    CF_WEIGHT_BUFFER = CF_KC * CF_NR > CF_L1_WEIGHT_BYTES / 4 ? CF_KC * CF_NR : CF_L1_WEIGHT_BYTES / 4
};

typedef struct {
    const cf_layer *layer;
    const cf_layer_data *data;
    int64_t images;                                /* products: 1, of the whole batch, or one for each image */
    int64_t pixels, mr, m_blocks;                  /* M: of a product; of a tile; tasks for the same channels */
    int64_t group_in_channels, group_out_channels; /* the latter is N */
    int64_t panels, n_blocks;                      /* of a group; tasks for the same pixels */
    cf_indirection indirection;                    /* offsets in floats */
} cf_gemm;

/* Multiply the weights of `panels` panels for `k` inputs, *panel_stride floats apart, by these inputs' factors, and put
 * them into `buffer`, which they may be in. A function of its own: few layers have factors. */
static __attribute__((noinline)) const float *scaled_weights(const float *weights, const float *factor, int64_t panels,
                                                             int64_t k, float *buffer, int64_t *panel_stride) {
    for (int64_t p = 0; p < panels; p++) {
        const float *from = weights + p * *panel_stride;
        float *to = buffer + p * k * CF_PANEL;
        ROLLED for (int64_t i = 0; i < k; i++) {
            const vec by = splat(factor[i]);
            UNROLL for (int v = 0; v < CF_PANEL; v += CF_LANES) {
                store(to + i * CF_PANEL + v, load(from + i * CF_PANEL + v) * by);
            }
        }
    }
    *panel_stride = k * CF_PANEL;
    return buffer;
}

/*
 * The weights of `panels` panels from number `panel` on, for k inputs from number k_begin on, as floats. The panels are
 * *panel_stride floats apart. `buffer` holds panels * k * CF_PANEL floats, and is used unless the weights are float32
 * and the inputs have no factors.
 */
static const float *block_weights(const cf_gemm *g, int64_t panel, int64_t panels, int64_t k_begin, int64_t k,
                                  float *buffer, int64_t *panel_stride) {
    const float *start = NULL;
    *panel_stride = (g->layer->weight_type == CF_FLOAT32 ? g->indirection.k : k) * CF_PANEL;
    for (int64_t p = 0; p < panels; p++) {
        const float *panel_weights =
            dequantise(g->layer, g->data, panel + p, ((panel + p) * g->indirection.k + k_begin) * CF_PANEL,
                       k * CF_PANEL, buffer + p * k * CF_PANEL);
        if (p == 0) start = panel_weights;
    }
    if (g->data->factor == NULL) return start;
    return scaled_weights(start, g->data->factor + k_begin, panels, k, buffer, panel_stride);
}

/* Whether the weights that come next are prefetched: where they have to be dequantised, that takes longer. */
INLINE int prefetches(const cf_gemm *g) { return g->layer->weight_type == CF_FLOAT32; }

/* Floats from `weights`, which block_weights gave, to where the same ones lie in memory. */
INLINE int64_t stored_from(const cf_gemm *g, int64_t panel, int64_t k_begin, const float *weights) {
    if (!prefetches(g)) return 0;
    return floats_between(weights, (const float *)g->data->weights + (panel * g->indirection.k + k_begin) * CF_PANEL);
}

/* Copy the bias of `count` channels, with zeros behind it. */
static void load_bias(float *bias, const float *from, int64_t count) {
    memset(bias, 0, CF_NR * sizeof *bias);
    memcpy(bias, from, (size_t)min64(count, CF_NR) * sizeof *bias);
}

/* All pixels of the block times one tile's width of channels, from panel number `panel` on, K block by K block. */
static void gemm_k_blocks(const cf_gemm *g, const cf_pixel_pointers *pointers, int64_t count, int64_t panel,
                          int64_t channel, int64_t channels) {
    const cf_layer *layer = g->layer;
    const int64_t width = tile_width(channels), max_mr = tile_mr(width);
    const int in_registers = channels >= width && simple_float_epilogue(layer, g->data);
    const cf_gemm_microkernel *microkernels = microkernels_of(width);
    _Alignas(64) float buffer[CF_WEIGHT_BUFFER];
    _Alignas(64) float bias[CF_NR];
    _Alignas(64) float sums[CF_MC * CF_NR];
    load_bias(bias, g->data->bias + channel, min64(channels, width));
    cf_microkernel_params params = {.sums_stride = CF_NR, .prefetch_stride = g->indirection.k * CF_PANEL};
    params.low = splat(layer->low);
    params.high = splat(layer->high);
    cf_k_block block = {0};
    while (next_k_block(&g->indirection, CF_KC, &block)) {
        const int first = block.begin == 0, last = block.begin + block.k == g->indirection.k;
        const float *weights =
            block_weights(g, panel, ceil_div(channels, CF_PANEL), block.begin, block.k, buffer, &params.panel_stride);
        params.offsets = block.offsets;
        params.segments = block.segments;
        params.segment_length = block.segment_length;
        params.addend_stride = first ? 0 : CF_NR;
        /* All tiles share the prefetching of the next block, or of the next channels' first: one alone would wait for
         * memory. */
        const int64_t next = block.k * CF_PANEL + (last ? (CF_NR / CF_PANEL - 1) * params.prefetch_stride : 0);
        const int64_t ahead = stored_from(g, panel, block.begin, weights) + next;
        params.prefetch_step = prefetches(g) ? ceil_div(CF_PANEL * sizeof(float), ceil_div(count, max_mr)) : 0;
        for (int64_t at = 0; at < count;) {
            const int64_t mr = balanced_mr(count - at, max_mr), equal = equal_tiles(count - at, max_mr);
            float *row_sums = sums + at * CF_NR;
            params.prefetch = ahead + at * block.k * CF_PANEL / count;
            const int store_now = last && in_registers;
            microkernels[mr](&params, equal, 1, pointers->input + at, weights, first ? bias : row_sums, row_sums,
                             store_now ? pointers->output + at : NULL,
                             g->data->residual != NULL ? pointers->residual + at : NULL, channel);
            at += mr * equal;
        }
    }
    if (!in_registers) run_epilogue(layer, g->data, pointers, 0, count, channel, channels, sums, CF_NR);
}

/*
 * A short K: all pixels of the block times a tile of `width` channels, or `tiles` of CF_NR side by side, whose weights
 * stay in the first-level cache. All their channels are computed for MR pixels, then for the next MR.
 */
static void gemm_n_tiles(const cf_gemm *g, const cf_pixel_pointers *pointers, int64_t count, int64_t panel,
                         int64_t channel, int64_t width, int64_t tiles) {
    const cf_layer *layer = g->layer;
    const int64_t channels = tiles * width, max_mr = tile_mr(width);
    const int64_t sums_stride = ceil_div(channels, CF_LANES) * CF_LANES;
    const cf_gemm_microkernel *microkernels = microkernels_of(width);
    const int clamps = simple_float_epilogue(layer, g->data);
    const int plain = g->indirection.segments <= CF_SHORT_SEGMENTS && (g->data->residual == NULL || !clamps);
    const int activates = plain && plain_hard_swish(layer, g->data);
    _Alignas(64) float buffer[CF_WEIGHT_BUFFER];
    _Alignas(64) float sums[CF_MC * CF_NR];
    cf_microkernel_params params = {.offsets = g->indirection.offsets,
                                    .segments = g->indirection.segments,
                                    .segment_length = g->indirection.segment_length,
                                    .prefetch_stride = g->indirection.k * CF_PANEL,
                                    .pixel_step = layer->stride[1] * layer->input.pixel * (int64_t)sizeof(float)};
    const int64_t panels = ceil_div(channels, CF_PANEL);
    const float *weights = block_weights(g, panel, panels, 0, g->indirection.k, buffer, &params.panel_stride);
    params.prefetch = stored_from(g, panel, 0, weights) + panels * g->indirection.k * CF_PANEL;
    params.low = splat(clamps ? layer->low : -__builtin_inff());
    params.high = splat(clamps ? layer->high : __builtin_inff());
    const float *bias = g->data->bias + channel;
    /* As many pixels as the sums hold, where the epilogue needs them: of what is activated in registers, the last. */
    const int64_t most = activates ? max_mr : CF_MC / tiles / max_mr * max_mr;
    float *row_sums[CF_MC];
    for (int64_t i = 0; i < most && !clamps; i++) row_sums[i] = sums + i * sums_stride - channel;
    for (int64_t from = 0, pixels; from < count; from += pixels) {
        const int64_t rest = count - from;
        const int in_registers = clamps || (activates && rest >= max_mr);
        pixels = in_registers ? rest : min64(most, rest);
        const float *const *inputs = pointers->input + from;
        const float *const *residuals = g->data->residual != NULL && clamps ? pointers->residual + from : NULL;
        float *const *outputs = in_registers ? pointers->output + from : row_sums;
        int64_t at = 0;
        if (plain) {
            const cf_activation activation = in_registers ? layer->activation : CF_CLAMP;
            const int64_t sharing = tiles * (pixels / max_mr + 1);
            params.prefetch_step = prefetches(g) ? ceil_div(panels * CF_PANEL * sizeof(float), sharing) : 0;
            at = gemm_plain_tiles(activation, width, &params, pixels, tiles, inputs, weights, bias, outputs, channel);
            if (activation != CF_CLAMP) pixels = at; /* what follows activates nothing */
        }
        while (at < pixels) {
            const int64_t mr = balanced_mr(pixels - at, max_mr), equal = equal_tiles(pixels - at, max_mr);
            microkernels[mr](&params, equal, tiles, inputs + at, weights, bias, NULL, outputs + at,
                             residuals != NULL ? residuals + at : NULL, channel);
            at += mr * equal;
        }
        if (!in_registers) run_epilogue(layer, g->data, pointers, from, pixels, channel, channels, sums, sums_stride);
    }
}

static void gemm_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_gemm *g = argument;
    const int64_t n_block = task % g->n_blocks, m_block = task / g->n_blocks % g->m_blocks;
    const int64_t group = task / g->n_blocks / g->m_blocks;
    const int64_t m_tiles = ceil_div(g->pixels, g->mr);
    const int64_t first = part_start(m_tiles, m_block, g->m_blocks) * g->mr;
    const int64_t count = min64(part_start(m_tiles, m_block + 1, g->m_blocks) * g->mr, g->pixels) - first;
    cf_pixel_pointers pointers;
    set_pixel_pointers(&pointers, g->layer, g->data, first, count, group * g->group_in_channels);
    const int64_t step = CF_NR / CF_PANEL, cached_tiles = CF_L1_WEIGHT_BYTES / (4 * g->indirection.k * CF_NR);
    const int64_t most = g->indirection.k > CF_KC ? 0 : min64(max64(cached_tiles, 1), CF_MAX_N_TILES);
    const int64_t n_tiles = ceil_div(g->panels, step);
    const int64_t end = min64(part_start(n_tiles, n_block + 1, g->n_blocks) * step, g->panels);
    for (int64_t panel = part_start(n_tiles, n_block, g->n_blocks) * step; panel < end;) {
        const int64_t number = group * g->panels + panel, channel = group * g->group_out_channels + panel * CF_PANEL;
        const int64_t channels = min64((end - panel) * CF_PANEL, g->group_out_channels - panel * CF_PANEL);
        const int64_t width = tile_width(channels), tiles = max64(min64(most, channels / CF_NR), 1);
        if (most > 0 && width <= channels) {
            gemm_n_tiles(g, &pointers, count, number, channel, width, tiles);
            panel += tiles * step;
        } else {
            gemm_k_blocks(g, &pointers, count, number, channel, min64(channels, CF_NR));
            panel += step;
        }
    }
}

#endif
