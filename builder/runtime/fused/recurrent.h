/*
 * A whole recurrent layer, LSTM or GRU: for each step one product of the state, and the cells' gates. What is multiplied
 * with the inputs was computed for all steps at once, by a layer before.
 */
#ifndef COLDFORGE_RECURRENT_H
#define COLDFORGE_RECURRENT_H

#include "fused/activation.h"
#include "fused/direct.h"

enum { CF_CELL_UNITS = 64 }; /* of one row: a task's */

typedef struct {
    const cf_recurrent *recurrent;
    const float *input, *sums; /* [batch][gates * units], of this step */
    float *hidden, *cell, *output;
    int64_t blocks;
} cf_cells;

/* i, f, g and o lie behind one another: cell = f cell + i g and hidden = o tanh(cell). */
INLINE vec lstm_cell(const float *x, const float *sums, int64_t units, float *cell, int64_t n) {
    vec gate[4];
    UNROLL for (int g = 0; g < 4; g++) gate[g] = load_upto(x + g * units, n) + load_upto(sums + g * units, n);
    const vec before = load_upto(cell, n);
    const vec after = sigmoid_vec(gate[1]) * before + sigmoid_vec(gate[0]) * tanh_vec(gate[2]);
    store_upto(cell, after, n);
    return sigmoid_vec(gate[3]) * tanh_vec(after);
}

/* z, r and h lie behind one another: hidden = z hidden + (1 - z) tanh(x_h + r sums_h). */
INLINE vec gru_cell(const float *x, const float *sums, int64_t units, const float *hidden, int64_t n) {
    const vec z = sigmoid_vec(load_upto(x, n) + load_upto(sums, n));
    const vec r = sigmoid_vec(load_upto(x + units, n) + load_upto(sums + units, n));
    const vec h = tanh_vec(load_upto(x + 2 * units, n) + r * load_upto(sums + 2 * units, n));
    return h + z * (load_upto(hidden, n) - h);
}

static void cells_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_cells *c = argument;
    const cf_recurrent *r = c->recurrent;
    const int64_t row = task / c->blocks, first = task % c->blocks * CF_CELL_UNITS, units = r->units;
    const int64_t gates = r->product.out_channels, end = min64(units, first + CF_CELL_UNITS);
    for (int64_t u = first; u < end; u += CF_LANES) {
        const float *x = c->input + row * gates + u, *sums = c->sums + row * gates + u;
        float *hidden = c->hidden + row * units + u;
        const int64_t n = end - u;
        const vec h = r->kind == CF_LSTM ? lstm_cell(x, sums, units, c->cell + row * units + u, n)
                                         : gru_cell(x, sums, units, hidden, n);
        store_upto(hidden, h, n);
        if (c->output != NULL) store_upto(c->output + row * units + u, h, n);
    }
}

static void run_recurrent(cf_context *context, const cf_recurrent *r, const cf_recurrent_data *data) {
    const int64_t size = r->batch * r->units, row = r->batch * r->product.out_channels;
    const cf_layer_data product = {.input = data->hidden,
                                   .weights = data->weights,
                                   .bias = data->bias,
                                   .output = data->scratch,
                                   .weight_scale = data->weight_scale};
    cf_cells cells = {r, NULL, data->scratch, data->hidden, data->cell, NULL, ceil_div(r->units, CF_CELL_UNITS)};
    const int64_t threads = threads_for(context, size, 1);
    for (int64_t step = 0; step < r->steps; step++) {
        const int64_t place = r->backwards ? r->steps - 1 - step : step;
        run_direct(context, &r->product, &product);
        cells.input = data->input + place * row;
        if (data->output != NULL) cells.output = data->output + step * r->output_step;
        run_tasks(context, threads, r->batch * cells.blocks, cells_task, &cells);
    }
}

#endif
