/*
 * Depthwise convolution: one filter for every channel. A task computes some rows of the output. The micro-kernel runs
 * over the channels, which lie side by side, for up to eight pixels of a row at once: their windows overlap, and that
 * many sums hide the latency of the additions.
 */
#ifndef COLDFORGE_DEPTHWISE_H
#define COLDFORGE_DEPTHWISE_H

#include "fused/epilogue.h"
#include "fused/halo.h"

enum {
    CF_DEPTHWISE_PIXELS = 8, /* the most pixels of a tile */
    CF_CHANNEL_BLOCK = 64,   /* channels, and pixels, whose sums are kept for the epilogue */
    CF_SUMS_PIXELS = 32
};

typedef struct {
    const cf_layer *layer;
    const cf_layer_data *data;
    int64_t row_tasks;                     /* tasks for the same channels of a picture */
    int64_t channel_block, channel_blocks; /* channels of a task; tasks for the same rows */
} cf_depthwise;

/* A strip: adjacent pixels of one row of the output, `..._pixel` floats apart in each tensor. */
typedef struct {
    const float *input, *weights, *bias, *residual; /* residual may be NULL */
    float *output; /* may be NULL, and so may the bytes */
    int8_t *bytes;
    int64_t row, pixel, step; /* floats between taps down and across, and between pixels' windows */
    int64_t output_pixel, bytes_pixel, residual_pixel;
    int64_t height, width, pixels, channels;
    vec low, high;
    cf_quantiser rounding;
} cf_strip;

/*
 * Compute tile_pixels pixels from number `at` on, n channels from c on. n is a constant except for the last channels.
 * Where kernel_size and stride are constants, every input is loaded once for all pixels whose windows it is in. The loop
 * over rows stays one: in the instructions' cache it is as fast, and takes a third of the room or less.
 * stride 0: any kernel size and stride.
 */
INLINE void depthwise_microkernel(const int kernel_size, const int stride, const int tile_pixels, const cf_strip *s,
                                  int64_t at, int64_t c, const float *weights, const int64_t n) {
    vec sum[CF_DEPTHWISE_PIXELS];
    const vec bias = load_upto(s->bias + c, n);
    UNROLL for (int u = 0; u < tile_pixels; u++) sum[u] = bias;
    const float *in = s->input + at * s->step + c;
    if (stride == 0) {
        for (int64_t y = 0; y < s->height; y++) {
            const float *from = in + y * s->row;
            for (int64_t x = 0; x < s->width; x++) {
                const vec w = load(weights);
                UNROLL for (int u = 0; u < tile_pixels; u++) sum[u] += load_upto(from + u * s->step, n) * w;
                weights += CF_PANEL;
                from += s->pixel;
            }
        }
    } else {
        ROLLED for (int y = 0; y < kernel_size; y++) {
            const float *from = in + y * s->row;
            vec taps[5];
            UNROLL for (int x = 0; x < kernel_size; x++) taps[x] = load(weights + (y * kernel_size + x) * CF_PANEL);
            UNROLL for (int i = 0; i < (tile_pixels - 1) * stride + kernel_size; i++) {
                ADDRESS(from);
                const vec value = load_upto(from, n);
                UNROLL for (int u = 0; u < tile_pixels; u++) {
                    const int x = i - u * stride;
                    if (x >= 0 && x < kernel_size) sum[u] += value * taps[x];
                }
                from += s->pixel;
            }
        }
    }
    const vec low = s->low, high = s->high;
    if (s->residual != NULL) {
        const float *residual = s->residual + at * s->residual_pixel + c;
        UNROLL for (int u = 0; u < tile_pixels; u++) sum[u] += load_upto(residual + u * s->residual_pixel, n);
    }
    if (!CF_HAS_INTEGER || s->output != NULL) {
        float *output = s->output + at * s->output_pixel + c;
        UNROLL for (int u = 0; u < tile_pixels; u++) {
            ADDRESS(output);
            store_upto(output, clamp(sum[u], low, high), n);
            output += s->output_pixel;
        }
    }
    if (CF_HAS_INTEGER && s->bytes != NULL) {
        vec values[CF_DEPTHWISE_PIXELS]; /* in memory: a loop takes far less room than eight pixels of each kernel */
        UNROLL for (int u = 0; u < tile_pixels; u++) values[u] = sum[u];
        int8_t *bytes = s->bytes + at * s->bytes_pixel + c;
        const int pairs = n >= CF_LANES ? tile_pixels / 2 : 0;
        ROLLED for (int pair = 0; pair < pairs; pair++) {
            const int u = 2 * pair;
            const ivec one = rounded(&s->rounding, values[u]), next = rounded(&s->rounding, values[u + 1]);
            store_two(bytes, bytes + s->bytes_pixel, one, next);
            bytes += 2 * s->bytes_pixel;
        }
        ROLLED for (int u = 2 * pairs; u < tile_pixels; u++) {
            store_bytes(bytes, rounded(&s->rounding, values[u]), n);
            bytes += s->bytes_pixel;
        }
    }
}

/* The channels behind the last whole vector: one copy for all filters. */
static __attribute__((noinline)) void strip_last_channels(int tile_pixels, const cf_strip *s, int64_t at, int64_t c,
                                                          const float *weights) {
    const int64_t n = s->channels - c;
    switch (tile_pixels) {
    case 8: depthwise_microkernel(0, 0, 8, s, at, c, weights, n); break;
    case 7: depthwise_microkernel(0, 0, 7, s, at, c, weights, n); break;
    case 4: depthwise_microkernel(0, 0, 4, s, at, c, weights, n); break;
    default: depthwise_microkernel(0, 0, 1, s, at, c, weights, n); break;
    }
}

/* All channels of a tile of pixels. */
INLINE void strip_tile(const int kernel_size, const int stride, const int tile_pixels, const cf_strip *strip,
                       int64_t at) {
    const cf_strip s = *strip; /* a copy, which no store can alias */
    const int64_t panel = (stride == 0 ? s.height * s.width : kernel_size * kernel_size) * CF_PANEL;
    int64_t c = 0;
    for (; c + CF_LANES <= s.channels; c += CF_LANES) {
        depthwise_microkernel(kernel_size, stride, tile_pixels, &s, at, c,
                              s.weights + c / CF_PANEL * panel + c % CF_PANEL, CF_LANES);
    }
    if (c >= s.channels) return;
    const float *weights = s.weights + c / CF_PANEL * panel + c % CF_PANEL;
    if (CF_LANES >= 8 && stride != 0) {
        const int64_t n = s.channels - c; /* fewer than CF_LANES, which the compiler has to be told */
        if (n < CF_LANES) depthwise_microkernel(kernel_size, stride, tile_pixels, &s, at, c, weights, n);
    } else {
        strip_last_channels(tile_pixels, strip, at, c, weights);
    }
}

/* All pixels of the strip in tiles of tile_pixels. The last tile may overlap the one before. Returns how many are
 * done. */
INLINE int64_t strip_tiles(const int kernel_size, const int stride, const int tile_pixels, const cf_strip *s) {
    int64_t at = 0;
    for (; at + tile_pixels <= s->pixels; at += tile_pixels) strip_tile(kernel_size, stride, tile_pixels, s, at);
    if (at == s->pixels || s->residual != NULL) return at; /* which may be the output: it is added once only */
    strip_tile(kernel_size, stride, tile_pixels, s, s->pixels - tile_pixels);
    return s->pixels;
}

/* All pixels of the strip, in tiles of eight or seven pixels: whichever makes fewer tiles, or recomputes less. */
INLINE void strip_run(const int kernel_size, const int stride, const cf_strip *s) {
    const int64_t pixels = s->pixels;
    int64_t at = 0;
    if (pixels >= 8 && (pixels + 7) / 8 < (pixels + 6) / 7) {
        at = strip_tiles(kernel_size, stride, 8, s);
    } else if (pixels >= 7) {
        at = strip_tiles(kernel_size, stride, 7, s);
    } else if (pixels >= 4) {
        at = strip_tiles(kernel_size, stride, 4, s);
    }
    for (; at < pixels; at++) strip_tile(kernel_size, stride, 1, s, at);
}

typedef void (*cf_strip_function)(const cf_strip *s);
static void strip_3_2(const cf_strip *s) { strip_run(3, 2, s); }
static void strip_5_2(const cf_strip *s) { strip_run(5, 2, s); }

/* Whether two pixels side by side, in the output as in the input, are one vector. */
INLINE int fills_half_a_vector(const cf_strip *s) {
    const int64_t n = s->channels;
    const int dense = s->pixel == n && s->step == n && s->output_pixel == n && (s->bytes == NULL || s->bytes_pixel == n);
    return 2 * n == CF_LANES && dense && s->residual == NULL && s->pixels > 1;
}

/* A strip with stride 1 of half as many channels as a vector has lanes. Every two pixels are one with twice the
 * channels, and from one to the next are two pixels of the input: `run` is the strip with stride 2. */
INLINE void strip_in_pairs(const int kernel_size, cf_strip_function run, const cf_strip *s) {
    enum { HALF = CF_LANES / 2 };
    _Alignas(64) float weights[25 * CF_PANEL];
    _Alignas(64) float bias[CF_LANES];
    for (int tap = 0; tap < kernel_size * kernel_size; tap++) {
        memcpy(weights + tap * CF_PANEL, s->weights + tap * CF_PANEL, HALF * sizeof *weights);
        memcpy(weights + tap * CF_PANEL + HALF, s->weights + tap * CF_PANEL, HALF * sizeof *weights);
    }
    memcpy(bias, s->bias, HALF * sizeof *bias);
    memcpy(bias + HALF, s->bias, HALF * sizeof *bias);
    cf_strip pairs = *s;
    pairs.weights = weights;
    pairs.bias = bias;
    pairs.channels = pairs.step = pairs.output_pixel = pairs.bytes_pixel = CF_LANES;
    pairs.pixels = s->pixels / 2;
    run(&pairs);
    if (s->pixels % 2 == 0) return;
    const int64_t last = (s->pixels - 2) * HALF; /* the last pixel, with the one before it once more */
    pairs.input += last;
    if (pairs.output != NULL) pairs.output += last;
    if (pairs.bytes != NULL) pairs.bytes += last;
    pairs.pixels = 1;
    run(&pairs);
}

static void strip_3_1(const cf_strip *s) {
    if (fills_half_a_vector(s)) {
        strip_in_pairs(3, strip_3_2, s);
    } else {
        strip_run(3, 1, s);
    }
}
static void strip_5_1(const cf_strip *s) {
    if (fills_half_a_vector(s)) {
        strip_in_pairs(5, strip_5_2, s);
    } else {
        strip_run(5, 1, s);
    }
}
static void strip_any(const cf_strip *s) { strip_run(0, 0, s); }

static cf_strip_function find_strip(const cf_layer *layer) {
    const int64_t kernel_size = layer->kernel[0], stride = layer->stride[1];
    const int fixed = layer->kernel[1] == kernel_size && layer->dilation[1] == 1 && stride <= 2;
    if (fixed && kernel_size == 3) return stride == 1 ? strip_3_1 : strip_3_2;
    if (fixed && kernel_size == 5) return stride == 1 ? strip_5_1 : strip_5_2;
    return strip_any;
}

static void depthwise_row(const cf_depthwise *d, cf_strip_function run, int64_t image, int64_t row, int64_t channel,
                          int64_t channels) {
    enum { SUMS_STRIDE = CF_CHANNEL_BLOCK };
    const cf_layer *layer = d->layer;
    const cf_layer_data *data = d->data;
    const cf_view *in = &layer->input;
    const int64_t taps = layer->kernel[0] * layer->kernel[1];
    const int simple = simple_epilogue(layer, data);
    cf_pixel_pointers pointers;
    _Alignas(64) float sums[CF_SUMS_PIXELS * SUMS_STRIDE];
    cf_strip s = {.row = layer->dilation[0] * in->row, .pixel = layer->dilation[1] * in->pixel};
    s.step = layer->stride[1] * in->pixel;
    s.height = layer->kernel[0];
    s.width = layer->kernel[1];
    s.output_pixel = simple ? layer->output.pixel : SUMS_STRIDE;
    s.bytes_pixel = layer->rounded.pixel;
    if (stored_bytes(data) != NULL) s.rounding = clamping_quantiser(layer);
    s.residual_pixel = layer->residual.pixel;
    s.low = splat(simple ? layer->low : -__builtin_inff());
    s.high = splat(simple ? layer->high : __builtin_inff());
    const float *start = data->input + in->first + image * in->image +
                         (row * layer->stride[0] - layer->padding[0]) * in->row - layer->padding[1] * in->pixel;
    /* All pixels and channels at once, or as many as the sums hold. */
    const int64_t most = simple ? layer->out[1] : CF_SUMS_PIXELS, step = simple ? channels : CF_CHANNEL_BLOCK;
    for (int64_t column = 0; column < layer->out[1]; column += most) {
        s.pixels = min64(most, layer->out[1] - column);
        for (int64_t u = 0; u < (simple ? 1 : s.pixels); u++) {
            set_output_pointers(&pointers, u, layer, data, image, row, column + u);
        }
        for (int64_t at = channel; at < channel + channels; at += step) {
            s.channels = min64(step, channel + channels - at);
            s.input = start + column * s.step + at;
            s.weights = (const float *)data->weights + at * taps; /* always float32: see builder/compiler/lower/build_program.py */
            s.bias = data->bias + at;
            s.output = !simple ? sums : stores_floats(data) ? pointers.output[0] + at : NULL;
            s.bytes = simple && stored_bytes(data) != NULL ? pointers.rounded[0] + at : NULL;
            s.residual = simple && data->residual != NULL ? pointers.residual[0] + at : NULL;
            run(&s);
            if (!simple) run_epilogue(layer, data, &pointers, 0, s.pixels, at, s.channels, sums, SUMS_STRIDE);
        }
    }
}

static void depthwise_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_depthwise *d = argument;
    const int64_t channel_block = task % d->channel_blocks, row_task = task / d->channel_blocks % d->row_tasks;
    const int64_t image = task / d->channel_blocks / d->row_tasks;
    const int64_t channel = channel_block * d->channel_block,
                  channels = min64(d->channel_block, d->layer->out_channels - channel);
    const int64_t end = part_start(d->layer->out[0], row_task + 1, d->row_tasks);
    const cf_strip_function run = find_strip(d->layer);
    int64_t row = part_start(d->layer->out[0], row_task, d->row_tasks);
    for (; row < end; row++) depthwise_row(d, run, image, row, channel, channels);
}

static void run_depthwise(cf_context *context, const cf_layer *layer, const cf_layer_data *data, cf_halos *halos) {
    cf_depthwise d = {.layer = layer, .data = data};
    const int64_t channels = layer->out_channels, taps = layer->kernel[0] * layer->kernel[1];
    const int64_t work = layer->batch * layer->out[0] * layer->out[1] * taps * channels;
    const int64_t threads = threads_for(context, work, 20);
    /* Large filters stay in the first-level cache for a block of channels; small ones gain more from reading all
     * channels in order. */
    d.channel_block = taps <= 9 ? channels : CF_CHANNEL_BLOCK;
    d.channel_blocks = ceil_div(channels, d.channel_block);
    d.row_tasks = 1;
    if (threads > 1 && layer->batch * layer->out[0] * layer->out[1] < CF_ROW_BLOCKS_FROM * CF_MR) {
        /* As GEMM divides so few pixels: a thread finds the channels that it has computed itself. */
        d.channel_block = ceil_div(ceil_div(channels, 3 * threads), CF_PANEL) * CF_PANEL;
        d.channel_blocks = ceil_div(channels, d.channel_block);
    } else if (threads > 1) {
        /* About four tasks for each thread, equally many for all. Where there are too few rows, the channels are
         * divided. */
        d.row_tasks = min64(layer->out[0], 4 * threads);
        if (d.row_tasks * d.channel_blocks * layer->batch % threads != 0) {
            d.channel_block =
                min64(d.channel_block, ceil_div(ceil_div(channels, threads), CF_CHANNEL_BLOCK) * CF_CHANNEL_BLOCK);
            d.channel_blocks = ceil_div(channels, d.channel_block);
        }
    }
    run_with_halos(context, halos, threads, layer->batch * d.row_tasks * d.channel_blocks, depthwise_task, &d);
}

#endif
