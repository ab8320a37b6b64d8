/* The zeros around a stored picture, which the layers that read it take for their padding. */
#ifndef COLDFORGE_HALO_H
#define COLDFORGE_HALO_H

#include <string.h>

#include "fused/fused.h"

/* Write zeros to `count` pixels, `pixel` floats apart. What lies between two pixels is not touched. */
static void zero_pixels(float *at, int64_t count, int64_t pixel, int64_t channels) {
    if (count <= 0) return;
    if (pixel == channels) {
        memset(at, 0, (size_t)(count * channels) * sizeof(float));
    } else {
        for (int64_t i = 0; i < count; i++) memset(at + i * pixel, 0, (size_t)channels * sizeof(float));
    }
}

/* Write the zeros around every picture of a tensor of rows x columns pixels. */
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

/* Write the halos of a layer's outputs. */
static void zero_halos(const cf_layer *layer, const cf_layer_data *data) {
    zero_halo(data->output, &layer->output, &layer->halo, layer->batch, layer->out[0], layer->out[1],
              layer->out_channels);
    if (data->second != NULL) {
        zero_halo(data->second, &layer->second, &layer->second_halo, layer->batch, layer->out[0], layer->out[1],
                  layer->out_channels);
    }
}

#endif
