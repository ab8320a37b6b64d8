/* Convolutions: dispatch, and the loop nest that takes any type, stride and dilation. */
#include <string.h>

#include "ops/convolution_depthwise.h"
#include "ops/convolution_tiled.h"
#include "ops/types.h"
#include "ops/window.h"

/* The sum under one output's window; input and kernel point to the first channel of its group. */
#define LOOP_NEST(suffix, element, accumulator)                                                                     \
    CF_RARE accumulator window_##suffix(const cf_convolution *c, const cf_axis x[3], const int64_t at[3],           \
                                       const element *input, const element *kernel) {                               \
        const int64_t channels = c->in_channels / c->groups;                                                        \
        accumulator sum = 0;                                                                                        \
        for (int64_t t0 = 0; t0 < x[0].taps; t0++) {                                                                \
            const int64_t i0 = cf_source(&x[0], at[0], t0);                                                         \
            for (int64_t t1 = 0; i0 >= 0 && t1 < x[1].taps; t1++) {                                                 \
                const int64_t i1 = cf_source(&x[1], at[1], t1);                                                     \
                for (int64_t t2 = 0; i1 >= 0 && t2 < x[2].taps; t2++) {                                             \
                    const int64_t i2 = cf_source(&x[2], at[2], t2);                                                 \
                    if (i2 < 0) continue;                                                                           \
                    const element *a = input + i0 * x[0].in_step + i1 * x[1].in_step + i2 * x[2].in_step;           \
                    const element *b = kernel + cf_weight(&x[0], t0) + cf_weight(&x[1], t1) + cf_weight(&x[2], t2); \
                    for (int64_t i = 0; i < channels; i++) {                                                        \
                        sum += (accumulator)a[i * c->in_channel] * (accumulator)b[i * c->kernel_in];                \
                    }                                                                                               \
                }                                                                                                   \
            }                                                                                                       \
        }                                                                                                           \
        return sum;                                                                                                 \
    }                                                                                                               \
    CF_RARE void any_##suffix(const cf_convolution *c, const cf_axis x[3], const element *input,                    \
                             const element *kernel, element *output) {                                              \
        const int64_t per_group = c->out_channels / c->groups, channels = c->in_channels / c->groups;               \
        const int64_t pixels = x[0].out * x[1].out * x[2].out;                                                      \
        for (int64_t n = 0; n < c->batch; n++) {                                                                    \
            for (int64_t p = 0; p < pixels; p++) {                                                                  \
                const int64_t at[3] = {p / x[2].out / x[1].out, p / x[2].out % x[1].out, p % x[2].out};             \
                element *to = output + n * c->out_batch + at[0] * x[0].out_step + at[1] * x[1].out_step             \
                              + at[2] * x[2].out_step;                                                              \
                for (int64_t o = 0; o < c->out_channels; o++) {                                                     \
                    const element *group = input + n * c->in_batch + o / per_group * channels * c->in_channel;      \
                    to[o * c->out_channel] = (element)window_##suffix(c, x, at, group, kernel + o * c->kernel_out); \
                }                                                                                                   \
            }                                                                                                       \
        }                                                                                                           \
    }
CF_FOR_EACH_TYPE(LOOP_NEST)

/* From eight outputs per group on, the tiles over one group's channels are the better choice. */
static int is_depthwise(const cf_convolution *c, const cf_axis x[3]) {
    return c->in_channels == c->groups && c->out_channels / c->groups < 8 && c->out_channels >= 8 &&
           c->out_channel == 1 && x[0].base_dilation == 1 && x[1].base_dilation == 1 && x[2].base_dilation == 1;
}

void cf_run_convolution(const cf_convolution *c, const void *input, const void *kernel, void *output) {
    if (c->out_channels <= 0) return;
    cf_axis axes[3];
    cf_axes(c, axes);
    const int tiled = c->dtype == CF_F32 && c->in_channel == 1 && c->kernel_out == 1;
    if (tiled && is_depthwise(c, axes)) {
        run_depthwise(c, axes, input, kernel, output);
    } else if (tiled) {
        run_tiled(c, axes, input, kernel, output);
    } else {
        CF_DISPATCH(c->dtype, any, c, axes, input, kernel, output)
    }
}
