/*
 * The float32 GEMM micro-kernels: a register tile of MR pixels by NR output channels, summed over K.
 *
 * The rows of A are read through an indirection buffer, B is packed into panels of 16 channels. Every micro-kernel adds
 * a pixel's products one after the other in the order of the weights, whatever its MR and NR, so an answer does not
 * depend on how the pixels are divided among tiles.
 */
#ifndef COLDFORGE_GEMM_MICROKERNEL_H
#define COLDFORGE_GEMM_MICROKERNEL_H

#include "fused/epilogue.h"

/*
 * Tiles are 8, 16, 24 or 32 channels wide, up to CF_NR; the last vector of a wide one may be half a vector.
 * CF_HALF_MR: MR of those of at most half of CF_NR. With AVX2 there are vector registers for the sums of twelve pixels,
 * but not enough general ones for their pointers.
 */
enum { CF_WIDTH_STEP = 8, CF_HALF_MR = CF_LANES == 8 ? 9 : CF_MR, CF_MAX_MR = 12, CF_VECTORS = CF_NR / CF_LANES };

/* The width of the narrowest tile for `channels` channels, CF_NR if they are more than that. */
INLINE int64_t tile_width(int64_t channels) {
    return min64(CF_NR, ceil_div(channels, CF_WIDTH_STEP) * CF_WIDTH_STEP);
}
/* The largest MR of tiles of this width. */
INLINE int64_t tile_mr(int64_t width) { return width <= CF_NR / 2 ? CF_HALF_MR : CF_MR; }

/* What all tiles of a block have in common. */
typedef struct {
    const int64_t *offsets; /* of each segment of K from a pixel's input pointer, in floats */
    int64_t segments, segment_length;
    int64_t panel_stride;  /* floats between panels of 16 channels */
    int64_t addend_stride; /* floats between the addends of two pixels; 0: one bias for all */
    int64_t sums_stride;   /* floats between the sums of two pixels, where there are no outputs */
    /* Tiles prefetch weights while they multiply others, from so many floats ahead of `weights` on, and so many bytes
     * farther with each k: a cache line, or less where several tiles share them. The panels of what is prefetched are
     * prefetch_stride floats apart. */
    int64_t prefetch, prefetch_step, prefetch_stride;
    int64_t pixel_step; /* bytes between the inputs of two pixels side by side */
    vec low, high;
} cf_microkernel_params;

/* Floats from one address to another, which may be of another array. */
INLINE int64_t floats_between(const float *from, const float *to) {
    return ((intptr_t)to - (intptr_t)from) / (intptr_t)sizeof *to;
}

/*
 * Compute m_tiles x n_tiles register tiles. Where outputs is NULL: sums[pixel * sums_stride] = products + addend.
 * Otherwise the simple epilogue is fused: outputs[pixel][channel] = clamp(products + addend + residual). residuals may
 * be NULL.
 */
typedef void (*cf_gemm_microkernel)(const cf_microkernel_params *params, int64_t m_tiles, int64_t n_tiles,
                                    const float *const *inputs, const float *weights, const float *addend, float *sums,
                                    float *const *outputs, const float *const *residuals, int64_t channel);

/* A number of an input, of any alignment: a feed may be read where the caller has it. */
INLINE float number_at(const float *at) {
    typedef float unaligned_float __attribute__((aligned(1)));
    return *(const unaligned_float *)at;
}

/* The sums of a tile: whole vectors of channels, and the half vector behind them that some widths end in. Processors
 * with registers of 32 bytes take half the time for that. */
typedef struct {
    vec whole[CF_MAX_MR][CF_VECTORS];
    half_vec half[CF_MAX_MR];
} cf_tile_sums;

INLINE void clear_sums(const int mr, cf_tile_sums *sums) {
    UNROLL for (int r = 0; r < mr; r++) {
        UNROLL for (int v = 0; v < CF_VECTORS; v++) sums->whole[r][v] = zero();
        sums->half[r] = (half_vec){0};
    }
}

/* Add the products of one k: an outer product of MR inputs and `width` weights. */
INLINE void rank1_update(const int mr, const int width, const float *const *in, int64_t k, const float *weights,
                         int64_t panel_stride, cf_tile_sums *sums) {
    enum { PER_PANEL = CF_PANEL / CF_LANES };
    const int whole = width / CF_LANES, half = width % CF_LANES != 0;
    vec w[CF_VECTORS];
    half_vec h = {0};
    UNROLL for (int v = 0; v < whole; v++) {
        w[v] = load(weights + (v / PER_PANEL) * panel_stride + (v % PER_PANEL) * CF_LANES);
    }
    if (half) h = load_half(weights + whole * panel_stride);
    UNROLL for (int r = 0; r < mr; r++) {
        const float a = number_at(in[r] + k);
        UNROLL for (int v = 0; v < whole; v++) sums->whole[r][v] += splat(a) * w[v];
        if (half) sums->half[r] += splat_half(a) * h;
    }
}

/* Make the half vector of each pixel a whole one. */
INLINE void widen_sums(const int mr, const int width, cf_tile_sums *sums) {
    if (width % CF_LANES == 0) return;
    UNROLL for (int r = 0; r < mr; r++) sums->whole[r][width / CF_LANES] = widen_half(sums->half[r]);
}

/* Load vector number v of a pixel's channels, the last of which may be half of one. */
INLINE vec load_part(const int width, const int v, const float *from) {
    return (v + 1) * CF_LANES <= width ? load(from + v * CF_LANES) : widen_half(load_half(from + v * CF_LANES));
}

/* Store it. */
INLINE void store_part(const int width, const int v, float *out, vec value) {
    if ((v + 1) * CF_LANES <= width) {
        store(out + v * CF_LANES, value);
    } else {
        store_half(out + v * CF_LANES, value);
    }
}

/*
 * Tiles of mr pixels by `width` channels; both are constants. The loops over tiles are in here, the one over channels
 * innermost, because calls and waiting for the pixels' pointers cost as much as a short sum.
 */
INLINE void gemm_microkernel(const int mr, const int width, const cf_microkernel_params *params, int64_t m_tiles,
                             int64_t n_tiles, const float *const *inputs, const float *weights, const float *addend,
                             float *sums, float *const *outputs, const float *const *residuals, int64_t channel) {
    const int64_t segment_length = params->segment_length, panel_stride = params->panel_stride,
                  segments = params->segments;
    const int64_t *offsets = params->offsets;
    const int64_t addend_stride = params->addend_stride, sums_stride = params->sums_stride;
    const int vectors = (width + CF_LANES - 1) / CF_LANES;
    const int64_t next_tile = width / CF_PANEL * panel_stride;
    const vec low = params->low, high = params->high;
    const char *ahead = (const char *)(weights + params->prefetch);
    const int64_t ahead_step = params->prefetch_step, ahead_stride = params->prefetch_stride;
    for (int64_t t = 0; t < m_tiles; t++) {
        const float *w = weights, *bias = addend;
        float *tile_sums = sums;
        const int64_t end = channel + n_tiles * width;
        for (int64_t c = channel; c < end; c += width) {
            cf_tile_sums sums_of;
            vec(*sum)[CF_VECTORS] = sums_of.whole;
            clear_sums(mr, &sums_of);
            const float *w_at = w;
            for (int64_t s = 0; s < segments; s++) {
                const float *in[CF_MAX_MR];
                UNROLL for (int r = 0; r < mr; r++) in[r] = inputs[r] + offsets[s];
                for (int64_t k = 0; k < segment_length; k++) {
                    rank1_update(mr, width, in, k, w_at, panel_stride, &sums_of);
                    UNROLL for (int v = 0; v < vectors; v += CF_PANEL / CF_LANES) {
                        __builtin_prefetch((const float *)ahead + v * CF_LANES / CF_PANEL * ahead_stride);
                    }
                    ahead += ahead_step;
                    w_at += CF_PANEL;
                }
            }
            widen_sums(mr, width, &sums_of);
            /* Added last, not first: a long sum is then one of partial sums, whose rounding error grows far less
             * with K. */
            if (addend_stride == 0) {
                UNROLL for (int v = 0; v < vectors; v++) {
                    const vec b = load_part(width, v, bias);
                    UNROLL for (int r = 0; r < mr; r++) sum[r][v] += b;
                }
            } else {
                const float *from = bias;
                UNROLL for (int r = 0; r < mr; r++) {
                    UNROLL for (int v = 0; v < vectors; v++) sum[r][v] += load(from + v * CF_LANES);
                    from += addend_stride;
                    ADDRESS(from);
                }
            }
            if (outputs == NULL) {
                float *to = tile_sums;
                UNROLL for (int r = 0; r < mr; r++) {
                    UNROLL for (int v = 0; v < vectors; v++) store(to + v * CF_LANES, sum[r][v]);
                    to += sums_stride;
                    ADDRESS(to);
                }
            } else {
                float *out[CF_MAX_MR]; /* read before anything is stored: stores may alias */
                UNROLL for (int r = 0; r < mr; r++) out[r] = outputs[r] + c;
                if (residuals != NULL) {
                    UNROLL for (int r = 0; r < mr; r++) {
                        UNROLL for (int v = 0; v < vectors; v++) {
                            sum[r][v] += load_part(width, v, residuals[r] + c);
                        }
                    }
                }
                UNROLL for (int r = 0; r < mr; r++) {
                    UNROLL for (int v = 0; v < vectors; v++) {
                        store_part(width, v, out[r], clamp(sum[r][v], low, high));
                    }
                }
            }
            w += next_tile;
            bias += width;
            tile_sums += width;
        }
        addend += mr * addend_stride;
        sums += mr * sums_stride;
        inputs += mr;
        if (outputs != NULL) outputs += mr;
        if (residuals != NULL) residuals += mr;
    }
}

#define TILE(mr, width)                                                                                                \
    static void gemm_##mr##x##width(const cf_microkernel_params *params, int64_t m_tiles, int64_t n_tiles,             \
                                    const float *const *inputs, const float *weights, const float *addend,             \
                                    float *sums, float *const *outputs, const float *const *residuals,                 \
                                    int64_t channel) {                                                                 \
        gemm_microkernel(mr, width, params, m_tiles, n_tiles, inputs, weights, addend, sums, outputs, residuals,       \
                         channel);                                                                                     \
    }
#define MR_1_TO_6(X, w) X(1, w) X(2, w) X(3, w) X(4, w) X(5, w) X(6, w)
#define MR_1_TO_9(X, w) MR_1_TO_6(X, w) X(7, w) X(8, w) X(9, w)
#define MR_1_TO_12(X, w) MR_1_TO_9(X, w) X(10, w) X(11, w) X(12, w)
#define ENTRY(mr, width) gemm_##mr##x##width,

/* Micro-kernels by width, in steps of CF_WIDTH_STEP, and by MR. */
#if CF_LANES == 16
MR_1_TO_12(TILE, 8)
MR_1_TO_12(TILE, 16)
MR_1_TO_12(TILE, 24)
MR_1_TO_12(TILE, 32)
static const cf_gemm_microkernel microkernels_by_width[][CF_MAX_MR + 1] = {{NULL, MR_1_TO_12(ENTRY, 8)},
                                                                           {NULL, MR_1_TO_12(ENTRY, 16)},
                                                                           {NULL, MR_1_TO_12(ENTRY, 24)},
                                                                           {NULL, MR_1_TO_12(ENTRY, 32)}};
#else
#if CF_LANES == 8
MR_1_TO_9(TILE, 8)
#else
MR_1_TO_6(TILE, 8)
#endif
#if defined(__wasm__)
/*
 * WebAssembly does not say how many registers there are. On x86-64 there are 16: the sums of 6 x 8, their weights and
 * one broadcast input fit, those of 6 x 16 would be spilled. So a tile of full width is two of half the width, side by
 * side.
 */
#define TILE_IN_HALVES(mr, width)                                                                                      \
    static void gemm_##mr##x##width(const cf_microkernel_params *params, int64_t m_tiles, int64_t n_tiles,             \
                                    const float *const *inputs, const float *weights, const float *addend,             \
                                    float *sums, float *const *outputs, const float *const *residuals,                 \
                                    int64_t channel) {                                                                 \
        const int64_t half = CF_NR / 2, next_tile = CF_NR / CF_PANEL * params->panel_stride;                           \
        for (int64_t p = 0; p < n_tiles; p++) {                                                                        \
            gemm_##mr##x8(params, m_tiles, 1, inputs, weights, addend, sums, outputs, residuals, channel);             \
            gemm_##mr##x8(params, m_tiles, 1, inputs, weights + half, addend + half, sums + half, outputs, residuals,  \
                          channel + half);                                                                             \
            weights += next_tile;                                                                                      \
            addend += CF_NR;                                                                                           \
            sums += CF_NR;                                                                                             \
            channel += CF_NR;                                                                                          \
        }                                                                                                              \
    }
MR_1_TO_6(TILE_IN_HALVES, 16)
#undef TILE_IN_HALVES
#else
MR_1_TO_6(TILE, 16)
#endif
static const cf_gemm_microkernel microkernels_by_width[][CF_MAX_MR + 1] = {
#if CF_LANES == 8
    {NULL, MR_1_TO_9(ENTRY, 8)},
#else
    {NULL, MR_1_TO_6(ENTRY, 8)},
#endif
    {NULL, MR_1_TO_6(ENTRY, 16)}};
#endif
#undef TILE
#undef ENTRY

INLINE const cf_gemm_microkernel *microkernels_of(int64_t width) {
    return microkernels_by_width[width / CF_WIDTH_STEP - 1];
}

/* The most segments that the plain micro-kernel takes. In WebAssembly its full tiles may not stay in registers. */
#ifdef __wasm__
enum { CF_SHORT_SEGMENTS = 1 };
#else
enum { CF_SHORT_SEGMENTS = CF_MAX_TAPS };
#endif

/*
 * The plain micro-kernel: tiles of the largest MR, with a bias and no residual, over all of K. What the general one may
 * have to do besides costs a short sum a tenth of its time. single_segment, a constant: K is one segment. activation,
 * a constant, too: one that is cheap enough to be computed here. Stored first and activated later, sums cost a short
 * one a tenth again.
 */
INLINE void gemm_microkernel_plain(const int mr, const int width, const int single_segment,
                                   const cf_activation activation, const cf_microkernel_params *params,
                                   int64_t m_tiles, int64_t n_tiles, const float *const *inputs, const float *weights,
                                   const float *bias, float *const *outputs, int64_t channel) {
    const int64_t segment_length = params->segment_length, panel_stride = params->panel_stride,
                  segments = single_segment ? 1 : params->segments;
    const int64_t *offsets = params->offsets;
    const int vectors = (width + CF_LANES - 1) / CF_LANES;
    const int64_t next_tile = width / CF_PANEL * panel_stride;
    const vec low = params->low, high = params->high;
    const char *ahead = (const char *)(weights + params->prefetch);
    const int64_t ahead_step = params->prefetch_step;
    for (int64_t t = 0; t < m_tiles; t++) {
        const float *in[CF_MAX_MR], *w = weights;
        UNROLL for (int r = 0; r < mr; r++) in[r] = inputs[r] + offsets[0];
        for (int64_t c = 0; c < n_tiles * width; c += width) {
            cf_tile_sums sums;
            vec(*sum)[CF_VECTORS] = sums.whole;
            clear_sums(mr, &sums);
            const float *w_at = w;
            for (int64_t s = 0; s < segments; s++) {
                if (!single_segment) {
                    UNROLL for (int r = 0; r < mr; r++) in[r] = inputs[r] + offsets[s];
                }
                for (int64_t k = 0; k < segment_length; k++) {
                    rank1_update(mr, width, in, k, w_at + k * CF_PANEL, panel_stride, &sums);
                    __builtin_prefetch(ahead);
                    ahead += ahead_step;
                }
                w_at += segment_length * CF_PANEL;
            }
            widen_sums(mr, width, &sums);
            UNROLL for (int v = 0; v < vectors; v++) {
                const vec b = load_part(width, v, bias + c);
                UNROLL for (int r = 0; r < mr; r++) sum[r][v] += b;
            }
            float *out[CF_MAX_MR]; /* read before anything is stored: stores may alias */
            UNROLL for (int r = 0; r < mr; r++) out[r] = outputs[r] + channel + c;
            UNROLL for (int r = 0; r < mr; r++) {
                UNROLL for (int v = 0; v < vectors; v++) {
                    store_part(width, v, out[r], activate(activation, sum[r][v], low, high));
                }
            }
            w += next_tile;
        }
        inputs += mr;
        outputs += mr;
    }
}

INLINE void gemm_plain(const int mr, const int width, const cf_activation activation,
                       const cf_microkernel_params *params, int64_t m_tiles, int64_t n_tiles,
                       const float *const *inputs, const float *weights, const float *bias, float *const *outputs,
                       int64_t channel) {
    if (params->segments == 1) {
        gemm_microkernel_plain(mr, width, 1, activation, params, m_tiles, n_tiles, inputs, weights, bias, outputs,
                               channel);
    } else {
        gemm_microkernel_plain(mr, width, 0, activation, params, m_tiles, n_tiles, inputs, weights, bias, outputs,
                               channel);
    }
}

/* Tiles of more than half of CF_NR. */
INLINE void gemm_wide(const cf_activation activation, const int64_t width, const cf_microkernel_params *params,
                      int64_t m_tiles, int64_t n_tiles, const float *const *inputs, const float *weights,
                      const float *bias, float *const *outputs, int64_t channel) {
#if CF_NR == 32
    if (width == 24) {
        gemm_plain(CF_MR, 24, activation, params, m_tiles, n_tiles, inputs, weights, bias, outputs, channel);
        return;
    }
#else
    (void)width;
#endif
    gemm_plain(CF_MR, CF_NR, activation, params, m_tiles, n_tiles, inputs, weights, bias, outputs, channel);
}

#if CF_LANES >= 8
/*
 * A tile of one vector of channels, or half of one, for pixels that lie side by side, so that their inputs are equally far apart. A few
 * pointers and multiples of that distance are the addresses of all. With a pointer for each, some would be on the
 * stack, and such a tile waits for its loads: it has one for every multiplication.
 */
enum { CF_ROW_MR = CF_LANES == 16 ? 16 : 12, CF_ROW_ORIGINS = 5 };

/* The inputs of pixels 0, 3, 5, 10 and 13 at number k. */
typedef struct {
    const char *of[CF_ROW_ORIGINS];
} cf_row_origins;

INLINE cf_row_origins row_origins(const float *input, int64_t step) {
    const char *first = (const char *)input;
    return (cf_row_origins){{first, first + 3 * step, first + 5 * step, first + 10 * step, first + 13 * step}};
}

/* The input of pixel r, `step` bytes after that of pixel r - 1. Addresses may have 1, 2, 4 or 8 times a register. */
INLINE float input_in_row(const int r, const cf_row_origins *origins, int64_t step) {
    static const struct {
        int origin, steps;
    } at[] = {{0, 0}, {0, 1}, {0, 2}, {1, 0}, {0, 4}, {2, 0}, {2, 1}, {2, 2},
              {0, 8}, {2, 4}, {3, 0}, {1, 8}, {3, 2}, {2, 8}, {3, 4}, {4, 2}};
    return number_at((const float *)(origins->of[at[r].origin] + at[r].steps * step));
}

INLINE void gemm_microkernel_row(const cf_activation activation, const int width, const cf_microkernel_params *params,
                                 int64_t m_tiles, const float *const *inputs, const float *weights, const float *bias,
                                 float *const *outputs, int64_t channel) {
    const int half = width < CF_LANES;
    const int64_t segment_length = params->segment_length, segments = params->segments;
    const int64_t *offsets = params->offsets;
    const vec low = params->low, high = params->high, b = load_part(width, 0, bias);
    int64_t step = params->pixel_step;
    for (int64_t t = 0; t < m_tiles; t++) {
        vec sum[CF_ROW_MR];
        half_vec half_sum[CF_ROW_MR];
        UNROLL for (int r = 0; r < CF_ROW_MR; r++) sum[r] = zero(), half_sum[r] = (half_vec){0};
        const float *w_at = weights;
        for (int64_t s = 0; s < segments; s++) {
            cf_row_origins origins = row_origins(inputs[0] + offsets[s], step);
            EIGHT_AT_A_TIME for (int64_t k = 0; k < segment_length; k++) {
                if (half) {
                    const half_vec w = load_half(w_at);
                    UNROLL for (int r = 0; r < CF_ROW_MR; r++) {
                        half_sum[r] += splat_half(input_in_row(r, &origins, step)) * w;
                    }
                } else {
                    const vec w = load(w_at);
                    UNROLL for (int r = 0; r < CF_ROW_MR; r++) sum[r] += splat(input_in_row(r, &origins, step)) * w;
                }
                UNROLL for (int i = 0; i < CF_ROW_ORIGINS; i++) origins.of[i] += sizeof(float);
                ADDRESS(step); /* no multiple of it stays in a register */
                w_at += CF_PANEL;
            }
        }
        float *out[CF_ROW_MR]; /* read before anything is stored: stores may alias */
        UNROLL for (int r = 0; r < CF_ROW_MR; r++) out[r] = outputs[r] + channel;
        UNROLL for (int r = 0; r < CF_ROW_MR; r++) {
            const vec whole = half ? widen_half(half_sum[r]) : sum[r];
            store_part(width, 0, out[r], activate(activation, whole + b, low, high));
        }
        inputs += CF_ROW_MR;
        outputs += CF_ROW_MR;
    }
}

/* How many tiles of pixels side by side there are from the first pixel on. */
INLINE int64_t tiles_in_rows(const float *const *inputs, int64_t pixels, int64_t step) {
    int64_t tiles = 0;
    for (int64_t last = CF_ROW_MR - 1; last < pixels; last += CF_ROW_MR, tiles++) {
        const float *first = inputs[last - (CF_ROW_MR - 1)];
        if ((const char *)inputs[last] - (const char *)first != (CF_ROW_MR - 1) * step) break;
    }
    return tiles;
}
#endif

/* Tiles of `width` channels, at most half of CF_NR and a constant, as long as there are pixels for one of the largest MR.
 * Returns for how many there were. */
INLINE int64_t gemm_narrow(const cf_activation activation, const int width, const cf_microkernel_params *params,
                           int64_t pixels, const float *const *inputs, const float *weights, const float *bias,
                           float *const *outputs, int64_t channel) {
#if CF_LANES >= 8
    int64_t at = 0;
    while (at + CF_HALF_MR <= pixels) {
        const int64_t in_rows = tiles_in_rows(inputs + at, pixels - at, params->pixel_step);
        if (in_rows > 0) {
            gemm_microkernel_row(activation, width, params, in_rows, inputs + at, weights, bias, outputs + at, channel);
            at += in_rows * CF_ROW_MR;
        } else { /* a tile from one row to the next */
            gemm_microkernel_plain(CF_HALF_MR, width, 0, activation, params, 1, 1, inputs + at, weights, bias,
                                   outputs + at, channel);
            at += CF_HALF_MR;
        }
    }
    return at;
#else
    const int64_t tiles = pixels / CF_HALF_MR;
    gemm_plain(CF_HALF_MR, width, activation, params, tiles, 1, inputs, weights, bias, outputs, channel);
    return tiles * CF_HALF_MR;
#endif
}

/* Tiles of `width` channels, `n_tiles` of them side by side if that is CF_NR. */
INLINE int64_t gemm_of_width(const cf_activation activation, const int64_t width, const cf_microkernel_params *params,
                             int64_t pixels, int64_t n_tiles, const float *const *inputs, const float *weights,
                             const float *bias, float *const *outputs, int64_t channel) {
    if (width > CF_NR / 2) {
        gemm_wide(activation, width, params, pixels / CF_MR, n_tiles, inputs, weights, bias, outputs, channel);
        return pixels / CF_MR * CF_MR;
    }
    if (CF_NR == 32 && width == 8) {
        return gemm_narrow(activation, 8, params, pixels, inputs, weights, bias, outputs, channel);
    }
    return gemm_narrow(activation, CF_NR / 2, params, pixels, inputs, weights, bias, outputs, channel);
}

/* All of the plain micro-kernel. `activation` is CF_CLAMP or CF_HARD_SWISH. Returns for how many pixels there were tiles. */
static int64_t gemm_plain_tiles(cf_activation activation, int64_t width, const cf_microkernel_params *params,
                                int64_t pixels, int64_t n_tiles, const float *const *inputs, const float *weights,
                                const float *bias, float *const *outputs, int64_t channel) {
    if (CF_HAS_HARD_SWISH && activation == CF_HARD_SWISH) {
        return gemm_of_width(CF_HARD_SWISH, width, params, pixels, n_tiles, inputs, weights, bias, outputs, channel);
    }
    return gemm_of_width(CF_CLAMP, width, params, pixels, n_tiles, inputs, weights, bias, outputs, channel);
}

#endif
