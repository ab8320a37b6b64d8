/* The epilogue of every layer: residual, activation, second output and bytes, from sums to stored values. */
#ifndef COLDFORGE_EPILOGUE_H
#define COLDFORGE_EPILOGUE_H

#include "fused/activation.h"
#include "fused/rounding.h"

/* sums += residual * residual_scale, for pixels at ... at + count. */
static void add_residual(const cf_layer_data *data, const cf_pixel_pointers *pointers, int64_t at, int64_t count,
                         int64_t channel, int64_t channels, float *sums, int64_t sums_stride) {
    for (int64_t i = 0; i < count; i++) {
        const float *residual = pointers->residual[at + i] + channel;
        float *pixel_sums = sums + i * sums_stride;
        for (int64_t j = 0; j < channels; j += CF_LANES) {
            const int64_t n = channels - j;
            vec r = load_upto(residual + j, n);
            if (data->residual_scale != NULL) r *= load_upto(data->residual_scale + channel + j, n);
            store(pixel_sums + j, load(pixel_sums + j) + r);
        }
    }
}

/* Store activation(sums). The loop holds as little else as possible: an activation is one long chain of operations, and
 * the processor must be able to begin the next vector's before this one's ends. */
INLINE void store_activated(cf_activation kind, float *const *outputs, int64_t count, int64_t channel, int64_t channels,
                            const float *sums, int64_t sums_stride, vec low, vec high) {
    for (int64_t i = 0; i < count; i++) {
        float *output = outputs[i] + channel;
        int64_t j = 0;
        for (; j + CF_LANES <= channels; j += CF_LANES) store(output + j, activate(kind, load(sums + j), low, high));
        if (j < channels) store_some(output + j, activate(kind, load(sums + j), low, high), channels - j);
        sums += sums_stride;
    }
}

/* The same of CF_PRELU, after the residual if there is one. */
INLINE void store_sloped(const int added, const cf_pixel_pointers *pointers, int64_t at, int64_t count,
                         int64_t channel, int64_t channels, const float *sums, int64_t sums_stride,
                         const float *slopes) {
    for (int64_t i = 0; i < count; i++) {
        const float *residual = added ? pointers->residual[at + i] + channel : NULL;
        float *output = pointers->output[at + i] + channel;
        int64_t j = 0;
        for (; j + CF_LANES <= channels; j += CF_LANES) {
            const vec v = added ? load(sums + j) + load(residual + j) : load(sums + j);
            store(output + j, choose(v > zero(), v, v * load(slopes + j)));
        }
        if (j < channels) {
            const int64_t n = channels - j;
            const vec v = added ? load(sums + j) + load_upto(residual + j, n) : load(sums + j);
            store_some(output + j, choose(v > zero(), v, v * load_upto(slopes + j, n)), n);
        }
        sums += sums_stride;
    }
}

/* Store the second output, which is made of what was stored in `outputs`: as floats, in their place, as bytes. */
static void store_second(const cf_layer *layer, const cf_layer_data *data, const cf_pixel_pointers *pointers,
                         int64_t at, int64_t count, int64_t channel, int64_t channels, float *const *outputs) {
    const vec low = splat(layer->second_low), high = splat(layer->second_high);
    const int bytes = stored_bytes(data) != NULL;
    cf_quantiser q;
    if (bytes) q = output_quantiser(layer);
    for (int64_t j = 0; j < channels; j += CF_LANES) {
        const int64_t n = channels - j;
        const vec scale = load_upto(data->second_scale + channel + j, n);
        const vec shift = load_upto(data->second_shift + channel + j, n);
        for (int64_t i = 0; i < count; i++) {
            const vec v = clamp(load_upto(outputs[i] + channel + j, n) * scale + shift, low, high);
            if (data->second != NULL) store_upto(pointers->second[at + i] + channel + j, v, n);
            if (layer->finishes) store_upto(outputs[i] + channel + j, v, n);
            if (bytes) store_bytes(pointers->rounded[at + i] + channel + j, rounded(&q, v), n);
        }
    }
}

/* Whether a micro-kernel can do the epilogue itself, so that sums go from registers to the output, or to bytes. */
INLINE int simple_epilogue(const cf_layer *layer, const cf_layer_data *data) {
    const int adds = data->residual_scale != NULL || layer->residual_channels > 0;
    return layer->activation == CF_CLAMP && !has_second(data) && !adds;
}

/* The same with nothing but floats to store. */
INLINE int simple_float_epilogue(const cf_layer *layer, const cf_layer_data *data) {
    return simple_epilogue(layer, data) && stored_bytes(data) == NULL;
}

/* Whether hard_swish is all there is to do, which the plain micro-kernel can do as well. */
INLINE int plain_hard_swish(const cf_layer *layer, const cf_layer_data *data) {
    return CF_HAS_HARD_SWISH && layer->activation == CF_HARD_SWISH && !has_second(data) && data->residual == NULL &&
           stored_bytes(data) == NULL;
}

/* The epilogue of a clamp or CF_PRELU, in one pass: whatever is stored beside its floats would be read from memory
 * again. */
static void store_clamped(const cf_layer *layer, const cf_layer_data *data, const cf_pixel_pointers *pointers,
                          int64_t at, int64_t count, int64_t channel, int64_t channels, const float *sums,
                          int64_t sums_stride) {
    const vec low = splat(layer->low), high = splat(layer->high);
    const vec second_low = splat(layer->second_low), second_high = splat(layer->second_high);
    const int two = has_second(data);
    const float *scale = two ? data->second_scale + channel : NULL;
    const float *shift = two ? data->second_shift + channel : NULL;
    const float *slopes = data->slopes != NULL ? data->slopes + channel : NULL;
    const float *residual_scale = data->residual_scale != NULL ? data->residual_scale + channel : NULL;
    cf_quantiser q;
    if (stored_bytes(data) != NULL) q = two ? output_quantiser(layer) : clamping_quantiser(layer);
    for (int64_t i = at; i < at + count; i++) {
        const float *residual = data->residual != NULL ? pointers->residual[i] + channel : NULL;
        float *output = stores_floats(data) ? pointers->output[i] + channel : NULL;
        float *second = data->second != NULL ? pointers->second[i] + channel : NULL;
        int8_t *bytes = stored_bytes(data) != NULL ? pointers->rounded[i] + channel : NULL;
        for (int64_t j = 0; j < channels; j += CF_LANES) {
            const int64_t n = channels - j;
            vec v = load(sums + j);
            if (residual != NULL && residual_scale != NULL) {
                v += load_upto(residual + j, n) * load_upto(residual_scale + j, n);
            } else if (residual != NULL) {
                v += load_upto(residual + j, n);
            }
            if (slopes != NULL) v = choose(v > zero(), v, v * load_upto(slopes + j, n));
            const vec first = clamp(v, low, high);
            if (two) v = clamp(first * load_upto(scale + j, n) + load_upto(shift + j, n), second_low, second_high);
            if (output != NULL) store_upto(output + j, layer->finishes ? v : first, n);
            if (second != NULL) store_upto(second + j, v, n);
            if (bytes != NULL) store_bytes(bytes + j, rounded(&q, v), n);
        }
        sums += sums_stride;
    }
}

/*
 * The whole epilogue: store `channels` channels from `channel` on, for pixels at ... at + count. sums has sums_stride
 * floats for each pixel, which can be read and written up to a whole vector, and contains the bias. Its contents are
 * undefined afterwards.
 */
static __attribute__((noinline)) void run_epilogue(const cf_layer *layer, const cf_layer_data *data,
                                                   const cf_pixel_pointers *pointers, int64_t at, int64_t count,
                                                   int64_t channel, int64_t channels, float *sums,
                                                   int64_t sums_stride) {
    cf_layer_data rest; /* what the layer has besides a residual that lacks channels */
    if (layer->residual_channels > 0) {
        const int64_t added = min64(channels, layer->residual_channels - channel);
        add_residual(data, pointers, at, count, channel, added, sums, sums_stride);
        rest = *data;
        rest.residual = rest.residual_scale = NULL;
        data = &rest;
    }
    const int more = has_second(data) || stored_bytes(data) != NULL;
    if (layer->activation == CF_PRELU && !more && data->residual_scale == NULL) {
        const float *slopes = data->slopes + channel;
        if (data->residual == NULL) {
            store_sloped(0, pointers, at, count, channel, channels, sums, sums_stride, slopes);
        } else {
            store_sloped(1, pointers, at, count, channel, channels, sums, sums_stride, slopes);
        }
        return;
    }
    if (layer->activation == CF_PRELU || (more && layer->activation == CF_CLAMP && data->residual_scale == NULL)) {
        store_clamped(layer, data, pointers, at, count, channel, channels, sums, sums_stride);
        return;
    }
    const vec low = splat(layer->low), high = splat(layer->high);
    float *in_place[CF_MC];
    float *const *outputs = pointers->output + at;
    if (!stores_floats(data)) { /* only bytes are stored: the activation takes the place of the sums */
        for (int64_t i = 0; i < count; i++) in_place[i] = sums + i * sums_stride - channel;
        outputs = in_place;
    }
    if (data->residual != NULL) add_residual(data, pointers, at, count, channel, channels, sums, sums_stride);
#define CASE(kind)                                                                                                     \
    case kind:                                                                                                         \
        store_activated(kind, outputs, count, channel, channels, sums, sums_stride, low, high);                        \
        break;
    switch (layer->activation) {
        CASE(CF_CLAMP)
        CASE(CF_SIGMOID)
        CASE(CF_SWISH)
        CASE(CF_HARD_SIGMOID)
        CASE(CF_HARD_SWISH)
        CASE(CF_GELU)
        CASE(CF_GELU_TANH)
        CASE(CF_TANH)
        CASE(CF_ELU)
    case CF_PRELU: break; /* done above */
    }
#undef CASE
    if (has_second(data)) {
        store_second(layer, data, pointers, at, count, channel, channels, outputs);
    } else if (stored_bytes(data) != NULL) {
        store_rounded(layer, pointers, at, count, channel, channels, outputs);
    }
}

#endif
