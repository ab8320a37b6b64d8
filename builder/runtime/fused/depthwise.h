/*
 * One filter for every channel. A task takes some rows of the output; the innermost loop runs over the
 * channels, which lie side by side, for up to four pixels of a row at once: their windows overlap.
 */
#ifndef COLDFORGE_DEPTHWISE_H
#define COLDFORGE_DEPTHWISE_H

#include "finish.h"

enum {
    CF_ACROSS = 4,
    CF_CHUNK = 256, /* channels that sums are kept for */
    CF_ROWS_BYTES = 16 << 10
};

typedef struct {
    const cf_layer *layer;
    const cf_layer_data *data;
    int64_t rows, row_tasks; /* output rows of a task; tasks for a picture */
    int64_t chunk, chunks;   /* channels of a task */
} cf_depthwise;

/* Where the values of up to CF_ACROSS adjacent pixels come from and go to; pixels are `..._pixel` floats apart. */
typedef struct {
    const float *input, *weights, *bias, *residual; /* residual may be NULL */
    float *output;
    int64_t row, pixel, step; /* floats between taps down and across, and between pixels' windows */
    int64_t output_pixel, residual_pixel;
    int64_t height, width, channels;
    vec low, high;
} cf_strip;

/* Floats between the weights of a tap for the first and for vector v of a step; `panel` is that between panels. */
INLINE int64_t weight_offset(int v, int64_t panel) {
    return v * CF_LANES / CF_PANEL * panel + v * CF_LANES % CF_PANEL;
}

/*
 * `vectors` vectors of channels of all pixels, of the last only n lanes; n is constant but at the end. A constant
 * filter and stride: every input is loaded once for all the pixels whose windows it is in. stride 0: any filter.
 * Fewer than eight sums would leave the multipliers waiting for each other.
 */
INLINE void strip_vectors(const int height, const int width, const int stride, const int across, const int vectors,
                          const cf_strip *s, int64_t c, const float *weights, int64_t panel, const int64_t n) {
    vec sum[CF_ACROSS][2];
    UNROLL for (int v = 0; v < vectors; v++) {
        const vec bias = load_upto(s->bias + c + v * CF_LANES, n);
        UNROLL for (int u = 0; u < across; u++) sum[u][v] = bias;
    }
    const float *in = s->input + c;
    if (stride == 0) {
        for (int64_t y = 0; y < s->height; y++) {
            const float *at = in + y * s->row;
            for (int64_t x = 0; x < s->width; x++) {
                UNROLL for (int v = 0; v < vectors; v++) {
                    const vec w = load(weights + weight_offset(v, panel));
                    UNROLL for (int u = 0; u < across; u++) {
                        sum[u][v] += load_upto(at + u * s->step + v * CF_LANES, n) * w;
                    }
                }
                weights += CF_PANEL;
                at += s->pixel;
            }
        }
    } else {
        const int64_t pixel = s->pixel;
        UNROLL for (int y = 0; y < height; y++) {
            const float *at = in + y * s->row;
            UNROLL for (int i = 0; i < (across - 1) * stride + width; i++) {
                UNROLL for (int v = 0; v < vectors; v++) {
                    const vec value = load_upto(at + i * pixel + v * CF_LANES, n);
                    UNROLL for (int u = 0; u < across; u++) {
                        const int x = i - u * stride;
                        if (x < 0 || x >= width) continue;
                        sum[u][v] += value * load(weights + (y * width + x) * CF_PANEL + weight_offset(v, panel));
                    }
                }
            }
        }
    }
    if (s->residual != NULL) {
        UNROLL for (int u = 0; u < across; u++) {
            UNROLL for (int v = 0; v < vectors; v++) {
                sum[u][v] += load_upto(s->residual + c + u * s->residual_pixel + v * CF_LANES, n);
            }
        }
    }
    UNROLL for (int u = 0; u < across; u++) {
        UNROLL for (int v = 0; v < vectors; v++) {
            store_upto(s->output + c + u * s->output_pixel + v * CF_LANES, clamp(sum[u][v], s->low, s->high), n);
        }
    }
}

INLINE void strip_run(const int height, const int width, const int stride, const int across, const cf_strip *strip) {
    enum { STEP = 2 * CF_LANES };
    const cf_strip s = *strip; /* a copy that stores cannot change */
    const int64_t panel = (stride == 0 ? s.height * s.width : height * width) * CF_PANEL;
    int64_t c = 0;
    for (; c + STEP <= s.channels; c += STEP) {
        const float *weights = s.weights + c / CF_PANEL * panel + c % CF_PANEL;
        strip_vectors(height, width, stride, across, 2, &s, c, weights, panel, CF_LANES);
    }
    for (; c < s.channels; c += CF_LANES) {
        const float *weights = s.weights + c / CF_PANEL * panel + c % CF_PANEL;
        strip_vectors(height, width, stride, across, 1, &s, c, weights, panel, s.channels - c);
    }
}

#define STRIP(side, stride, across)                                                   \
    static void strip_##side##_##stride##_##across(const cf_strip *s) {               \
        strip_run(side, side, stride, across, s);                                     \
    }
#define STRIPS(side, stride)                                                          \
    STRIP(side, stride, 1) STRIP(side, stride, 2) STRIP(side, stride, 3) STRIP(side, stride, 4)
STRIPS(3, 1)
STRIPS(3, 2)
STRIPS(5, 1)
STRIPS(5, 2)
STRIPS(0, 0)
#define ENTRIES(side, stride)                                                         \
    { NULL, strip_##side##_##stride##_1, strip_##side##_##stride##_2,                 \
      strip_##side##_##stride##_3, strip_##side##_##stride##_4 }
typedef void (*cf_strip_function)(const cf_strip *s);
static const cf_strip_function strips[5][CF_ACROSS + 1] = {ENTRIES(3, 1), ENTRIES(3, 2), ENTRIES(5, 1),
                                                           ENTRIES(5, 2), ENTRIES(0, 0)};
#undef STRIP
#undef STRIPS
#undef ENTRIES

static const cf_strip_function *find_strips(const cf_layer *layer) {
    const int64_t side = layer->kernel[0], stride = layer->stride[1];
    const int fixed = layer->kernel[1] == side && layer->dilation[1] == 1 && stride <= 2 && (side == 3 || side == 5);
    return strips[fixed ? (side == 5) * 2 + (stride == 2) : 4];
}

static void depthwise_row(const cf_depthwise *d, const cf_strip_function *run, int64_t image, int64_t row,
                          int64_t channel, int64_t channels) {
    enum { SUMS_ROW = CF_CHUNK + CF_LANES };
    const cf_layer *layer = d->layer;
    const cf_layer_data *data = d->data;
    const cf_view *in = &layer->input;
    const int64_t taps = layer->kernel[0] * layer->kernel[1];
    const int simple = simple_epilogue(layer, data);
    cf_places places;
    _Alignas(64) float sums[CF_ACROSS * SUMS_ROW];
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
    /* All channels at once, or as many as the sums have room for. */
    const int64_t step = simple ? channels : CF_CHUNK;
    for (int64_t column = 0; column < layer->out[1];) {
        const int64_t across = min64(CF_ACROSS, layer->out[1] - column);
        for (int64_t u = 0; u < (simple ? 1 : across); u++) {
            place_output(&places, u, layer, data, image, row, column + u);
        }
        for (int64_t at = channel; at < channel + channels; at += step) {
            s.channels = min64(step, channel + channels - at);
            s.input = start + column * s.step + at;
            s.weights = data->weights + at * taps;
            s.bias = data->bias + at;
            s.output = simple ? places.output[0] + at : sums;
            s.residual = simple && data->residual != NULL ? places.residual[0] + at : NULL;
            run[across](&s);
            if (!simple) finish(layer, data, &places, 0, across, at, s.channels, sums, SUMS_ROW);
        }
        column += across;
    }
}

static void depthwise_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_depthwise *d = argument;
    const int64_t chunk = task % d->chunks, block = task / d->chunks % d->row_tasks;
    const int64_t image = task / d->chunks / d->row_tasks;
    const int64_t channel = chunk * d->chunk, channels = min64(d->chunk, d->layer->out_channels - channel);
    const int64_t end = min64(d->layer->out[0], (block + 1) * d->rows);
    const cf_strip_function *run = find_strips(d->layer);
    for (int64_t row = block * d->rows; row < end; row++) depthwise_row(d, run, image, row, channel, channels);
}

static void run_depthwise(cf_context *context, const cf_layer *layer, const cf_layer_data *data) {
    cf_depthwise d = {.layer = layer, .data = data};
    const int64_t channels = layer->out_channels, threads = cf_threads(context);
    /* The rows under the filter stay in the first-level cache, if the picture is narrow enough for that. */
    const int64_t width = (layer->out[1] - 1) * layer->stride[1] + (layer->kernel[1] - 1) * layer->dilation[1] + 1;
    const int64_t fit = CF_ROWS_BYTES / (4 * layer->kernel[0] * width);
    d.chunk = fit >= 32 ? max64(64, fit / 32 * 32) : channels;
    d.chunks = ceil_div(channels, d.chunk);
    d.rows = layer->out[0];
    if (threads > 1) d.rows = max64(1, d.rows / ceil_div(3 * threads, layer->batch * d.chunks));
    d.row_tasks = ceil_div(layer->out[0], d.rows);
    cf_parallel_for(context, layer->batch * d.row_tasks * d.chunks, depthwise_task, &d);
}

#endif
