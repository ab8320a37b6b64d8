/*
 * How long each step takes: in libraries for `coldforge explain` and `coldforge tune`, never in one that is packed.
 * CF_STEPS is the number of steps. Not for several threads that call cf_run.
 */
#ifndef COLDFORGE_PROFILE_H
#define COLDFORGE_PROFILE_H

#include <stdint.h>
#include <time.h>

typedef struct {
    uint64_t nanoseconds, calls;
} cf_step_time;

/* The last is for what is no step: the time between runs. */
static cf_step_time cf_times[CF_STEPS + 1];

/* A step begins, and the one before it ends. */
static void cf_step(const cf_context *context, uint32_t number) {
    (void)context;
    static uint32_t current = CF_STEPS;
    static uint64_t since;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    cf_times[current].nanoseconds += now - since;
    cf_times[number].calls++;
    current = number;
    since = now;
}

/* CF_STEPS sums, which the caller may set to zero. */
__attribute__((visibility("default"))) cf_step_time *cf_step_times(void) { return cf_times; }

/* The highest level of the architecture that this processor has: an index of cf_fused_tables. */
__attribute__((visibility("default"))) uint32_t cf_step_level(void) { return cf_cpu_level(); }

#endif
