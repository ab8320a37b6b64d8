/*
 * A batch in parts: the steps of a program for one input run once for each input of the batch. What a layer leaves for
 * one input is still in the caches when the next layer reads it; what it leaves for sixteen may not be.
 *
 * With several threads, parts run side by side, each on one thread and in an arena of its own: threads then wait for
 * each other once in a run, not once in a layer. Parts that would leave threads idle at the end run one after another,
 * each on all threads.
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

static cf_status run_part(const cf_program *program, cf_context *context, const cf_feed *feeds,
                          const cf_fetch *fetches, size_t number) {
    const cf_program *part = program->part != NULL ? program->part : program;
    context->feeds = feeds;
    context->part = number;
    for (size_t i = 0; i < part->feed_count; i++) {
        const cf_port *port = &part->feeds[i];
        const size_t size = feeds[i].size / program->parts;
        const uint8_t *data = (const uint8_t *)feeds[i].data + number * size;
        if (port->space == CF_IN_ARENA && size != 0) memcpy(context->arena + port->offset, data, size);
    }
    const cf_status status = part->run(context);
    for (size_t i = 0; status == CF_OK && i < part->fetch_count; i++) {
        const cf_port *port = &part->fetches[i];
        const size_t size = fetches[i].size / program->parts;
        const uint8_t *start = cf_start_of(context, port->space);
        if (size != 0) memcpy((uint8_t *)fetches[i].data + number * size, start + port->offset, size);
    }
    return status;
}

typedef struct {
    const cf_program *program;
    cf_context own, *others; /* the caller's, for one thread; those of the other threads */
    const cf_feed *feeds;
    const cf_fetch *fetches;
    int failed;
} side_by_side;

static void part_task(void *argument, int64_t number, uint32_t thread) {
    side_by_side *run = argument;
    cf_context *context = thread == 0 ? &run->own : &run->others[thread - 1];
    if (run_part(run->program, context, run->feeds, run->fetches, (size_t)number) != CF_OK) {
        __atomic_store_n(&run->failed, 1, __ATOMIC_RELAXED);
    }
}

cf_status cf_run_parts(const cf_program *program, cf_context *context, cf_context *contexts, const cf_feed *feeds,
                       const cf_fetch *fetches) {
    size_t done = 0;
    if (contexts != NULL) {
        const size_t threads = cf_threads(context);
        side_by_side run = {program, *context, contexts, feeds, fetches, 0};
        run.own.pool = NULL;
        done = program->parts / threads * threads;
        cf_parallel_for(context, (int64_t)done, part_task, &run);
        if (run.failed) return CF_ERR_KERNEL;
    }
    cf_status status = CF_OK;
    for (; status == CF_OK && done < program->parts; done++) status = run_part(program, context, feeds, fetches, done);
    return status;
}
