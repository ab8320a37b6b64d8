/* What the tests and micro-benchmarks of the fused kernels call: one context, one kernel at a time. */
#define _GNU_SOURCE
#include "abi/program.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Filled in by the build: the same kernels for several vector widths. */
extern const cf_fused *const cf_test_tables[];
extern const cf_integer_layer cf_test_integers[];
extern const cf_attention_layer cf_test_attentions[];

EXPORT cf_context *cf_test_open(int table, uint32_t threads) {
    cf_context *context = calloc(1, sizeof *context);
    if (context == NULL) abort();
    (void)cf_permitted_level(cf_cpu_level()); /* the system must be asked for AMX */
    context->fused = cf_test_tables[table];
    context->integer = cf_test_integers[table];
    context->attention = cf_test_attentions[table];
    context->pool = threads > 1 ? cf_pool_new(threads) : NULL;
    return context;
}

EXPORT void cf_test_close(cf_context *context) {
    cf_pool_free(context->pool);
    free(context);
}

static void run_layer(cf_context *context, const cf_layer *layer, const cf_layer_data *data) {
    const int integer = layer->algorithm == CF_INTEGER || layer->algorithm == CF_INTEGER_WINOGRAD4 ||
                        layer->algorithm == CF_INTEGER_DEPTHWISE;
    (integer ? context->integer : context->fused->layer)(context, layer, data);
}

EXPORT void cf_test_layer(cf_context *context, const cf_layer *layer, const cf_layer_data *data) {
    cf_pool_enter(context->pool, getpid());
    run_layer(context, layer, data);
}

EXPORT void cf_test_pool(cf_context *context, const cf_pooling *pooling, const float *input, float *output) {
    cf_pool_enter(context->pool, getpid());
    context->fused->pool(context, pooling, input, output);
}

EXPORT void cf_test_repack(cf_context *context, const cf_repack *repack, const float *input, float *output) {
    cf_pool_enter(context->pool, getpid());
    context->fused->repack(context, repack, input, output);
}

EXPORT void cf_test_add(cf_context *context, const cf_addition *addition, const cf_addition_data *data) {
    cf_pool_enter(context->pool, getpid());
    context->fused->add(context, addition, data);
}

EXPORT void cf_test_norm(cf_context *context, const cf_norm *norm, const cf_norm_data *data) {
    cf_pool_enter(context->pool, getpid());
    context->fused->norm(context, norm, data);
}

EXPORT void cf_test_recurrent(cf_context *context, const cf_recurrent *recurrent, const cf_recurrent_data *data) {
    cf_pool_enter(context->pool, getpid());
    context->fused->recurrent(context, recurrent, data);
}

EXPORT void cf_test_attention(cf_context *context, const cf_attention *attention, const cf_attention_data *data) {
    cf_pool_enter(context->pool, getpid());
    context->attention(context, attention, data);
}

EXPORT uint32_t cf_test_cpus(void) { return cf_usable_cpus(); }

typedef struct {
    uint64_t runs[64];
    uint32_t threads_seen;
} count_argument;

static void count_task(void *argument, int64_t task, uint32_t thread) {
    count_argument *count = argument;
    __atomic_fetch_add(&count->runs[task], 1, __ATOMIC_RELAXED);
    __atomic_fetch_or(&count->threads_seen, 1u << thread, __ATOMIC_RELAXED);
}

/* Runs `rounds` jobs of `tasks` <= 64 tasks; 1 if every task of every job ran exactly once. */
EXPORT int cf_test_count(cf_context *context, int rounds, int64_t tasks) {
    cf_pool_enter(context->pool, getpid());
    for (int round = 0; round < rounds; round++) {
        count_argument count = {{0}, 0};
        cf_parallel_for(context, tasks, count_task, &count);
        for (int64_t i = 0; i < tasks; i++) {
            if (count.runs[i] != 1) return 0;
        }
        if (count.threads_seen >> cf_threads(context)) return 0;
    }
    return 1;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The fastest of several runs, in seconds. */
EXPORT double cf_test_time(cf_context *context, const cf_layer *layer, const cf_layer_data *data, int runs) {
    double best = 1e9;
    cf_pool_enter(context->pool, getpid());
    for (int i = 0; i < runs; i++) {
        const double start = now();
        run_layer(context, layer, data);
        const double took = now() - start;
        if (took < best) best = took;
    }
    return best;
}

/* Multiply-adds from registers: the most this core can do with 256-bit vectors, in FLOP/s. */
typedef float vec __attribute__((vector_size(32)));

EXPORT double cf_test_peak(void) {
    vec s[12];
    for (int i = 0; i < 12; i++) s[i] = (vec){0} + (float)i;
    volatile float one = 0.999f;
    const vec a = (vec){0} + one, b = (vec){0} + one * 0.001f;
    double best = 0;
    for (int round = 0; round < 20; round++) {
        const int count = 100000;
        const double start = now();
        for (int k = 0; k < count; k++) {
            for (int i = 0; i < 12; i++) s[i] = s[i] * a + b;
        }
        const double speed = 12.0 * 8 * 2 * count / (now() - start);
        if (speed > best) best = speed;
    }
    for (int i = 1; i < 12; i++) s[0] += s[i];
    one = s[0][0];
    return best;
}
