/* The zeros around a stored picture, which the layers that read it take for their padding. */
#ifndef COLDFORGE_HALO_H
#define COLDFORGE_HALO_H

#include <string.h>

#include "fused/indirection.h"
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
} cf_zeros;

/* The halos of all that a step writes, and its tasks, each of which writes a part of them first. */
typedef struct {
    cf_zeros of[3];
    int count;
    cf_task run;
    void *argument;
    int64_t tasks;
} cf_halos;

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

/* Write part `part`, of `parts`: divided as the layer that writes the picture is, so that a thread finds it in its own
 * cache. */
static void zero_part(const cf_zeros *z, int64_t part, int64_t parts) {
    const int64_t rows = z->halo->top + z->rows + z->halo->bottom;
    if (z->batch * z->rows * z->columns < CF_ROW_BLOCKS_FROM * CF_MR) {
        const int64_t first = part_start(z->channels, part, parts), end = part_start(z->channels, part + 1, parts);
        zero_rows(z, 0, rows, first, end - first);
    } else {
        zero_rows(z, part_start(rows, part, parts), part_start(rows, part + 1, parts), 0, z->channels);
    }
}

static void zeros_and_task(void *argument, int64_t task, uint32_t thread) {
    const cf_halos *h = argument;
    for (int i = 0; i < h->count; i++) zero_part(&h->of[i], task, h->tasks);
    h->run(h->argument, task, thread);
}

/* run_tasks, and the halos, if they are not written yet: as a job of their own, all threads would wait for each other
 * once more. */
static __attribute__((noinline)) void run_with_halos(cf_context *context, cf_halos *halos, int64_t threads,
                                                     int64_t tasks, cf_task run, void *argument) {
    if (halos->count > 0) {
        halos->run = run;
        halos->argument = argument;
        halos->tasks = tasks;
        run = zeros_and_task;
        argument = halos;
    }
    run_tasks(context, threads, tasks, run, argument);
    halos->count = 0;
}

/* Add a tensor's halo, if it has one. */
static __attribute__((noinline)) void add_halo(cf_halos *halos, cf_number number, void *buffer, const cf_view *view,
                                               const cf_halo *halo, int64_t batch, int64_t rows, int64_t columns,
                                               int64_t channels) {
    if ((halo->top | halo->left | halo->bottom | halo->right) == 0) return;
    halos->of[halos->count++] = (cf_zeros){number, buffer, view, halo, batch, rows, columns, channels};
}

/* Add the halos of a layer's outputs. */
static void add_layer_halos(cf_halos *halos, const cf_layer *layer, const cf_layer_data *data) {
    const int64_t batch = layer->batch, rows = layer->out[0], columns = layer->out[1], channels = layer->out_channels;
    const cf_number number = {sizeof(float), 0}, byte = zero_byte(layer->rounded_zero);
    if (stores_floats(data)) {
        add_halo(halos, number, data->output, &layer->output, &layer->halo, batch, rows, columns, channels);
    }
    if (data->second != NULL) {
        add_halo(halos, number, data->second, &layer->second, &layer->second_halo, batch, rows, columns, channels);
    }
    if (stored_bytes(data) != NULL) {
        add_halo(halos, byte, data->rounded, &layer->rounded, &layer->rounded_halo, batch, rows, columns, channels);
    }
}

#endif
