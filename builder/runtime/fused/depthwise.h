/*
 * One filter for every channel. A task takes some rows of the output; the innermost loop runs over the
 * channels, which lie side by side, for up to four pixels of a row at once: their windows overlap.
 */
#ifndef COLDFORGE_DEPTHWISE_H
#define COLDFORGE_DEPTHWISE_H

#include "finish.h"

enum { CF_ACROSS = 4, CF_CHUNK = 256 /* channels that sums are kept for */ };

typedef struct {
    const cf_layer *layer;
    const cf_layer_data *data;
    int64_t padded;            /* floats between the filters of two taps */
    int64_t rows, row_tasks;   /* output rows of a task; tasks for a picture */
    int64_t chunk, chunks;     /* channels of a task */
} cf_depthwise;

/* Where the sums of up to CF_ACROSS adjacent pixels come from and go to. */
typedef struct {
    const float *input, *weights, *bias;
    int64_t row, pixel, step;  /* floats between taps down and across, and between output pixels */
    int64_t padded, channels;
    float *output[CF_ACROSS];
    const float *residual[CF_ACROSS]; /* NULL for none */
    vec low, high;
} cf_strip;

INLINE void strip_store(const cf_strip *s, int u, int64_t c, int64_t n, vec v) {
    if (s->residual[u] != NULL) v += load_upto(s->residual[u] + c, n);
    store_upto(s->output[u] + c, clamp(v, s->low, s->high), n);
}

/* A constant filter and stride: every input is loaded once for all pixels whose windows it is in. */
INLINE void strip_fixed(const int height, const int width, const int stride, const int across,
                        const cf_strip *s) {
    for (int64_t c = 0; c < s->channels; c += CF_LANES) {
        const int64_t n = s->channels - c;
        vec sum[CF_ACROSS];
        const vec bias = load_upto(s->bias + c, n);
        UNROLL for (int u = 0; u < across; u++) sum[u] = bias;
        UNROLL for (int y = 0; y < height; y++) {
            vec w[8];
            UNROLL for (int x = 0; x < width; x++) w[x] = load(s->weights + (y * width + x) * s->padded + c);
            const float *in = s->input + y * s->row + c;
            UNROLL for (int i = 0; i < (across - 1) * stride + width; i++) {
                const vec v = load_upto(in + i * s->pixel, n);
                UNROLL for (int u = 0; u < across; u++) {
                    const int x = i - u * stride;
                    if (x >= 0 && x < width) sum[u] += v * w[x];
                }
            }
        }
        UNROLL for (int u = 0; u < across; u++) strip_store(s, u, c, n, sum[u]);
    }
}

INLINE void strip_any(int64_t height, int64_t width, const int across, const cf_strip *s) {
    for (int64_t c = 0; c < s->channels; c += CF_LANES) {
        const int64_t n = s->channels - c;
        vec sum[CF_ACROSS];
        const vec bias = load_upto(s->bias + c, n);
        UNROLL for (int u = 0; u < across; u++) sum[u] = bias;
        const float *weights = s->weights + c;
        for (int64_t y = 0; y < height; y++) {
            const float *in = s->input + y * s->row + c;
            for (int64_t x = 0; x < width; x++) {
                const vec w = load(weights);
                UNROLL for (int u = 0; u < across; u++) sum[u] += load_upto(in + u * s->step, n) * w;
                weights += s->padded;
                in += s->pixel;
            }
        }
        UNROLL for (int u = 0; u < across; u++) strip_store(s, u, c, n, sum[u]);
    }
}

#define STRIP_FIXED(side, stride, across)                                             \
    static void strip_##side##_##stride##_##across(const cf_strip *s) {               \
        strip_fixed(side, side, stride, across, s);                                   \
    }
#define STRIPS(side, stride)                                                          \
    STRIP_FIXED(side, stride, 1) STRIP_FIXED(side, stride, 2)                         \
    STRIP_FIXED(side, stride, 3) STRIP_FIXED(side, stride, 4)
STRIPS(3, 1)
STRIPS(3, 2)
STRIPS(5, 1)
STRIPS(5, 2)
#define ENTRIES(side, stride)                                                         \
    { NULL, strip_##side##_##stride##_1, strip_##side##_##stride##_2,                 \
      strip_##side##_##stride##_3, strip_##side##_##stride##_4 }
typedef void (*cf_strip_function)(const cf_strip *s);
static const cf_strip_function strips[4][CF_ACROSS + 1] = {ENTRIES(3, 1), ENTRIES(3, 2), ENTRIES(5, 1),
                                                           ENTRIES(5, 2)};
#undef STRIP_FIXED
#undef STRIPS
#undef ENTRIES

static void strip_generic(const cf_layer *layer, int64_t across, const cf_strip *s) {
    const int64_t height = layer->kernel[0], width = layer->kernel[1];
    switch (across) {
    case 1: strip_any(height, width, 1, s); break;
    case 2: strip_any(height, width, 2, s); break;
    case 3: strip_any(height, width, 3, s); break;
    case 4: strip_any(height, width, 4, s); break;
    }
}

/* The specialised functions for this layer, or NULL. */
static const cf_strip_function *find_strips(const cf_layer *layer) {
    const int64_t side = layer->kernel[0], stride = layer->stride[1];
    if (layer->kernel[1] != side || layer->dilation[1] != 1 || stride > 2) return NULL;
    if (side != 3 && side != 5) return NULL;
    return strips[(side == 5) * 2 + (stride == 2)];
}

static void depthwise_row(const cf_depthwise *d, const cf_strip_function *fixed, int64_t image, int64_t row,
                          int64_t channel, int64_t channels) {
    const cf_layer *layer = d->layer;
    const cf_view *in = &layer->input;
    const int simple = simple_epilogue(layer, d->data);
    cf_places places;
    _Alignas(64) float sums[CF_ACROSS * (CF_CHUNK + CF_LANES)];
    cf_strip s = {.row = layer->dilation[0] * in->row, .pixel = layer->dilation[1] * in->pixel};
    s.step = layer->stride[1] * in->pixel;
    s.padded = d->padded;
    s.low = splat(simple ? layer->low : -__builtin_inff());
    s.high = splat(simple ? layer->high : __builtin_inff());
    const float *start = d->data->input + in->first + image * in->image +
                         (row * layer->stride[0] - layer->padding[0]) * in->row - layer->padding[1] * in->pixel;
    for (int64_t column = 0; column < layer->out[1];) {
        const int64_t across = min64(CF_ACROSS, layer->out[1] - column);
        for (int64_t u = 0; u < across; u++) place_output(&places, u, layer, d->data, image, row, column + u);
        /* All channels at once, or as many as the sums have room for. */
        for (int64_t c = 0; c < channels; c += simple ? channels : CF_CHUNK) {
            const int64_t at = channel + c;
            s.channels = simple ? channels : min64(CF_CHUNK, channels - c);
            s.input = start + column * s.step + at;
            s.weights = d->data->weights + at;
            s.bias = d->data->bias + at;
            for (int64_t u = 0; u < across; u++) {
                s.output[u] = simple ? places.output[u] + at : sums + u * (CF_CHUNK + CF_LANES);
                s.residual[u] = simple && d->data->residual != NULL ? places.residual[u] + at : NULL;
            }
            if (fixed != NULL) {
                fixed[across](&s);
            } else {
                strip_generic(layer, across, &s);
            }
            if (!simple) finish(layer, d->data, &places, 0, across, at, s.channels, sums, CF_CHUNK + CF_LANES);
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
    const cf_strip_function *fixed = find_strips(d->layer);
    for (int64_t row = block * d->rows; row < end; row++) depthwise_row(d, fixed, image, row, channel, channels);
}

static void run_depthwise(cf_context *context, const cf_layer *layer, const cf_layer_data *data) {
    cf_depthwise d = {.layer = layer, .data = data};
    const int64_t channels = layer->out_channels, threads = cf_threads(context);
    d.padded = ceil_div(channels, CF_PANEL) * CF_PANEL;
    d.chunk = channels;
#ifdef CF_DW_CHUNK
    d.chunk = CF_DW_CHUNK;
#endif
    d.rows = layer->out[0];
    if (threads > 1) {
        const int64_t wanted = ceil_div(3 * threads, layer->batch);
        d.rows = max64(1, layer->out[0] / wanted);
    }
    d.row_tasks = ceil_div(layer->out[0], d.rows);
    d.chunks = ceil_div(channels, d.chunk);
    cf_parallel_for(context, layer->batch * d.row_tasks * d.chunks, depthwise_task, &d);
}

#endif
