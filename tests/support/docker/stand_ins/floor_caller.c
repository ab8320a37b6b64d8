/* Reads feed bytes from standard input, answers with the fetch's floats, one a line. Built with -DFEED=… -DFETCH=… */
#include "model.h"

#include <gnu/libc-version.h>
#include <stdio.h>

int main(void) {
    static unsigned char feed[FEED];
    static float fetch[FETCH / sizeof(float)];
    if (fread(feed, 1, sizeof feed, stdin) != sizeof feed) return 2;
    cf_model *model = NULL;
    if (cf_open(0, &model) != CF_OK) {
        fprintf(stderr, "%s\n", cf_last_error(NULL));
        return 3;
    }
    const cf_feed in = {feed, sizeof feed};
    const cf_fetch out = {fetch, sizeof fetch};
    if (cf_run(model, &in, 1, &out, 1) != CF_OK) {
        fprintf(stderr, "%s\n", cf_last_error(model));
        return 4;
    }
    cf_close(model);
    fprintf(stderr, "glibc %s\n", gnu_get_libc_version());
    for (size_t i = 0; i < sizeof fetch / sizeof *fetch; i++) printf("%.9g\n", (double)fetch[i]);
    return 0;
}
