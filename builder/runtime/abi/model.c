/* The C ABI. Compiled for the baseline CPU: cf_open must be able to say that a CPU is too old. */
#include "abi/program.h"
#include "abi/ranges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
/* XLA's seed (kRngStateInitialValue in xla/backends/cpu/runtime/rng_state_lib.h). */
#define RNG_SEED 0x7012395ull

struct cf_model {
    cf_context context;
    cf_lock busy; /* held during a call on the model */
#ifdef CF_PARTS
    cf_context *part_contexts; /* of the other threads, or NULL */
#endif
    void *mapping; /* of a weights file, or NULL */
    size_t mapped;
    size_t signature; /* the one that cf_run runs */
    char error[256];
};

static const char *open_error = "";

EXPORT uint32_t cf_abi_version(void) { return CF_ABI_VERSION; }

EXPORT const char *cf_describe(void) { return cf_compiled_program.description; }

cf_status cf_refuse_open(const char *why, cf_status status) {
    __atomic_store_n(&open_error, why, __ATOMIC_RELEASE);
    return status;
}

/* COLDFORGE_CPU, the name of a level, limits it, to measure how a lesser CPU would do. */
static void choose_kernels(cf_context *context) {
    static const struct {
        const char *name;
        uint32_t level;
    } limits[] = {{"x86-64-v3", 0}, {"x86-64-v4", 1}, {"x86-64-v4+avx512vnni", 2}, {"neoverse-n1", 0}};
    uint32_t level = cf_cpu_level();
    const char *most = getenv("COLDFORGE_CPU");
    for (size_t i = 0; most != NULL && i < sizeof limits / sizeof *limits; i++) {
        if (strcmp(most, limits[i].name) == 0 && level > limits[i].level) level = limits[i].level;
    }
    if (cf_compiled_program.fused != NULL) context->fused = cf_compiled_program.fused[level];
    if (cf_compiled_program.attention != NULL) context->attention = cf_compiled_program.attention[level];
    if (cf_compiled_program.trees != NULL) context->trees = cf_compiled_program.trees[level];
    if (cf_compiled_program.integer != NULL) {
        context->integer = cf_compiled_program.integer[cf_permitted_level(level)];
    }
}

static cf_status open_model(uint32_t threads, const uint8_t *weights, cf_model **model) {
    if (model == NULL) return cf_refuse_open("cf_open: model is NULL", CF_ERR_ARGUMENT);
    *model = NULL;
    const char *missing = cf_missing_cpu_feature();
    if (missing != NULL) return cf_refuse_open(missing, CF_ERR_CPU);
    cf_model *opened = calloc(1, sizeof *opened);
    if (opened == NULL) return cf_refuse_open("cf_open: out of memory", CF_ERR_MEMORY);
    opened->context.arena = cf_arena_new(cf_compiled_program.arena_size, cf_compiled_program.arena_touched);
    if (opened->context.arena == NULL) {
        free(opened);
        return cf_refuse_open("cf_open: not enough memory for the model's buffers", CF_ERR_MEMORY);
    }
    if (threads == 0) threads = cf_usable_cpus();
    if (threads > 1 && (opened->context.pool = cf_pool_new(threads)) == NULL) {
        cf_close(opened);
        return cf_refuse_open("cf_open: out of memory", CF_ERR_MEMORY);
    }
    opened->context.weights = weights;
    choose_kernels(&opened->context);
#ifdef CF_PARTS
    opened->part_contexts = cf_part_contexts_new(&opened->context);
#endif
    const size_t state_size = cf_compiled_program.state_size;
    if (state_size != 0 && (opened->context.state = malloc(state_size)) == NULL) {
        cf_close(opened);
        return cf_refuse_open("cf_open: not enough memory for the model's state", CF_ERR_MEMORY);
    }
    (void)cf_reset(opened);
    *model = opened;
    return CF_OK;
}

EXPORT cf_status cf_open(uint32_t threads, cf_model **model) {
    const cf_program *program = &cf_compiled_program;
    return program->outside != NULL ? program->outside->open(threads, model)
                                    : open_model(threads, program->weights, model);
}

cf_status cf_open_with(uint32_t threads, const uint8_t *weights, void *mapping, size_t mapped, cf_model **model) {
    const cf_status status = open_model(threads, weights, model);
    if (status != CF_OK) return status;
    (*model)->mapping = mapping;
    (*model)->mapped = mapped;
    return CF_OK;
}

static cf_status ended_well(cf_model *model) {
    model->error[0] = '\0';
    return CF_OK;
}

/* Begin a call on the model. Unless the result is CF_OK, the call must do nothing, and not call leave(). */
static cf_status enter(cf_model *model) {
    if (model == NULL) return CF_ERR_ARGUMENT;
    return cf_lock_try(&model->busy) ? CF_OK : CF_ERR_BUSY;
}

static cf_status leave(cf_model *model, cf_status status) {
    model->busy = 0; /* nobody waits for it */
    return status;
}

EXPORT cf_status cf_close(cf_model *model) {
    if (model == NULL) return CF_OK;
    if (enter(model) != CF_OK) return CF_ERR_BUSY;
#ifdef CF_PARTS
    cf_part_contexts_free(model->part_contexts, cf_threads(&model->context));
#endif
    cf_pool_free(model->context.pool);
    free(model->context.arena);
    free(model->context.state);
    if (model->mapping != NULL) cf_compiled_program.outside->unmap(model->mapping, model->mapped);
    free(model);
    return CF_OK;
}

EXPORT cf_status cf_reset(cf_model *model) {
    const cf_status entered = enter(model);
    if (entered != CF_OK) return entered;
    model->context.rng_low = RNG_SEED;
    model->context.rng_high = 0;
    for (size_t i = 0; i < cf_compiled_program.state_count; i++) {
        const cf_state *state = &cf_compiled_program.states[i];
        memcpy(model->context.state + state->offset, model->context.weights + state->first, state->size);
    }
    return leave(model, ended_well(model));
}

static cf_status check_state(cf_model *model, const void *data, size_t size) {
    const size_t expected = cf_compiled_program.state_size;
    model->error[0] = '\0';
    if (size == expected && (data != NULL || size == 0)) return CF_OK;
    snprintf(model->error, sizeof model->error, "the state has %zu bytes, not %zu", expected,
             size != expected ? size : (size_t)0);
    return CF_ERR_ARGUMENT;
}

EXPORT cf_status cf_get_state(cf_model *model, void *data, size_t size) {
    const cf_status entered = enter(model);
    if (entered != CF_OK) return entered;
    const cf_status status = check_state(model, data, size);
    if (status == CF_OK && size != 0) memcpy(data, model->context.state, size);
    return leave(model, status);
}

EXPORT cf_status cf_set_state(cf_model *model, const void *data, size_t size) {
    const cf_status entered = enter(model);
    if (entered != CF_OK) return entered;
    const cf_status status = check_state(model, data, size);
    if (status == CF_OK && size != 0) memcpy(model->context.state, data, size);
    return leave(model, status);
}

/* Steps change the variables in the arena. The state keeps what they were until a run has ended well. */
static void load_state(const cf_context *context) {
    for (size_t i = 0; i < cf_compiled_program.state_count; i++) {
        const cf_state *state = &cf_compiled_program.states[i];
        memcpy(context->arena + state->read, context->state + state->offset, state->size);
    }
}

static void store_state(cf_context *context) {
    for (size_t i = 0; i < cf_compiled_program.state_count; i++) {
        const cf_state *state = &cf_compiled_program.states[i];
        const uint8_t *base = state->constant ? context->weights : context->arena;
        memcpy(context->state + state->offset, base + state->write, state->size);
    }
}

EXPORT const char *cf_last_error(const cf_model *model) {
    return model != NULL ? model->error : __atomic_load_n(&open_error, __ATOMIC_ACQUIRE);
}

static const cf_program *program_at(size_t i) {
    return i == 0 ? &cf_compiled_program : cf_compiled_program.others[i - 1];
}

/* The first program of the signature that is set. */
static const cf_program *first_program(const cf_model *model) {
    size_t i = 0;
    while (program_at(i)->signature != model->signature) i++;
    return program_at(i);
}

/* Feeds come before fetches; every program of a signature has the same ones, in other sizes. */
static const cf_port *port_at(const cf_program *program, size_t i) {
    return i < program->feed_count ? &program->feeds[i] : &program->fetches[i - program->feed_count];
}

static size_t size_at(const cf_feed *feeds, size_t feed_count, const cf_fetch *fetches, size_t i) {
    return i < feed_count ? feeds[i].size : fetches[i - feed_count].size;
}

/* How many of the given sizes, from the first on, are this program's. */
static size_t fit(const cf_program *program, const cf_feed *feeds, const cf_fetch *fetches) {
    const size_t count = program->feed_count + program->fetch_count;
    size_t i = 0;
    while (i < count && size_at(feeds, program->feed_count, fetches, i) == port_at(program, i)->size) i++;
    return i;
}

/* Write the error text for the first wrong size, after `fitting` right ones: what it could be instead. */
static cf_status refuse_size(cf_model *model, const cf_feed *feeds, const cf_fetch *fetches, size_t fitting) {
    const cf_program *first = first_program(model);
    char *text = model->error;
    size_t used = 0, last = 0;
    const size_t capacity = sizeof model->error;
    for (size_t i = 0; i <= cf_compiled_program.other_count && used < capacity; i++) {
        if (program_at(i)->signature != model->signature || fit(program_at(i), feeds, fetches) != fitting) continue;
        const cf_port *port = port_at(program_at(i), fitting);
        if (used != 0 && port->size == last) continue;
        last = port->size;
        if (used == 0) {
            const char *kind = fitting < first->feed_count ? "feed" : "fetch";
            used = (size_t)snprintf(text, capacity, "%s %s takes %zu", kind, port->name, last);
        } else {
            used += (size_t)snprintf(text + used, capacity - used, " or %zu", last);
        }
    }
    if (used < capacity) {
        snprintf(text + used, capacity - used, " bytes, not %zu", size_at(feeds, first->feed_count, fetches, fitting));
    }
    return CF_ERR_ARGUMENT;
}

/* The program of the signature whose sizes are all as given. */
static cf_status choose_program(cf_model *model, const cf_feed *feeds, const cf_fetch *fetches,
                                const cf_program **program) {
    size_t most = 0;
    for (size_t i = 0; i <= cf_compiled_program.other_count; i++) {
        if (program_at(i)->signature != model->signature) continue;
        *program = program_at(i);
        const size_t fitting = fit(*program, feeds, fetches);
        if (fitting == (*program)->feed_count + (*program)->fetch_count) return CF_OK;
        if (fitting > most) most = fitting;
    }
    return refuse_size(model, feeds, fetches, most);
}

static cf_status check_data(cf_model *model, const char *kind, const cf_port *port, const void *data) {
    if (data != NULL || port->size == 0) return CF_OK;
    snprintf(model->error, sizeof model->error, "%s %s is NULL", kind, port->name);
    return CF_ERR_ARGUMENT;
}

static cf_status check_count(cf_model *model, const char *kind, size_t expected, size_t count,
                             const void *array) {
    if (count == expected && (array != NULL || count == 0)) return CF_OK;
    snprintf(model->error, sizeof model->error, "the model has %zu %s, not %zu", expected, kind,
             count != expected ? count : (size_t)0);
    return CF_ERR_ARGUMENT;
}

/* Of libraries with several signatures only: see public_names in builder/compiler/link/shared_library.py. */
EXPORT cf_status cf_set_signature(cf_model *model, const char *name) {
    const cf_status entered = enter(model);
    if (entered != CF_OK) return entered;
    const cf_program *first = &cf_compiled_program;
    for (size_t i = 0; i < first->signature_count; i++) {
        if (name != NULL && strcmp(name, first->signatures[i]) != 0) continue;
        model->signature = i;
        return leave(model, ended_well(model));
    }
    size_t used = (size_t)snprintf(model->error, sizeof model->error, "there is no signature %.60s; there is", name);
    for (size_t i = 0; i < first->signature_count && used < sizeof model->error; i++) {
        used += (size_t)snprintf(model->error + used, sizeof model->error - used, "%s %s", i != 0 ? "," : "",
                                 first->signatures[i]);
    }
    return leave(model, CF_ERR_ARGUMENT);
}

static cf_status kernel_failed(cf_model *model, cf_status status) {
    snprintf(model->error, sizeof model->error, "a compiled kernel reported an error");
    return status;
}

static cf_status run_model(cf_model *model, const cf_feed *feeds, size_t feed_count,
                           const cf_fetch *fetches, size_t fetch_count) {
    const cf_program *program = first_program(model);
    cf_status status = check_count(model, "feeds", program->feed_count, feed_count, feeds);
    if (status == CF_OK) {
        status = check_count(model, "fetches", program->fetch_count, fetch_count, fetches);
    }
    if (status == CF_OK) status = choose_program(model, feeds, fetches, &program);
    for (size_t i = 0; status == CF_OK && i < feed_count; i++) {
        status = check_data(model, "feed", &program->feeds[i], feeds[i].data);
    }
    for (size_t i = 0; status == CF_OK && i < fetch_count; i++) {
        status = check_data(model, "fetch", &program->fetches[i], fetches[i].data);
    }
    if (status == CF_OK) status = check_ranges(program, feeds, model->error, sizeof model->error);
    if (status != CF_OK) return status;

    cf_pool_enter(model->context.pool, model->busy); /* which is held by this process */
#ifdef CF_PARTS
    if (program->parts != 0) {
        status = cf_run_parts(program, &model->context, model->part_contexts, feeds, fetches);
        return status == CF_OK ? ended_well(model) : kernel_failed(model, status);
    }
#endif
    uint8_t *arena = model->context.arena;
    model->context.feeds = feeds;
    model->context.part = 0;
    for (size_t i = 0; i < feed_count; i++) {
        const cf_port *port = &program->feeds[i];
        if (port->space == CF_IN_ARENA && port->size != 0) memcpy(arena + port->offset, feeds[i].data, port->size);
    }
    load_state(&model->context);
    const uint64_t rng_low = model->context.rng_low, rng_high = model->context.rng_high;
    status = program->run(&model->context);
    if (status != CF_OK) {
        model->context.rng_low = rng_low;
        model->context.rng_high = rng_high;
        return kernel_failed(model, status);
    }
#ifdef CF_DYNAMIC
    status = cf_trim(program, &model->context, model->error, sizeof model->error);
    if (status != CF_OK) {
        model->context.rng_low = rng_low;
        model->context.rng_high = rng_high;
        return status;
    }
#endif
    for (size_t i = 0; i < fetch_count; i++) {
        const cf_port *port = &program->fetches[i];
        const uint8_t *start = cf_start_of(&model->context, port->space);
        if (port->size != 0) memcpy(fetches[i].data, start + port->offset, port->size);
    }
    store_state(&model->context);
    return ended_well(model);
}

EXPORT cf_status cf_run(cf_model *model, const cf_feed *feeds, size_t feed_count,
                        const cf_fetch *fetches, size_t fetch_count) {
    const cf_status entered = enter(model);
    return entered == CF_OK ? leave(model, run_model(model, feeds, feed_count, fetches, fetch_count)) : entered;
}

cf_status cf_run_shared(const cf_feed *feeds, size_t feed_count, const cf_fetch *fetches,
                        size_t fetch_count) {
    static cf_lock lock;
    static cf_model *shared;
    cf_lock_take(&lock);
    cf_status status = shared != NULL ? CF_OK : cf_open(0, &shared);
    if (status == CF_OK) status = cf_run(shared, feeds, feed_count, fetches, fetch_count);
    cf_lock_give(&lock);
    return status;
}

typedef struct {
    cf_kernel kernel;
    cf_dim3 workgroups;
    const cf_kernel_argument *arguments;
    size_t count;
    uint64_t share, total; /* work groups of one task; of all */
    int failed;
} kernel_call;

static void kernel_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    kernel_call *call = argument;
    const uint64_t x = call->workgroups.x, y = call->workgroups.y;
    uint64_t at = (uint64_t)task * call->share, end = at + call->share;
    if (end > call->total) end = call->total;
    for (; at < end; at++) {
        const cf_dim3 workgroup = {at % x, at / x % y, at / x / y};
        const cf_call_frame frame = {&call->workgroups, &workgroup, call->count, call->arguments};
        if (call->kernel(&frame) != NULL) {
            __atomic_store_n(&call->failed, 1, __ATOMIC_RELAXED);
            return;
        }
    }
}

cf_status cf_call_kernel(cf_context *context, cf_kernel kernel, const cf_kernel_argument *arguments,
                         size_t count, uint64_t x, uint64_t y, uint64_t z) {
    kernel_call call = {kernel, {x, y, z}, arguments, count, 1, x * y * z, 0};
    const uint64_t tasks = 4 * (uint64_t)cf_threads(context);
    call.share = call.total > tasks ? (call.total + tasks - 1) / tasks : 1;
    const uint64_t count_tasks = (call.total + call.share - 1) / call.share;
    cf_parallel_for(context, (int64_t)count_tasks, kernel_task, &call);
    return call.failed ? CF_ERR_KERNEL : CF_OK;
}

typedef struct {
    const cf_dot *dot;
    const void *lhs, *rhs;
    void *out;
} dot_call;

static void dot_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const dot_call *call = argument;
    cf_run_dot_at(call->dot, task, call->lhs, call->rhs, call->out);
}

void cf_call_dot(cf_context *context, const cf_dot *dot, const void *lhs, const void *rhs, void *out) {
    enum { WORTH = 100000 }; /* multiply-adds, two microseconds or so */
    dot_call call = {dot, lhs, rhs, out};
    if ((double)dot->batch * (double)dot->m * (double)dot->n * (double)dot->k < WORTH) {
        cf_run_dot(dot, lhs, rhs, out);
    } else {
        cf_parallel_for(context, dot->batch, dot_task, &call);
    }
}

typedef struct {
    const cf_broadcast *broadcast;
    const float *source, *other;
    float *target;
    int64_t rows, tasks;
} broadcast_call;

static void broadcast_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const broadcast_call *c = argument;
    cf_run_broadcast(c->broadcast, task * c->rows / c->tasks, (task + 1) * c->rows / c->tasks, c->source, c->other,
                     c->target);
}

void cf_call_broadcast(cf_context *context, const cf_broadcast *b, const void *source, const void *other,
                       void *target) {
    enum { WORTH = 8192 }; /* floats, a microsecond or so */
    broadcast_call call = {b, source, other, target, b->dims[0] * b->dims[1] * b->dims[2], 1};
    const int64_t threads = cf_threads(context);
    if (call.rows * b->dims[3] >= WORTH) call.tasks = call.rows < 2 * threads ? call.rows : 2 * threads;
    if (threads == 1) call.tasks = 1;
    cf_parallel_for(context, call.tasks, broadcast_task, &call);
}

void cf_advance_rng(cf_context *context, void *state, uint64_t delta) {
    const uint64_t words[2] = {context->rng_low, context->rng_high};
    memcpy(state, words, sizeof words);
    context->rng_low += delta;
    context->rng_high += context->rng_low < delta;
}
