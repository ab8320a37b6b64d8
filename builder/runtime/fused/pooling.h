/* Pooling, and copies between layouts. */
#ifndef COLDFORGE_POOLING_H
#define COLDFORGE_POOLING_H

#include "fused/blocking.h"
#include "fused/halo.h"
#if CF_HAS_INTEGER
#include "fused/integer_addition.h"
#endif

/* The largest number so far and `v`. Whether any is NaN is told beside it, which takes no time of one maximum after the
 * other; or the maximum is NaN then. */
INLINE vec largest(vec so_far, vec v, ivec *is_nan) {
#if CF_LANES == 4 && defined(__ARM_NEON)
    (void)is_nan;
    return at_least(v, so_far);
#else
    *is_nan |= v != v;
    return number_at_least(v, so_far);
#endif
}

typedef struct {
    const cf_pooling *pooling;
    const float *input;
    float *output;
    int64_t row_tasks, channel_block, channel_blocks;
} cf_pooling_plan;

/* Reduce a window's rows x columns pixels from `in` on: `vectors` vectors of channels, or the first n of one. A maximum
 * is NaN if any pixel is. */
INLINE void pool_window(const int vectors, const int maximum, const cf_pooling *p, const float *in, int64_t rows,
                        int64_t columns, float *out, int64_t n) {
    vec total[4];
    ivec is_nan[4];
    UNROLL for (int v = 0; v < vectors; v++) {
        total[v] = splat(maximum ? -__builtin_inff() : 0.0f);
        is_nan[v] = (ivec)zero();
    }
    for (int64_t y = 0; y < rows; y++) {
        const float *from = in + y * p->input.row;
        for (int64_t x = 0; x < columns; x++) {
            UNROLL for (int v = 0; v < vectors; v++) {
                const vec value = load_upto(from + v * CF_LANES, n);
                total[v] = maximum ? largest(total[v], value, &is_nan[v]) : total[v] + value;
            }
            from += p->input.pixel;
        }
    }
    UNROLL for (int v = 0; v < vectors; v++) {
        const vec all = maximum ? choose(is_nan[v], splat(__builtin_nanf("")), total[v]) : total[v] * splat(p->scale);
        store_upto(out + v * CF_LANES, all, n);
    }
}

/* The same of `count` windows side by side. The compiler unrolls the most common maxima, but not those of four vectors,
 * which are slower then. */
INLINE void pool_windows(const int vectors, const int maximum, const cf_pooling *p, const float *in, int64_t rows,
                         int64_t columns, float *out, int64_t n, int64_t count) {
    const int64_t in_step = p->stride[1] * p->input.pixel, out_step = p->output.pixel;
    for (; count > 0; count--) {
        if (maximum && vectors < 4 && rows == 3 && columns == 3) {
            pool_window(vectors, maximum, p, in, 3, 3, out, n);
        } else if (maximum && vectors < 4 && rows == 2 && columns == 2) {
            pool_window(vectors, maximum, p, in, 2, 2, out, n);
        } else {
            pool_window(vectors, maximum, p, in, rows, columns, out, n);
        }
        in += in_step;
        out += out_step;
    }
}

/* Some channels of all of them: where they are few, of one window after the other; else memory is read in order. */
INLINE void pool_channels(const int maximum, const cf_pooling *pooling, const float *in, int64_t rows, int64_t columns,
                          float *out, int64_t channels, int64_t count) {
    const cf_pooling own = *pooling, *p = &own; /* no store can change it, so it stays in registers */
    const int64_t run = channels <= 4 * CF_LANES ? count : 1;
    for (; count > 0; count -= run) {
        int64_t c = 0;
        for (; c + 4 * CF_LANES <= channels; c += 4 * CF_LANES) {
            pool_windows(4, maximum, p, in + c, rows, columns, out + c, CF_LANES, run);
        }
        for (; c + 2 * CF_LANES <= channels; c += 2 * CF_LANES) {
            pool_windows(2, maximum, p, in + c, rows, columns, out + c, CF_LANES, run);
        }
        for (; c + CF_LANES <= channels; c += CF_LANES) {
            pool_windows(1, maximum, p, in + c, rows, columns, out + c, CF_LANES, run);
        }
        if (c < channels) pool_windows(1, maximum, p, in + c, rows, columns, out + c, channels - c, run);
        in += run * p->stride[1] * p->input.pixel;
        out += run * p->output.pixel;
    }
}

/* Not parts of their caller, whose variables would take the registers. */
__attribute__((noinline)) static void pool_maximum(const cf_pooling *p, const float *in, int64_t rows, int64_t columns,
                                                   float *out, int64_t channels, int64_t count) {
    pool_channels(1, p, in, rows, columns, out, channels, count);
}

__attribute__((noinline)) static void pool_sum(const cf_pooling *p, const float *in, int64_t rows, int64_t columns,
                                               float *out, int64_t channels, int64_t count) {
    pool_channels(0, p, in, rows, columns, out, channels, count);
}

#if CF_HAS_INTEGER
#if CF_BYTES_LESS == 0
typedef uint8_t cf_stored_byte;
#else
typedef int8_t cf_stored_byte;
#endif
enum { CF_POOL_BYTES = 16, CF_LEAST_BYTE = -CF_BYTES_LESS };
typedef cf_stored_byte stored_bytes_vec __attribute__((vector_size(CF_POOL_BYTES)));
typedef int8_t byte_mask_vec __attribute__((vector_size(CF_POOL_BYTES)));
typedef cf_stored_byte loose_stored_bytes_vec __attribute__((vector_size(CF_POOL_BYTES), aligned(1), may_alias));

/* The largest bytes of a window, of n channels: a whole vector of them, or fewer. */
INLINE void pool_byte_window(const cf_pooling *p, const cf_stored_byte *in, int64_t rows, int64_t columns,
                             cf_stored_byte *out, int64_t n) {
    cf_stored_byte bytes[CF_POOL_BYTES] = {0};
    stored_bytes_vec all = (stored_bytes_vec){0} + (cf_stored_byte)CF_LEAST_BYTE;
    for (int64_t y = 0; y < rows; y++) {
        const cf_stored_byte *from = in + y * p->input.row;
        for (int64_t x = 0; x < columns; x++) {
            stored_bytes_vec v;
            if (n == CF_POOL_BYTES) {
                v = *(const loose_stored_bytes_vec *)from;
            } else {
                memcpy(bytes, from, (size_t)n);
                memcpy(&v, bytes, sizeof v);
            }
            const stored_bytes_vec larger = (stored_bytes_vec)(byte_mask_vec)(v > all);
            all = (larger & v) | (~larger & all);
            from += p->input.pixel;
        }
    }
    memcpy(out, &all, (size_t)n);
}

/* Some channels of `count` windows side by side, in bytes. */
static void pool_bytes(const cf_pooling *p, const cf_stored_byte *in, int64_t rows, int64_t columns,
                       cf_stored_byte *out, int64_t channels, int64_t count) {
    for (; count > 0; count--) {
        int64_t c = 0;
        for (; c + CF_POOL_BYTES <= channels; c += CF_POOL_BYTES) {
            if (rows == 3 && columns == 3) {
                pool_byte_window(p, in + c, 3, 3, out + c, CF_POOL_BYTES);
            } else if (rows == 2 && columns == 2) {
                pool_byte_window(p, in + c, 2, 2, out + c, CF_POOL_BYTES);
            } else {
                pool_byte_window(p, in + c, rows, columns, out + c, CF_POOL_BYTES);
            }
        }
        if (c < channels) pool_byte_window(p, in + c, rows, columns, out + c, channels - c);
        in += p->stride[1] * p->input.pixel;
        out += p->output.pixel;
    }
}

/* What the sums of `pixels` bytes as they are stored become, also as they are stored. The clamp stands between the
 * multiplication and the addition, so that no compiler contracts them. It changes no byte: no offset is so large. */
INLINE ivec round_byte_sums(const cf_pooling *p, ivec sums, int32_t pixels) {
    const vec most = splat(16777216.0f), magic = splat(12582912.0f); /* 2^24; adding 1.5 * 2^23 rounds */
    vec number = __builtin_convertvector(sums + isplat(pixels * (p->least + CF_BYTES_LESS)), vec);
    if (p->divided) {
        number = number / splat((float)pixels);
        number += choose(number < zero(), splat(-0.5f), splat(0.5f));
        number = __builtin_convertvector(__builtin_convertvector(number, ivec), vec);
    } else {
        number = clamp(number * splat(p->scale), -most, most) + splat(p->offset);
    }
    number = clamp(number, splat((float)p->low), splat((float)p->high));
    return (ivec)(number + magic) - (ivec)magic - isplat(p->least + CF_BYTES_LESS);
}

/* Some channels of `count` windows side by side: what their sums become. */
static void pool_byte_sums(const cf_pooling *p, const int8_t *in, int64_t rows, int64_t columns, int8_t *out,
                           int64_t channels, int64_t count) {
    for (; count > 0; count--) {
        for (int64_t c = 0; c < channels; c += CF_LANES) {
            ivec sums = isplat(0);
            for (int64_t y = 0; y < rows; y++) {
                const int8_t *from = in + y * p->input.row + c;
                for (int64_t x = 0; x < columns; x++) sums += load_stored(from + x * p->input.pixel);
            }
            store_bytes(out + c, round_byte_sums(p, sums, (int32_t)(rows * columns)), channels - c);
        }
        in += p->stride[1] * p->input.pixel;
        out += p->output.pixel;
    }
}
#endif

/* Some channels of `count` windows side by side: their first pixel and output are numbers `from` and `to` of the
 * buffers. */
static void pool_run(const cf_pooling_plan *plan, int64_t from, int64_t rows, int64_t columns, int64_t to,
                     int64_t channels, int64_t count) {
    const cf_pooling *p = plan->pooling;
#if CF_HAS_INTEGER
    if (p->rounded && !p->maximum) {
        const int8_t *in = (const int8_t *)plan->input + from;
        pool_byte_sums(p, in, rows, columns, (int8_t *)plan->output + to, channels, count);
        return;
    }
    if (p->rounded) {
        const cf_stored_byte *in = (const cf_stored_byte *)plan->input + from;
        pool_bytes(p, in, rows, columns, (cf_stored_byte *)plan->output + to, channels, count);
        return;
    }
#endif
    const float *in = plan->input + from;
    (p->maximum ? pool_maximum : pool_sum)(p, in, rows, columns, plan->output + to, channels, count);
}

static void pool_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_pooling_plan *plan = argument;
    const cf_pooling *p = plan->pooling;
    const int64_t channel_block = task % plan->channel_blocks, row_task = task / plan->channel_blocks % plan->row_tasks;
    const int64_t image = task / plan->channel_blocks / plan->row_tasks;
    const int64_t channel = channel_block * plan->channel_block,
                  channels = min64(p->channels - channel, plan->channel_block);
    const int64_t end_row = part_start(p->out[0], row_task + 1, plan->row_tasks);
    for (int64_t row = part_start(p->out[0], row_task, plan->row_tasks); row < end_row; row++) {
        const int64_t y = row * p->stride[0] - p->padding[0], top = max64(y, 0);
        const int64_t rows = min64(y + p->window[0], p->in[0]) - top;
        for (int64_t column = 0, count; column < p->out[1]; column += count) {
            const int64_t x = column * p->stride[1] - p->padding[1], left = max64(x, 0);
            const int64_t columns = min64(x + p->window[1], p->in[1]) - left;
            /* As many windows as lie whole in the picture, or one. */
            count = columns < p->window[1] ? 1 : min64((p->in[1] - x - columns) / p->stride[1] + 1, p->out[1] - column);
            const int64_t from = p->input.first + image * p->input.image + top * p->input.row +
                                 left * p->input.pixel + channel;
            const int64_t to = p->output.first + image * p->output.image + row * p->output.row +
                               column * p->output.pixel + channel;
            pool_run(plan, from, rows, columns, to, channels, count);
        }
    }
}

enum {
    CF_SUM_PARTS = 8,         /* of a whole picture's sum: the same for any number of threads, so that its bits are */
    CF_SUM_PIXELS = 128,      /* fewer are divided by channels, as the layers around them are */
    CF_SUM_CHANNELS = 1024,   /* the most for which there is room */
    CF_POOL_THREADS = 1 << 14 /* floats that are worth a second thread */
};

/* A sum over whole pictures, whose parts are some rows each: a thread finds them in its own cache. */
typedef struct {
    cf_pooling pooling; /* with scale 1 */
    const float *image;
    float sums[CF_SUM_PARTS][CF_SUM_CHANNELS];
} cf_whole_sum;

INLINE int sums_by_rows(const cf_pooling *p) {
    const int whole = p->out[0] * p->out[1] == 1 && p->window[0] == p->in[0] && p->window[1] == p->in[1];
    return !p->maximum && !p->rounded && whole && (p->padding[0] | p->padding[1]) == 0 && p->in[0] >= CF_SUM_PARTS &&
           p->in[0] * p->in[1] >= CF_SUM_PIXELS && p->channels <= CF_SUM_CHANNELS;
}

static void sum_rows_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    cf_whole_sum *s = argument;
    const cf_pooling *p = &s->pooling;
    const int64_t first = part_start(p->in[0], task, CF_SUM_PARTS), end = part_start(p->in[0], task + 1, CF_SUM_PARTS);
    pool_sum(p, s->image + first * p->input.row, end - first, p->in[1], s->sums[task], p->channels, 1);
}

static void run_whole_sum(cf_context *context, const cf_pooling *p, const float *input, float *output,
                          cf_halos *halos) {
    cf_whole_sum s; /* not cleared */
    s.pooling = *p;
    s.pooling.scale = 1;
    const int64_t threads = p->in[0] * p->in[1] * p->channels > CF_POOL_THREADS ? (int64_t)cf_threads(context) : 1;
    for (int64_t image = 0; image < p->batch; image++) {
        s.image = input + p->input.first + image * p->input.image;
        run_with_halos(context, halos, threads, CF_SUM_PARTS, sum_rows_task, &s);
        float *out = output + p->output.first + image * p->output.image;
        for (int64_t c = 0; c < p->channels; c += CF_LANES) {
            vec total = zero();
            for (int part = 0; part < CF_SUM_PARTS; part++) total += load_upto(s.sums[part] + c, p->channels - c);
            store_upto(out + c, total * splat(p->scale), p->channels - c);
        }
    }
}

static void run_pool(cf_context *context, const cf_pooling *p, const float *input, float *output) {
    cf_pooling_plan plan = {.pooling = p, .input = input, .output = output};
    const cf_number number = CF_HAS_INTEGER && p->rounded ? zero_byte(p->zero) : (cf_number){sizeof(float), 0};
    cf_halos halos = {.count = 0};
    add_halo(&halos, number, output, &p->output, &p->halo, p->batch, p->out[0], p->out[1], p->channels);
    if (sums_by_rows(p)) {
        run_whole_sum(context, p, input, output, &halos);
        return;
    }
    const int64_t threads = cf_threads(context);
    const int64_t work = p->batch * p->out[0] * p->out[1] * p->window[0] * p->window[1] * p->channels;
    plan.row_tasks = 1;
    plan.channel_block = p->channels;
    if (threads > 1 && work > CF_POOL_THREADS) {
        const int64_t wanted = ceil_div(4 * threads, p->batch);
        plan.row_tasks = min64(p->out[0], wanted);
        /* A mean over the whole picture has one row of output: then divide the channels. */
        const int64_t channel_blocks = ceil_div(wanted, plan.row_tasks);
        plan.channel_block = max64(64, ceil_div(ceil_div(p->channels, channel_blocks), 64) * 64);
    }
    plan.channel_blocks = ceil_div(p->channels, plan.channel_block);
    run_with_halos(context, &halos, threads, p->batch * plan.row_tasks * plan.channel_blocks, pool_task, &plan);
}

typedef struct {
    const cf_repack *repack;
    const char *input; /* of any alignment */
    char *output;
    int64_t row_tasks, input_size, output_size; /* the latter: bytes of a number */
} cf_repack_plan;

#if CF_HAS_INTEGER
/* Copy `count` bytes, in which a mask changes some bits. */
INLINE void copy_masked(const char *from, char *to, int64_t count, uint8_t mask) {
    for (int64_t i = 0; i < count; i++) to[i] = (char)((uint8_t)from[i] ^ mask);
}

/* One row of `pixels` pixels to bytes as integer layers have them, or back. */
static void repack_bytes(const cf_repack *r, const char *in, char *out, int64_t pixels) {
    const int64_t step = r->input.pixel, to_step = r->output.pixel, channels = r->channels;
    const int dense = step == channels && to_step == channels;
    const int64_t runs = dense ? 1 : pixels, run = dense ? pixels * channels : channels;
    if (r->form == CF_REPACK_CENTRED) {
        const int32_t offset = r->zero - CF_BYTES_LESS;
        for (int64_t x = 0; x < runs; x++) {
            for (int64_t c = 0; c < run; c++) {
                int32_t number;
                memcpy(&number, in + (x * step + c) * (int64_t)sizeof number, sizeof number);
                out[x * to_step + c] = (char)(number + offset);
            }
        }
        return;
    }
    if (r->form == CF_REPACK_BYTES) {
        for (int64_t x = 0; x < runs; x++) memcpy(out + x * to_step, in + x * step, (size_t)run);
        return;
    }
    const uint8_t mask = (r->form == CF_REPACK_SIGNED) == (CF_BYTES_LESS == 0) ? 0x80 : 0;
    int64_t x = 0;
    if (channels == 3 && step == 3 && to_step == 4) {
        typedef uint8_t sixteen __attribute__((vector_size(16)));
        for (; 3 * x + 16 <= 3 * pixels; x += 4) {
            sixteen four;
            memcpy(&four, in + 3 * x, sizeof four);
            four = __builtin_shufflevector(four, four, 0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11) ^ mask;
            memcpy(out + 4 * x, &four, sizeof four);
        }
    }
    if (channels < 4 && to_step == 4) { /* words: what is behind a pixel's channels does not matter */
        for (; (x + 1) * step + 4 <= pixels * step; x++) {
            uint32_t word;
            memcpy(&word, in + x * step, sizeof word);
            word ^= mask * 0x01010101u;
            memcpy(out + x * to_step, &word, sizeof word);
        }
    }
    for (; x < runs; x++) copy_masked(in + x * step, out + x * to_step, run, mask);
}
#endif

static void repack_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_repack_plan *plan = argument;
    const cf_repack *r = plan->repack;
    const int64_t image = task / plan->row_tasks, row_task = task % plan->row_tasks;
    const int64_t end = part_start(r->size[0], row_task + 1, plan->row_tasks);
    const int64_t pixel_bytes = r->channels * plan->output_size;
    for (int64_t row = part_start(r->size[0], row_task, plan->row_tasks); row < end; row++) {
        const int64_t first = r->input.first + image * r->input.image + row * r->input.row;
        const int64_t to = r->output.first + image * r->output.image + row * r->output.row;
        const char *in = plan->input + first * plan->input_size;
        char *out = plan->output + to * plan->output_size;
#if CF_HAS_INTEGER
        if (r->form != CF_REPACK_FLOATS) {
            repack_bytes(r, in, out, r->size[1]);
            continue;
        }
#endif
        if (r->input.pixel == r->channels && r->output.pixel == r->channels) {
            memcpy(out, in, (size_t)(r->size[1] * pixel_bytes));
        } else {
            for (int64_t x = 0; x < r->size[1]; x++) {
                memcpy(out + x * r->output.pixel * plan->output_size, in + x * r->input.pixel * plan->input_size,
                       (size_t)pixel_bytes);
            }
        }
    }
}

static void run_repack(cf_context *context, const cf_repack *r, const void *input, float *output) {
    const int bytes = CF_HAS_INTEGER && r->form != CF_REPACK_FLOATS;
    const cf_number number = bytes ? zero_byte(r->zero) : (cf_number){sizeof(float), 0};
    cf_repack_plan plan = {.repack = r, .input = input, .output = (char *)output, .output_size = number.size};
    plan.input_size = bytes && r->form != CF_REPACK_CENTRED ? 1 : (int64_t)sizeof(float);
    cf_halos halos = {.count = 0};
    add_halo(&halos, number, output, &r->output, &r->halo, r->batch, r->size[0], r->size[1], r->channels);
    /* 64 KB are worth another task. */
    const int64_t floats = r->size[0] * r->size[1] * r->channels;
    plan.row_tasks = max64(1, min64(min64(4 * cf_threads(context), floats >> 14), r->size[0]));
    run_with_halos(context, &halos, cf_threads(context), r->batch * plan.row_tasks, repack_task, &plan);
}

#endif
