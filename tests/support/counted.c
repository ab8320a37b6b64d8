/*
 * One answer of a library on one thread, for a counter of its instructions.
 *
 * Arguments: the library, a file with the input's bytes, how many bytes the answer has. The library has one feed and
 * one fetch.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const void *data;
    size_t size;
} slot;

static int refuse(const char *what) {
    fprintf(stderr, "%s\n", what);
    return 1;
}

int main(int count, char **arguments) {
    if (count != 4) return refuse("three arguments, please");
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) return refuse(dlerror());
    int32_t (*open_model)(uint32_t, void **) = (int32_t (*)(uint32_t, void **))dlsym(library, "cf_open");
    int32_t (*run)(void *, const slot *, size_t, const slot *, size_t) =
        (int32_t (*)(void *, const slot *, size_t, const slot *, size_t))dlsym(library, "cf_run");
    if (!open_model || !run) return refuse("no cf_open or no cf_run");

    FILE *file = fopen(arguments[2], "rb");
    if (!file || fseek(file, 0, SEEK_END)) return refuse("no input");
    const size_t size = (size_t)ftell(file), answered = (size_t)strtoul(arguments[3], NULL, 10);
    rewind(file);
    /* Whole cache lines, at the same place in one: what is aligned is copied by fewer instructions. */
    void *input = aligned_alloc(64, (size + 63) / 64 * 64), *answer = aligned_alloc(64, (answered + 63) / 64 * 64);
    if (!input || !answer || fread(input, 1, size, file) != size) return refuse("the input cannot be read");

    void *model = NULL;
    if (open_model(1, &model)) return refuse("cf_open failed");
    if (run(model, &(slot){input, size}, 1, &(slot){answer, answered}, 1)) return refuse("cf_run failed");
    return 0;
}
