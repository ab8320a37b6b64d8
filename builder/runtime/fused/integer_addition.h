/* Sums of two pictures of bytes in fixed point, each times a factor: a residual of a quantised model. */
#ifndef COLDFORGE_INTEGER_ADDITION_H
#define COLDFORGE_INTEGER_ADDITION_H

#include "fused/rounding.h"

typedef struct {
    const cf_addition *addition;
    const cf_addition_data *data;
    int64_t row_tasks;
} cf_addition_plan;

/* What is stored for CF_LANES bytes. Some may be behind the picture, which nothing uses. */
INLINE ivec load_stored(const int8_t *from) {
    typedef uint8_t unsigned_bytes __attribute__((vector_size(CF_LANES), aligned(1), may_alias));
    if (CF_BYTES_LESS > 0) return __builtin_convertvector(*(const loose_byte_vec *)(const void *)from, ivec);
    return __builtin_convertvector(*(const unsigned_bytes *)(const void *)from, ivec);
}

INLINE ivec times(ivec a, ivec b) { return (ivec)((unsigned_ivec)a * (unsigned_ivec)b); } /* which may wrap around */

/* `count` adjacent bytes. */
INLINE void add_bytes(const cf_addition *a, const int8_t *first, const int8_t *second, int8_t *to, int64_t count) {
    const uint32_t less = CF_BYTES_LESS * ((uint32_t)a->factors[0] + (uint32_t)a->factors[1]);
    const unsigned_ivec start = (unsigned_ivec)isplat((int32_t)((uint32_t)a->start + less));
    const ivec factor = isplat(a->factors[0]), other = isplat(a->factors[1]), zero = isplat(a->zero - CF_BYTES_LESS);
    const ivec low = isplat(a->low - CF_BYTES_LESS), high = isplat(a->high - CF_BYTES_LESS);
    const int shift = a->shift;
    for (int64_t i = 0; i < count; i += CF_LANES) {
        const unsigned_ivec products = (unsigned_ivec)times(load_stored(first + i), factor) +
                                       (unsigned_ivec)times(load_stored(second + i), other);
        ivec sum = ((ivec)(products + start) >> shift) + zero;
        ivec outside = sum < low;
        sum = (outside & low) | (~outside & sum);
        outside = sum > high;
        sum = (outside & high) | (~outside & sum);
        store_bytes(to + i, sum, count - i);
    }
}

static void addition_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_addition_plan *plan = argument;
    const cf_addition *a = plan->addition;
    const cf_view *first = &a->first, *second = &a->second, *out = &a->output;
    const int64_t rows = a->batch * a->size[0], channels = a->channels;
    const int dense = first->pixel == channels && second->pixel == channels && out->pixel == channels;
    const int64_t pixels = dense ? 1 : a->size[1], count = dense ? a->size[1] * channels : channels;
    for (int64_t i = part_start(rows, task, plan->row_tasks); i < part_start(rows, task + 1, plan->row_tasks); i++) {
        const int64_t image = i / a->size[0], row = i % a->size[0];
        const int8_t *x = plan->data->first + first->first + image * first->image + row * first->row;
        const int8_t *y = plan->data->second + second->first + image * second->image + row * second->row;
        int8_t *to = plan->data->output + out->first + image * out->image + row * out->row;
        for (int64_t p = 0; p < pixels; p++) {
            add_bytes(a, x + p * first->pixel, y + p * second->pixel, to + p * out->pixel, count);
        }
    }
}

static void run_addition(cf_context *context, const cf_addition *a, const cf_addition_data *data) {
    cf_addition_plan plan = {.addition = a, .data = data};
    cf_halos halos = {.count = 0};
    add_halo(&halos, zero_byte(a->zero), data->output, &a->output, &a->halo, a->batch, a->size[0], a->size[1],
             a->channels);
    const int64_t rows = a->batch * a->size[0];
    const int64_t threads = threads_for(context, rows * a->size[1] * a->channels, 5);
    plan.row_tasks = threads == 1 ? 1 : min64(rows, 4 * threads);
    run_with_halos(context, &halos, threads, plan.row_tasks, addition_task, &plan);
}

#endif
