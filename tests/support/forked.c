/*
 * run() in several threads at once, several threads with one model, and forks while a model is open or a thread is in
 * a run: what the parent opened, the child may run and close.
 *
 * Ends with 1 where an answer is wrong, and by SIGALRM where none comes.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model.h"

enum { PATIENCE = 120, FORKS = 20, RUNS = 300 }; /* seconds; children; of a thread */

int run(const void *x, size_t x_size, void *copied, size_t copied_size, void *groups, size_t groups_size);

static void require(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s\n", what);
    _exit(1);
}

/* The weights came back, and each of 30 work groups ran. */
static void right(cf_status status, const float *copied, const int32_t *groups) {
    require(status == CF_OK, "a run failed");
    for (int i = 0; i < 16; i++) require(copied[i] == (float)i, "a weight is wrong");
    for (int i = 0; i < 30; i++) require(groups[i] == 1, "a work group did not run");
}

/* CF_OK after a right answer, or CF_ERR_BUSY. */
static cf_status try_model(cf_model *model) {
    float x = 0, copied[16] = {0};
    int32_t groups[30] = {0};
    const cf_feed feeds[] = {{&x, sizeof x}};
    const cf_fetch fetches[] = {{copied, sizeof copied}, {groups, sizeof groups}};
    const cf_status status = cf_run(model, feeds, 1, fetches, 2);
    if (status != CF_ERR_BUSY) right(status, copied, groups);
    return status;
}

static void answers(cf_model *model) { require(try_model(model) == CF_OK, "a model is busy that nobody uses"); }

static void flat(void) {
    float x = 0, copied[16] = {0};
    int32_t groups[30] = {0};
    right((cf_status)run(&x, sizeof x, copied, sizeof copied, groups, sizeof groups), copied, groups);
}

static pid_t fork_with_alarm(void) {
    const pid_t child = fork();
    if (child == 0) alarm(PATIENCE);
    return child;
}

static void wait_for(pid_t child) {
    int status = 0;
    require(waitpid(child, &status, 0) == child && status == 0, "a child did not end well");
}

static void fork_an_open_model(uint32_t threads, int used) {
    cf_model *model = NULL;
    require(cf_open(threads, &model) == CF_OK, "no model");
    if (used) answers(model);
    for (int runs = 0; runs < 2; runs++) {
        const pid_t child = fork_with_alarm();
        if (child == 0) {
            for (int i = 0; i < runs; i++) answers(model);
            require(cf_close(model) == CF_OK, "not closed"); /* without its parent's threads, which are not here */
            exit(0);
        }
        wait_for(child);
    }
    answers(model);
    cf_close(model);
}

static atomic_int stop;

/* `model` NULL: by run(). */
static void *keep_running(void *model) {
    while (!atomic_load(&stop)) {
        if (model != NULL) answers(model);
        else flat();
    }
    return NULL;
}

static void fork_while_a_thread_runs(cf_model *model) {
    pthread_t thread;
    atomic_store(&stop, 0);
    require(pthread_create(&thread, NULL, keep_running, model) == 0, "no thread");
    for (int i = 0; i < FORKS; i++) {
        const pid_t child = fork_with_alarm();
        if (child == 0) {
            flat();
            flat();
            if (model != NULL) {
                answers(model);
                answers(model);
                require(cf_close(model) == CF_OK, "a model is busy with a thread that is not here");
            }
            exit(0);
        }
        wait_for(child);
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
}

static void *try_often(void *model) {
    long well = 0;
    for (int i = 0; i < RUNS; i++) well += try_model(model) == CF_OK;
    return (void *)well;
}

static void share_one_model(cf_model *model) {
    pthread_t threads[3];
    long well = 0;
    for (int i = 0; i < 3; i++) require(pthread_create(&threads[i], NULL, try_often, model) == 0, "no thread");
    for (int i = 0; i < 3; i++) {
        void *of_thread;
        pthread_join(threads[i], &of_thread);
        well += (long)of_thread;
    }
    require(well > 0, "nobody had the model");
}

static void *run_often(void *unused) {
    for (int i = 0; i < RUNS; i++) flat();
    return unused;
}

static void run_at_once(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) require(pthread_create(&threads[i], NULL, run_often, NULL) == 0, "no thread");
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}

int main(void) {
    alarm(PATIENCE);
    for (uint32_t threads = 1; threads < 4; threads += 2)
        for (int used = 0; used < 2; used++) fork_an_open_model(threads, used);
    run_at_once();
    fork_while_a_thread_runs(NULL);
    cf_model *model = NULL;
    require(cf_open(3, &model) == CF_OK, "no model");
    share_one_model(model);
    fork_while_a_thread_runs(model);
    require(cf_close(model) == CF_OK, "a model is busy that nobody uses");
    return 0;
}
