/* A convolution brought to three spatial dimensions, and where outputs and taps meet. */
#ifndef COLDFORGE_WINDOW_H
#define COLDFORGE_WINDOW_H

#include "ops/kernels.h"

/* One spatial dimension, strides in elements. */
typedef struct {
    int64_t in, out, taps, stride, pad_low, base_dilation, window_dilation;
    int64_t in_step, kernel_step, out_step;
    int reversed;
} cf_axis;

/* The input under tap of output o, or -1 if there is a zero. */
static inline int64_t cf_source(const cf_axis *x, int64_t o, int64_t tap) {
    const int64_t at = o * x->stride - x->pad_low + tap * x->window_dilation;
    if (at < 0 || at % x->base_dilation != 0 || at / x->base_dilation >= x->in) return -1;
    return at / x->base_dilation;
}

/* The offset of a tap's weights. */
static inline int64_t cf_weight(const cf_axis *x, int64_t tap) {
    return (x->reversed ? x->taps - 1 - tap : tap) * x->kernel_step;
}

static inline int cf_is_pointwise(const cf_axis *x) {
    return x->taps == 1 && x->stride == 1 && x->pad_low == 0 && x->base_dilation == 1 && x->in == x->out;
}

/*
 * The axes of c, outermost first. Axes of one output and one tap are dropped and pointwise neighbours that
 * are dense in both tensors joined, so that the last axis is the one worth running along.
 */
static inline void cf_axes(const cf_convolution *c, cf_axis axes[3]) {
    const cf_axis unit = {1, 1, 1, 1, 0, 1, 1, 0, 0, 0, 0};
    int next = 3;
    for (int i = c->spatial_rank - 1; i >= 0; i--) {
        const cf_axis x = {c->in[i],         c->out[i],           c->kernel[i],     c->stride[i],
                           c->pad_low[i],    c->base_dilation[i], c->window_dilation[i], c->in_spatial[i],
                           c->kernel_spatial[i], c->out_spatial[i], c->reversed[i]};
        if (cf_is_pointwise(&x) && x.out == 1) continue;
        cf_axis *last = &axes[next < 3 ? next : 2];
        if (next < 3 && cf_is_pointwise(&x) && cf_is_pointwise(last) && x.in_step == last->in * last->in_step &&
            x.out_step == last->out * last->out_step) {
            last->in *= x.in;
            last->out *= x.out;
        } else {
            axes[--next] = x;
        }
    }
    while (next > 0) axes[--next] = unit;
}

#endif
