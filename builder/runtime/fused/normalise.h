/* Layer normalisation: each pixel's channels less their mean, over their standard deviation, times gamma plus beta. Or
 * their softmax. */
#ifndef COLDFORGE_NORMALISE_H
#define COLDFORGE_NORMALISE_H

#include "fused/activation.h"
#include "fused/blocking.h"
#include "fused/halo.h"

enum { CF_NORM_CHAINS = 4 }; /* sums side by side, which hide the latency of the additions */

typedef struct {
    const cf_norm *norm;
    const cf_norm_data *data;
    int64_t pixels, tasks;
} cf_norm_plan;

/* The sum of `count` numbers, or of the squares of what they are more than `mean`. A sum's order depends on nothing but
 * `count`. */
INLINE float sum_of(const int squares, const float *in, int64_t count, float mean) {
    const vec subtracted = splat(mean);
    vec sum[CF_NORM_CHAINS];
    UNROLL for (int i = 0; i < CF_NORM_CHAINS; i++) sum[i] = zero();
    int64_t c = 0;
    for (; c + CF_NORM_CHAINS * CF_LANES <= count; c += CF_NORM_CHAINS * CF_LANES) {
        UNROLL for (int i = 0; i < CF_NORM_CHAINS; i++) {
            const vec x = load(in + c + i * CF_LANES), d = x - subtracted;
            sum[i] += squares ? d * d : x;
        }
    }
    for (; c + CF_LANES <= count; c += CF_LANES) {
        const vec x = load(in + c), d = x - subtracted;
        sum[0] += squares ? d * d : x;
    }
    UNROLL for (int i = 1; i < CF_NORM_CHAINS; i++) sum[0] += sum[i];
    float lanes[CF_LANES];
    store(lanes, sum[0]);
    UNROLL for (int half = CF_LANES / 2; half > 0; half /= 2) {
        UNROLL for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
    }
    for (; c < count; c++) {
        const float d = in[c] - mean;
        lanes[0] += squares ? d * d : in[c];
    }
    return lanes[0];
}

static void norm_pixel(const cf_norm *n, const cf_norm_data *data, const float *in, float *out) {
    const int64_t channels = n->channels;
    const float mean = n->centred ? sum_of(0, in, channels, 0.0f) / (float)channels : 0.0f;
    const float variance = sum_of(1, in, channels, mean) / (float)channels;
    const vec factor = splat(1.0f / square_root(variance + n->epsilon)), subtracted = splat(mean);
    for (int64_t c = 0; c < channels; c += CF_LANES) {
        const int64_t rest = channels - c;
        const vec x = (load_upto(in + c, rest) - subtracted) * factor;
        store_upto(out + c, x * load(data->gamma + c) + load(data->beta + c), rest);
    }
}

/* The largest of `count` numbers that are not NaN. */
INLINE float largest_of(const float *in, int64_t count) {
    vec most[CF_NORM_CHAINS];
    UNROLL for (int i = 0; i < CF_NORM_CHAINS; i++) most[i] = splat(in[0]);
    int64_t c = 0;
    for (; c + CF_NORM_CHAINS * CF_LANES <= count; c += CF_NORM_CHAINS * CF_LANES) {
        UNROLL for (int i = 0; i < CF_NORM_CHAINS; i++) most[i] = at_least(load(in + c + i * CF_LANES), most[i]);
    }
    for (; c + CF_LANES <= count; c += CF_LANES) most[0] = at_least(load(in + c), most[0]);
    UNROLL for (int i = 1; i < CF_NORM_CHAINS; i++) most[0] = at_least(most[0], most[i]);
    float lanes[CF_LANES];
    store(lanes, most[0]);
    for (int i = 1; i < CF_LANES; i++) lanes[0] = lanes[i] > lanes[0] ? lanes[i] : lanes[0];
    for (; c < count; c++) lanes[0] = in[c] > lanes[0] ? in[c] : lanes[0];
    return lanes[0];
}

/* A NaN need not be among the largest: its power is NaN, and so is their sum. Lanes behind the last channel are zeros,
 * which may be far above the largest: exp_vec has a bound there too. */
static void softmax_pixel(int64_t channels, const float *in, float *out) {
    const vec most = splat(largest_of(in, channels));
    for (int64_t c = 0; c < channels; c += CF_LANES) {
        const int64_t rest = channels - c;
        store_upto(out + c, exp_vec(load_upto(in + c, rest) - most), rest);
    }
    const vec factor = splat(1.0f / sum_of(0, out, channels, 0.0f));
    for (int64_t c = 0; c < channels; c += CF_LANES) {
        const int64_t rest = channels - c;
        store_upto(out + c, load_upto(out + c, rest) * factor, rest);
    }
}

static void norm_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_norm_plan *plan = argument;
    const cf_norm *n = plan->norm;
    const int64_t end = part_start(plan->pixels, task + 1, plan->tasks);
    for (int64_t pixel = part_start(plan->pixels, task, plan->tasks); pixel < end;) {
        const int64_t x = pixel % n->size[1], row = pixel / n->size[1];
        const int64_t y = row % n->size[0], image = row / n->size[0];
        const int64_t count = min64(n->size[1] - x, end - pixel);
        const float *in = plan->data->input + n->input.first + image * n->input.image + y * n->input.row;
        float *out = plan->data->output + n->output.first + image * n->output.image + y * n->output.row;
        for (int64_t i = x; i < x + count; i++) {
            const float *from = in + i * n->input.pixel;
            if (n->softmax) {
                softmax_pixel(n->channels, from, out + i * n->output.pixel);
            } else {
                norm_pixel(n, plan->data, from, out + i * n->output.pixel);
            }
        }
        pixel += count;
    }
}

static void run_norm(cf_context *context, const cf_norm *n, const cf_norm_data *data) {
    cf_norm_plan plan = {n, data, n->batch * n->size[0] * n->size[1], 1};
    const cf_number number = {sizeof(float), 0};
    cf_halos halos = {.count = 0};
    add_halo(&halos, number, data->output, &n->output, &n->halo, n->batch, n->size[0], n->size[1], n->channels);
    const int64_t threads = threads_for(context, plan.pixels * n->channels, 4);
    if (threads > 1) plan.tasks = min64(2 * threads, plan.pixels);
    run_with_halos(context, &halos, threads, plan.tasks, norm_task, &plan);
}

#endif
