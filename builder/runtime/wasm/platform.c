/* What WebAssembly does without: threads, CPUs to tell apart, an environment. And the memory a host writes to. */
#include "abi/program.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

void *cf_alloc(size_t size) { return aligned_alloc(ALIGNMENT, (size + ALIGNMENT) / ALIGNMENT * ALIGNMENT); }

void cf_free(void *memory) { free(memory); }

/* What model.c calls for getenv. */
char *cf_getenv(const char *name);
char *cf_getenv(const char *name) {
    (void)name;
    return NULL;
}

/* A module with instructions that an engine lacks cannot be loaded in the first place. */
const char *cf_missing_cpu_feature(void) { return NULL; }

uint32_t cf_cpu_level(void) { return 0; }

uint32_t cf_usable_cpus(void) { return 1; }

void cf_parallel_for(cf_context *context, int64_t tasks, cf_task run, void *argument) {
    (void)context;
    for (int64_t i = 0; i < tasks; i++) run(argument, i, 0);
}

uint32_t cf_threads(const cf_context *context) {
    (void)context;
    return 1;
}

cf_pool *cf_pool_new(uint32_t threads) {
    (void)threads;
    return NULL;
}

void cf_pool_free(cf_pool *pool) { (void)pool; }

void cf_pool_enter(cf_pool *pool, int32_t process) {
    (void)pool;
    (void)process;
}

/* Nobody else is there. */
int cf_lock_try(cf_lock *lock) {
    (void)lock;
    return 1;
}

void cf_lock_take(cf_lock *lock) { (void)lock; }

void cf_lock_give(cf_lock *lock) { (void)lock; }

uint32_t cf_permitted_level(uint32_t level) { return level; }
