/*
 * The pool. A job is one 64-bit word: its number above, the tasks nobody has claimed below. Claiming is one
 * compare-and-swap on that word, so a worker that comes late finds nothing to claim, and the caller waits
 * for claimed tasks only, never for a worker that the kernel has not yet scheduled: a process that was
 * frozen, throttled or has fewer CPUs than threads is slower, not stuck. A worker reads the job's other
 * fields after it has claimed a task, and the job cannot end before that task is done.
 */
#define _GNU_SOURCE
#include "threads.h"
#include "program.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* About 0.1 ms: longer than the gap between two layers, shorter than anything a bill would show. */
enum { SPIN = 3000, STACK = 1 << 20 };

struct cf_pool {
    _Alignas(64) _Atomic uint64_t job;  /* number << 32 | unclaimed tasks */
    _Alignas(64) _Atomic uint64_t done; /* tasks finished of this job */
    _Alignas(64) _Atomic uint32_t wake; /* the futex: changes with every job */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t stop;
    int64_t tasks;
    cf_task run;
    void *argument;
    uint32_t threads; /* wanted, the caller's included */
    uint32_t workers; /* running, if started, in process `owner` */
    int started;
    pid_t owner;
    pthread_t handles[CF_MAX_THREADS];
};

typedef struct {
    cf_pool *pool;
    uint32_t thread;
} worker_start;

static inline void pause_cpu(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

static void futex(void *word, int operation, uint32_t value) {
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Claim and run tasks until none is left. */
static void work(cf_pool *pool, uint32_t thread) {
    uint64_t job = atomic_load_explicit(&pool->job, memory_order_acquire);
    while ((uint32_t)job != 0) {
        if (!atomic_compare_exchange_weak_explicit(&pool->job, &job, job - 1, memory_order_acq_rel,
                                                   memory_order_acquire)) {
            continue;
        }
        pool->run(pool->argument, pool->tasks - (int64_t)(uint32_t)job, thread);
        atomic_fetch_add_explicit(&pool->done, 1, memory_order_release);
        job = atomic_load_explicit(&pool->job, memory_order_acquire);
    }
}

static void *worker_main(void *argument) {
    cf_pool *pool = ((worker_start *)argument)->pool;
    const uint32_t thread = ((worker_start *)argument)->thread;
    free(argument);
    for (;;) {
        const uint32_t seen = atomic_load(&pool->wake);
        if (atomic_load(&pool->stop)) return NULL; /* stop is set before wake changes: seen or woken */
        work(pool, thread);
        int spins = 0;
        while (atomic_load_explicit(&pool->wake, memory_order_acquire) == seen && ++spins < SPIN) pause_cpu();
        if (spins >= SPIN) {
            atomic_fetch_add(&pool->sleepers, 1);
            if (atomic_load(&pool->wake) == seen) futex(&pool->wake, FUTEX_WAIT, seen);
            atomic_fetch_sub(&pool->sleepers, 1);
        }
    }
}

static void start_workers(cf_pool *pool) {
    atomic_store(&pool->job, 0);
    atomic_store(&pool->sleepers, 0);
    pool->started = 1;
    pool->workers = 0;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return;
    pthread_attr_setstacksize(&attributes, STACK);
    sigset_t all, before; /* the host's signal handlers run on the host's threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->workers + 1 < pool->threads) {
        worker_start *start = malloc(sizeof *start);
        if (start == NULL) break;
        *start = (worker_start){pool, pool->workers + 1};
        if (pthread_create(&pool->handles[pool->workers], &attributes, worker_main, start) != 0) {
            free(start); /* fewer workers, the same answer */
            break;
        }
        pool->workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

cf_pool *cf_pool_new(uint32_t threads) {
    cf_pool *pool = aligned_alloc(_Alignof(cf_pool), sizeof *pool);
    if (pool == NULL) return NULL;
    memset(pool, 0, sizeof *pool);
    pool->threads = threads < CF_MAX_THREADS ? threads : CF_MAX_THREADS;
    return pool;
}

void cf_pool_free(cf_pool *pool) {
    if (pool == NULL) return;
    if (pool->started && pool->owner == getpid()) {
        atomic_store(&pool->stop, 1);
        atomic_fetch_add(&pool->wake, 1);
        futex(&pool->wake, FUTEX_WAKE, INT_MAX);
        for (uint32_t i = 0; i < pool->workers; i++) pthread_join(pool->handles[i], NULL);
    }
    free(pool);
}

void cf_pool_enter(cf_pool *pool) {
    const pid_t self = getpid();
    if (pool == NULL || pool->owner == self) return;
    pool->owner = self;
    pool->started = 0; /* threads do not follow into the child of a fork */
}

void cf_lock_take(cf_lock *lock) {
    const int32_t self = getpid();
    for (;;) {
        int32_t holder = 0;
        if (atomic_compare_exchange_strong(lock, &holder, self)) return;
        if (holder == self) {
            futex(lock, FUTEX_WAIT, (uint32_t)self);
        } else if (atomic_compare_exchange_strong(lock, &holder, self)) {
            return; /* held by a thread that did not follow into this process */
        }
    }
}

void cf_lock_give(cf_lock *lock) {
    atomic_store(lock, 0);
    futex(lock, FUTEX_WAKE, 1);
}

uint32_t cf_threads(const cf_context *context) { return context->pool != NULL ? context->pool->threads : 1; }

void cf_parallel_for(cf_context *context, int64_t tasks, cf_task run, void *argument) {
    cf_pool *pool = context->pool;
    if (pool == NULL || tasks <= 1 || tasks > (int64_t)UINT32_MAX) {
        for (int64_t task = 0; task < tasks; task++) run(argument, task, 0);
        return;
    }
    if (!pool->started) start_workers(pool);
    pool->tasks = tasks;
    pool->run = run;
    pool->argument = argument;
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    const uint64_t number = (atomic_load_explicit(&pool->job, memory_order_relaxed) >> 32) + 1;
    atomic_store_explicit(&pool->job, number << 32 | (uint64_t)tasks, memory_order_release);
    atomic_fetch_add(&pool->wake, 1);
    if (atomic_load(&pool->sleepers) != 0) futex(&pool->wake, FUTEX_WAKE, INT_MAX);
    work(pool, 0);
    for (int spins = 0; atomic_load_explicit(&pool->done, memory_order_acquire) != (uint64_t)tasks; spins++) {
        if (spins < SPIN) {
            pause_cpu();
        } else {
            sched_yield(); /* a worker lost its CPU in the middle of a task */
        }
    }
}
