/* A layer's input quantised to bytes, into scratch, in the form that integer_dot.h multiplies. */
#ifndef COLDFORGE_QUANTISE_H
#define COLDFORGE_QUANTISE_H

#include <string.h>

#include "fused/blocking.h"
#include "fused/integer_dot.h"

enum { CF_QUANTISE_TASK = 4096 }; /* values that a task quantises, about */

typedef struct {
    const cf_layer *layer;
    const float *input; /* the first row that is read, padding included */
    cf_quantised *output;
    int64_t batch, rows, columns; /* of the output */
    int64_t sample[2];            /* one of so many rows, and of so many columns, is quantised */
    int64_t channels;             /* a multiple of 4 */
    int64_t parts;                /* of a row: tasks */
    float inverse, low, high;     /* 1 / scale; the range of byte - zero */
    int32_t offset;
} cf_quantisation;

/* The same as vectors, in a struct that no store can alias. */
typedef struct {
    vec inverse, low, high, magic;
    ivec offset;
} cf_quantiser;

/*
 * Quantise CF_LANES floats: to the nearest, ties to even; NaN becomes 0. The clamp stands between the multiplication
 * and the addition that rounds, so that no compiler contracts them to one operation, whose result would differ.
 */
INLINE quantised_vec quantise_vec(const cf_quantiser *q, vec x) {
    vec scaled = x * q->inverse;
    scaled = (vec)((ivec)scaled & (scaled == scaled));
    scaled = clamp(scaled, q->low, q->high);
    const quantised_vec all = __builtin_convertvector((ivec)(scaled + q->magic) + q->offset, quantised_vec);
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
    for (; i + CF_LANES <= count; i += CF_LANES) *(loose_quantised_vec *)(to + i) = quantise_vec(q, load(from + i));
    if (i < count) {
        const quantised_vec last = quantise_vec(q, load_some(from + i, count - i));
        UNROLL for (int j = 0; j < CF_LANES; j += CF_QUAD) {
            if (i + j < count) memcpy(to + i + j, (const cf_quantised *)&last + j, CF_QUAD * sizeof(cf_quantised));
        }
    }
}

static void quantise_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_quantisation *q = argument;
    const cf_layer *layer = q->layer;
    const cf_view *in = &layer->input;
    const int64_t part = task % q->parts, row = task / q->parts % q->rows, image = task / q->parts / q->rows;
    const int64_t first = part_start(q->columns, part, q->parts), end = part_start(q->columns, part + 1, q->parts);
    const int64_t step = q->sample[1] * in->pixel, count = layer->in_channels;
    const float *from = q->input + image * in->image + row * q->sample[0] * in->row + first * step;
    const int64_t channels = q->channels, columns = end - first;
    cf_quantised *to = q->output + ((image * q->rows + row) * q->columns + first) * channels;
    const vec magic = splat(12582912.0f); /* 1.5 * 2^23: adding it rounds to a whole number */
    const cf_quantiser quantiser = {splat(q->inverse), splat(q->low), splat(q->high), magic,
                                    isplat(q->offset) - (ivec)magic};
    if (step == channels && count == channels) {
        quantise_run(&quantiser, from, columns * count, to);
        return;
    }
    for (int64_t column = 0; column < columns; column++) {
        quantise_run(&quantiser, from, count, to);
        from += step;
        to += channels;
    }
}

static void quantise_input(cf_context *context, cf_quantisation *q) {
    const int64_t row = q->columns * q->channels, work = q->batch * q->rows * row;
    q->parts = min64(q->columns, ceil_div(row, CF_QUANTISE_TASK));
    run_tasks(context, threads_for(context, work, 4), q->batch * q->rows * q->parts, quantise_task, q);
}

#endif
