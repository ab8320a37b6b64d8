/*
 * A whole recurrent layer, LSTM or GRU: for each step one product of the state, and the cells' gates. What is multiplied
 * with the inputs was computed for all steps at once, by a layer before.
 *
 * With one row of states, reading the weights is all the work. They are packed so that all gates of 16 units lie
 * together. Their sums stay in registers, and the next weights are read while the gates are computed. Every other step
 * begins at the end, where the last one left weights in the first-level cache.
 */
#ifndef COLDFORGE_RECURRENT_H
#define COLDFORGE_RECURRENT_H

#include "fused/activation.h"
#include "fused/direct.h"

enum {
    CF_CELL_UNITS = 64, /* of one row: a task's */
    CF_UNIT_VECTORS = CF_PANEL / CF_LANES
};

/* One step, as tasks see it. */
typedef struct {
    const cf_recurrent *recurrent;
    const float *input, *sums; /* [batch][gates * units], of this step */
    const float *weights, *bias;
    const float *before; /* the states [batch][units] */
    float *after, *cell, *output;
    int64_t blocks, tasks;
    int backwards; /* the blocks of a task */
} cf_recurrent_task;

/* Of one vector of units. gate: i, f, g and o. cell = f cell + i g and hidden = o tanh(cell). */
INLINE vec lstm_cell(const vec *gate, float *cell, int64_t n) {
    const vec after = sigmoid_vec(gate[1]) * load_upto(cell, n) + sigmoid_vec(gate[0]) * tanh_vec(gate[2]);
    store_upto(cell, after, n);
    return sigmoid_vec(gate[3]) * tanh_vec(after);
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

static void cells_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_recurrent_task *t = argument;
    const int64_t row = task / t->blocks, first = task % t->blocks * CF_CELL_UNITS, units = t->recurrent->units;
    const int64_t end = min64(units, first + CF_CELL_UNITS), gates = t->recurrent->product.out_channels / units;
    for (int64_t u = first; u < end; u += CF_LANES) {
        vec sum[4] = {zero(), zero(), zero(), zero()};
        for (int64_t g = 0; g < gates; g++) {
            sum[g] = load_upto(t->sums + (row * gates + g) * units + u, end - u);
        }
        update_cells(t, row, u, end - u, sum);
    }
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

static void run_recurrent(cf_context *context, const cf_recurrent *r, const cf_recurrent_data *data) {
    const int64_t states = r->batch * r->units, row = r->batch * r->product.out_channels;
    const cf_layer_data product = {.input = data->hidden,
                                   .weights = data->weights,
                                   .bias = data->bias,
                                   .output = data->scratch,
                                   .weight_scale = data->weight_scale};
    cf_recurrent_task t = {.recurrent = r,
                           .sums = data->scratch,
                           .weights = data->weights,
                           .bias = data->bias,
                           .before = data->hidden,
                           .after = data->hidden,
                           .cell = data->cell};
    int64_t threads;
    if (r->by_units) {
        t.blocks = ceil_div(r->units, CF_PANEL);
        threads = min64(threads_for(context, r->units * r->product.out_channels, 20), t.blocks);
        t.tasks = threads;
        t.after = data->scratch;
    } else {
        t.blocks = ceil_div(r->units, CF_CELL_UNITS);
        threads = threads_for(context, states, 1);
        t.tasks = r->batch * t.blocks;
    }
    for (int64_t step = 0; step < r->steps; step++) {
        t.input = data->input + (r->backwards ? r->steps - 1 - step : step) * row;
        t.output = data->output != NULL ? data->output + step * r->output_step : NULL;
        t.backwards = step % 2 != 0;
        if (r->by_units) {
            run_tasks(context, threads, t.tasks, units_task, &t);
            t.before = t.after;
            t.after = t.after == data->scratch ? data->hidden : data->scratch;
        } else {
            run_direct(context, &r->product, &product);
            run_tasks(context, threads, t.tasks, cells_task, &t);
        }
    }
    if (t.before != data->hidden) memcpy(data->hidden, t.before, (size_t)states * sizeof *data->hidden);
}

#endif
