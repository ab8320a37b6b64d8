/* The test of one model: every case through libmodel.so, against TensorFlow's answers. Ends with 0 if all agree. */
#include "selftest.h"

#include <math.h>

static double element(dtype type, const uint8_t *data, size_t i) {
#define VALUE(type)                                        \
    {                                                      \
        type value;                                        \
        memcpy(&value, data + i * sizeof value, sizeof value); \
        return (double)value;                              \
    }
    switch (type) {
    case BOOL: case UINT8: VALUE(uint8_t)
    case INT8: VALUE(int8_t)
    case INT16: VALUE(int16_t)
    case UINT16: VALUE(uint16_t)
    case INT32: VALUE(int32_t)
    case UINT32: VALUE(uint32_t)
    case INT64: VALUE(int64_t)
    case UINT64: VALUE(uint64_t)
    case FLOAT32: VALUE(float)
    case FLOAT64: VALUE(double)
    }
#undef VALUE
    return NAN;
}

static size_t item_size(const output *o) { return o->elements != 0 ? fetches[o->fetch].size / o->elements : 1; }

static double allowed_of(const output *o, double theirs) {
    if (o->type < FLOAT32 || !isfinite(theirs)) return 0.0;
    return o->absolute + o->relative * fabs(theirs);
}

/* How far an element is off; 0 where both are the same, NaN and infinities included. */
static double error_of(const output *o, const uint8_t *ours, const uint8_t *theirs, size_t i) {
    const double a = element(o->type, ours, i), b = element(o->type, theirs, i);
    if (o->type < FLOAT32) { /* two 64-bit integers may differ and yet be one double */
        const size_t size = item_size(o);
        return memcmp(ours + i * size, theirs + i * size, size) == 0 ? 0.0 : fmax(fabs(a - b), 1.0);
    }
    if (a == b || (isnan(a) && isnan(b))) return 0.0;
    const double error = fabs(a - b);
    return isnan(error) ? INFINITY : error;
}

static size_t highest(const output *o, const uint8_t *data, size_t row) {
    size_t best = 0;
    for (size_t i = 1; i < o->classes; i++) {
        const double value = element(o->type, data, row * o->classes + i);
        if (value > element(o->type, data, row * o->classes + best)) best = i;
    }
    return best;
}

/* Rows whose highest class is another, and by more than the tolerance. */
static size_t wrong_rows(const output *o, const uint8_t *ours, const uint8_t *theirs) {
    size_t wrong = 0;
    for (size_t row = 0; o->classes > 1 && row < o->elements / o->classes; row++) {
        const size_t mine = highest(o, ours, row), other = highest(o, theirs, row);
        const double best = element(o->type, theirs, row * o->classes + other);
        const double chosen = element(o->type, theirs, row * o->classes + mine);
        wrong += mine != other && best - chosen > allowed_of(o, best);
    }
    return wrong;
}

typedef struct {
    double worst; /* the largest error */
    size_t beyond, wrong;
    size_t spared; /* elements that disagree in a case that has no more of them than it may */
} findings;

static void compare(const output *o, size_t number, findings *found) {
    const uint8_t *ours = results[o->fetch], *theirs = case_tensor(number, &fetches[o->fetch]);
    size_t beyond = 0;
    for (size_t i = 0; i < o->elements; i++) {
        const double error = error_of(o, ours, theirs, i);
        beyond += error > allowed_of(o, element(o->type, theirs, i));
        if (error > found->worst) found->worst = error;
    }
    const size_t wrong = wrong_rows(o, ours, theirs);
    if (beyond <= o->spare) {
        if (beyond > found->spared) found->spared = beyond;
        beyond = 0;
    }
    if (beyond != 0) printf("  case %s, %s: %zu of %zu elements disagree\n", case_names[number], o->name, beyond, o->elements);
    if (wrong != 0) printf("  case %s, %s: another class is the highest\n", case_names[number], o->name);
    found->beyond += beyond;
    found->wrong += wrong;
}

static void run_case(cf_model *model, size_t number) {
    feed_case(number);
    for (size_t i = 0; i < FETCHES; i++) memset(results[i], 0xA5, fetches[i].size);
    const cf_status status = CALL(cf_run)(model, all_feeds, FEEDS, all_fetches, FETCHES);
    if (status == CF_OK) return;
    printf("  case %s: status %d, %s\nFAILED\n", case_names[number], (int)status, CALL(cf_last_error)(model));
    exit(1);
}

int main(int argc, char **argv) {
    const char *path = NULL;
    uint32_t threads = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--threads") == 0) {
            threads = (uint32_t)number_after(&argv[i++]);
        } else if (argv[i][0] != '-' && path == NULL) {
            path = argv[i];
        } else {
            fprintf(stderr, "usage: %s [--threads N] [libmodel.so]\n", argv[0]);
            return 2;
        }
    }
    load(path);
    prepare();
    cf_model *model = open_model(threads);
    findings found[OUTPUTS] = {{0}};
    int failed = 0;
    printf("%s: %d cases\n", MODEL, CASES);
    for (size_t number = 0; number < CASES; number++) { /* of a model with state, one sequence of calls */
        run_case(model, number);
        for (size_t i = 0; i < OUTPUTS; i++) compare(&outputs[i], number, &found[i]);
    }
    for (size_t i = 0; i < OUTPUTS; i++) {
        const output *o = &outputs[i];
        const int agrees = found[i].beyond == 0 && found[i].wrong == 0;
        printf("  %s: worst error %.3g", o->name, found[i].worst);
        if (o->type >= FLOAT32) printf(", allowed %g + %g x |TensorFlow's|", o->absolute, o->relative);
        if (o->spare != 0) printf(", in %zu of at most %zu elements of a case", found[i].spared, o->spare);
        printf(", %s\n", agrees ? "agrees" : "DISAGREES");
        failed |= !agrees;
    }
    CALL(cf_close)(model);
    give_back();
    printf(failed ? "FAILED\n" : "PASSED\n");
    return failed;
}
