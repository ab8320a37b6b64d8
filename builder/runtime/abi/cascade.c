/*
 * A cascade: layers that follow one another run a stripe of rows at a time, so that what one leaves for the next is
 * still in the second-level cache. Between two layers is a rolling buffer. It has the rows that the next layer's stripe
 * reads; those that are read again move to its beginning before further ones are made. Stripes, cascades and rolling
 * buffers are those of Arm's Vela compiler (ethos-u-vela, SCHEDULER.md).
 *
 * With several threads each has a share of the last layer's rows, and buffers of its own: threads wait for each other
 * once, and not once for each layer. Rows that two shares need are computed twice.
 */
#include "abi/program.h"

#include <string.h>

enum { MOST_LAYERS = 16 }; /* MOST_LAYERS in builder/lower/cascade.py */

typedef struct {
    const cf_cascade *cascade;
    const cf_layer_data *data;
    cf_context context; /* the caller's, for one thread */
    int64_t shares;     /* of a picture */
} cascade_run;

/* Of each layer: rows `begin` to `end` of its output are the stripe's. Its rolling buffer begins with row `base`. */
typedef struct {
    int64_t begin[MOST_LAYERS], end[MOST_LAYERS], base[MOST_LAYERS];
} stripe;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* The first row that `layer` reads for row `row` of its output; above the picture are those of its padding. */
static int64_t first_read(const cf_layer *layer, int64_t row) { return row * layer->stride[0] - layer->padding[0]; }

/* Zeros around rows `begin` to `end` of `height`: at most `above` rows of them above. */
static cf_halo halo_of_rows(cf_halo halo, int64_t begin, int64_t end, int64_t height, int64_t above) {
    halo.top = begin > 0 ? 0 : least(halo.top, above);
    if (end < height) halo.bottom = 0;
    return halo;
}

/* The rolling buffer behind a layer: its view, the rows of zeros above and below, and where it begins for a thread. */
typedef struct {
    cf_view view;
    int64_t top, bottom, row_bytes;
    char *start;
} rolling;

static rolling rolling_behind(const cascade_run *run, int64_t i, uint32_t thread) {
    const cf_layer *layer = &run->cascade->layers[i];
    const cf_layer_data *data = &run->data[i];
    const size_t offset = thread * run->cascade->rolling[i];
    if (data->output != NULL) {
        return (rolling){layer->output, layer->halo.top, layer->halo.bottom,
                         layer->output.row * (int64_t)sizeof(float), (char *)data->output + offset};
    }
    return (rolling){layer->rounded, layer->rounded_halo.top, layer->rounded_halo.bottom, layer->rounded.row,
                     (char *)data->rounded + offset};
}

/* The offset of row 0 in a rolling buffer that begins with row `base`; it may lie before the buffer. */
static int64_t first_of_rolling(const rolling *buffer, int64_t base) {
    return buffer->view.first - (buffer->top + base) * buffer->view.row;
}

/* Make room behind layer i: its rolling buffer then begins with the first row that the next stripe reads. */
static void roll(const cascade_run *run, int64_t i, uint32_t thread, stripe *s) {
    const cf_layer *layers = run->cascade->layers;
    const int64_t base = first_read(&layers[i + 1], s->begin[i + 1]), moved = base - s->base[i];
    const rolling buffer = rolling_behind(run, i, thread);
    int64_t kept = s->begin[i] - base;
    if (s->begin[i] == layers[i].out[0]) kept += buffer.bottom; /* which was written with the last row */
    if (moved > 0 && kept > 0) {
        memmove(buffer.start, buffer.start + moved * buffer.row_bytes, (size_t)(kept * buffer.row_bytes));
    }
    s->base[i] = base;
    s->begin[i] = most(s->begin[i], base); /* strides may leave rows out */
}

/* Run layer i for its rows of the stripe. */
static void run_rows(cascade_run *run, int64_t i, int64_t image, uint32_t thread, const stripe *s) {
    const cf_cascade *cascade = run->cascade;
    const int64_t begin = s->begin[i], end = s->end[i], height = cascade->layers[i].out[0];
    const int last = i + 1 == cascade->count;
    cf_layer layer = cascade->layers[i];
    cf_layer_data data = run->data[i];
    if (i > 0) {
        const rolling buffer = rolling_behind(run, i - 1, thread);
        data.input = (const float *)(void *)buffer.start;
        layer.input.first = first_of_rolling(&buffer, s->base[i - 1]);
    } else {
        layer.input.first += image * layer.input.image;
    }
    layer.input.first += begin * layer.stride[0] * layer.input.row;
    if (last) {
        layer.output.first += image * layer.output.image + begin * layer.output.row;
        layer.rounded.first += image * layer.rounded.image + begin * layer.rounded.row;
        layer.second.first += image * layer.second.image + begin * layer.second.row;
    } else {
        const rolling buffer = rolling_behind(run, i, thread);
        const int64_t first = first_of_rolling(&buffer, s->base[i]) + begin * buffer.view.row;
        if (data.output != NULL) {
            data.output = (float *)(void *)buffer.start;
            layer.output.first = first;
        } else {
            data.rounded = (int8_t *)buffer.start;
            layer.rounded.first = first;
        }
    }
    layer.residual.first += image * layer.residual.image + begin * layer.residual.row;
    if (cascade->scratch != NULL) data.scratch += thread * cascade->scratch[i] / sizeof(float);
    const int64_t above = last ? INT64_MAX : begin - s->base[i]; /* rows of zeros that there is room for */
    layer.halo = halo_of_rows(layer.halo, begin, end, height, above);
    layer.second_halo = halo_of_rows(layer.second_halo, begin, end, height, above);
    layer.rounded_halo = halo_of_rows(layer.rounded_halo, begin, end, height, above);
    layer.batch = 1;
    layer.out[0] = end - begin;
    const int integer = layer.algorithm == CF_INTEGER;
    (integer ? run->context.integer : run->context.fused->layer)(&run->context, &layer, &data);
}

static void cascade_task(void *argument, int64_t task, uint32_t thread) {
    cascade_run *run = argument;
    const cf_cascade *cascade = run->cascade;
    const cf_layer *layers = cascade->layers;
    const int64_t last = cascade->count - 1, height = layers[last].out[0];
    const int64_t image = task / run->shares, share = task % run->shares;
    const int64_t end = (share + 1) * height / run->shares;
    stripe s;
    s.begin[last] = share * height / run->shares;
    for (int64_t i = last; i > 0; i--) {
        s.base[i - 1] = first_read(&layers[i], s.begin[i]);
        s.begin[i - 1] = most(0, s.base[i - 1]);
    }
    while (s.begin[last] < end) {
        s.end[last] = least(s.begin[last] + cascade->rows, end);
        for (int64_t i = last; i > 0; i--) {
            const int64_t reach = (layers[i].kernel[0] - 1) * layers[i].dilation[0] + 1;
            const int64_t needed = first_read(&layers[i], s.end[i] - 1) + reach;
            s.end[i - 1] = most(s.begin[i - 1], least(needed, layers[i - 1].out[0]));
        }
        for (int64_t i = 0; i <= last; i++) {
            if (cascade->step != NULL && thread == 0) cascade->step(&run->context, cascade->first_step + (uint32_t)i);
            if (i < last) roll(run, i, thread, &s);
            if (s.begin[i] < s.end[i]) run_rows(run, i, image, thread, &s);
            s.begin[i] = most(s.begin[i], s.end[i]);
        }
    }
}

void cf_run_cascade(cf_context *context, const cf_cascade *cascade, const cf_layer_data *data) {
    const int64_t threads = cf_threads(context), batch = cascade->layers[0].batch;
    cascade_run run = {cascade, data, *context, batch % threads == 0 ? 1 : threads};
    run.context.pool = NULL;
    cf_parallel_for(context, batch * run.shares, cascade_task, &run);
}
