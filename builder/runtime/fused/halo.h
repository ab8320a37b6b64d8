/* The zeros around a stored picture, which the layers that read it take for their padding. */
#ifndef COLDFORGE_HALO_H
#define COLDFORGE_HALO_H

#include <string.h>

#include "fused/rounding.h"

/* Numbers of `size` bytes, and the byte that each of a zero's is. */
typedef struct {
    int64_t size;
    int zero;
} cf_number;

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

/* Write the zeros around every picture of a tensor of rows x columns pixels. */
static void zero_halo(cf_number number, void *buffer, const cf_view *view, const cf_halo *halo, int64_t batch,
                      int64_t rows, int64_t columns, int64_t channels) {
    if ((halo->top | halo->left | halo->bottom | halo->right) == 0) return;
    const int64_t width = halo->left + columns + halo->right;
    for (int64_t image = 0; image < batch; image++) {
        char *start = (char *)buffer + (view->first + image * view->image - halo->left * view->pixel) * number.size;
        for (int64_t row = -halo->top; row < rows + halo->bottom; row++) {
            char *at = start + row * view->row * number.size;
            if (row < 0 || row >= rows) {
                zero_pixels(number, at, width, view->pixel, channels);
            } else {
                zero_pixels(number, at, halo->left, view->pixel, channels);
                at += (halo->left + columns) * view->pixel * number.size;
                zero_pixels(number, at, halo->right, view->pixel, channels);
            }
        }
    }
}

/* Write the zeros around a picture of floats. */
static void zero_float_halo(float *buffer, const cf_view *view, const cf_halo *halo, int64_t batch, int64_t rows,
                            int64_t columns, int64_t channels) {
    zero_halo((cf_number){sizeof(float), 0}, buffer, view, halo, batch, rows, columns, channels);
}

/* Write the halos of a layer's outputs. */
static void zero_halos(const cf_layer *layer, const cf_layer_data *data) {
    const int64_t batch = layer->batch, rows = layer->out[0], columns = layer->out[1], channels = layer->out_channels;
    if (stores_floats(data)) {
        zero_float_halo(data->output, &layer->output, &layer->halo, batch, rows, columns, channels);
    }
    if (data->second != NULL) {
        zero_float_halo(data->second, &layer->second, &layer->second_halo, batch, rows, columns, channels);
    }
    if (stored_bytes(data) != NULL) {
        const cf_number byte = {1, layer->rounded_zero - CF_BYTES_LESS};
        zero_halo(byte, data->rounded, &layer->rounded, &layer->rounded_halo, batch, rows, columns, channels);
    }
}

#endif
