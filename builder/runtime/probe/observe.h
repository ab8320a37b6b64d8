/*
 * Who wants to see what stands in the arena before each step: in libraries for calibration, never in one that is
 * packed. CF_STEPS is the number of steps. Not for several threads that call cf_run.
 */
#ifndef COLDFORGE_OBSERVE_H
#define COLDFORGE_OBSERVE_H

#include <stdint.h>

/* `step` begins; CF_STEPS: the last one has ended. */
typedef void (*cf_observer)(uint32_t step, const uint8_t *arena);

static cf_observer cf_observing;

static void cf_step(const cf_context *context, uint32_t number) {
    if (cf_observing) cf_observing(number, context->arena);
}

/* Have `observer` called from now on; NULL for none. */
__attribute__((visibility("default"))) void cf_observe(cf_observer observer) { cf_observing = observer; }

#endif
