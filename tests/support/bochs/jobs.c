/* Calls of the fused kernels that lie in memory, one after another. */
#define _GNU_SOURCE
#include "abi/program.h"

#include <stdio.h>
#include <stdlib.h>

enum { LAYER, POOL, REPACK };

/* tests/support/bochs/emulated.py writes these. */
typedef struct {
    int64_t table;
    int64_t kind; /* LAYER, POOL or REPACK */
    const void *what;  /* cf_layer, cf_pooling or cf_repack */
    const void *first; /* cf_layer_data, or the input */
    void *second;      /* the output */
} job;

typedef struct {
    uint64_t count;
    job jobs[];
} job_list;

cf_context *cf_test_open(int table, uint32_t threads);
void cf_test_layer(cf_context *context, const cf_layer *layer, const cf_layer_data *data);
void cf_test_pool(cf_context *context, const cf_pooling *pooling, const float *input, float *output);
void cf_test_repack(cf_context *context, const cf_repack *repack, const float *input, float *output);

static void run(const job *j) {
    cf_context *context = cf_test_open((int)j->table, 1);
    switch (j->kind) {
    case LAYER: cf_test_layer(context, j->what, j->first); break;
    case POOL: cf_test_pool(context, j->what, j->first, j->second); break;
    case REPACK: cf_test_repack(context, j->what, j->first, j->second); break;
    }
}

/* Prints cf_cpu_level(). */
int main(int argc, char **argv) {
    if (argc < 2 || cf_missing_cpu_feature() != NULL) return 2;
    printf("%u", cf_cpu_level());
    const job_list *list = (const job_list *)strtoull(argv[1], NULL, 0);
    for (uint64_t i = 0; i < list->count; i++) run(&list->jobs[i]);
    return 0;
}
