/* The epilogue: from sums to stored values. Also the places of a block of pixels, and halos. */
#ifndef COLDFORGE_FINISH_H
#define COLDFORGE_FINISH_H

#include "fused/activation.h"

/* Pixels a task works through at a time. */
enum { CF_BLOCK = 192 };

/*
 * Threads for so many multiply-adds: another one costs a microsecond or two before it helps. `rate` is what a thread
 * does in a nanosecond, roughly.
 */
INLINE int64_t threads_for(cf_context *context, int64_t work, int64_t rate) {
    enum { WORTH_NS = 1500 };
    return work < WORTH_NS * rate ? 1 : (int64_t)cf_threads(context);
}

/* cf_parallel_for, or all tasks here if `threads` is 1. */
INLINE void run_tasks(cf_context *context, int64_t threads, int64_t tasks, cf_task run, void *argument) {
    if (threads > 1) {
        cf_parallel_for(context, tasks, run, argument);
    } else {
        for (int64_t task = 0; task < tasks; task++) run(argument, task, 0);
    }
}

/*
 * A group's tiles as tasks: so many blocks of at most `most` tiles one below the other, and so many shares of the tiles
 * side by side. At least three tasks a thread, as many for each: first by more, smaller blocks, then by channels.
 */
INLINE void divide(int64_t threads, int64_t groups, int64_t tiles_high, int64_t tiles_wide, int64_t most,
                   int64_t *blocks, int64_t *shares) {
    *blocks = ceil_div(tiles_high, most);
    *shares = 1;
    if (threads == 1) return;
    const int64_t wanted = 3 * threads;
    if (*blocks * groups < wanted) *blocks = max64(*blocks, min64(ceil_div(wanted, groups), tiles_high / 4));
    if (*blocks >= threads) *blocks = min64(ceil_div(*blocks, threads) * threads, tiles_high);
    *shares = min64(ceil_div(wanted, *blocks * groups), tiles_wide);
}

/* Where part `part` of `parts` of about equal size begins, of `count` things; part `parts` begins at their end. */
INLINE int64_t part_start(int64_t count, int64_t part, int64_t parts) { return part * count / parts; }

/* Rows of the next tile when `rest` remain: tiles of about equal height. */
INLINE int64_t tile_rows(int64_t rest, int64_t most) { return ceil_div(rest, ceil_div(rest, most)); }

/* How many tiles of that height follow each other. */
INLINE int64_t tiles_alike(int64_t rest, int64_t most) {
    const int64_t tiles = ceil_div(rest, most), taller = rest % tiles;
    return taller != 0 ? taller : tiles;
}

/* Where each of a block's pixels begins in every tensor; residual and second only if the layer has them. */
typedef struct {
    const float *input[CF_BLOCK];
    float *output[CF_BLOCK];
    const float *residual[CF_BLOCK];
    float *second[CF_BLOCK];
} cf_places;

/* The place of output pixel [image, row, column] as entry i. */
INLINE void place_output(cf_places *places, int64_t i, const cf_layer *layer, const cf_layer_data *data,
                         int64_t image, int64_t row, int64_t column) {
    const cf_view *o = &layer->output, *r = &layer->residual, *s = &layer->second;
    places->output[i] = data->output + o->first + image * o->image + row * o->row + column * o->pixel;
    if (data->residual != NULL) {
        places->residual[i] = data->residual + r->first + image * r->image + row * r->row + column * r->pixel;
    }
    if (data->second != NULL) {
        places->second[i] = data->second + s->first + image * s->image + row * s->row + column * s->pixel;
    }
}

/* Where pixels `pixel` ... pixel + count of the batch begin, and what their first taps read, from `channel` on. */
static void place_pixels(cf_places *places, const cf_layer *layer, const cf_layer_data *data, int64_t pixel,
                         int64_t count, int64_t channel) {
    const cf_view *in = &layer->input;
    int64_t column = pixel % layer->out[1], row = pixel / layer->out[1];
    int64_t image = row / layer->out[0];
    row %= layer->out[0];
    const float *origin = data->input + in->first + channel - layer->padding[0] * in->row -
                          layer->padding[1] * in->pixel;
    const int64_t step = layer->stride[1] * in->pixel;
    for (int64_t i = 0; i < count;) {
        /* A run within one row. */
        const int64_t run = min64(count - i, layer->out[1] - column);
        const float *from = origin + image * in->image + row * layer->stride[0] * in->row + column * step;
        place_output(places, i, layer, data, image, row, column);
        for (int64_t r = 0; r < run; r++) {
            places->input[i + r] = from + r * step;
            places->output[i + r] = places->output[i] + r * layer->output.pixel;
        }
        if (data->residual != NULL) {
            for (int64_t r = 1; r < run; r++) places->residual[i + r] = places->residual[i] + r * layer->residual.pixel;
        }
        if (data->second != NULL) {
            for (int64_t r = 1; r < run; r++) places->second[i + r] = places->second[i] + r * layer->second.pixel;
        }
        i += run;
        column = 0;
        if (++row == layer->out[0]) {
            row = 0;
            image++;
        }
    }
}

/* sums += residual * residual_scale. */
static void add_residual(const cf_layer_data *data, const cf_places *places, int64_t at, int64_t count,
                         int64_t channel, int64_t channels, float *sums, int64_t sums_row) {
    for (int64_t i = 0; i < count; i++) {
        const float *residual = places->residual[at + i] + channel;
        float *own = sums + i * sums_row;
        for (int64_t j = 0; j < channels; j += CF_LANES) {
            const int64_t n = channels - j;
            vec r = load_upto(residual + j, n);
            if (data->residual_scale != NULL) r *= load_upto(data->residual_scale + channel + j, n);
            store(own + j, load(own + j) + r);
        }
    }
}

/* From sums to the output. As little as can be in the loop: an activation is one long chain of operations, and the
 * next vector's must come into reach. */
INLINE void activate_pixels(cf_activation kind, float *const *outputs, int64_t count, int64_t channel,
                            int64_t channels, const float *sums, int64_t sums_row, vec low, vec high) {
    for (int64_t i = 0; i < count; i++) {
        float *output = outputs[i] + channel;
        int64_t j = 0;
        for (; j + CF_LANES <= channels; j += CF_LANES) store(output + j, activate(kind, load(sums + j), low, high));
        if (j < channels) store_some(output + j, activate(kind, load(sums + j), low, high), channels - j);
        sums += sums_row;
    }
}

/* The second output, of what was stored in the first. */
static void store_second(const cf_layer *layer, const cf_layer_data *data, const cf_places *places, int64_t at,
                         int64_t count, int64_t channel, int64_t channels) {
    const vec low = splat(layer->second_low), high = splat(layer->second_high);
    for (int64_t j = 0; j < channels; j += CF_LANES) {
        const int64_t n = channels - j;
        const vec scale = load_upto(data->second_scale + channel + j, n);
        const vec shift = load_upto(data->second_shift + channel + j, n);
        for (int64_t i = at; i < at + count; i++) {
            const vec v = load_upto(places->output[i] + channel + j, n);
            store_upto(places->second[i] + channel + j, clamp(v * scale + shift, low, high), n);
        }
    }
}

/*
 * Store `channels` channels from `channel` on for pixels at ... at + count: sums has sums_row floats a pixel,
 * readable and writable to a whole vector, and the bias in it. What is in sums afterwards is of no use.
 */
static __attribute__((noinline)) void finish(const cf_layer *layer, const cf_layer_data *data,
                                             const cf_places *places, int64_t at, int64_t count,
                                             int64_t channel, int64_t channels, float *sums, int64_t sums_row) {
    const vec low = splat(layer->low), high = splat(layer->high);
    if (data->residual != NULL) add_residual(data, places, at, count, channel, channels, sums, sums_row);
#define CASE(kind)                                                                                            \
    case kind:                                                                                                \
        activate_pixels(kind, places->output + at, count, channel, channels, sums, sums_row, low, high);      \
        break;
    switch (layer->activation) {
        CASE(CF_CLAMP)
        CASE(CF_SIGMOID)
        CASE(CF_SWISH)
        CASE(CF_HARD_SIGMOID)
        CASE(CF_HARD_SWISH)
        CASE(CF_GELU)
        CASE(CF_GELU_TANH)
        CASE(CF_TANH)
        CASE(CF_ELU)
    }
#undef CASE
    if (data->second != NULL) store_second(layer, data, places, at, count, channel, channels);
}

/* Whether sums can go to the output from registers. */
INLINE int simple_epilogue(const cf_layer *layer, const cf_layer_data *data) {
    return layer->activation == CF_CLAMP && data->second == NULL && data->residual_scale == NULL;
}

/* `count` pixels of zeros; only the channels of a pixel that lies apart from its neighbours are touched. */
static void zero_pixels(float *at, int64_t count, int64_t pixel, int64_t channels) {
    if (count <= 0) return;
    if (pixel == channels) {
        memset(at, 0, (size_t)(count * channels) * sizeof(float));
    } else {
        for (int64_t i = 0; i < count; i++) memset(at + i * pixel, 0, (size_t)channels * sizeof(float));
    }
}

/* Write the zeros around every picture of a tensor. */
static void zero_halo(float *buffer, const cf_view *view, const cf_halo *halo, int64_t batch, int64_t rows,
                      int64_t columns, int64_t channels) {
    if ((halo->top | halo->left | halo->bottom | halo->right) == 0) return;
    const int64_t width = halo->left + columns + halo->right;
    for (int64_t image = 0; image < batch; image++) {
        float *start = buffer + view->first + image * view->image - halo->left * view->pixel;
        for (int64_t row = -halo->top; row < rows + halo->bottom; row++) {
            float *at = start + row * view->row;
            if (row < 0 || row >= rows) {
                zero_pixels(at, width, view->pixel, channels);
            } else {
                zero_pixels(at, halo->left, view->pixel, channels);
                zero_pixels(at + (halo->left + columns) * view->pixel, halo->right, view->pixel, channels);
            }
        }
    }
}

/* Of all that a layer writes. */
static void zero_halos(const cf_layer *layer, const cf_layer_data *data) {
    zero_halo(data->output, &layer->output, &layer->halo, layer->batch, layer->out[0], layer->out[1],
              layer->out_channels);
    if (data->second != NULL) {
        zero_halo(data->second, &layer->second, &layer->second_halo, layer->batch, layer->out[0],
                  layer->out[1], layer->out_channels);
    }
}

#endif
