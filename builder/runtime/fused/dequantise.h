/*
 * Weights of float16, bfloat16 or int8 as floats. A block of a panel is dequantised where it is first used, into a
 * buffer that stays in the first-level cache, and then serves a whole block of pixels as float32 weights do.
 */
#ifndef COLDFORGE_DEQUANTISE_H
#define COLDFORGE_DEQUANTISE_H

#include "fused/fused.h"
#include "fused/widen.h"

/*
 * `count` weights of one panel as floats, from number `first` of the layer on; both are multiples of CF_PANEL. Returns
 * where they lie if they are float32, else `buffer`. `panel`: the panel's number, for the scales.
 */
static const float *dequantise(const cf_layer *layer, const cf_layer_data *data, int64_t panel, int64_t first,
                               int64_t count, float *buffer) {
    switch (layer->weight_type) {
    case CF_FLOAT32: return (const float *)data->weights + first;
    case CF_FLOAT16: {
        const uint16_t *from = (const uint16_t *)data->weights + first;
        for (int64_t i = 0; i < count; i += CF_LANES) store(buffer + i, from_float16(from + i));
        break;
    }
    case CF_BFLOAT16: {
        const uint16_t *from = (const uint16_t *)data->weights + first;
        for (int64_t i = 0; i < count; i += CF_LANES) store(buffer + i, from_bfloat16(from + i));
        break;
    }
    case CF_INT8: {
        enum { VECTORS = CF_PANEL / CF_LANES };
        const int8_t *from = (const int8_t *)data->weights + first;
        vec scale[VECTORS];
        UNROLL for (int v = 0; v < VECTORS; v++) scale[v] = load(data->weight_scale + panel * CF_PANEL + v * CF_LANES);
        for (int64_t i = 0; i < count; i += CF_PANEL) {
            UNROLL for (int v = 0; v < VECTORS; v++) {
                store(buffer + i + v * CF_LANES, from_int8(from + i + v * CF_LANES) * scale[v]);
            }
        }
        break;
    }
    }
    return buffer;
}

#endif
