/* A caller that knows nothing but model.h. Prints what it found, one fact a line. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);         \
            return 1;                                                       \
        }                                                                   \
    } while (0)

int main(void) {
    static float x[CF_FEED_X_SIZE / sizeof(float)];
    static float y[CF_FETCH_Y0_SIZE / sizeof(float)], again[CF_FETCH_Y0_SIZE / sizeof(float)];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(i % 7) / 7.0f - 0.4f;

    CHECK(cf_abi_version() == CF_ABI_VERSION);
    CHECK(strstr(cf_describe(), "\"abi\":1") != NULL);
    CHECK(cf_open(0, NULL) == CF_ERR_ARGUMENT);
    CHECK(strlen(cf_last_error(NULL)) > 0);

    cf_model *model = NULL, *second = NULL;
    CHECK(cf_open(1, &model) == CF_OK && model != NULL);
    CHECK(cf_open(1, &second) == CF_OK && second != model);

    const cf_feed feed = {x, sizeof x};
    const cf_fetch fetch = {y, sizeof y};
    CHECK(cf_run(NULL, &feed, 1, &fetch, 1) == CF_ERR_ARGUMENT);
    CHECK(cf_run(model, &feed, 2, &fetch, 1) == CF_ERR_ARGUMENT);
    CHECK(cf_run(model, NULL, 1, &fetch, 1) == CF_ERR_ARGUMENT);
    const cf_feed small = {x, sizeof x - 1}, null = {NULL, sizeof x};
    CHECK(cf_run(model, &small, 1, &fetch, 1) == CF_ERR_ARGUMENT);
    CHECK(strstr(cf_last_error(model), "feed x takes") != NULL);
    CHECK(cf_run(model, &null, 1, &fetch, 1) == CF_ERR_ARGUMENT);

    CHECK(cf_run(model, &feed, 1, &fetch, 1) == CF_OK);
    CHECK(strcmp(cf_last_error(model), "") == 0);
    const cf_fetch other = {again, sizeof again};
    CHECK(cf_run(second, &feed, 1, &other, 1) == CF_OK && memcmp(y, again, sizeof y) == 0);
    cf_close(second);
    cf_close(NULL);
    CHECK(cf_run(model, &feed, 1, &fetch, 1) == CF_OK && memcmp(y, again, sizeof y) == 0);
    cf_close(model);

    memset(again, 0, sizeof again);
    CHECK(run(x, sizeof x, again, sizeof again) == CF_OK && memcmp(y, again, sizeof y) == 0);
    CHECK(run(x, sizeof x, again, 1) == CF_ERR_ARGUMENT);
    for (size_t i = 0; i < sizeof y / sizeof *y; i++) printf("%.9g\n", (double)y[i]);
    return 0;
}
