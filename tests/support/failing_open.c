/*
 * Opens a model while one call of the C library fails, at every such call, or on a processor that is too old, and tells
 * what the loader says of it.
 *
 * Linked with the runtime's own sources, the sanitizers, and --wrap for each function in CALLS. Arguments: the weights
 * file. Prints a line for each opening: the way, the threads, the function that failed, its errno, which of its calls,
 * the status, the text. Ends with 1 where something is left open, or the next opening is not right.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model.h"

enum { CALLOC, MALLOC, ALIGNED_ALLOC, OPEN, FSTAT, MMAP, PTHREAD_ATTR_INIT, PTHREAD_CREATE, DLADDR, CPU, CALLS };
static const char *const names[] = {"calloc", "malloc", "aligned_alloc", "open", "fstat", "mmap", "pthread_attr_init",
                                    "pthread_create", "dladdr", "cf_missing_cpu_feature"};

static int failing = -1, number;
static long left, mapped;

static int fails(int call) {
    if (call != failing || --left != 0) return 0;
    errno = number;
    return 1;
}

#define WRAP(result, name, parameters, arguments, call, failure) \
    result __real_##name parameters;                             \
    result __wrap_##name parameters;                             \
    result __wrap_##name parameters { return fails(call) ? failure : __real_##name arguments; }

WRAP(void *, calloc, (size_t count, size_t size), (count, size), CALLOC, NULL)
WRAP(void *, malloc, (size_t size), (size), MALLOC, NULL)
WRAP(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size), ALIGNED_ALLOC, NULL)
WRAP(int, fstat, (int file, struct stat *about), (file, about), FSTAT, -1)
WRAP(int, pthread_attr_init, (pthread_attr_t *a), (a), PTHREAD_ATTR_INIT, EAGAIN)
WRAP(int, pthread_create, (pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *with), (t, a, run, with),
     PTHREAD_CREATE, EAGAIN)
WRAP(int, dladdr, (const void *at, Dl_info *about), (at, about), DLADDR, 0)
WRAP(const char *, cf_missing_cpu_feature, (void), (), CPU, "this CPU lacks AVX2")

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) { return fails(OPEN) ? -1 : __real_open(path, flags); }

void *__real_mmap(void *at, size_t size, int access, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t size, int access, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t size, int access, int flags, int file, off_t offset) {
    if (fails(MMAP)) return MAP_FAILED;
    void *found = __real_mmap(at, size, access, flags, file, offset);
    if (found != MAP_FAILED) mapped++;
    return found;
}

int __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size) {
    mapped--;
    return __real_munmap(at, size);
}

static const char *path;
static void *content;
static size_t content_size;

static cf_status open_by(int way, uint32_t threads, cf_model **model) {
    if (way == 0) return cf_open(threads, model);
    if (way == 1) return cf_open_file(threads, path, model);
    return cf_open_memory(threads, content, content_size, model);
}

static void require(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static int open_files(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder) != NULL) count++;
    closedir(folder);
    return count;
}

/* One inference is right: the weights come back, each of 30 work groups ran once, and the state went up by one. */
static void answers(cf_model *model, int runs) {
    float x = 0, copied[16];
    int32_t groups[30], state = -1;
    const cf_feed feeds[] = {{&x, sizeof x}};
    const cf_fetch fetches[] = {{copied, sizeof copied}, {groups, sizeof groups}};
    require(cf_run(model, feeds, 1, fetches, 2) == CF_OK, "a run failed");
    for (int i = 0; i < 16; i++) require(copied[i] == (float)i, "a weight is wrong");
    for (int i = 0; i < 30; i++) require(groups[i] == runs, "a work group did not run once");
    require(cf_get_state(model, &state, sizeof state) == CF_OK && state == 7, "the state is wrong");
}

static void arm(int call, int error, long at) { failing = call, number = error, left = at; }

/* Whether the fault has happened. */
static int disarm(void) {
    const int happened = failing < 0 || left <= 0;
    failing = -1;
    return happened;
}

static void opened_right(int way, uint32_t threads) {
    cf_model *model = NULL;
    require(open_by(way, threads, &model) == CF_OK, "the opening after it failed");
    answers(model, 1);
    cf_close(model);
}

static void try_opening(int way, uint32_t threads, int call, int error) {
    static const char *const ways[] = {"cf_open", "cf_open_file", "cf_open_memory"};
    for (long at = 1;; at++) {
        const long mappings = mapped;
        const int files = open_files();
        cf_model *model = (cf_model *)&path;
        arm(call, error, at);
        const cf_status status = open_by(way, threads, &model);
        const int happened = disarm();
        printf("%s|%u|%s|%d|%ld|%d|%s\n", ways[way], threads, names[call], happened ? error : 0, at, (int)status,
               status != CF_OK ? cf_last_error(NULL) : "");
        require((status == CF_OK) == (model != NULL), "a failed opening gave a model");
        if (model != NULL) answers(model, 1);
        cf_close(model);
        require(mapped == mappings && open_files() == files, "a mapping or a file was left");
        opened_right(way, threads);
        require(mapped == mappings && open_files() == files, "a mapping or a file was left after a good opening");
        if (!happened) return;
    }
}

/* Threads that cannot be had are done without. */
static void try_running(int call) {
    for (long at = 1;; at++) {
        cf_model *model = NULL;
        require(cf_open(3, &model) == CF_OK, "no model to run");
        arm(call, EAGAIN, at);
        answers(model, 1);
        const int happened = disarm();
        cf_reset(model);
        answers(model, 1);
        cf_close(model);
        printf("run|3|%s|%d|%ld|0|\n", names[call], happened ? EAGAIN : 0, at);
        if (!happened) return;
    }
}

int run(const void *x, size_t x_size, void *copied, size_t copied_size, void *groups, size_t groups_size);

/* The model that run() opens for itself: what fails at the first call does not at the second. In a fork of its own. */
static void try_flat(int call, int error) {
    fflush(stdout);
    const pid_t child = fork();
    int status = 0;
    if (child == 0) {
        float x = 0, copied[16] = {0};
        int32_t groups[30];
        arm(call, error, 1);
        const int failed = run(&x, sizeof x, copied, sizeof copied, groups, sizeof groups);
        disarm();
        printf("flat|0|%s|%d|1|%d|%s\n", names[call], error, failed, failed ? cf_last_error(NULL) : "");
        require(run(&x, sizeof x, copied, sizeof copied, groups, sizeof groups) == CF_OK, "the second run() failed");
        require(copied[15] == 15.0f, "the second run() is wrong");
        exit(0);
    }
    require(waitpid(child, &status, 0) == child && status == 0, "a child of run() failed");
}

int main(int count, char **arguments) {
    enum { ERRORS = 5 };
    static const int errors[CALLS][ERRORS] = {{ENOMEM}, {ENOMEM}, {ENOMEM}, {ENOENT, EACCES, EMFILE, ENFILE, EINTR},
                                              {EIO}, {ENOMEM, EACCES}, {ENOMEM}, {EAGAIN}, {EINVAL}, {ENOSYS}};
    (void)count;
    path = arguments[1];
    struct stat about;
    require(stat(path, &about) == 0, "no weights");
    content_size = (size_t)about.st_size;
    content = aligned_alloc(64, (content_size + 63) / 64 * 64);
    FILE *file = fopen(path, "rb");
    require(file != NULL && fread(content, 1, content_size, file) == content_size, "no weights");
    fclose(file);
    for (int way = 0; way < 3; way++)
        for (uint32_t threads = 1; threads < 4; threads += 2)
            for (int call = 0; call < CALLS; call++)
                for (int i = 0; i < ERRORS && errors[call][i] != 0; i++) try_opening(way, threads, call, errors[call][i]);
    for (int call = 0; call < CALLS; call++) {
        try_running(call);
        try_flat(call, errors[call][0]);
    }
    free(content);
    return 0;
}
