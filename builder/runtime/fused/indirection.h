/*
 * im2col without the copy: the rows of A are the inputs of an output pixel, and stay where they lie in the picture. An
 * indirection buffer has a pointer to each pixel's first input; the offsets from there are the same for all pixels.
 */
#ifndef COLDFORGE_INDIRECTION_H
#define COLDFORGE_INDIRECTION_H

#include "fused/blocking.h"

INLINE int8_t *stored_bytes(const cf_layer_data *data) { return CF_HAS_INTEGER ? data->rounded : NULL; }
INLINE int stores_floats(const cf_layer_data *data) { return !CF_HAS_INTEGER || data->output != NULL; }
/* Whether there is a second output, as floats or as bytes. */
INLINE int has_second(const cf_layer_data *data) { return data->second_scale != NULL; }

/* The k inputs of an output pixel: `segments` runs of `segment_length` adjacent elements, each at an offset from the
 * pixel's input pointer. */
typedef struct {
    int64_t k, segments, segment_length;
    int64_t offsets[CF_MAX_TAPS];
} cf_indirection;

/* A block of K: the inputs from number `begin` on, k of them, in `segments` runs of `segment_length`. */
typedef struct {
    int64_t begin, k, segments, segment_length, offset;
    const int64_t *offsets;
} cf_k_block;

/* Move `block` on to the next block of at most about kc inputs: whole segments, or an equal piece of one. Returns 0 if
 * there is none. A block of zeros stands before the first. */
INLINE int next_k_block(const cf_indirection *indirection, int64_t kc, cf_k_block *block) {
    block->begin += block->k;
    if (block->begin == indirection->k) return 0;
    const int64_t segment = block->begin / indirection->segment_length,
                  from = block->begin % indirection->segment_length;
    const int64_t pieces = ceil_div(indirection->segment_length, kc);
    if (pieces > 1) {
        block->segments = 1;
        block->segment_length =
            min64(ceil_div(indirection->segment_length, pieces), indirection->segment_length - from);
        block->offset = indirection->offsets[segment] + from;
        block->offsets = &block->offset;
    } else {
        block->segments = min64(kc / indirection->segment_length, indirection->segments - segment);
        block->segment_length = indirection->segment_length;
        block->offsets = indirection->offsets + segment;
    }
    block->k = block->segments * block->segment_length;
    return 1;
}

/* The indirection buffer of a block of pixels: where each begins in every tensor. All but the input are set only if
 * the layer has them. */
typedef struct {
    const float *input[CF_MC];
    float *output[CF_MC];
    const float *residual[CF_MC];
    float *second[CF_MC];
    int8_t *rounded[CF_MC];
} cf_pixel_pointers;

/* Set entry i to output pixel [image, row, column]. */
INLINE void set_output_pointers(cf_pixel_pointers *pointers, int64_t i, const cf_layer *layer,
                                const cf_layer_data *data, int64_t image, int64_t row, int64_t column) {
    const cf_view *o = &layer->output, *r = &layer->residual, *s = &layer->second, *b = &layer->rounded;
    if (stores_floats(data)) {
        pointers->output[i] = data->output + o->first + image * o->image + row * o->row + column * o->pixel;
    }
    int8_t *bytes = stored_bytes(data);
    if (bytes != NULL) {
        pointers->rounded[i] = bytes + b->first + image * b->image + row * b->row + column * b->pixel;
    }
    if (data->residual != NULL) {
        pointers->residual[i] = data->residual + r->first + image * r->image + row * r->row + column * r->pixel;
    }
    if (data->second != NULL) {
        pointers->second[i] = data->second + s->first + image * s->image + row * s->row + column * s->pixel;
    }
}

/* Set the first `count` entries to the batch's output pixels from number `pixel` on. An input pointer is that of the
 * pixel's first tap, at input channel `channel`. */
static void set_pixel_pointers(cf_pixel_pointers *pointers, const cf_layer *layer, const cf_layer_data *data,
                               int64_t pixel, int64_t count, int64_t channel) {
    const cf_view *in = &layer->input;
    int64_t column = pixel % layer->out[1], row = pixel / layer->out[1];
    int64_t image = row / layer->out[0];
    row %= layer->out[0];
    const float *origin =
        data->input + in->first + channel - layer->padding[0] * in->row - layer->padding[1] * in->pixel;
    const int64_t step = layer->stride[1] * in->pixel;
    for (int64_t i = 0; i < count;) {
        /* A run within one row. */
        const int64_t run = min64(count - i, layer->out[1] - column);
        const float *from = origin + image * in->image + row * layer->stride[0] * in->row + column * step;
        set_output_pointers(pointers, i, layer, data, image, row, column);
        for (int64_t r = 0; r < run; r++) pointers->input[i + r] = from + r * step;
        if (stores_floats(data)) {
            for (int64_t r = 1; r < run; r++) pointers->output[i + r] = pointers->output[i] + r * layer->output.pixel;
        }
        if (stored_bytes(data) != NULL) {
            for (int64_t r = 1; r < run; r++)
                pointers->rounded[i + r] = pointers->rounded[i] + r * layer->rounded.pixel;
        }
        if (data->residual != NULL) {
            for (int64_t r = 1; r < run; r++)
                pointers->residual[i + r] = pointers->residual[i] + r * layer->residual.pixel;
        }
        if (data->second != NULL) {
            for (int64_t r = 1; r < run; r++) pointers->second[i + r] = pointers->second[i] + r * layer->second.pixel;
        }
        i += run;
        column = 0;
        if (++row == layer->out[0]) {
            row = 0;
            image++;
        }
    }
}

#endif
