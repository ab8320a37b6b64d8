/*
 * What a model's test and its benchmark share: the cases (feeds, and TensorFlow's answers), which are in the program,
 * and libmodel.so, which is not. cases.h is generated for each model by builder/release/selftest/cases.py.
 */
#ifndef COLDFORGE_SELFTEST_H
#define COLDFORGE_SELFTEST_H

#define _GNU_SOURCE
#include "library.h"

#include <string.h>
#include <unistd.h>

typedef enum { BOOL, INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64, UINT64, FLOAT32, FLOAT64 } dtype;

/* A feed or fetch: bytes, and where it stands in each case's part of case_data. */
typedef struct {
    const char *name;
    size_t size, offset;
} tensor;

/* What is compared: |ours - TensorFlow's| <= absolute + relative * |TensorFlow's|; integers must be equal. */
typedef struct {
    const char *name;
    size_t fetch; /* number of the fetch */
    dtype type;
    size_t elements;
    size_t classes; /* of a classification, whose highest must be TensorFlow's; else 0 */
    double absolute, relative;
    size_t spare; /* elements of a case that may disagree: of a class map, where two classes are as good */
} output;

extern const uint8_t case_data[];

#include "cases.h"

static const uint8_t *case_tensor(size_t number, const tensor *which) {
    return case_data + number * CASE_SIZE + which->offset;
}

static uint8_t *results[FETCHES];
static cf_feed all_feeds[FEEDS];
static cf_fetch all_fetches[FETCHES];

static void out_of_memory(void) {
    fprintf(stderr, "out of memory\n");
    exit(EXIT_REFUSED);
}

/* Memory for the fetches. */
static void prepare(void) {
    for (size_t i = 0; i < FETCHES; i++) {
        results[i] = malloc(fetches[i].size + 1);
        if (results[i] == NULL) out_of_memory();
        all_fetches[i] = (cf_fetch){results[i], fetches[i].size};
    }
}

static void give_back(void) {
    for (size_t i = 0; i < FETCHES; i++) free(results[i]);
}

static void feed_case(size_t number) {
    for (size_t i = 0; i < FEEDS; i++) all_feeds[i] = (cf_feed){case_tensor(number, &feeds[i]), feeds[i].size};
}

/* Load the library at `path`, or the one of the bundle that this program lies in, or that of Lambda's layer. */
static void load(const char *path) {
    static const char *const places[] = {"/layer/lib/libmodel.so", "/libmodel.so"};
    static char found[4096];
    const ssize_t length = readlink("/proc/self/exe", found, sizeof found - 64);
    for (size_t i = 0; path == NULL && length > 0 && i < sizeof places / sizeof *places; i++) {
        found[length] = '\0';
        char *folder_end = strrchr(found, '/');
        strcpy(folder_end != NULL ? folder_end : found, places[i]);
        if (access(found, R_OK) == 0) path = found;
    }
    load_library(path != NULL ? path : "/opt/lib/libmodel.so");
    const uint32_t version = CALL(cf_abi_version)();
    if (version != CF_ABI_VERSION) {
        fprintf(stderr, "its ABI version is %u, not %u\n", version, CF_ABI_VERSION);
        exit(EXIT_REFUSED);
    }
}

static cf_model *open_model(uint32_t threads) {
    cf_model *model = NULL;
    const cf_status status = CALL(cf_open)(threads, &model);
    if (status != CF_OK) {
        fprintf(stderr, "it cannot be opened: status %d, %s\n", (int)status, CALL(cf_last_error)(NULL));
        exit(EXIT_REFUSED);
    }
    return model;
}

/* A whole number after an option; ends the program where there is none. */
static unsigned long number_after(char **argument) {
    char *end = argument[1];
    const unsigned long value = argument[1] != NULL ? strtoul(argument[1], &end, 10) : 0;
    if (end == argument[1] || *end != '\0') {
        fprintf(stderr, "%s takes a number\n", argument[0]);
        exit(2);
    }
    return value;
}

#endif
