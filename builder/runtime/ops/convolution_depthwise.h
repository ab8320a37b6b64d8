/*
 * Depthwise convolutions of dense channels: one input channel per group, so there is nothing to sum over but
 * the taps, and the vectors run over the output channels.
 */
#include <string.h>

#include "ops/window.h"

typedef float channels8 __attribute__((vector_size(32)));

enum { PIXELS = 4 };

/* The taps [low, high) of an axis at which output o meets inputs; base_dilation is 1. */
typedef struct {
    int64_t low, high;
} taps;

static taps inside(const cf_axis *x, int64_t o) {
    const int64_t at = o * x->stride - x->pad_low;
    taps t = {0, x->taps};
    while (t.low < t.high && at + t.low * x->window_dilation < 0) t.low++;
    while (t.low < t.high && at + (t.high - 1) * x->window_dilation >= x->in) t.high--;
    return t;
}

static inline channels8 load8(const float *from) {
    channels8 value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* The inputs of eight output channels that share input channels. */
static inline channels8 gather8(const float *from, const int64_t channel[8]) {
    return (channels8){from[channel[0]], from[channel[1]], from[channel[2]], from[channel[3]],
                       from[channel[4]], from[channel[5]], from[channel[6]], from[channel[7]]};
}

/*
 * The micro-kernel: `pixels` neighbouring pixels by 8 * vectors channels from o on; both are constants. range holds the
 * taps of the three axes. at is the offset of the input, maybe out of bounds, that tap 0 of the first pixel meets.
 */
static inline __attribute__((always_inline)) void
microkernel(const int pixels, const int vectors, const cf_axis x[3], const taps range[3], int64_t multiplier, int64_t o,
      const float *input, int64_t at, const float *kernel, float *output) {
    const int64_t pixel = x[2].stride * x[2].in_step;
    channels8 sum[PIXELS][2] = {{{0}}};
    int64_t channel[8];
    for (int i = 0; i < 8; i++) channel[i] = (o + i) / multiplier;
    for (int64_t t0 = range[0].low; t0 < range[0].high; t0++) {
        for (int64_t t1 = range[1].low; t1 < range[1].high; t1++) {
            for (int64_t t2 = range[2].low; t2 < range[2].high; t2++) {
                const float *from = input + (at + t0 * x[0].window_dilation * x[0].in_step +
                                             t1 * x[1].window_dilation * x[1].in_step +
                                             t2 * x[2].window_dilation * x[2].in_step);
                const float *weights =
                    kernel + cf_weight(&x[0], t0) + cf_weight(&x[1], t1) + cf_weight(&x[2], t2) + o;
                for (int v = 0; v < vectors; v++) {
                    const channels8 weight = load8(weights + 8 * v);
                    for (int p = 0; p < pixels; p++) {
                        const float *values = from + p * pixel;
                        sum[p][v] += weight * (multiplier == 1 ? load8(values + o + 8 * v) : gather8(values, channel));
                    }
                }
            }
        }
    }
    for (int p = 0; p < pixels; p++) {
        for (int v = 0; v < vectors; v++) memcpy(output + p * x[2].out_step + o + 8 * v, &sum[p][v], 32);
    }
}

/* All channels of some pixels; the last block moves back rather than narrow. */
static inline __attribute__((always_inline)) void
all_channels(const int pixels, const cf_convolution *c, const cf_axis x[3], const taps range[3], const float *input,
             int64_t at, const float *kernel, float *output) {
    const int64_t multiplier = c->out_channels / c->groups;
    int64_t o = 0;
    if (multiplier == 1) {
        for (; o + 16 <= c->out_channels; o += 16) microkernel(pixels, 2, x, range, 1, o, input, at, kernel, output);
    }
    for (; o < c->out_channels; o += 8) {
        if (o + 8 > c->out_channels) o = c->out_channels - 8;
        microkernel(pixels, 1, x, range, multiplier, o, input, at, kernel, output);
    }
}

static void run_depthwise(const cf_convolution *c, const cf_axis x[3], const float *input, const float *kernel,
                          float *output) {
    for (int64_t row = 0; row < c->batch * x[0].out * x[1].out; row++) {
        const int64_t n = row / x[1].out / x[0].out, o0 = row / x[1].out % x[0].out, o1 = row % x[1].out;
        taps range[3] = {inside(&x[0], o0), inside(&x[1], o1), {0, 0}};
        const int64_t from = n * c->in_batch + (o0 * x[0].stride - x[0].pad_low) * x[0].in_step +
                             (o1 * x[1].stride - x[1].pad_low) * x[1].in_step - x[2].pad_low * x[2].in_step;
        float *to = output + n * c->out_batch + o0 * x[0].out_step + o1 * x[1].out_step;
        for (int64_t o2 = 0; o2 < x[2].out;) {
            const int64_t at = from + o2 * x[2].stride * x[2].in_step;
            range[2] = inside(&x[2], o2);
            const taps next = o2 + PIXELS <= x[2].out ? inside(&x[2], o2 + PIXELS - 1) : (taps){0, 0};
            /* Whoever meets all taps at both ends meets them in between. */
            if (range[2].high - range[2].low == x[2].taps && next.high - next.low == x[2].taps) {
                all_channels(PIXELS, c, x, range, input, at, kernel, to + o2 * x[2].out_step);
                o2 += PIXELS;
            } else {
                all_channels(1, c, x, range, input, at, kernel, to + o2 * x[2].out_step);
                o2++;
            }
        }
    }
}
