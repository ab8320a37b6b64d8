/* GEMV: a layer of few pixels. Its weights are read once, and the time that takes is the layer's. */
#ifndef COLDFORGE_GEMV_H
#define COLDFORGE_GEMV_H

#include "fused/gemm.h"

/* Panels of a tile, of as many streams of weights: four come out of the second-level cache faster than two, which are
 * as many as the sums of two or three pixels leave registers for. */
enum {
    CF_GEMV_PANELS = CF_LANES >= 8 ? 4 : 2,
    CF_GEMV_NR = CF_GEMV_PANELS * CF_PANEL
};

/* CF_LANES weights from number `at` on, as floats; int8 without their scale. type is a constant. */
INLINE vec load_weights(const cf_weight_type type, const void *weights, int64_t at) {
    switch (type) {
    case CF_FLOAT32: break;
    case CF_FLOAT16: return from_float16((const uint16_t *)weights + at);
    case CF_BFLOAT16: return from_bfloat16((const uint16_t *)weights + at);
    case CF_INT8: return from_int8((const int8_t *)weights + at);
    }
    return load((const float *)weights + at);
}

/*
 * Add to sums: mr <= CF_GEMV_PIXELS pixels times `vectors` vectors of channels, whose weights begin at number `at`.
 * Each sum is kept in `chains` parts, which hide the latency of the additions. Weights that are not float32 are widened
 * in registers, because each is used mr times only. type, mr, vectors and chains are constants. There is no prefetch,
 * because the processor reads ahead by itself.
 */
INLINE void gemv_microkernel(const cf_weight_type type, const int mr, const int vectors, const int chains,
                             const cf_gemm *g, const float *const *inputs, int64_t at, const float *scale,
                             float *sums) {
    enum { PER_PANEL = CF_PANEL / CF_LANES };
    const cf_indirection *indirection = &g->indirection;
    const int64_t segments = indirection->segments, length = indirection->segment_length,
                  panel_stride = indirection->k * CF_PANEL;
    const void *weights = g->data->weights;
    vec sum[4][CF_GEMV_PIXELS][CF_GEMV_NR / CF_LANES];
    UNROLL for (int c = 0; c < chains; c++) {
        UNROLL for (int r = 0; r < mr; r++) { UNROLL for (int v = 0; v < vectors; v++) sum[c][r][v] = zero(); }
    }
    for (int64_t s = 0; s < segments; s++) {
        const float *in[CF_GEMV_PIXELS];
        UNROLL for (int r = 0; r < mr; r++) in[r] = inputs[r] + indirection->offsets[s];
        int64_t k = 0;
        for (; k + chains <= length; k += chains) {
            UNROLL for (int c = 0; c < chains; c++) {
                UNROLL for (int v = 0; v < vectors; v++) {
                    const int64_t of_vector = (v / PER_PANEL) * panel_stride + (v % PER_PANEL) * CF_LANES;
                    const vec w = load_weights(type, weights, at + of_vector + c * CF_PANEL);
                    UNROLL for (int r = 0; r < mr; r++) sum[c][r][v] += splat(number_at(in[r] + k + c)) * w;
                }
            }
            at += chains * CF_PANEL;
        }
        ROLLED for (; k < length; k++) { /* fewer than `chains` */
            UNROLL for (int v = 0; v < vectors; v++) {
                const int64_t of_vector = (v / PER_PANEL) * panel_stride + (v % PER_PANEL) * CF_LANES;
                const vec w = load_weights(type, weights, at + of_vector);
                UNROLL for (int r = 0; r < mr; r++) sum[0][r][v] += splat(number_at(in[r] + k)) * w;
            }
            at += CF_PANEL;
        }
    }
    UNROLL for (int r = 0; r < mr; r++) {
        UNROLL for (int v = 0; v < vectors; v++) {
            float *row_sums = sums + r * CF_GEMV_NR + v * CF_LANES;
            vec total = sum[0][r][v];
            UNROLL for (int c = 1; c < chains; c++) total += sum[c][r][v];
            if (type == CF_INT8) total *= load(scale + v * CF_LANES);
            store(row_sums, load(row_sums) + total);
        }
    }
}

/* Add to sums: CF_GEMV_PIXELS images of one pixel times CF_GEMV_PANELS panels, each sum as that of one image is. */
INLINE void gemv_images(const cf_weight_type type, const cf_gemm *g, const float *const *in, int64_t at,
                        const float *scale, float *sums) {
    enum { AT_ONCE = CF_LANES >= 16 ? CF_GEMV_PANELS : 2, VECTORS = AT_ONCE * CF_PANEL / CF_LANES };
    for (int64_t p = 0; p < CF_GEMV_PANELS; p += AT_ONCE) {
        gemv_microkernel(type, CF_GEMV_PIXELS, VECTORS, 1, g, in, at + p * g->indirection.k * CF_PANEL,
                         scale != NULL ? scale + p * CF_PANEL : NULL, sums + p * CF_PANEL);
    }
}

/* Add to sums: `pixels` pixels times `panels` panels from number `panel` on: one, two, or CF_GEMV_PANELS of one pixel or
 * of CF_GEMV_PIXELS images. */
INLINE void gemv_panels(const cf_weight_type type, const cf_gemm *g, int64_t pixels, const float *const *in,
                        int64_t panel, int64_t panels, float *sums) {
    enum { ONE = CF_PANEL / CF_LANES, TWO = 2 * ONE, MOST = CF_GEMV_PANELS * ONE };
    const int64_t at = panel * g->indirection.k * CF_PANEL;
    const float *scale = type == CF_INT8 ? g->data->weight_scale + panel * CF_PANEL : NULL;
    if (CF_GEMV_PANELS > 2 && panels > 2) {
        if (CF_HAS_ONE_BY_ONE && pixels > 1) {
            gemv_images(type, g, in, at, scale, sums);
        } else {
            gemv_microkernel(type, 1, MOST, 1, g, in, at, scale, sums);
        }
    } else if (panels > 1) {
        switch (pixels) {
        case 1: gemv_microkernel(type, 1, TWO, 2, g, in, at, scale, sums); break;
        case 2: gemv_microkernel(type, 2, TWO, CF_LANES == 16 ? 2 : 1, g, in, at, scale, sums); break;
        case 3: gemv_microkernel(type, 3, TWO, CF_LANES == 16 ? 2 : 1, g, in, at, scale, sums); break;
        }
    } else {
        switch (pixels) {
        case 1: gemv_microkernel(type, 1, ONE, 4, g, in, at, scale, sums); break;
        case 2: gemv_microkernel(type, 2, ONE, 2, g, in, at, scale, sums); break;
        case 3: gemv_microkernel(type, 3, ONE, 2, g, in, at, scale, sums); break;
        }
    }
}

static void gemv_any_type(const cf_gemm *g, int64_t pixels, const float *const *in, int64_t panel, int64_t panels,
                          float *sums) {
#if CF_HAS_SMALL_WEIGHTS
    switch (g->layer->weight_type) {
    case CF_FLOAT32: break;
    case CF_FLOAT16: gemv_panels(CF_FLOAT16, g, pixels, in, panel, panels, sums); return;
    case CF_BFLOAT16: gemv_panels(CF_BFLOAT16, g, pixels, in, panel, panels, sums); return;
    case CF_INT8: gemv_panels(CF_INT8, g, pixels, in, panel, panels, sums); return;
    }
#endif
    gemv_panels(CF_FLOAT32, g, pixels, in, panel, panels, sums);
}

static void gemv_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_gemm *g = argument;
    const int64_t n_block = task % g->n_blocks, group = task / g->n_blocks;
    cf_pixel_pointers pointers;
    set_pixel_pointers(&pointers, g->layer, g->data, 0, g->pixels, group * g->group_in_channels);
    /* Tiles begin at the same panels whatever the tasks: each has its own order of additions. */
    const int64_t most = g->pixels == 1 ? CF_GEMV_PANELS : 2, tiles = ceil_div(g->panels, most);
    const int64_t end = min64(g->panels, most * part_start(tiles, n_block + 1, g->n_blocks));
    for (int64_t panel = most * part_start(tiles, n_block, g->n_blocks); panel < end;) {
        const int64_t together = end - panel >= most ? most : min64(end - panel, 2);
        const int64_t channels = min64(together * CF_PANEL, g->group_out_channels - panel * CF_PANEL);
        const int64_t channel = group * g->group_out_channels + panel * CF_PANEL;
        /* The next images find the weights in the cache. */
        for (int64_t first = 0, pixels = g->pixels; first < g->images * g->pixels; first += pixels) {
            const int several = g->images - first >= CF_GEMV_PIXELS && together == most && most > 2;
            pixels = CF_HAS_ONE_BY_ONE && several ? CF_GEMV_PIXELS : g->pixels;
            _Alignas(64) float sums[CF_GEMV_PIXELS * CF_GEMV_NR] = {0};
            if (CF_HAS_ONE_BY_ONE && g->images > 1) {
                set_pixel_pointers(&pointers, g->layer, g->data, first, pixels, group * g->group_in_channels);
            }
            for (int64_t r = 0; r < pixels; r++) {
                memcpy(sums + r * CF_GEMV_NR, g->data->bias + channel, (size_t)channels * sizeof *sums);
            }
            gemv_any_type(g, pixels, pointers.input, group * g->panels + panel, together, sums);
            run_epilogue(g->layer, g->data, &pointers, 0, pixels, channel, channels, sums, CF_GEMV_NR);
        }
        panel += together;
    }
}

#endif
