/*
 * Convolutions of dense channels as implicit GEMM: for every tap the micro-kernel multiplies the input channels of MR
 * pixels with the tap's weights, both as they lie in memory.
 *
 * Along the last axis the outputs fall into phases that meet the same taps: with a base dilation (transposed
 * convolutions) most taps meet only zeros and are skipped as a whole.
 */
#include <string.h>

#include "ops/tile.h"
#include "ops/window.h"

/* One tile: mr outputs of the last axis, from first in steps of step, by nr channels. */
typedef struct {
    const cf_axis *x;  /* the last axis */
    int64_t channels;  /* input channels of the group */
    int64_t kernel_in; /* from one of them to the next in the kernel */
    int64_t first, step;
    int64_t in_stride; /* inputs from one of the tile's outputs to the next */
    int mr, nr;
    int dense; /* the taps of a row follow one another like channels */
    float *sum;
} tile;

static int64_t greatest_divisor(int64_t a, int64_t b) { return b == 0 ? a : greatest_divisor(b, a % b); }

/* The quotient rounded up, for a positive b. */
static int64_t divide_up(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

/* Sets *input to the input, maybe out of bounds, that tap and the tile's first output meet at. Returns 0 if the tap
 * only meets zeros. */
static int meets(const tile *t, int64_t tap, int64_t *input) {
    const int64_t at = t->first * t->x->stride - t->x->pad_low + tap * t->x->window_dilation;
    *input = at / t->x->base_dilation;
    return at % t->x->base_dilation == 0;
}

static int is_inside(const tile *t, int64_t input) {
    return input >= 0 && input + (t->mr - 1) * t->in_stride < t->x->in;
}

/* Add the taps along the last axis. */
static void add_taps(const tile *t, const float *input, const float *kernel) {
    const cf_axis *x = t->x;
    const int64_t pixel = t->in_stride * x->in_step;
    int64_t from = 0, to = 0;
    if (t->dense && meets(t, 0, &from) && is_inside(t, from) && meets(t, x->taps - 1, &to) && is_inside(t, to)) {
        cf_microkernel_f32(t->mr, t->nr, x->taps * t->channels, input + from * x->in_step, pixel, 1, kernel,
                           t->kernel_in, t->sum);
        return;
    }
    for (int64_t tap = 0; tap < x->taps; tap++) {
        if (!meets(t, tap, &from)) continue;
        int64_t low = divide_up(-from, t->in_stride), high = divide_up(x->in - from, t->in_stride);
        if (low < 0) low = 0;
        if (high > t->mr) high = t->mr;
        if (low >= high) continue;
        cf_microkernel_f32((int)(high - low), t->nr, t->channels, input + (from * x->in_step + low * pixel), pixel, 1,
                           kernel + cf_weight(x, tap), t->kernel_in, t->sum + low * CF_TILE_NR);
    }
}

/* Add all taps to a tile whose outputs lie at o0 and o1 of the outer axes. */
static void add_window(const tile *t, const cf_axis x[3], int64_t o0, int64_t o1, const float *input,
                       const float *kernel) {
    for (int64_t t0 = 0; t0 < x[0].taps; t0++) {
        const int64_t i0 = cf_source(&x[0], o0, t0);
        for (int64_t t1 = 0; i0 >= 0 && t1 < x[1].taps; t1++) {
            const int64_t i1 = cf_source(&x[1], o1, t1);
            if (i1 < 0) continue;
            add_taps(t, input + i0 * x[0].in_step + i1 * x[1].in_step,
                     kernel + cf_weight(&x[0], t0) + cf_weight(&x[1], t1));
        }
    }
}

/* All pixels of one image and some channels; output points to the first of them. */
static void run_tile_columns(const cf_convolution *c, const cf_axis x[3], int nr, const float *input,
                             const float *kernel, float *output) {
    const cf_axis *last = &x[2];
    const int64_t channels = c->in_channels / c->groups;
    const int64_t phases = last->base_dilation / greatest_divisor(last->base_dilation, last->stride);
    tile t = {.x = last, .channels = channels, .kernel_in = c->kernel_in, .step = phases, .nr = nr};
    t.in_stride = phases * last->stride / last->base_dilation;
    t.dense = last->taps > 1 && !last->reversed && last->base_dilation == 1 &&
              last->window_dilation * last->in_step == channels && last->kernel_step == channels * c->kernel_in;
    for (int64_t row = 0; row < x[0].out * x[1].out; row++) {
        const int64_t o0 = row / x[1].out, o1 = row % x[1].out;
        for (int64_t phase = 0; phase < phases; phase++) {
            for (t.first = phase; t.first < last->out; t.first += t.mr * phases) {
                float sum[CF_TILE_MR * CF_TILE_NR];
                t.mr = cf_tile_mr(divide_up(last->out - t.first, phases));
                t.sum = memset(sum, 0, (size_t)t.mr * CF_TILE_NR * sizeof(float));
                add_window(&t, x, o0, o1, input, kernel);
                float *to = output + o0 * x[0].out_step + o1 * x[1].out_step + t.first * last->out_step;
                for (int r = 0; r < t.mr; r++, to += phases * last->out_step) {
                    for (int i = 0; i < nr; i++) to[i * c->out_channel] = sum[r * CF_TILE_NR + i];
                }
            }
        }
    }
}

static void run_tiled(const cf_convolution *c, const cf_axis x[3], const float *input, const float *kernel,
                      float *output) {
    const int64_t in_channels = c->in_channels / c->groups, out_channels = c->out_channels / c->groups;
    int nr;
    for (int64_t g = 0; g < c->groups; g++) {
        for (int64_t o = 0; o < out_channels; o += nr) {
            nr = cf_tile_nr(out_channels, &o);
            const int64_t channel = g * out_channels + o;
            for (int64_t n = 0; n < c->batch; n++) {
                run_tile_columns(c, x, nr, input + n * c->in_batch + g * in_channels, kernel + channel,
                                 output + n * c->out_batch + channel * c->out_channel);
            }
        }
    }
}
