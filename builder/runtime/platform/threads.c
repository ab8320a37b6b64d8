/*
 * The pool. A job's tasks are shared out before it starts, neighbours to one thread: what the job before left of them
 * in this thread's cache is found again. Who has done his own takes from the others', from the far end. A share is one
 * 64-bit word: the job's number above, then the end and the beginning of what nobody has claimed. Claiming is one
 * compare-and-swap on that word, so a worker that comes late finds nothing to claim, and the caller waits for claimed
 * tasks only, never for a worker that the kernel has not yet scheduled: a process that was frozen, throttled or has
 * fewer CPUs than threads is slower, not stuck. A share's other fields are read after a task of it was claimed, and the
 * job cannot end before that task is done.
 */
#define _GNU_SOURCE
#include "platform/threads.h"
#include "abi/program.h"

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
#include <time.h>
#include <unistd.h>

#ifndef CF_STACK
#define CF_STACK (1 << 20) /* bytes of a worker's stack; kernels that are not optimised, as in tests, need more */
#endif
/* Longer than the gap between two layers, a softmax in between included; shorter than anything a bill would show. */
enum { SPIN_NS = 100000, STACK = CF_STACK, MOST_PIECES = UINT16_MAX };

/* A thread's share of a job, on a cache line of its own: one transfer brings a worker all it must know. */
typedef struct {
    _Alignas(64) _Atomic uint64_t left; /* number << 32 | end << 16 | begin, in pieces */
    int64_t tasks, piece;               /* of the whole job; tasks of a piece */
    cf_task run;
    void *argument;
} share;

struct cf_pool {
    share shares[CF_MAX_THREADS];           /* the caller's first */
    _Alignas(64) _Atomic uint32_t finished; /* pieces that workers have done since they started, modulo 2^32 */
    _Atomic uint32_t waiting;               /* the caller sleeps until `finished` changes */
    _Alignas(64) _Atomic uint32_t wake;     /* the futex of workers that sleep */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t stop;
    uint32_t expected; /* `finished` once all is done */
    uint32_t number;   /* of the last job */
    uint32_t threads;  /* wanted, the caller's included */
    uint32_t workers;  /* running, if started, in process `owner` */
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

/* Wait a moment; 0 once SPIN_NS have passed since the first of these calls. `turns` and `end` start at 0. */
static int spin(uint32_t *turns, int64_t *end) {
    pause_cpu();
    if (++*turns % 64 != 0) return 1; /* a pause takes 10 to 50 ns, the clock about as much */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    if (*end == 0) *end = now + SPIN_NS;
    return now < *end;
}

static void futex(void *word, int operation, uint32_t value) {
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Claim a piece of a share, the first or the last: its number, or -1 if none is left. */
static int64_t claim(share *from, int last) {
    uint64_t left = atomic_load_explicit(&from->left, memory_order_acquire);
    for (;;) {
        const uint32_t begin = left & 0xffff, end = left >> 16 & 0xffff;
        if (begin == end) return -1;
        if (atomic_compare_exchange_weak_explicit(&from->left, &left, last ? left - 0x10000 : left + 1,
                                                  memory_order_acq_rel, memory_order_acquire)) {
            return last ? end - 1 : begin;
        }
    }
}

static void run_piece(const share *of, int64_t piece, uint32_t thread) {
    int64_t task = piece * of->piece, end = task + of->piece;
    if (end > of->tasks) end = of->tasks;
    for (; task < end; task++) of->run(of->argument, task, thread);
}

/* Claim and run pieces until none is left, one's own first. Returns how many that were. */
static uint32_t work(cf_pool *pool, uint32_t thread) {
    const uint32_t threads = pool->threads;
    uint32_t count = 0;
    for (uint32_t i = 0; i < threads; i++) {
        share *from = &pool->shares[(thread + i) % threads];
        for (int64_t piece; (piece = claim(from, i != 0)) >= 0; count++) run_piece(from, piece, thread);
    }
    return count;
}

static void *worker_main(void *argument) {
    cf_pool *pool = ((worker_start *)argument)->pool;
    const uint32_t thread = ((worker_start *)argument)->thread;
    free(argument);
    _Atomic uint64_t *own = &pool->shares[thread].left;
    for (;;) {
        const uint32_t wake = atomic_load(&pool->wake);
        const uint32_t seen = (uint32_t)(atomic_load(own) >> 32);
        if (atomic_load(&pool->stop)) return NULL; /* stop is set before wake changes: seen or woken */
        const uint32_t count = work(pool, thread);
        if (count != 0) {
            atomic_fetch_add(&pool->finished, count);
            if (atomic_load(&pool->waiting)) futex(&pool->finished, FUTEX_WAKE, 1);
        }
        uint32_t turns = 0;
        int64_t end = 0;
        int same;
        while ((same = atomic_load_explicit(own, memory_order_acquire) >> 32 == seen) && spin(&turns, &end)) {}
        if (same) {
            atomic_fetch_add(&pool->sleepers, 1);
            if (atomic_load(own) >> 32 == seen) futex(&pool->wake, FUTEX_WAIT, wake);
            atomic_fetch_sub(&pool->sleepers, 1);
        }
    }
}

static void start_workers(cf_pool *pool) {
    for (uint32_t i = 0; i < CF_MAX_THREADS; i++) atomic_store(&pool->shares[i].left, 0);
    atomic_store(&pool->finished, 0);
    atomic_store(&pool->waiting, 0);
    atomic_store(&pool->sleepers, 0);
    pool->expected = pool->number = 0;
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

void cf_pool_enter(cf_pool *pool, int32_t process) {
    if (pool == NULL || pool->owner == process) return;
    pool->owner = process;
    pool->started = 0; /* threads do not follow into the child of a fork */
}

int cf_lock_try(cf_lock *lock) {
    const int32_t self = getpid();
    int32_t holder = 0;
    if (atomic_compare_exchange_strong(lock, &holder, self)) return 1;
    /* Held by a thread that did not follow into this process? */
    return holder != self && atomic_compare_exchange_strong(lock, &holder, self);
}

void cf_lock_take(cf_lock *lock) {
    while (!cf_lock_try(lock)) futex(lock, FUTEX_WAIT, (uint32_t)getpid());
}

void cf_lock_give(cf_lock *lock) {
    atomic_store(lock, 0);
    futex(lock, FUTEX_WAKE, 1);
}

uint32_t cf_threads(const cf_context *context) { return context->pool != NULL ? context->pool->threads : 1; }

/* A worker may have lost its CPU in the middle of a piece; once the caller sleeps, it can have the caller's. */
static void wait_for_workers(cf_pool *pool) {
    uint32_t finished, turns = 0;
    int64_t end = 0;
    while ((finished = atomic_load_explicit(&pool->finished, memory_order_acquire)) != pool->expected) {
        if (spin(&turns, &end)) continue;
        atomic_store(&pool->waiting, 1);
        if (atomic_load(&pool->finished) == finished) futex(&pool->finished, FUTEX_WAIT, finished);
        atomic_store(&pool->waiting, 0);
    }
}

void cf_parallel_for(cf_context *context, int64_t tasks, cf_task run, void *argument) {
    cf_pool *pool = context->pool;
    if (pool == NULL || tasks <= 1) {
        for (int64_t task = 0; task < tasks; task++) run(argument, task, 0);
        return;
    }
    if (!pool->started) start_workers(pool);
    const int64_t piece = (tasks + MOST_PIECES - 1) / MOST_PIECES, pieces = (tasks + piece - 1) / piece;
    const int64_t threads = (int64_t)pool->workers + 1;
    const uint64_t number = ++pool->number;
    for (int64_t i = threads - 1; i >= 0; i--) {
        share *own = &pool->shares[i];
        const int64_t begin = i * pieces / threads, end = (i + 1) * pieces / threads;
        if (begin == end) continue;
        own->tasks = tasks;
        own->piece = piece;
        own->run = run;
        own->argument = argument;
        atomic_store_explicit(&own->left, number << 32 | (uint64_t)end << 16 | (uint64_t)begin, memory_order_release);
    }
    /* The shares before the sleepers; a worker looks the other way round. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&pool->sleepers) != 0) {
        atomic_fetch_add(&pool->wake, 1);
        futex(&pool->wake, FUTEX_WAKE, INT_MAX);
    }
    pool->expected += (uint32_t)pieces - work(pool, 0);
    wait_for_workers(pool);
}
