/* Rows in reverse order: a template for builder/runtime/ops/<kind>.c. */
#include "ops/kernels.h"

/* These lines belong in ops/kernels.h. */
typedef struct {
    int64_t rows, length;
} cf_reverse;

/* Each row of `length` numbers in reverse order. */
void cf_run_reverse(const cf_reverse *r, const float *source, float *target);

/* From here on they belong in ops/reverse.c. */
void cf_run_reverse(const cf_reverse *r, const float *source, float *target) {
    for (int64_t row = 0; row < r->rows; row++) {
        const float *from = source + row * r->length;
        float *to = target + row * r->length;
        for (int64_t i = 0; i < r->length; i++) to[i] = from[r->length - 1 - i];
    }
}
