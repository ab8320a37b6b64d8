/*
 * Opens weights that were cut short or changed, as a file and in memory of just that size.
 *
 * Arguments: the weights file; another path, to write to. Prints a line for each: what was done, where, the statuses of
 * cf_open_file and cf_open_memory. Runs what can be opened.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

static void run_one(cf_model *model) {
    float x = 0, copied[16];
    int32_t groups[30];
    const cf_feed feeds[] = {{&x, sizeof x}};
    const cf_fetch fetches[] = {{copied, sizeof copied}, {groups, sizeof groups}};
    if (cf_run(model, feeds, 1, fetches, 2) != CF_OK) exit(1);
    cf_close(model);
}

static void open_both(const char *what, size_t at, const unsigned char *content, size_t size, const char *path) {
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(content, 1, size, file) != size || fclose(file) != 0) exit(2);
    cf_model *model;
    const cf_status of_file = cf_open_file(1, path, &model);
    if (of_file == CF_OK) run_one(model);
    /* Just as large: the sanitizer knows where it ends. Its beginning is aligned, whatever its size. */
    void *memory = NULL;
    if (posix_memalign(&memory, 64, size != 0 ? size : 1) != 0) exit(2);
    memcpy(memory, content, size);
    const cf_status of_memory = cf_open_memory(1, memory, size, &model);
    if (of_memory == CF_OK) run_one(model);
    free(memory);
    printf("%s|%zu|%d|%d\n", what, at, (int)of_file, (int)of_memory);
}

int main(int count, char **arguments) {
    static unsigned char content[1 << 16];
    (void)count;
    FILE *file = fopen(arguments[1], "rb");
    const size_t size = fread(content, 1, sizeof content, file);
    fclose(file);
    for (size_t cut = 0; cut < size; cut += cut < 256 || cut + 80 > size ? 1 : 61)
        open_both("cut", cut, content, cut, arguments[2]);
    for (size_t at = 0; at < 112; at++) {
        for (int bit = 0; bit < 8; bit++) {
            content[at] ^= (unsigned char)(1 << bit);
            open_both("changed", at, content, size, arguments[2]);
            content[at] ^= (unsigned char)(1 << bit);
        }
    }
    open_both("whole", size, content, size, arguments[2]);
    return 0;
}
