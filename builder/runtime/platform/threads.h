/* A small pool of threads, for one model at a time. */
#ifndef COLDFORGE_THREADS_H
#define COLDFORGE_THREADS_H

#include <stdint.h>

enum { CF_MAX_THREADS = 8 };

typedef struct cf_pool cf_pool;
typedef struct cf_context cf_context;

/* One of the tasks of a cf_parallel_for. thread < cf_threads(context) tells its runner from the others. */
typedef void (*cf_task)(void *argument, int64_t task, uint32_t thread);

/*
 * Run every task once, in any order, and return when all have run. With one thread the caller runs them in
 * order. Tasks must not call cf_parallel_for.
 */
void cf_parallel_for(cf_context *context, int64_t tasks, cf_task run, void *argument);

/* How many threads may run tasks, the caller's included. */
uint32_t cf_threads(const cf_context *context);

/* A pool of threads - 1 workers, which start with the first work; NULL if out of memory. For threads > 1. */
cf_pool *cf_pool_new(uint32_t threads);
void cf_pool_free(cf_pool *pool);

/* Before a run's first cf_parallel_for in `process`, this one: notices that it has forked. pool may be NULL. */
void cf_pool_enter(cf_pool *pool, int32_t process);

/*
 * A lock for the threads of one process: 0, or the process that holds it. After a fork the child takes what a
 * thread of its parent held at that moment, where a mutex would never be given back.
 */
typedef _Atomic int32_t cf_lock;
int cf_lock_try(cf_lock *lock); /* 0 if another thread holds it */
void cf_lock_take(cf_lock *lock);
void cf_lock_give(cf_lock *lock);

/* The CPUs this process may really use: affinity, cgroup quota, the memory of a Lambda function. At least 1. */
uint32_t cf_usable_cpus(void);

#endif
