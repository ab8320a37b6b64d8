/* The state functions as model.h describes them, on the counter of test_state.py. */
#include "model.h"

#include <stdio.h>
#include <string.h>

#define CHECK(condition)                                            \
    do {                                                            \
        if (!(condition)) {                                         \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            return 1;                                               \
        }                                                           \
    } while (0)

static int64_t calls;

static cf_status call(cf_model *model) {
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    static float after[3], before[3];
    const cf_feed feed = {x, sizeof x};
    const cf_fetch fetches[] = {{after, sizeof after}, {before, sizeof before}, {&calls, sizeof calls}};
    return cf_run(model, &feed, 1, fetches, 3);
}

int main(void) {
    uint8_t state[CF_STATE_SIZE], other[CF_STATE_SIZE + 1];
    cf_model *model = NULL, *second = NULL;
    CHECK(CF_STATE_SIZE == 20 && strstr(cf_describe(), "\"states\":[{\"name\":\"calls\"") != NULL);
    CHECK(cf_open(1, &model) == CF_OK && cf_open(1, &second) == CF_OK);

    CHECK(call(model) == CF_OK && calls == 1);
    CHECK(cf_get_state(model, state, sizeof state) == CF_OK);
    CHECK(call(model) == CF_OK && calls == 2);
    CHECK(call(second) == CF_OK && calls == 1);
    CHECK(cf_set_state(second, state, sizeof state) == CF_OK);
    CHECK(call(second) == CF_OK && calls == 2);
    CHECK(cf_reset(model) == CF_OK && call(model) == CF_OK && calls == 1);

    /* What is refused changes nothing, and says why. */
    CHECK(cf_get_state(model, other, sizeof other) == CF_ERR_ARGUMENT);
    CHECK(strcmp(cf_last_error(model), "the state has 20 bytes, not 21") == 0);
    CHECK(cf_set_state(model, state, sizeof state - 1) == CF_ERR_ARGUMENT);
    CHECK(cf_set_state(model, NULL, sizeof state) == CF_ERR_ARGUMENT);
    CHECK(cf_get_state(NULL, state, sizeof state) == CF_ERR_ARGUMENT);
    CHECK(cf_set_state(NULL, state, sizeof state) == CF_ERR_ARGUMENT);
    CHECK(cf_reset(NULL) == CF_ERR_ARGUMENT);
    CHECK(cf_run(model, NULL, 0, NULL, 0) == CF_ERR_ARGUMENT);
    CHECK(call(model) == CF_OK && calls == 2);
    CHECK(strcmp(cf_last_error(model), "") == 0);
    cf_close(model);
    cf_close(second);
    return 0;
}
