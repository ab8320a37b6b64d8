/* The zeros around a stored picture, which the layers that read it take for their padding. */
#ifndef COLDFORGE_HALO_H
#define COLDFORGE_HALO_H

#include <string.h>

#include "fused/blocking.h"
#include "fused/rounding.h"

/* Numbers of `size` bytes, and the byte that each of a zero's is. */
typedef struct {
    int64_t size;
    int zero;
} cf_number;

/* A zero among bytes that are stored less CF_BYTES_LESS. */
INLINE cf_number zero_byte(int32_t zero) { return (cf_number){1, zero - CF_BYTES_LESS}; }

/* Write zeros to `count` pixels, `pixel` numbers apart. What lies between two pixels is not touched. */
static void zero_pixels(cf_number number, char *at, int64_t count, int64_t pixel, int64_t channels) {
    if (count <= 0) return;
    if (pixel == channels) {
        memset(at, number.zero, (size_t)(count * channels * number.size));
    } else {
        for (int64_t i = 0; i < count; i++) {
            memset(at + i * pixel * number.size, number.zero, (size_t)(channels * number.size));
        }
    }
}

/* The zeros around every picture of a tensor of rows x columns pixels. */
typedef struct {
    cf_number number;
    char *buffer;
    const cf_view *view;
    const cf_halo *halo;
    int64_t batch, rows, columns, channels;
    int by_channels; /* how tasks divide them */
    int64_t tasks;
} cf_zeros;

/* Write those of some channels, in the padded pictures' rows `from` to `to`. */
static void zero_rows(const cf_zeros *z, int64_t from, int64_t to, int64_t channel, int64_t channels) {
    const cf_view *view = z->view;
    const cf_halo *halo = z->halo;
    const int64_t width = halo->left + z->columns + halo->right, size = z->number.size;
    for (int64_t image = 0; image < z->batch; image++) {
        char *start = z->buffer + (view->first + image * view->image - halo->left * view->pixel + channel) * size;
        for (int64_t row = from - halo->top; row < to - halo->top; row++) {
            char *at = start + row * view->row * size;
            if (row < 0 || row >= z->rows) {
                zero_pixels(z->number, at, width, view->pixel, channels);
            } else {
                zero_pixels(z->number, at, halo->left, view->pixel, channels);
                at += (halo->left + z->columns) * view->pixel * size;
                zero_pixels(z->number, at, halo->right, view->pixel, channels);
            }
        }
    }
}

static void zeros_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_zeros *z = argument;
    const int64_t rows = z->halo->top + z->rows + z->halo->bottom;
    if (z->by_channels) {
        const int64_t first = part_start(z->channels, task, z->tasks), end = part_start(z->channels, task + 1, z->tasks);
        zero_rows(z, 0, rows, first, end - first);
    } else {
        zero_rows(z, part_start(rows, task, z->tasks), part_start(rows, task + 1, z->tasks), 0, z->channels);
    }
}

/*
 * Write the zeros around every picture of a tensor. Many are divided among the threads as the layers that read them
 * are, so that a thread finds them in its own cache.
 */
static void zero_halo(cf_context *context, cf_number number, void *buffer, const cf_view *view, const cf_halo *halo,
                      int64_t batch, int64_t rows, int64_t columns, int64_t channels) {
    if ((halo->top | halo->left | halo->bottom | halo->right) == 0) return;
    cf_zeros z = {number, buffer, view, halo, batch, rows, columns, channels, 0, 1};
    const int64_t padded = (halo->top + rows + halo->bottom) * (halo->left + columns + halo->right);
    const int64_t bytes = batch * (padded - rows * columns) * channels * number.size;
    const int64_t threads = threads_for(context, bytes, 16);
    if (threads > 1) {
        z.by_channels = batch * rows * columns < CF_ROW_BLOCKS_FROM * CF_MR;
        z.tasks = 2 * threads;
    }
    run_tasks(context, threads, z.tasks, zeros_task, &z);
}

/* Write the zeros around a picture of floats. */
static void zero_float_halo(cf_context *context, float *buffer, const cf_view *view, const cf_halo *halo,
                            int64_t batch, int64_t rows, int64_t columns, int64_t channels) {
    zero_halo(context, (cf_number){sizeof(float), 0}, buffer, view, halo, batch, rows, columns, channels);
}

/* Write the halos of a layer's outputs. */
static void zero_halos(cf_context *context, const cf_layer *layer, const cf_layer_data *data) {
    const int64_t batch = layer->batch, rows = layer->out[0], columns = layer->out[1], channels = layer->out_channels;
    if (stores_floats(data)) {
        zero_float_halo(context, data->output, &layer->output, &layer->halo, batch, rows, columns, channels);
    }
    if (data->second != NULL) {
        zero_float_halo(context, data->second, &layer->second, &layer->second_halo, batch, rows, columns, channels);
    }
    if (stored_bytes(data) != NULL) {
        const cf_number byte = zero_byte(layer->rounded_zero);
        zero_halo(context, byte, data->rounded, &layer->rounded, &layer->rounded_halo, batch, rows, columns, channels);
    }
}

#endif
