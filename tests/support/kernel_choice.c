/*
 * Which kernels cf_open chooses, on a processor of each level and with each COLDFORGE_CPU: linked with model.c and
 * without what asks the real processor.
 *
 * Arguments: values of COLDFORGE_CPU. Prints a line for each level and value: the level, the value, the places of the
 * chosen float and integer kernels in their tables. The first lines are those without COLDFORGE_CPU.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "abi/program.h"

static uint32_t level;
uint32_t cf_cpu_level(void) { return level; }
/* The system refuses what the last level needs. */
uint32_t cf_permitted_level(uint32_t wanted) { return wanted == 4 ? 2 : wanted; }
const char *cf_missing_cpu_feature(void) { return NULL; }

static void integer_0(cf_context *c, const cf_layer *l, const cf_layer_data *d) { (void)c, (void)l, (void)d; }
static void integer_1(cf_context *c, const cf_layer *l, const cf_layer_data *d) { (void)c, (void)l, (void)d; }
static void integer_2(cf_context *c, const cf_layer *l, const cf_layer_data *d) { (void)c, (void)l, (void)d; }
static void integer_3(cf_context *c, const cf_layer *l, const cf_layer_data *d) { (void)c, (void)l, (void)d; }
static void integer_4(cf_context *c, const cf_layer *l, const cf_layer_data *d) { (void)c, (void)l, (void)d; }

static const cf_fused kernels[5];
static const cf_fused *const fused[] = {&kernels[0], &kernels[1], &kernels[2], &kernels[3], &kernels[4]};
static const cf_integer_layer integer[] = {integer_0, integer_1, integer_2, integer_3, integer_4};

static cf_status print_kernels(cf_context *context) {
    int chosen = 0;
    while (integer[chosen] != context->integer) chosen++;
    printf("%d|%d\n", (int)(context->fused - kernels), chosen);
    return CF_OK;
}

const cf_program cf_compiled_program = {
    .description = "", .fused = fused, .integer = integer, .run = print_kernels,
};

static void open_one(const char *limit) {
    for (level = 0; level < 5; level++) {
        cf_model *model = NULL;
        printf("%u|%s|", level, limit);
        if (cf_open(1, &model) != CF_OK || cf_run(model, NULL, 0, NULL, 0) != CF_OK) exit(1);
        cf_close(model);
    }
}

int main(int count, char **arguments) {
    unsetenv("COLDFORGE_CPU");
    open_one("");
    for (int i = 1; i < count; i++) {
        setenv("COLDFORGE_CPU", arguments[i], 1);
        open_one(arguments[i]);
    }
    return 0;
}
