/* What a generated program.c provides to the runtime, and what it may use from it. */
#ifndef COLDFORGE_PROGRAM_H
#define COLDFORGE_PROGRAM_H

#include "fused/fused.h"
#include "kernels.h"
#include "model.h"
#include "threads.h"

/* The frame XLA's CPU kernels take (xla/backends/cpu/runtime/kernel_c_api.h): sizes have 64 bits everywhere. */
typedef struct {
    uint64_t x, y, z;
} cf_dim3;

typedef struct {
    void *data;
    uint64_t size;
} cf_kernel_argument;

typedef struct {
    const cf_dim3 *workgroups;
    const cf_dim3 *workgroup;
    uint64_t argument_count;
    const cf_kernel_argument *arguments;
} cf_call_frame;

/* Returns NULL, or an opaque error. */
typedef void *(*cf_kernel)(const cf_call_frame *frame);

/* What one opened model owns: its arena, its random generator and its threads. */
struct cf_context {
    uint8_t *arena;
    uint64_t rng_low, rng_high;
    cf_pool *pool;         /* NULL for one thread */
    const cf_fused *fused; /* kernels for this CPU; NULL if the program uses none */
};

typedef struct {
    const char *name;
    size_t offset; /* bytes into the arena, or into the weights */
    size_t size;   /* bytes */
    int constant;  /* a fetch that lies in the weights */
} cf_port;

typedef struct {
    const char *description;
    size_t arena_size;
    const cf_port *feeds;
    size_t feed_count;
    const cf_port *fetches;
    size_t fetch_count;
    const cf_fused *const *fused; /* cf_fused_tables, if the program has fused layers */
    cf_status (*run)(cf_context *context);
} cf_program;

extern const cf_program cf_compiled_program;
extern const uint8_t cf_weights[];

/* Call a kernel once for every work group, on all threads if there are several groups. */
cf_status cf_call_kernel(cf_context *context, cf_kernel kernel, const cf_kernel_argument *arguments,
                         size_t count, uint64_t x, uint64_t y, uint64_t z);

/* cf_run_dot, the matrices of a batch on all threads. */
void cf_call_dot(cf_context *context, const cf_dot *dot, const void *lhs, const void *rhs, void *out);

/* cf_run_broadcast for all rows, on all threads. */
void cf_call_broadcast(cf_context *context, const cf_broadcast *broadcast, const void *source, const void *other,
                       void *target);

/* Store the 128-bit state (low word first), then add delta (XLA's RngGetAndUpdateState). */
void cf_advance_rng(cf_context *context, void *state, uint64_t delta);

/* cf_run on one model that is opened at the first call and shared by all callers: what run() calls. */
cf_status cf_run_shared(const cf_feed *feeds, size_t feed_count, const cf_fetch *fetches,
                        size_t fetch_count);

/* NULL, or the first instruction set this processor or its operating system lacks. */
const char *cf_missing_cpu_feature(void);

/* The fused kernels for each level of the architecture, and the highest level this processor has. */
extern const cf_fused *const cf_fused_tables[];
uint32_t cf_cpu_level(void);

#endif
