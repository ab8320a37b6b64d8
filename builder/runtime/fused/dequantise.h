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
    if (!CF_HAS_SMALL_WEIGHTS || layer->weight_type == CF_FLOAT32) return (const float *)data->weights + first;
    switch (layer->weight_type) {
    case CF_FLOAT32: break;
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

/*
 * The int8 weights of a 3x3 kernel as they lie for integer GEMM, for `count` input channels of one panel from number
 * `first` on, both multiples of 4: as floats [count][9][CF_PANEL].
 */
INLINE void dequantise_quads(const cf_layer *layer, const cf_layer_data *data, int64_t panel, int64_t first,
                             int64_t count, float *buffer) {
    enum { QUAD = 4, TAPS = 9 };
    const int64_t quads = layer->in_channels / QUAD;
    const int8_t *from = (const int8_t *)data->weights + (panel * TAPS * quads + first / QUAD) * CF_PANEL * QUAD;
    for (int64_t tap = 0; tap < TAPS; tap++) {
        for (int64_t quad = 0; quad < count / QUAD; quad++) {
            float *to = buffer + (quad * QUAD * TAPS + tap) * CF_PANEL;
            UNROLL for (int j = 0; j < CF_PANEL; j += CF_LANES) {
                const vec scale = load(data->weight_scale + panel * CF_PANEL + j);
                const ivec bytes = *(const loose_ivec *)(from + ((tap * quads + quad) * CF_PANEL + j) * QUAD);
                UNROLL for (int c = 0; c < QUAD; c++) {
                    const ivec weights = (ivec)((unsigned_ivec)bytes << (24 - 8 * c)) >> 24;
                    store(to + c * TAPS * CF_PANEL + j, __builtin_convertvector(weights, vec) * scale);
                }
            }
        }
    }
}

#endif
