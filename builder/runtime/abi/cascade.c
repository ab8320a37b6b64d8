/*
 * A cascade: layers that follow one another run a stripe of rows at a time, so that what one leaves for the next is
 * still in the second-level cache. Between two layers is a rolling buffer. It has the rows that the next layer's stripe
 * reads; those that are read again move to its beginning before further ones are made. Stripes, cascades and rolling
 * buffers are those of Arm's Vela compiler (ethos-u-vela, SCHEDULER.md).
 *
 * With several threads each has a share of the last layer's rows, and buffers of its own: threads wait for each other
 * once, and not once for each layer. Who has computed his share takes half of what another has left: two of a cloud's
 * processors are seldom equally fast. Rows that two shares need are computed twice.
 */
#include "abi/program.h"

#include <string.h>

enum {
    MOST_LAYERS = 16, /* MOST_LAYERS in builder/compiler/lower/cascade.py */
    LEAST_STRIPES = 3 /* of a thread, where there are several: nobody can take what has begun */
};

/* A share: the rows that nobody has claimed, end << 32 | begin, of all images one after another. */
typedef struct {
    _Alignas(64) uint64_t left;
} row_share;

typedef struct {
    const cf_cascade *cascade;
    const cf_layer_data *data;
    cf_context context; /* the caller's, for one thread */
    int64_t count, rows; /* shares, and rows of a stripe at most */
    row_share shares[CF_MAX_THREADS];
} cascade_run;

static uint64_t row_range(int64_t begin, int64_t end) { return (uint64_t)end << 32 | (uint64_t)begin; }
static int64_t range_begin(uint64_t range) { return (int64_t)(range & UINT32_MAX); }
static int64_t range_end(uint64_t range) { return (int64_t)(range >> 32); }

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

/* Begin anew at a row of the last layer's output. */
static void begin_at(const cf_cascade *cascade, int64_t row, stripe *s) {
    const int64_t last = cascade->count - 1;
    s->begin[last] = row;
    for (int64_t i = last; i > 0; i--) {
        s->base[i - 1] = first_read(&cascade->layers[i], s->begin[i]);
        s->begin[i - 1] = most(0, s->base[i - 1]);
    }
}

/* Compute the next `rows` rows of an image. */
static void run_stripe(cascade_run *run, int64_t image, int64_t rows, uint32_t thread, stripe *s) {
    const cf_cascade *cascade = run->cascade;
    const cf_layer *layers = cascade->layers;
    const int64_t last = cascade->count - 1;
    s->end[last] = s->begin[last] + rows;
    for (int64_t i = last; i > 0; i--) {
        const int64_t reach = (layers[i].kernel[0] - 1) * layers[i].dilation[0] + 1;
        const int64_t needed = first_read(&layers[i], s->end[i] - 1) + reach;
        s->end[i - 1] = most(s->begin[i - 1], least(needed, layers[i - 1].out[0]));
    }
    for (int64_t i = 0; i <= last; i++) {
        if (cascade->step != NULL && thread == 0) cascade->step(&run->context, cascade->first_step + (uint32_t)i);
        if (i < last) roll(run, i, thread, s);
        if (s->begin[i] < s->end[i]) run_rows(run, i, image, thread, s);
        s->begin[i] = most(s->begin[i], s->end[i]);
    }
}

/* Claim the next stripe of a share, which has rows of one image: its range, which is empty if nothing is left. */
static uint64_t claim_stripe(cascade_run *run, row_share *share) {
    const int64_t height = run->cascade->layers[run->cascade->count - 1].out[0];
    uint64_t left = __atomic_load_n(&share->left, __ATOMIC_ACQUIRE);
    for (;;) {
        const int64_t begin = range_begin(left), end = range_end(left);
        const int64_t rows = least(least(run->rows, end - begin), height - begin % height);
        if (rows == 0 || __atomic_compare_exchange_n(&share->left, &left, row_range(begin + rows, end), 1,
                                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            return row_range(begin, begin + rows);
        }
    }
}

/* Make the second half of the largest share that is left one's own. Returns 0 if none is worth it. */
static int take_half(cascade_run *run, row_share *own) {
    enum { WORTH_ROWS = 2 };
    for (;;) {
        row_share *largest = NULL;
        uint64_t left = 0;
        for (int64_t i = 0; i < run->count; i++) {
            const uint64_t range = __atomic_load_n(&run->shares[i].left, __ATOMIC_ACQUIRE);
            if (range_end(range) - range_begin(range) <= range_end(left) - range_begin(left)) continue;
            largest = &run->shares[i];
            left = range;
        }
        const int64_t begin = range_begin(left), end = range_end(left), middle = end - (end - begin) / 2;
        if (end - begin < WORTH_ROWS) return 0;
        if (__atomic_compare_exchange_n(&largest->left, &left, row_range(begin, middle), 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            __atomic_store_n(&own->left, row_range(middle, end), __ATOMIC_RELEASE);
            return 1;
        }
    }
}

static void cascade_task(void *argument, int64_t task, uint32_t thread) {
    cascade_run *run = argument;
    const int64_t height = run->cascade->layers[run->cascade->count - 1].out[0];
    row_share *own = &run->shares[task];
    int64_t next = -1; /* the row behind the last stripe */
    stripe s;
    do {
        for (;;) {
            const uint64_t range = claim_stripe(run, own);
            const int64_t begin = range_begin(range), end = range_end(range);
            if (begin == end) break;
            if (begin != next || begin % height == 0) begin_at(run->cascade, begin % height, &s);
            run_stripe(run, begin / height, end - begin, thread, &s);
            next = end;
        }
    } while (take_half(run, own));
}

void cf_run_cascade(cf_context *context, const cf_cascade *cascade, const cf_layer_data *data) {
    const cf_layer *last = &cascade->layers[cascade->count - 1];
    const int64_t rows = last->batch * last->out[0];
    cascade_run run = {.cascade = cascade, .data = data, .context = *context};
    run.context.pool = NULL;
    run.count = least(cf_threads(context), rows);
    const int64_t third = (rows / run.count + LEAST_STRIPES - 1) / LEAST_STRIPES;
    run.rows = run.count == 1 ? cascade->rows : least(cascade->rows, third);
    for (int64_t i = 0; i < run.count; i++) {
        run.shares[i].left = row_range(i * rows / run.count, (i + 1) * rows / run.count);
    }
    cf_parallel_for(context, run.count, cascade_task, &run);
}
