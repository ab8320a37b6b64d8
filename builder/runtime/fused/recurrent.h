/*
 * A whole recurrent layer, LSTM or GRU: for each step one product of the state, and the cells' gates. What is multiplied
 * with the inputs was computed for all steps at once, by a layer before. Several rows of states are divided among the
 * threads, each of which does all steps of its own.
 *
 * With one row of states, reading the weights is all the work. They are packed so that all gates of 16 units lie
 * together. Their sums stay in registers, and the next weights are read while the gates are computed. Every other step
 * begins at the end, where the last one left weights in the first-level cache.
 *
 * Where states are rounded to bytes, integer GEMM multiplies them, a step at a time, also for one row.
 */
#ifndef COLDFORGE_RECURRENT_H
#define COLDFORGE_RECURRENT_H

#include "abi/program.h"
#include "fused/activation.h"
#include "fused/direct.h"

enum { CF_UNIT_VECTORS = CF_PANEL / CF_LANES };

/* One step, as tasks see it. */
typedef struct {
    const cf_recurrent *recurrent;
    const float *input; /* [batch][gates * units], of this step */
    const float *weights, *bias;
    const float *before; /* the states [batch][units] */
    float *after, *cell, *output;
    int64_t blocks, tasks;
    int backwards; /* the blocks of a task */
} cf_recurrent_task;

/* Of one vector of units. gate: i, f, g and o. cell = f cell + i g and hidden = o tanh(cell). */
INLINE vec lstm_cell(const vec *gate, float *cell, int64_t n) {
    const vec kept = load_upto(cell, n) / (splat(1.0f) + exp_vec(-gate[1]));
    const vec after = kept + sigmoid_tanh_vec(gate[0], gate[2]);
    store_upto(cell, after, n);
    return sigmoid_tanh_vec(gate[3], after);
}

/* gate: z and r, and what the input and the state give for h. hidden = z hidden + (1 - z) tanh(x_h + r sum_h). */
INLINE vec gru_cell(const vec *gate, const float *hidden, int64_t n) {
    const vec h = tanh_vec(gate[2] + sigmoid_vec(gate[1]) * gate[3]);
    return h + sigmoid_vec(gate[0]) * (load_upto(hidden, n) - h);
}

/* The states of n units, at most a vector of them, from number `unit` of a row's on. `sum` of each gate has its bias. */
INLINE void update_cells(const cf_recurrent_task *t, int64_t row, int64_t unit, int64_t n, const vec *sum) {
    const int64_t units = t->recurrent->units, at = row * units + unit;
    const float *x = t->input + row * t->recurrent->product.out_channels + unit;
    vec gate[4], hidden;
    if (t->recurrent->kind == CF_LSTM) {
        UNROLL for (int g = 0; g < 4; g++) gate[g] = load_upto(x + g * units, n) + sum[g];
        hidden = lstm_cell(gate, t->cell + at, n);
    } else {
        UNROLL for (int g = 0; g < 2; g++) gate[g] = load_upto(x + g * units, n) + sum[g];
        gate[2] = load_upto(x + 2 * units, n);
        gate[3] = sum[2];
        hidden = gru_cell(gate, t->before + at, n);
    }
    store_upto(t->after + at, hidden, n);
    if (t->output != NULL) store_upto(t->output + at, hidden, n);
}

typedef struct {
    cf_context *context;
    const cf_recurrent *recurrent;
    const cf_recurrent_data *data;
    int64_t tasks;
} cf_recurrent_rows;

/* Whether the state is rounded to bytes before it is multiplied. */
INLINE int is_rounded(const cf_recurrent *r) { return CF_HAS_INTEGER && r->product.algorithm == CF_INTEGER; }

/* Every step of some rows: those of other rows are not needed for them. */
static void rows_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_recurrent_rows *rows = argument;
    const cf_recurrent *r = rows->recurrent;
    const cf_recurrent_data *data = rows->data;
    const int64_t first = part_start(r->batch, task, rows->tasks), end = part_start(r->batch, task + 1, rows->tasks);
    const int64_t columns = r->product.out_channels, units = r->units, gates = columns / units;
    cf_layer product = r->product;
    product.out[1] = end - first;
    cf_context alone = *rows->context;
    alone.pool = NULL; /* one task of several has no threads of its own */
    cf_context *context = rows->tasks > 1 ? &alone : rows->context;
    cf_layer_data layer = {.input = data->hidden + first * units,
                           .weights = data->weights,
                           .bias = data->bias,
                           .output = data->scratch + first * columns,
                           .weight_sums = data->weight_sums,
                           .weight_scale = data->weight_scale};
    if (is_rounded(r)) layer.scratch = data->scratch + r->batch * columns + task * r->product_scratch;
    cf_recurrent_task t = {.recurrent = r, .before = data->hidden, .after = data->hidden, .cell = data->cell};
    for (int64_t step = 0; step < r->steps; step++) {
        t.input = data->input + (r->backwards ? r->steps - 1 - step : step) * r->batch * columns;
        t.output = data->output != NULL ? data->output + step * r->output_step : NULL;
        if (is_rounded(r)) {
            context->integer(context, &product, &layer);
        } else {
            cf_halos none = {.count = 0};
            run_direct(context, &product, &layer, &none);
        }
        for (int64_t row = first; row < end; row++) {
            const float *sums = data->scratch + row * columns;
            for (int64_t u = 0; u < units; u += CF_LANES) {
                vec sum[4] = {zero(), zero(), zero(), zero()};
                for (int64_t g = 0; g < gates; g++) sum[g] = load_upto(sums + g * units + u, units - u);
                update_cells(&t, row, u, units - u, sum);
            }
        }
    }
}

/* With few rows the threads share each step's product, whose sums would be added in another order in smaller parts. */
static void run_rows(cf_context *context, const cf_recurrent *r, const cf_recurrent_data *data) {
    const int64_t threads = min64(cf_threads(context), r->batch / (CF_GEMV_PIXELS + 1));
    cf_recurrent_rows rows = {context, r, data, max64(threads, 1)};
    run_tasks(context, threads, rows.tasks, rows_task, &rows);
}

/* 16 units of the only row, from number `unit` on. Sums are kept in two parts, which hide the latency of additions. */
INLINE void update_units(const int gates, const cf_recurrent_task *t, int64_t unit) {
    enum { CHAINS = CF_UNIT_VECTORS == 1 ? 2 : 1 };
    const int64_t units = t->recurrent->units;
    const float *w = t->weights + unit * units * gates;
    vec sum[CHAINS][4][CF_UNIT_VECTORS];
    UNROLL for (int c = 0; c < CHAINS; c++) {
        UNROLL for (int g = 0; g < gates; g++) {
            UNROLL for (int v = 0; v < CF_UNIT_VECTORS; v++) sum[c][g][v] = zero();
        }
    }
    int64_t k = 0;
    for (; k + CHAINS <= units; k += CHAINS) {
        UNROLL for (int c = 0; c < CHAINS; c++) {
            const vec h = splat(t->before[k + c]);
            UNROLL for (int g = 0; g < gates; g++) {
                UNROLL for (int v = 0; v < CF_UNIT_VECTORS; v++) {
                    sum[c][g][v] += h * load(w + (c * gates + g) * CF_PANEL + v * CF_LANES);
                }
            }
        }
        w += CHAINS * gates * CF_PANEL;
    }
    if (k < units) { /* an odd number, and two chains */
        const vec h = splat(t->before[k]);
        UNROLL for (int g = 0; g < gates; g++) sum[0][g][0] += h * load(w + g * CF_PANEL);
    }
    UNROLL for (int v = 0; v < CF_UNIT_VECTORS; v++) {
        const int64_t at = unit + v * CF_LANES, n = units - at;
        if (n <= 0) break;
        vec total[4] = {zero(), zero(), zero(), zero()};
        UNROLL for (int g = 0; g < gates; g++) {
            total[g] = sum[0][g][v] + load_upto(t->bias + g * units + at, n);
            UNROLL for (int c = 1; c < CHAINS; c++) total[g] += sum[c][g][v];
        }
        update_cells(t, 0, at, n, total);
    }
}

static void units_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_recurrent_task *t = argument;
    const int64_t begin = part_start(t->blocks, task, t->tasks), end = part_start(t->blocks, task + 1, t->tasks);
    for (int64_t i = begin; i < end; i++) {
        const int64_t block = t->backwards ? begin + end - 1 - i : i;
        if (t->recurrent->kind == CF_LSTM) {
            update_units(4, t, block * CF_PANEL);
        } else {
            update_units(3, t, block * CF_PANEL);
        }
    }
}

/* Every step of the only row: the threads share each step's units. */
static void run_units(cf_context *context, const cf_recurrent *r, const cf_recurrent_data *data) {
    const int64_t blocks = ceil_div(r->units, CF_PANEL);
    const int64_t threads = min64(threads_for(context, r->units * r->product.out_channels, 20), blocks);
    cf_recurrent_task t = {.recurrent = r,
                           .weights = data->weights,
                           .bias = data->bias,
                           .before = data->hidden,
                           .after = data->scratch,
                           .cell = data->cell,
                           .blocks = blocks,
                           .tasks = threads};
    for (int64_t step = 0; step < r->steps; step++) {
        t.input = data->input + (r->backwards ? r->steps - 1 - step : step) * r->product.out_channels;
        t.output = data->output != NULL ? data->output + step * r->output_step : NULL;
        t.backwards = step % 2 != 0;
        run_tasks(context, threads, t.tasks, units_task, &t);
        t.before = t.after;
        t.after = t.after == data->scratch ? data->hidden : data->scratch;
    }
    if (t.before != data->hidden) memcpy(data->hidden, t.before, (size_t)r->units * sizeof *data->hidden);
}

static void run_recurrent(cf_context *context, const cf_recurrent *r, const cf_recurrent_data *data) {
    if (r->by_units) {
        run_units(context, r, data);
    } else {
        run_rows(context, r, data);
    }
}

#endif
