/*
 * A batch in parts: the steps of a program for one input run once for each input of the batch. What a layer leaves for
 * one input is still in the caches when the next layer reads it; what it leaves for sixteen may not be.
 *
 * With several threads, parts run side by side, each on one thread and in an arena of its own: threads then wait for
 * each other once in a run, not once in a layer. Parts that would leave threads idle at the end run one after another,
 * each on all threads.
 *
 * The dense end, if there is one, runs for all inputs at once, between the steps before it and those behind it.
 */
#include "abi/program.h"

#include <stdlib.h>
#include <string.h>

cf_context *cf_part_contexts_new(const cf_context *context) {
    const uint32_t count = cf_threads(context) - 1;
    if (count == 0 || cf_compiled_program.part_arena_size == 0) return NULL;
    cf_context *contexts = calloc(count, sizeof *contexts);
    if (contexts == NULL) return NULL;
    for (uint32_t i = 0; i < count; i++) {
        contexts[i] = *context;
        contexts[i].pool = NULL;
        contexts[i].arena = cf_arena_new(cf_compiled_program.part_arena_size, 0);
        if (contexts[i].arena == NULL) {
            cf_part_contexts_free(contexts, cf_threads(context));
            return NULL;
        }
    }
    return contexts;
}

void cf_part_contexts_free(cf_context *contexts, uint32_t threads) {
    for (uint32_t i = 0; contexts != NULL && i + 1 < threads; i++) free(contexts[i].arena);
    free(contexts);
}

/* A batch, and the contexts of its parts. */
typedef struct {
    const cf_program *program, *part; /* `part` has the steps */
    cf_context *context, *others;     /* the caller's; those of the other threads, or NULL */
    const cf_feed *feeds;
    const cf_fetch *fetches;
} batch;

/* What is run for each part. */
typedef cf_status (*part_function)(const batch *b, cf_context *context, size_t number);

static void copy_feeds(const batch *b, cf_context *context, size_t number) {
    context->feeds = b->feeds;
    context->part = number;
    for (size_t i = 0; i < b->part->feed_count; i++) {
        const cf_port *port = &b->part->feeds[i];
        const size_t size = b->feeds[i].size / b->program->parts;
        const uint8_t *data = (const uint8_t *)b->feeds[i].data + number * size;
        if (port->space == CF_IN_ARENA && size != 0) memcpy(context->arena + port->offset, data, size);
    }
}

static void copy_fetches(const batch *b, const cf_context *context, size_t number) {
    for (size_t i = 0; i < b->part->fetch_count; i++) {
        const cf_port *port = &b->part->fetches[i];
        const size_t size = b->fetches[i].size / b->program->parts;
        const uint8_t *start = cf_start_of(context, port->space);
        if (size != 0) memcpy((uint8_t *)b->fetches[i].data + number * size, start + port->offset, size);
    }
}

static cf_status run_whole(const batch *b, cf_context *context, size_t number) {
    copy_feeds(b, context, number);
    const cf_status status = b->part->run(context);
    if (status == CF_OK) copy_fetches(b, context, number);
    return status;
}

static uint8_t *values_of(const batch *b) { return b->context->arena + b->program->values; }

static cf_status run_head(const batch *b, cf_context *context, size_t number) {
    const cf_dense_end *end = b->part->dense_end;
    copy_feeds(b, context, number);
    const cf_status status = end->head(context);
    memcpy(values_of(b) + number * end->input_size, context->arena + end->input, end->input_size);
    return status;
}

static cf_status run_tail(const batch *b, cf_context *context, size_t number) {
    const cf_dense_end *end = b->part->dense_end;
    const uint8_t *output = values_of(b) + b->program->parts * end->before + number * end->output_size;
    memcpy(context->arena + end->output, output, end->output_size);
    const cf_status status = end->tail(context);
    if (status == CF_OK) copy_fetches(b, context, number);
    return status;
}

typedef struct {
    const batch *of;
    cf_context own; /* the caller's, for one thread */
    part_function run;
    int failed;
} side_by_side;

static void part_task(void *argument, int64_t number, uint32_t thread) {
    side_by_side *s = argument;
    cf_context *context = thread == 0 ? &s->own : &s->of->others[thread - 1];
    if (s->run(s->of, context, (size_t)number) != CF_OK) __atomic_store_n(&s->failed, 1, __ATOMIC_RELAXED);
}

static cf_status for_each_part(const batch *b, part_function run) {
    size_t done = 0;
    if (b->others != NULL) {
        const size_t threads = cf_threads(b->context);
        side_by_side s = {b, *b->context, run, 0};
        s.own.pool = NULL;
        done = b->program->parts / threads * threads;
        cf_parallel_for(b->context, (int64_t)done, part_task, &s);
        if (s.failed) return CF_ERR_KERNEL;
    }
    cf_status status = CF_OK;
    for (; status == CF_OK && done < b->program->parts; done++) status = run(b, b->context, done);
    return status;
}

cf_status cf_run_parts(const cf_program *program, cf_context *context, cf_context *contexts, const cf_feed *feeds,
                       const cf_fetch *fetches) {
    const cf_program *part = program->part != NULL ? program->part : program;
    const batch b = {program, part, context, contexts, feeds, fetches};
    if (part->dense_end == NULL) return for_each_part(&b, run_whole);
    const cf_status status = for_each_part(&b, run_head);
    if (status != CF_OK) return status;
    part->dense_end->layers(context, program->parts, values_of(&b));
    return for_each_part(&b, run_tail);
}
