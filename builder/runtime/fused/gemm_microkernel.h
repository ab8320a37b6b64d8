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
 * MR of tiles of half the width, CF_NR / 2 channels. With AVX2 there are vector registers for the sums of twelve
 * pixels, but not enough general ones for their pointers.
 */
enum { CF_HALF_MR = CF_LANES == 8 ? 9 : CF_MR, CF_MAX_MR = 12 };

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

/* Add the products of one k: an outer product of MR inputs and NR weights. */
INLINE void rank1_update(const int mr, const int vectors, const float *const *in, int64_t k, const float *weights,
                         int64_t panel_stride, vec sum[][CF_NR / CF_LANES]) {
    enum { PER_PANEL = CF_PANEL / CF_LANES };
    vec w[CF_NR / CF_LANES];
    UNROLL for (int v = 0; v < vectors; v++) {
        w[v] = load(weights + (v / PER_PANEL) * panel_stride + (v % PER_PANEL) * CF_LANES);
    }
    UNROLL for (int r = 0; r < mr; r++) {
        const vec a = splat(number_at(in[r] + k));
        UNROLL for (int v = 0; v < vectors; v++) sum[r][v] += a * w[v];
    }
}

/*
 * Tiles of mr pixels by `vectors` vectors of channels; both are constants. The loops over tiles are in here, the one
 * over channels innermost, because calls and waiting for the pixels' pointers cost as much as a short sum.
 */
INLINE void gemm_microkernel(const int mr, const int vectors, const cf_microkernel_params *params, int64_t m_tiles,
                             int64_t n_tiles, const float *const *inputs, const float *weights, const float *addend,
                             float *sums, float *const *outputs, const float *const *residuals, int64_t channel) {
    const int64_t segment_length = params->segment_length, panel_stride = params->panel_stride,
                  segments = params->segments;
    const int64_t *offsets = params->offsets;
    const int64_t addend_stride = params->addend_stride, sums_stride = params->sums_stride;
    const int64_t width = vectors * CF_LANES, next_tile = vectors * CF_LANES / CF_PANEL * panel_stride;
    const vec low = params->low, high = params->high;
    const char *ahead = (const char *)(weights + params->prefetch);
    const int64_t ahead_step = params->prefetch_step, ahead_stride = params->prefetch_stride;
    for (int64_t t = 0; t < m_tiles; t++) {
        const float *w = weights, *bias = addend;
        float *tile_sums = sums;
        const int64_t end = channel + n_tiles * width;
        for (int64_t c = channel; c < end; c += width) {
            vec sum[CF_MAX_MR][CF_NR / CF_LANES];
            UNROLL for (int r = 0; r < mr; r++) { UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = zero(); }
            const float *w_at = w;
            for (int64_t s = 0; s < segments; s++) {
                const float *in[CF_MAX_MR];
                UNROLL for (int r = 0; r < mr; r++) in[r] = inputs[r] + offsets[s];
                for (int64_t k = 0; k < segment_length; k++) {
                    rank1_update(mr, vectors, in, k, w_at, panel_stride, sum);
                    UNROLL for (int v = 0; v < vectors; v += CF_PANEL / CF_LANES) {
                        __builtin_prefetch((const float *)ahead + v * CF_LANES / CF_PANEL * ahead_stride);
                    }
                    ahead += ahead_step;
                    w_at += CF_PANEL;
                }
            }
            /* Added last, not first: a long sum is then one of partial sums, whose rounding error grows far less
             * with K. */
            if (addend_stride == 0) {
                UNROLL for (int v = 0; v < vectors; v++) {
                    const vec b = load(bias + v * CF_LANES);
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
                        UNROLL for (int v = 0; v < vectors; v++) sum[r][v] += load(residuals[r] + c + v * CF_LANES);
                    }
                }
                UNROLL for (int r = 0; r < mr; r++) {
                    UNROLL for (int v = 0; v < vectors; v++) {
                        store(out[r] + v * CF_LANES, clamp(sum[r][v], low, high));
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

#define TILE(mr, vectors)                                                                                              \
    static void gemm_##mr##x##vectors(const cf_microkernel_params *params, int64_t m_tiles, int64_t n_tiles,           \
                                      const float *const *inputs, const float *weights, const float *addend,           \
                                      float *sums, float *const *outputs, const float *const *residuals,               \
                                      int64_t channel) {                                                               \
        gemm_microkernel(mr, vectors, params, m_tiles, n_tiles, inputs, weights, addend, sums, outputs, residuals,     \
                         channel);                                                                                     \
    }
#define MR_1_TO_6(X, v) X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v)
#define MR_1_TO_9(X, v) MR_1_TO_6(X, v) X(7, v) X(8, v) X(9, v)
#define MR_1_TO_12(X, v) MR_1_TO_9(X, v) X(10, v) X(11, v) X(12, v)
#define ENTRY(mr, vectors) gemm_##mr##x##vectors,

/* Micro-kernels by MR, for NR channels and for half as many where no more are left. */
#if CF_LANES == 16
MR_1_TO_12(TILE, 2)
MR_1_TO_12(TILE, 1)
static const cf_gemm_microkernel full_width_microkernels[] = {NULL, MR_1_TO_12(ENTRY, 2)};
static const cf_gemm_microkernel half_width_microkernels[] = {NULL, MR_1_TO_12(ENTRY, 1)};
#elif CF_LANES == 8
MR_1_TO_6(TILE, 2)
MR_1_TO_9(TILE, 1)
static const cf_gemm_microkernel full_width_microkernels[] = {NULL, MR_1_TO_6(ENTRY, 2)};
static const cf_gemm_microkernel half_width_microkernels[] = {NULL, MR_1_TO_9(ENTRY, 1)};
#elif defined(__wasm__)
/*
 * WebAssembly does not say how many registers there are. On x86-64 there are 16: the sums of 6 x 8, their weights and
 * one broadcast input fit, those of 6 x 16 would be spilled. So a tile of full width is two of half the width, side by
 * side.
 */
#define TILE_IN_HALVES(mr, vectors)                                                                                    \
    static void gemm_##mr##x##vectors(const cf_microkernel_params *params, int64_t m_tiles, int64_t n_tiles,           \
                                      const float *const *inputs, const float *weights, const float *addend,           \
                                      float *sums, float *const *outputs, const float *const *residuals,               \
                                      int64_t channel) {                                                               \
        const int64_t half = CF_NR / 2, next_tile = CF_NR / CF_PANEL * params->panel_stride;                           \
        for (int64_t p = 0; p < n_tiles; p++) {                                                                        \
            gemm_##mr##x2(params, m_tiles, 1, inputs, weights, addend, sums, outputs, residuals, channel);             \
            gemm_##mr##x2(params, m_tiles, 1, inputs, weights + half, addend + half, sums + half, outputs, residuals,  \
                          channel + half);                                                                             \
            weights += next_tile;                                                                                      \
            addend += CF_NR;                                                                                           \
            sums += CF_NR;                                                                                             \
            channel += CF_NR;                                                                                          \
        }                                                                                                              \
    }
MR_1_TO_6(TILE, 2)
MR_1_TO_6(TILE_IN_HALVES, 4)
#undef TILE_IN_HALVES
static const cf_gemm_microkernel full_width_microkernels[] = {NULL, MR_1_TO_6(ENTRY, 4)};
static const cf_gemm_microkernel half_width_microkernels[] = {NULL, MR_1_TO_6(ENTRY, 2)};
#else
MR_1_TO_6(TILE, 4)
MR_1_TO_6(TILE, 2)
static const cf_gemm_microkernel full_width_microkernels[] = {NULL, MR_1_TO_6(ENTRY, 4)};
static const cf_gemm_microkernel half_width_microkernels[] = {NULL, MR_1_TO_6(ENTRY, 2)};
#endif
#undef TILE
#undef ENTRY

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
INLINE void gemm_microkernel_plain(const int mr, const int vectors, const int single_segment,
                                   const cf_activation activation, const cf_microkernel_params *params,
                                   int64_t m_tiles, int64_t n_tiles, const float *const *inputs, const float *weights,
                                   const float *bias, float *const *outputs, int64_t channel) {
    const int64_t segment_length = params->segment_length, panel_stride = params->panel_stride,
                  segments = single_segment ? 1 : params->segments;
    const int64_t *offsets = params->offsets;
    const int64_t width = vectors * CF_LANES, next_tile = width / CF_PANEL * panel_stride;
    const vec low = params->low, high = params->high;
    const char *ahead = (const char *)(weights + params->prefetch);
    const int64_t ahead_step = params->prefetch_step;
    for (int64_t t = 0; t < m_tiles; t++) {
        const float *in[CF_MAX_MR], *w = weights;
        UNROLL for (int r = 0; r < mr; r++) in[r] = inputs[r] + offsets[0];
        for (int64_t c = 0; c < n_tiles * width; c += width) {
            vec sum[CF_MAX_MR][CF_NR / CF_LANES];
            UNROLL for (int r = 0; r < mr; r++) { UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = zero(); }
            const float *w_at = w;
            for (int64_t s = 0; s < segments; s++) {
                if (!single_segment) {
                    UNROLL for (int r = 0; r < mr; r++) in[r] = inputs[r] + offsets[s];
                }
                for (int64_t k = 0; k < segment_length; k++) {
                    rank1_update(mr, vectors, in, k, w_at + k * CF_PANEL, panel_stride, sum);
                    __builtin_prefetch(ahead);
                    ahead += ahead_step;
                }
                w_at += segment_length * CF_PANEL;
            }
            UNROLL for (int v = 0; v < vectors; v++) {
                const vec b = load(bias + c + v * CF_LANES);
                UNROLL for (int r = 0; r < mr; r++) sum[r][v] += b;
            }
            float *out[CF_MAX_MR]; /* read before anything is stored: stores may alias */
            UNROLL for (int r = 0; r < mr; r++) out[r] = outputs[r] + channel + c;
            UNROLL for (int r = 0; r < mr; r++) {
                UNROLL for (int v = 0; v < vectors; v++) {
                    store(out[r] + v * CF_LANES, activate(activation, sum[r][v], low, high));
                }
            }
            w += next_tile;
        }
        inputs += mr;
        outputs += mr;
    }
}

INLINE void gemm_plain(const int mr, const int vectors, const cf_activation activation,
                       const cf_microkernel_params *params, int64_t m_tiles, int64_t n_tiles,
                       const float *const *inputs, const float *weights, const float *bias, float *const *outputs,
                       int64_t channel) {
    if (params->segments == 1) {
        gemm_microkernel_plain(mr, vectors, 1, activation, params, m_tiles, n_tiles, inputs, weights, bias, outputs,
                               channel);
    } else {
        gemm_microkernel_plain(mr, vectors, 0, activation, params, m_tiles, n_tiles, inputs, weights, bias, outputs,
                               channel);
    }
}

/* `activation` is CF_CLAMP or CF_HARD_SWISH. */
static void gemm_plain_full_width(cf_activation activation, const cf_microkernel_params *params, int64_t m_tiles,
                                  int64_t n_tiles, const float *const *inputs, const float *weights,
                                  const float *bias, float *const *outputs, int64_t channel) {
    enum { VECTORS = CF_NR / CF_LANES };
    if (CF_HAS_HARD_SWISH && activation == CF_HARD_SWISH) {
        gemm_plain(CF_MR, VECTORS, CF_HARD_SWISH, params, m_tiles, n_tiles, inputs, weights, bias, outputs, channel);
    } else {
        gemm_plain(CF_MR, VECTORS, CF_CLAMP, params, m_tiles, n_tiles, inputs, weights, bias, outputs, channel);
    }
}

#if CF_LANES >= 8
/*
 * A tile of one vector of channels for pixels that lie side by side, so that their inputs are equally far apart. A few
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

INLINE void gemm_microkernel_row(const cf_activation activation, const cf_microkernel_params *params, int64_t m_tiles,
                                 const float *const *inputs, const float *weights, const float *bias,
                                 float *const *outputs, int64_t channel) {
    const int64_t segment_length = params->segment_length, segments = params->segments;
    const int64_t *offsets = params->offsets;
    const vec low = params->low, high = params->high, b = load(bias);
    int64_t step = params->pixel_step;
    for (int64_t t = 0; t < m_tiles; t++) {
        vec sum[CF_ROW_MR];
        UNROLL for (int r = 0; r < CF_ROW_MR; r++) sum[r] = zero();
        const float *w_at = weights;
        for (int64_t s = 0; s < segments; s++) {
            cf_row_origins origins = row_origins(inputs[0] + offsets[s], step);
            EIGHT_AT_A_TIME for (int64_t k = 0; k < segment_length; k++) {
                const vec w = load(w_at);
                UNROLL for (int r = 0; r < CF_ROW_MR; r++) sum[r] += splat(input_in_row(r, &origins, step)) * w;
                UNROLL for (int i = 0; i < CF_ROW_ORIGINS; i++) origins.of[i] += sizeof(float);
                ADDRESS(step); /* no multiple of it stays in a register */
                w_at += CF_PANEL;
            }
        }
        float *out[CF_ROW_MR]; /* read before anything is stored: stores may alias */
        UNROLL for (int r = 0; r < CF_ROW_MR; r++) out[r] = outputs[r] + channel;
        UNROLL for (int r = 0; r < CF_ROW_MR; r++) store(out[r], activate(activation, sum[r] + b, low, high));
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

/* Tiles of half the width, as long as there are pixels for one of the largest MR. Returns for how many there were. */
INLINE int64_t gemm_half_width(const cf_activation activation, const cf_microkernel_params *params, int64_t pixels,
                               const float *const *inputs, const float *weights, const float *bias,
                               float *const *outputs, int64_t channel) {
    enum { VECTORS = CF_NR / CF_LANES / 2 };
#if CF_LANES >= 8
    int64_t at = 0;
    while (at + CF_HALF_MR <= pixels) {
        const int64_t in_rows = tiles_in_rows(inputs + at, pixels - at, params->pixel_step);
        if (in_rows > 0) {
            gemm_microkernel_row(activation, params, in_rows, inputs + at, weights, bias, outputs + at, channel);
            at += in_rows * CF_ROW_MR;
        } else { /* a tile from one row to the next */
            gemm_microkernel_plain(CF_HALF_MR, VECTORS, 0, activation, params, 1, 1, inputs + at, weights, bias,
                                   outputs + at, channel);
            at += CF_HALF_MR;
        }
    }
    return at;
#else
    const int64_t tiles = pixels / CF_HALF_MR;
    gemm_plain(CF_HALF_MR, VECTORS, activation, params, tiles, 1, inputs, weights, bias, outputs, channel);
    return tiles * CF_HALF_MR;
#endif
}

static int64_t gemm_plain_half_width(cf_activation activation, const cf_microkernel_params *params, int64_t pixels,
                                     const float *const *inputs, const float *weights, const float *bias,
                                     float *const *outputs, int64_t channel) {
    if (CF_HAS_HARD_SWISH && activation == CF_HARD_SWISH) {
        return gemm_half_width(CF_HARD_SWISH, params, pixels, inputs, weights, bias, outputs, channel);
    }
    return gemm_half_width(CF_CLAMP, params, pixels, inputs, weights, bias, outputs, channel);
}

#endif
