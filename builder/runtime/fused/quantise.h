/* A layer's input in scratch, quantised to bytes, in the form that integer_dot.h multiplies. */
#ifndef COLDFORGE_QUANTISE_H
#define COLDFORGE_QUANTISE_H

#include <string.h>

#include "fused/integer_dot.h"
#include "fused/rounding.h"

enum { CF_QUANTISE_TASK = 4096 }; /* values that a task quantises, about */

typedef struct {
    const cf_layer *layer;
    const char *input; /* the first row that is read, padding included */
    cf_quantised *output;
    int64_t batch, rows, columns; /* of the output */
    int64_t sample[2];            /* one of so many rows, and of so many columns, is quantised */
    int64_t channels;             /* a multiple of 4 */
    int64_t parts;                /* of a row: tasks */
    int32_t offset;
} cf_quantisation;

/* Four quantised channels as integer_dot.h has them, of each four adjacent ones. */
INLINE quantised_vec in_form(ivec lanes) {
    const quantised_vec all = __builtin_convertvector(lanes, quantised_vec);
    if (CF_FORM != CF_PAIRS) return all;
#if CF_LANES == 16
    return __builtin_shufflevector(all, all, 0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
#elif CF_LANES == 8
    return __builtin_shufflevector(all, all, 0, 2, 1, 3, 4, 6, 5, 7);
#else
    return __builtin_shufflevector(all, all, 0, 2, 1, 3);
#endif
}

/* Quantise `count` adjacent floats, with zeros behind them up to a multiple of 4. */
INLINE void quantise_run(const cf_quantiser *q, const float *from, int64_t count, cf_quantised *to) {
    int64_t i = 0;
    for (; i + CF_LANES <= count; i += CF_LANES) *(loose_quantised_vec *)(to + i) = in_form(rounded(q, load(from + i)));
    if (i < count) {
        const quantised_vec last = in_form(rounded(q, load_some(from + i, count - i)));
        UNROLL for (int j = 0; j < CF_LANES; j += CF_QUAD) {
            if (i + j < count) memcpy(to + i + j, (const cf_quantised *)&last + j, CF_QUAD * sizeof(cf_quantised));
        }
    }
}

/* Quantise `count` adjacent pixels of three channels, as a picture's first layer reads them: several in a vector. The
 * fourth value is any number, as its weights are zeros. */
INLINE void quantise_threes(const cf_quantiser *q, const float *from, int64_t count, cf_quantised *to) {
    enum { PIXELS = CF_LANES / CF_QUAD };
    int64_t i = 0;
    for (; 3 * i + CF_LANES <= 3 * count; i += PIXELS) {
        const vec v = load(from + 3 * i);
#if CF_LANES == 16
        const vec apart = __builtin_shufflevector(v, v, 0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11);
#elif CF_LANES == 8
        const vec apart = __builtin_shufflevector(v, v, 0, 1, 2, 2, 3, 4, 5, 5);
#else
        const vec apart = v;
#endif
        *(loose_quantised_vec *)(to + CF_QUAD * i) = in_form(rounded(q, apart));
    }
    for (; i < count; i++) quantise_run(q, from + 3 * i, 3, to + CF_QUAD * i);
}

/* Widen `count` adjacent bytes, a multiple of 4, to byte - zero: for CF_PAIRS alone. */
INLINE void widen_run(const int32_t zero, const int8_t *from, int64_t count, cf_quantised *to) {
    for (int64_t i = 0; i < count; i += CF_QUAD) {
        UNROLL for (int j = 0; j < CF_QUAD; j++) {
            const int at = j == 0 || j == 3 ? j : 3 - j; /* the second and the third change places */
            const int32_t byte = CF_BYTES_LESS > 0 ? from[i + j] + CF_BYTES_LESS : (uint8_t)from[i + j];
            to[i + at] = (cf_quantised)(byte - zero);
        }
    }
}

/* Bytes that a number of the input takes. */
INLINE int64_t value_size(const cf_layer *layer) {
    return layer->input_rounded ? (int64_t)sizeof(int8_t) : (int64_t)sizeof(float);
}

static void quantise_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_quantisation *q = argument;
    const cf_layer *layer = q->layer;
    const cf_view *in = &layer->input;
    const int64_t part = task % q->parts, row = task / q->parts % q->rows, image = task / q->parts / q->rows;
    const int64_t first = part_start(q->columns, part, q->parts), end = part_start(q->columns, part + 1, q->parts);
    const int64_t step = q->sample[1] * in->pixel, size = value_size(layer);
    const char *from = q->input + (image * in->image + row * q->sample[0] * in->row + first * step) * size;
    const int64_t channels = q->channels, columns = end - first;
    const int64_t count = layer->input_rounded ? channels : layer->in_channels; /* pixels of bytes begin at words */
    cf_quantised *to = q->output + ((image * q->rows + row) * q->columns + first) * channels;
    const int64_t at_once = step == channels && count == channels ? columns : 1;
    const cf_quantiser by = quantiser(layer->input_scale, layer->input_zero, q->offset);
    if (count == 3 && step == 3 && !layer->input_rounded) {
        quantise_threes(&by, (const float *)from, columns, to);
        return;
    }
    for (int64_t column = 0; column < columns; column += at_once) {
        if (layer->input_rounded) {
            widen_run(layer->input_zero, (const int8_t *)from, at_once * count, to);
        } else {
            quantise_run(&by, (const float *)from, at_once * count, to);
        }
        from += at_once * step * size;
        to += at_once * channels;
    }
}

static void quantise_input(cf_context *context, cf_quantisation *q) {
    const int64_t row = q->columns * q->channels, work = q->batch * q->rows * row;
    q->parts = min64(q->columns, ceil_div(row, CF_QUANTISE_TASK));
    run_tasks(context, threads_for(context, work, 4), q->batch * q->rows * q->parts, quantise_task, q);
}

#endif
