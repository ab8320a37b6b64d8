/*
 * Convolution as a matrix product whose left side is read straight from the picture: pixels x (KH KW C) times
 * (KH KW C) x channels. A task takes a block of pixels and a range of channel panels of one group.
 */
#ifndef COLDFORGE_DIRECT_H
#define COLDFORGE_DIRECT_H

#include "fused/multiply.h"
#include "fused/reach.h"
#include "fused/unpack.h"

/* Weights of one panel in the first-level cache, and pixels of one block in the second. */
#ifndef CF_DEPTH
#define CF_DEPTH 256
#endif
#ifndef CF_BLOCK_BYTES
#define CF_BLOCK_BYTES (160 << 10)
#endif
enum {
    FEW_PIXELS = 3,                /* no more in the whole layer: the weights are the work */
    CF_NEAR_BYTES = 16 << 10,      /* weights that stay in the first-level cache beside some pixels */
    CF_WIDEST = CF_BLOCK / CF_ROWS, /* tiles side by side: one row of them has room in the sums */
    /* Floats of unpacked weights: a part of the depth of one tile, or the near weights. */
    CF_ROOM = CF_DEPTH * CF_COLUMNS > CF_NEAR_BYTES / 4 ? CF_DEPTH * CF_COLUMNS : CF_NEAR_BYTES / 4
};

typedef struct {
    const cf_layer *layer;
    const cf_layer_data *data;
    int64_t pixels, rows, blocks; /* of the batch; of a tile; tasks for the same channels */
    int64_t inner, outer;         /* channels of a group, in and out */
    int64_t panels, shares;       /* of a group; tasks for the same pixels */
    cf_reach reach;               /* in floats */
} cf_direct;

/*
 * The weights of `panels` panels from number `panel` on, for a part of the depth from `done` on, as floats: *apart of
 * them lie between the panels. `room` is for panels * depth * CF_PANEL.
 */
static const float *part_weights(const cf_direct *d, int64_t panel, int64_t panels, int64_t done, int64_t depth,
                                 float *room, int64_t *apart) {
    const float *start = NULL;
    *apart = (d->layer->weight_type == CF_FLOAT32 ? d->reach.depth : depth) * CF_PANEL;
    for (int64_t p = 0; p < panels; p++) {
        const float *own = unpack(d->layer, d->data, panel + p, ((panel + p) * d->reach.depth + done) * CF_PANEL,
                                  depth * CF_PANEL, room + p * depth * CF_PANEL);
        if (p == 0) start = own;
    }
    return start;
}

/* The bias of `count` channels and zeros after them. */
static void load_bias(float *bias, const float *from, int64_t count) {
    memset(bias, 0, CF_COLUMNS * sizeof *bias);
    memcpy(bias, from, (size_t)min64(count, CF_COLUMNS) * sizeof *bias);
}

/* All pixels of the block times one tile's width of channels, from those of panel number `panel` on. */
static void multiply_panel(const cf_direct *d, const cf_places *places, int64_t count, int64_t panel,
                           int64_t channel, int64_t channels) {
    const cf_layer *layer = d->layer;
    const int half = channels <= CF_COLUMNS / 2;
    const int64_t width = half ? CF_COLUMNS / 2 : CF_COLUMNS;
    const int in_registers = channels >= width && simple_epilogue(layer, d->data);
    const cf_tile_function *tiles = half ? half_tiles : full_tiles;
    const int64_t most = half ? CF_HALF_ROWS : CF_ROWS;
    _Alignas(64) float room[CF_ROOM];
    _Alignas(64) float bias[CF_COLUMNS];
    _Alignas(64) float sums[CF_BLOCK * CF_COLUMNS];
    load_bias(bias, d->data->bias + channel, min64(channels, width));
    cf_product product = {.output_row = CF_COLUMNS};
    product.low = splat(layer->low);
    product.high = splat(layer->high);
    cf_part part = {0};
    while (next_part(&d->reach, CF_DEPTH, &part)) {
        const int first = part.done == 0, last = part.done + part.depth == d->reach.depth;
        const float *weights =
            part_weights(d, panel, ceil_div(channels, CF_PANEL), part.done, part.depth, room, &product.panel);
        product.offsets = part.offsets;
        product.segments = part.segments;
        product.length = part.length;
        product.first_row = first ? 0 : CF_COLUMNS;
        for (int64_t at = 0; at < count;) {
            const int64_t rows = tile_rows(count - at, most), alike = tiles_alike(count - at, most);
            float *own = sums + at * CF_COLUMNS;
            product.ahead = at == 0 && weights != room ? part.depth * CF_PANEL : 0;
            const int store_now = last && in_registers;
            tiles[rows](&product, alike, 1, places->input + at, weights, first ? bias : own, own,
                        store_now ? places->output + at : NULL,
                        d->data->residual != NULL ? places->residual + at : NULL, channel);
            at += rows * alike;
        }
    }
    if (!in_registers) finish(layer, d->data, places, 0, count, channel, channels, sums, CF_COLUMNS);
}

/*
 * A short depth: all pixels of the block times `tiles` tiles' widths of channels (0: half of one), whose weights stay in
 * the first-level cache; all these channels of a few pixels, then of the next.
 */
static void multiply_wide(const cf_direct *d, const cf_places *places, int64_t count, int64_t panel,
                          int64_t channel, int64_t tiles) {
    const cf_layer *layer = d->layer;
    const int64_t channels = tiles > 0 ? tiles * CF_COLUMNS : CF_COLUMNS / 2, panels = max64(tiles, 1);
    const int64_t rows = tiles > 0 ? CF_ROWS : CF_HALF_ROWS;
    const cf_tile_function *rest = tiles > 0 ? full_tiles : half_tiles;
    const int in_registers = simple_epilogue(layer, d->data);
    const int brief = d->reach.segments <= CF_SHORT_SEGMENTS && (d->data->residual == NULL || !in_registers);
    _Alignas(64) float room[CF_ROOM];
    _Alignas(64) float sums[CF_BLOCK * CF_COLUMNS];
    cf_product product = {.offsets = d->reach.offsets, .segments = d->reach.segments, .length = d->reach.length};
    const float *weights =
        part_weights(d, panel, ceil_div(channels, CF_PANEL), 0, d->reach.depth, room, &product.panel);
    product.low = splat(in_registers ? layer->low : -__builtin_inff());
    product.high = splat(in_registers ? layer->high : __builtin_inff());
    const float *bias = d->data->bias + channel;
    /* As many pixels as the sums have room for, if they are needed. */
    const int64_t most = in_registers ? count : CF_BLOCK / panels / rows * rows;
    float *own[CF_BLOCK];
    for (int64_t i = 0; i < most && !in_registers; i++) own[i] = sums + i * channels - channel;
    for (int64_t from = 0; from < count; from += most) {
        const int64_t pixels = min64(most, count - from);
        const float *const *inputs = places->input + from;
        const float *const *residuals = d->data->residual != NULL && in_registers ? places->residual + from : NULL;
        float *const *outputs = in_registers ? places->output + from : own;
        int64_t at = 0;
        if (brief) {
            if (tiles > 0) {
                short_full(&product, pixels / rows, panels, inputs, weights, bias, outputs, channel);
            } else {
                short_half(&product, pixels / rows, inputs, weights, bias, outputs, channel);
            }
            at = pixels / rows * rows;
        }
        while (at < pixels) {
            const int64_t height = tile_rows(pixels - at, rows), alike = tiles_alike(pixels - at, rows);
            rest[height](&product, alike, panels, inputs + at, weights, bias, NULL, outputs + at,
                         residuals != NULL ? residuals + at : NULL, channel);
            at += height * alike;
        }
        if (!in_registers) finish(layer, d->data, places, from, pixels, channel, channels, sums, channels);
    }
}

static void direct_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_direct *d = argument;
    const int64_t share = task % d->shares, block = task / d->shares % d->blocks;
    const int64_t group = task / d->shares / d->blocks;
    const int64_t tiles_high = ceil_div(d->pixels, d->rows);
    const int64_t first = part_start(tiles_high, block, d->blocks) * d->rows;
    const int64_t count = min64(part_start(tiles_high, block + 1, d->blocks) * d->rows, d->pixels) - first;
    cf_places places;
    place_pixels(&places, d->layer, d->data, first, count, group * d->inner);
    const int64_t step = CF_COLUMNS / CF_PANEL, near = CF_NEAR_BYTES / (4 * d->reach.depth * CF_COLUMNS);
    const int64_t most = d->reach.depth > CF_DEPTH ? 0 : min64(max64(near, 1), CF_WIDEST);
    const int64_t tiles_wide = ceil_div(d->panels, step);
    const int64_t end = min64(part_start(tiles_wide, share + 1, d->shares) * step, d->panels);
    for (int64_t panel = part_start(tiles_wide, share, d->shares) * step; panel < end;) {
        const int64_t number = group * d->panels + panel, channel = group * d->outer + panel * CF_PANEL;
        const int64_t channels = min64((end - panel) * CF_PANEL, d->outer - panel * CF_PANEL);
        const int64_t tiles = min64(most, channels / CF_COLUMNS);
        if (tiles > 0 || (most > 0 && channels == CF_COLUMNS / 2)) {
            multiply_wide(d, &places, count, number, channel, tiles);
            panel += max64(tiles, 1) * step;
        } else {
            multiply_panel(d, &places, count, number, channel, min64(channels, CF_COLUMNS));
            panel += step;
        }
    }
}

/*
 * rows <= FEW_PIXELS pixels times 32 (or the last 16) channels, several sums for each to hide latency. The processor
 * reads ahead by itself, and does not gain from being told.
 */
INLINE void stream(const int rows, const int vectors, const int chains, const cf_part *part, int64_t panel,
                   const float *const *inputs, const float *weights, float *sums) {
    enum { PER_PANEL = CF_PANEL / CF_LANES, WIDTH = 32 };
    vec sum[4][FEW_PIXELS][WIDTH / CF_LANES];
    UNROLL for (int c = 0; c < chains; c++) {
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int v = 0; v < vectors; v++) sum[c][r][v] = zero();
        }
    }
    for (int64_t s = 0; s < part->segments; s++) {
        const float *in[FEW_PIXELS];
        UNROLL for (int r = 0; r < rows; r++) in[r] = inputs[r] + part->offsets[s];
        int64_t k = 0;
        for (; k + chains <= part->length; k += chains) {
            UNROLL for (int c = 0; c < chains; c++) {
                UNROLL for (int v = 0; v < vectors; v++) {
                    const vec w = load(weights + (v / PER_PANEL) * panel + (v % PER_PANEL) * CF_LANES + c * CF_PANEL);
                    UNROLL for (int r = 0; r < rows; r++) sum[c][r][v] += splat(in[r][k + c]) * w;
                }
            }
            weights += chains * CF_PANEL;
        }
        for (; k < part->length; k++) {
            UNROLL for (int v = 0; v < vectors; v++) {
                const vec w = load(weights + (v / PER_PANEL) * panel + (v % PER_PANEL) * CF_LANES);
                UNROLL for (int r = 0; r < rows; r++) sum[0][r][v] += splat(in[r][k]) * w;
            }
            weights += CF_PANEL;
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++) {
            float *own = sums + r * WIDTH + v * CF_LANES;
            vec total = sum[0][r][v];
            UNROLL for (int c = 1; c < chains; c++) total += sum[c][r][v];
            store(own, load(own) + total);
        }
    }
}

/* All pixels times `panels` panels, one or two, from number `panel` on: added to sums. */
static void stream_panels(const cf_direct *d, const float *const *in, int64_t panel, int64_t panels, float *sums) {
    enum { WIDTH = 32, TWO = WIDTH / CF_LANES, ONE = CF_PANEL / CF_LANES, DEPTH = CF_NEAR_BYTES / 4 / WIDTH };
    _Alignas(64) float room[DEPTH * WIDTH];
    cf_part part = {0};
    while (next_part(&d->reach, d->layer->weight_type == CF_FLOAT32 ? d->reach.depth : DEPTH, &part)) {
        int64_t apart;
        const float *from = part_weights(d, panel, panels, part.done, part.depth, room, &apart);
        if (panels > 1) {
            switch (d->pixels) {
            case 1: stream(1, TWO, CF_LANES == 16 ? 4 : 2, &part, apart, in, from, sums); break;
            case 2: stream(2, TWO, CF_LANES == 16 ? 2 : 1, &part, apart, in, from, sums); break;
            case 3: stream(3, TWO, CF_LANES == 16 ? 2 : 1, &part, apart, in, from, sums); break;
            }
        } else {
            switch (d->pixels) {
            case 1: stream(1, ONE, 4, &part, apart, in, from, sums); break;
            case 2: stream(2, ONE, 2, &part, apart, in, from, sums); break;
            case 3: stream(3, ONE, 2, &part, apart, in, from, sums); break;
            }
        }
    }
}

/* A layer of few pixels: its weights are read once, as fast as memory gives them. */
static void stream_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    enum { WIDTH = 32 };
    const cf_direct *d = argument;
    const int64_t share = task % d->shares, group = task / d->shares;
    cf_places places;
    place_pixels(&places, d->layer, d->data, 0, d->pixels, group * d->inner);
    const int64_t pairs = ceil_div(d->panels, 2);
    const int64_t end = min64(d->panels, 2 * part_start(pairs, share + 1, d->shares));
    for (int64_t panel = 2 * part_start(pairs, share, d->shares); panel < end; panel += 2) {
        const int64_t channels = min64(WIDTH, d->outer - panel * CF_PANEL);
        const int64_t channel = group * d->outer + panel * CF_PANEL;
        _Alignas(64) float sums[FEW_PIXELS * WIDTH] = {0};
        for (int64_t r = 0; r < d->pixels; r++) {
            memcpy(sums + r * WIDTH, d->data->bias + channel, (size_t)channels * sizeof *sums);
        }
        stream_panels(d, places.input, group * d->panels + panel, ceil_div(channels, CF_PANEL), sums);
        finish(d->layer, d->data, &places, 0, d->pixels, channel, channels, sums, WIDTH);
    }
}

static void run_direct(cf_context *context, const cf_layer *layer, const cf_layer_data *data) {
    cf_direct d; /* not cleared: its offsets are more than a small layer's work */
    const cf_view *in = &layer->input;
    d.layer = layer;
    d.data = data;
    d.reach.segments = 0;
    d.pixels = layer->batch * layer->out[0] * layer->out[1];
    d.inner = layer->in_channels / layer->groups;
    d.outer = layer->out_channels / layer->groups;
    d.panels = ceil_div(d.outer, CF_PANEL);
    d.reach.depth = layer->kernel[0] * layer->kernel[1] * d.inner;
    const int dense_rows = in->pixel == d.inner && layer->dilation[1] == 1;
    const int64_t across = dense_rows ? 1 : layer->kernel[1];
    d.reach.length = dense_rows ? layer->kernel[1] * d.inner : d.inner;
    for (int64_t y = 0; y < layer->kernel[0]; y++) {
        for (int64_t x = 0; x < across; x++) {
            d.reach.offsets[d.reach.segments++] = y * layer->dilation[0] * in->row + x * layer->dilation[1] * in->pixel;
        }
    }
    const int64_t work = d.pixels * d.reach.depth * layer->out_channels;
    const int64_t threads = threads_for(context, work, d.pixels <= FEW_PIXELS ? 20 : 40);
    if (d.pixels <= FEW_PIXELS) {
        d.shares = threads == 1 ? 1 : min64(2 * threads, ceil_div(d.panels, 2));
        run_tasks(context, threads, d.shares * layer->groups, stream_task, &d);
        return;
    }
    d.rows = d.outer <= CF_COLUMNS / 2 ? CF_HALF_ROWS : CF_ROWS;
    const int64_t pixel_bytes = 4 * layer->in_channels * layer->stride[0] * layer->stride[1];
    const int64_t tiles = ceil_div(d.pixels, d.rows);
    const int64_t most = max64(4, min64(CF_BLOCK_BYTES / pixel_bytes, CF_BLOCK) / d.rows);
    divide(threads, layer->groups, tiles, ceil_div(d.panels, CF_COLUMNS / CF_PANEL), most, &d.blocks, &d.shares);
    run_tasks(context, threads, d.blocks * d.shares * layer->groups, direct_task, &d);
}

#endif
