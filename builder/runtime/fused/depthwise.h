/*
 * One filter for every channel. A task takes some rows of the output; the innermost loop runs over the
 * channels, which lie side by side, for up to eight pixels of a row at once: their windows overlap, and so many sums do
 * not wait for each other.
 */
#ifndef COLDFORGE_DEPTHWISE_H
#define COLDFORGE_DEPTHWISE_H

#include "fused/finish.h"

enum {
    CF_ACROSS = 8, /* the most pixels at a time */
    CF_CHUNK = 64, /* channels, and pixels, that sums are kept for */
    CF_PIXELS = 32
};

typedef struct {
    const cf_layer *layer;
    const cf_layer_data *data;
    int64_t row_tasks;     /* for the same channels of a picture */
    int64_t chunk, chunks; /* channels of a task; tasks for the same rows */
} cf_depthwise;

/* Where the values of adjacent pixels come from and go to; pixels are `..._pixel` floats apart. */
typedef struct {
    const float *input, *weights, *bias, *residual; /* residual may be NULL */
    float *output;
    int64_t row, pixel, step; /* floats between taps down and across, and between pixels' windows */
    int64_t output_pixel, residual_pixel;
    int64_t height, width, pixels, channels;
    vec low, high;
} cf_strip;

/*
 * `across` pixels from `at` on, the n channels from c on; n is constant but at the end. A constant filter and stride:
 * every input is loaded once for all the pixels whose windows it is in. stride 0: any filter.
 */
INLINE void strip_pixels(const int side, const int stride, const int across, const cf_strip *s, int64_t at, int64_t c,
                         const float *weights, const int64_t n) {
    vec sum[CF_ACROSS];
    const vec bias = load_upto(s->bias + c, n);
    UNROLL for (int u = 0; u < across; u++) sum[u] = bias;
    const float *in = s->input + at * s->step + c;
    if (stride == 0) {
        for (int64_t y = 0; y < s->height; y++) {
            const float *from = in + y * s->row;
            for (int64_t x = 0; x < s->width; x++) {
                const vec w = load(weights);
                UNROLL for (int u = 0; u < across; u++) sum[u] += load_upto(from + u * s->step, n) * w;
                weights += CF_PANEL;
                from += s->pixel;
            }
        }
    } else {
        UNROLL for (int y = 0; y < side; y++) {
            const float *from = in + y * s->row;
            vec taps[5];
            UNROLL for (int x = 0; x < side; x++) taps[x] = load(weights + (y * side + x) * CF_PANEL);
            UNROLL for (int i = 0; i < (across - 1) * stride + side; i++) {
                ADDRESS(from);
                const vec value = load_upto(from, n);
                UNROLL for (int u = 0; u < across; u++) {
                    const int x = i - u * stride;
                    if (x >= 0 && x < side) sum[u] += value * taps[x];
                }
                from += s->pixel;
            }
        }
    }
    const vec low = s->low, high = s->high;
    if (s->residual != NULL) {
        const float *residual = s->residual + at * s->residual_pixel + c;
        UNROLL for (int u = 0; u < across; u++) sum[u] += load_upto(residual + u * s->residual_pixel, n);
    }
    float *output = s->output + at * s->output_pixel + c;
    UNROLL for (int u = 0; u < across; u++) {
        ADDRESS(output);
        store_upto(output, clamp(sum[u], low, high), n);
        output += s->output_pixel;
    }
}

/* All channels of a group of pixels. */
INLINE void strip_group(const int side, const int stride, const int across, const cf_strip *strip, int64_t at) {
    const cf_strip s = *strip; /* a copy that stores cannot change */
    const int64_t panel = (stride == 0 ? s.height * s.width : side * side) * CF_PANEL;
    int64_t c = 0;
    for (; c + CF_LANES <= s.channels; c += CF_LANES) {
        strip_pixels(side, stride, across, &s, at, c, s.weights + c / CF_PANEL * panel + c % CF_PANEL, CF_LANES);
    }
    if (c < s.channels) {
        strip_pixels(0, 0, across, &s, at, c, s.weights + c / CF_PANEL * panel + c % CF_PANEL, s.channels - c);
    }
}

/* All pixels of the strip in groups of `across`; the last group may begin within the one before. */
INLINE int64_t strip_groups(const int side, const int stride, const int across, const cf_strip *s) {
    int64_t at = 0;
    for (; at + across <= s->pixels; at += across) strip_group(side, stride, across, s, at);
    if (at == s->pixels || s->residual != NULL) return at; /* the output may be the residual: not twice */
    strip_group(side, stride, across, s, s->pixels - across);
    return s->pixels;
}

/* Of groups of eight pixels and of seven, those that make fewest, or do least. */
INLINE void strip_run(const int side, const int stride, const cf_strip *s) {
    const int64_t pixels = s->pixels;
    int64_t at = 0;
    if (pixels >= 8 && (pixels + 7) / 8 < (pixels + 6) / 7) {
        at = strip_groups(side, stride, 8, s);
    } else if (pixels >= 7) {
        at = strip_groups(side, stride, 7, s);
    } else if (pixels >= 4) {
        at = strip_groups(side, stride, 4, s);
    }
    for (; at < pixels; at++) strip_group(side, stride, 1, s, at);
}

typedef void (*cf_strip_function)(const cf_strip *s);
static void strip_3_1(const cf_strip *s) { strip_run(3, 1, s); }
static void strip_3_2(const cf_strip *s) { strip_run(3, 2, s); }
static void strip_5_1(const cf_strip *s) { strip_run(5, 1, s); }
static void strip_5_2(const cf_strip *s) { strip_run(5, 2, s); }
static void strip_any(const cf_strip *s) { strip_run(0, 0, s); }

static cf_strip_function find_strip(const cf_layer *layer) {
    const int64_t side = layer->kernel[0], stride = layer->stride[1];
    const int fixed = layer->kernel[1] == side && layer->dilation[1] == 1 && stride <= 2;
    if (fixed && side == 3) return stride == 1 ? strip_3_1 : strip_3_2;
    if (fixed && side == 5) return stride == 1 ? strip_5_1 : strip_5_2;
    return strip_any;
}

static void depthwise_row(const cf_depthwise *d, cf_strip_function run, int64_t image, int64_t row, int64_t channel,
                          int64_t channels) {
    enum { SUMS_ROW = CF_CHUNK };
    const cf_layer *layer = d->layer;
    const cf_layer_data *data = d->data;
    const cf_view *in = &layer->input;
    const int64_t taps = layer->kernel[0] * layer->kernel[1];
    const int simple = simple_epilogue(layer, data);
    cf_places places;
    _Alignas(64) float sums[CF_PIXELS * SUMS_ROW];
    cf_strip s = {.row = layer->dilation[0] * in->row, .pixel = layer->dilation[1] * in->pixel};
    s.step = layer->stride[1] * in->pixel;
    s.height = layer->kernel[0];
    s.width = layer->kernel[1];
    s.output_pixel = simple ? layer->output.pixel : SUMS_ROW;
    s.residual_pixel = layer->residual.pixel;
    s.low = splat(simple ? layer->low : -__builtin_inff());
    s.high = splat(simple ? layer->high : __builtin_inff());
    const float *start = data->input + in->first + image * in->image +
                         (row * layer->stride[0] - layer->padding[0]) * in->row - layer->padding[1] * in->pixel;
    /* All pixels and channels at once, or as many as the sums have room for. */
    const int64_t most = simple ? layer->out[1] : CF_PIXELS, step = simple ? channels : CF_CHUNK;
    for (int64_t column = 0; column < layer->out[1]; column += most) {
        s.pixels = min64(most, layer->out[1] - column);
        for (int64_t u = 0; u < (simple ? 1 : s.pixels); u++) {
            place_output(&places, u, layer, data, image, row, column + u);
        }
        for (int64_t at = channel; at < channel + channels; at += step) {
            s.channels = min64(step, channel + channels - at);
            s.input = start + column * s.step + at;
            s.weights = (const float *)data->weights + at * taps; /* always floats: see compress.py */
            s.bias = data->bias + at;
            s.output = simple ? places.output[0] + at : sums;
            s.residual = simple && data->residual != NULL ? places.residual[0] + at : NULL;
            run(&s);
            if (!simple) finish(layer, data, &places, 0, s.pixels, at, s.channels, sums, SUMS_ROW);
        }
    }
}

static void depthwise_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_depthwise *d = argument;
    const int64_t chunk = task % d->chunks, block = task / d->chunks % d->row_tasks;
    const int64_t image = task / d->chunks / d->row_tasks;
    const int64_t channel = chunk * d->chunk, channels = min64(d->chunk, d->layer->out_channels - channel);
    const int64_t end = part_start(d->layer->out[0], block + 1, d->row_tasks);
    const cf_strip_function run = find_strip(d->layer);
    int64_t row = part_start(d->layer->out[0], block, d->row_tasks);
    for (; row < end; row++) depthwise_row(d, run, image, row, channel, channels);
}

static void run_depthwise(cf_context *context, const cf_layer *layer, const cf_layer_data *data) {
    cf_depthwise d = {.layer = layer, .data = data};
    const int64_t channels = layer->out_channels, taps = layer->kernel[0] * layer->kernel[1];
    const int64_t work = layer->batch * layer->out[0] * layer->out[1] * taps * channels;
    const int64_t threads = threads_for(context, work, 20);
    /* Large filters of a chunk stay in the first-level cache; with small ones it pays to read all channels in order. */
    d.chunk = taps <= 9 ? channels : CF_CHUNK;
    d.chunks = ceil_div(channels, d.chunk);
    d.row_tasks = 1;
    if (threads > 1) {
        /* About four tasks a thread, as many for each: where the rows are too few for that, by channels. */
        d.row_tasks = min64(layer->out[0], 4 * threads);
        if (d.row_tasks * d.chunks * layer->batch % threads != 0 && layer->out[0] < 4 * threads * threads) {
            d.chunk = min64(d.chunk, ceil_div(ceil_div(channels, threads), CF_CHUNK) * CF_CHUNK);
            d.chunks = ceil_div(channels, d.chunk);
        }
    }
    run_tasks(context, threads, layer->batch * d.row_tasks * d.chunks, depthwise_task, &d);
}

#endif
