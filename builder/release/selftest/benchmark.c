/* The benchmark of one model: how long libmodel.so takes to open, for its first answer, and for one after another. */
#include "selftest.h"

#include <time.h>

static double now(void) { /* milliseconds */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double timed_run(cf_model *model) {
    const double begin = now();
    const cf_status status = CALL(cf_run)(model, all_feeds, FEEDS, all_fetches, FETCHES);
    const double end = now();
    if (status != CF_OK) {
        fprintf(stderr, "status %d: %s\n", (int)status, CALL(cf_last_error)(model));
        exit(1);
    }
    return end - begin;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The nearest-rank percentile of sorted times. */
static double percentile(const double *times, size_t count, size_t percent) {
    const size_t rank = (count * percent + 99) / 100;
    return times[rank > 0 ? rank - 1 : 0];
}

enum { MOST_RUNS = 1000000, FEWEST_RUNS = 10 };

int main(int argc, char **argv) {
    const char *path = NULL;
    uint32_t threads = 0;
    size_t runs = 0, warm_up = 10;
    double seconds = 2.0;
    int json = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--threads") == 0) {
            threads = (uint32_t)number_after(&argv[i++]);
        } else if (strcmp(argv[i], "--runs") == 0) {
            runs = number_after(&argv[i++]);
        } else if (strcmp(argv[i], "--warm-up") == 0) {
            warm_up = number_after(&argv[i++]);
        } else if (strcmp(argv[i], "--seconds") == 0) {
            seconds = (double)number_after(&argv[i++]);
        } else if (strcmp(argv[i], "--json") == 0) {
            json = 1;
        } else if (argv[i][0] != '-' && path == NULL) {
            path = argv[i];
        } else {
            fprintf(stderr,
                    "usage: %s [--threads N] [--warm-up RUNS] [--runs N | --seconds S] [--json] [libmodel.so]\n"
                    "threads: 0, the default, is the library's own choice; seconds: 2 unless told\n",
                    argv[0]);
            return 2;
        }
    }
    const size_t most = runs != 0 && runs < MOST_RUNS ? runs : MOST_RUNS;
    double *times = malloc(most * sizeof *times);
    if (times == NULL) out_of_memory();
    prepare();
    feed_case(BENCHMARK_CASE);

    const double begin = now();
    load(path);
    cf_model *model = open_model(threads);
    const double opened = now() - begin;
    const double first = timed_run(model);
    for (size_t i = 1; i < warm_up; i++) (void)timed_run(model);
    const double deadline = now() + seconds * 1e3;
    double total = 0.0;
    size_t count = 0;
    while (count < most && (runs != 0 || count < FEWEST_RUNS || now() < deadline)) {
        times[count] = timed_run(model);
        total += times[count++];
    }
    qsort(times, count, sizeof *times, ascending);

    const char *format =
        json ? "{\"model\": \"%s\", \"threads\": %u, \"runs\": %zu, \"warm_up\": %zu, \"open_ms\": %.4f, "
               "\"first_ms\": %.4f, \"min_ms\": %.4f, \"median_ms\": %.4f, \"p90_ms\": %.4f, \"p99_ms\": %.4f, "
               "\"max_ms\": %.4f, \"mean_ms\": %.4f}\n"
             : "%s, threads %u (0: chosen), %zu runs after %zu to warm up; milliseconds\n"
               "  load and open  %.4f\n  first run      %.4f\n  min            %.4f\n  median         %.4f\n"
               "  p90            %.4f\n  p99            %.4f\n  max            %.4f\n  mean           %.4f\n";
    printf(format, MODEL, threads, count, warm_up, opened, first, times[0], percentile(times, count, 50),
           percentile(times, count, 90), percentile(times, count, 99), times[count - 1], total / (double)count);
    CALL(cf_close)(model);
    give_back();
    free(times);
    return 0;
}
