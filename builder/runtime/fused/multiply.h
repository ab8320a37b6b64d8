/*
 * The register tile of the direct and Winograd kernels: pixels x channels, summed over segments of the input.
 *
 * Every tile adds a pixel's products one after the other in the order of the weights, whatever its size, so
 * an answer does not depend on how the pixels are divided among tiles.
 */
#ifndef COLDFORGE_MULTIPLY_H
#define COLDFORGE_MULTIPLY_H

#include "fused/finish.h"

/*
 * The most rows of a tile of CF_COLUMNS channels is CF_ROWS; of one of half as many: with AVX2 there are registers for
 * the sums of twelve, but not for so many pointers.
 */
enum { CF_HALF_ROWS = CF_LANES == 8 ? 9 : CF_ROWS, MOST_ROWS = 12 };

/* What the tiles of one block have in common. */
typedef struct {
    const int64_t *offsets; /* of each segment from a pixel's start, in floats */
    int64_t segments, length;
    int64_t panel;      /* floats between panels of 16 channels */
    int64_t first_row;  /* floats between the pixels' first values; 0 for one bias for all */
    int64_t output_row; /* with no places to store to: floats between the pixels' sums */
    int64_t ahead;      /* floats: how far in front of the weights to prefetch */
    vec low, high;
} cf_product;

/*
 * `tiles` tiles one below the other, `panels` times CF_COLUMNS channels wide. outputs NULL: sums[pixel * output_row] =
 * first + sum of products. Otherwise the clamped sum, with the residual if any, goes to outputs[pixel] + channel.
 */
typedef void (*cf_tile_function)(const cf_product *product, int64_t tiles, int64_t panels, const float *const *inputs,
                                 const float *weights, const float *first, float *sums, float *const *outputs,
                                 const float *const *residuals, int64_t channel);

/* The products of one input channel. */
INLINE void multiply_step(const int rows, const int vectors, const float *const *in, int64_t k, const float *weights,
                          int64_t panel, vec sum[][CF_COLUMNS / CF_LANES]) {
    enum { PER_PANEL = CF_PANEL / CF_LANES };
    vec w[CF_COLUMNS / CF_LANES];
    UNROLL for (int v = 0; v < vectors; v++) {
        w[v] = load(weights + (v / PER_PANEL) * panel + (v % PER_PANEL) * CF_LANES);
    }
    UNROLL for (int r = 0; r < rows; r++) {
        const vec a = splat(in[r][k]);
        UNROLL for (int v = 0; v < vectors; v++) sum[r][v] += a * w[v];
    }
}

/*
 * rows pixels of `vectors` vectors of channels; both constant. The loops are inside, the one over channels innermost:
 * calls, and waiting for the pixels' pointers, cost what short sums do.
 */
INLINE void multiply(const int rows, const int vectors, const cf_product *product, int64_t tiles, int64_t panels,
                     const float *const *inputs, const float *weights, const float *first, float *sums,
                     float *const *outputs, const float *const *residuals, int64_t channel) {
    const int64_t length = product->length, panel = product->panel, segments = product->segments;
    const int64_t *offsets = product->offsets;
    const int64_t first_row = product->first_row, output_row = product->output_row;
    const int64_t width = vectors * CF_LANES, next_panel = vectors * CF_LANES / CF_PANEL * panel;
    const vec low = product->low, high = product->high;
    int64_t ahead = product->ahead;
    for (int64_t t = 0; t < tiles; t++) {
        const float *w = weights, *bias = first;
        float *own = sums;
        const int64_t end = channel + panels * width;
        for (int64_t c = channel; c < end; c += width) {
            vec sum[MOST_ROWS][CF_COLUMNS / CF_LANES];
            UNROLL for (int r = 0; r < rows; r++) {
                UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = zero();
            }
            const float *w_at = w;
            for (int64_t s = 0; s < segments; s++) {
                const float *in[MOST_ROWS];
                UNROLL for (int r = 0; r < rows; r++) in[r] = inputs[r] + offsets[s];
                for (int64_t k = 0; k < length; k++) {
                    multiply_step(rows, vectors, in, k, w_at, panel, sum);
                    UNROLL for (int v = 0; v < vectors; v += CF_PANEL / CF_LANES) {
                        __builtin_prefetch(w_at + v * CF_LANES / CF_PANEL * panel + ahead);
                    }
                    w_at += CF_PANEL;
                }
            }
            /* Last, not first: a deep sum is then one of partial sums, whose rounding grows far less with the depth. */
            if (first_row == 0) {
                UNROLL for (int v = 0; v < vectors; v++) {
                    const vec b = load(bias + v * CF_LANES);
                    UNROLL for (int r = 0; r < rows; r++) sum[r][v] += b;
                }
            } else {
                const float *from = bias;
                UNROLL for (int r = 0; r < rows; r++) {
                    UNROLL for (int v = 0; v < vectors; v++) sum[r][v] += load(from + v * CF_LANES);
                    from += first_row;
                    ADDRESS(from);
                }
            }
            if (outputs == NULL) {
                float *to = own;
                UNROLL for (int r = 0; r < rows; r++) {
                    UNROLL for (int v = 0; v < vectors; v++) store(to + v * CF_LANES, sum[r][v]);
                    to += output_row;
                    ADDRESS(to);
                }
            } else {
                float *out[MOST_ROWS]; /* read before anything is stored: stores may alias */
                UNROLL for (int r = 0; r < rows; r++) out[r] = outputs[r] + c;
                if (residuals != NULL) {
                    UNROLL for (int r = 0; r < rows; r++) {
                        UNROLL for (int v = 0; v < vectors; v++) sum[r][v] += load(residuals[r] + c + v * CF_LANES);
                    }
                }
                UNROLL for (int r = 0; r < rows; r++) {
                    UNROLL for (int v = 0; v < vectors; v++) {
                        store(out[r] + v * CF_LANES, clamp(sum[r][v], low, high));
                    }
                }
            }
            w += next_panel;
            bias += width;
            own += width;
        }
        first += rows * first_row;
        sums += rows * output_row;
        inputs += rows;
        if (outputs != NULL) outputs += rows;
        if (residuals != NULL) residuals += rows;
        ahead = 0;
    }
}

#define TILE(rows, vectors)                                                                                  \
    static void tile_##rows##x##vectors(const cf_product *product, int64_t tiles, int64_t panels,             \
                                        const float *const *inputs, const float *weights,                    \
                                        const float *first, float *sums, float *const *outputs,              \
                                        const float *const *residuals, int64_t channel) {                    \
        multiply(rows, vectors, product, tiles, panels, inputs, weights, first, sums, outputs, residuals, channel); \
    }
#define SIX_ROWS(X, v) X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v)
#define NINE_ROWS(X, v) SIX_ROWS(X, v) X(7, v) X(8, v) X(9, v)
#define TWELVE_ROWS(X, v) NINE_ROWS(X, v) X(10, v) X(11, v) X(12, v)
#define ENTRY(rows, vectors) tile_##rows##x##vectors,

/* A tile of all CF_COLUMNS channels, or of half as many where no more are left. */
#if CF_LANES == 16
TWELVE_ROWS(TILE, 2)
TWELVE_ROWS(TILE, 1)
static const cf_tile_function full_tiles[] = {NULL, TWELVE_ROWS(ENTRY, 2)};
static const cf_tile_function half_tiles[] = {NULL, TWELVE_ROWS(ENTRY, 1)};
#elif CF_LANES == 8
SIX_ROWS(TILE, 2)
NINE_ROWS(TILE, 1)
static const cf_tile_function full_tiles[] = {NULL, SIX_ROWS(ENTRY, 2)};
static const cf_tile_function half_tiles[] = {NULL, NINE_ROWS(ENTRY, 1)};
#elif defined(__wasm__)
/*
 * WebAssembly does not say how many registers there are. On x86-64 they are 16: 6 x 8 sums, their weights and
 * one splat fit, where 6 x 16 would be spilled; so a full tile is two narrow ones, next to each other, for each panel.
 */
#define TILE_IN_HALVES(rows, vectors)                                                                                \
    static void tile_##rows##x##vectors(const cf_product *product, int64_t tiles, int64_t panels,                    \
                                        const float *const *inputs, const float *weights, const float *first,        \
                                        float *sums, float *const *outputs, const float *const *residuals,           \
                                        int64_t channel) {                                                           \
        const int64_t half = CF_COLUMNS / 2, next_panel = CF_COLUMNS / CF_PANEL * product->panel;                    \
        for (int64_t p = 0; p < panels; p++) {                                                                       \
            tile_##rows##x2(product, tiles, 1, inputs, weights, first, sums, outputs, residuals, channel);           \
            tile_##rows##x2(product, tiles, 1, inputs, weights + half, first + half, sums + half, outputs, residuals,\
                            channel + half);                                                                         \
            weights += next_panel;                                                                                   \
            first += CF_COLUMNS;                                                                                     \
            sums += CF_COLUMNS;                                                                                      \
            channel += CF_COLUMNS;                                                                                   \
        }                                                                                                            \
    }
SIX_ROWS(TILE, 2)
SIX_ROWS(TILE_IN_HALVES, 4)
#undef TILE_IN_HALVES
static const cf_tile_function full_tiles[] = {NULL, SIX_ROWS(ENTRY, 4)};
static const cf_tile_function half_tiles[] = {NULL, SIX_ROWS(ENTRY, 2)};
#else
SIX_ROWS(TILE, 4)
SIX_ROWS(TILE, 2)
static const cf_tile_function full_tiles[] = {NULL, SIX_ROWS(ENTRY, 4)};
static const cf_tile_function half_tiles[] = {NULL, SIX_ROWS(ENTRY, 2)};
#endif
#undef TILE
#undef ENTRY

/* Segments that the next function takes. In WebAssembly its full tiles may not stay in registers. */
#ifdef __wasm__
enum { CF_SHORT_SEGMENTS = 1 };
#else
enum { CF_SHORT_SEGMENTS = CF_MAX_TAPS };
#endif

/*
 * The same for tiles of all rows and no residual, and nothing but that in the loop: what else a tile may need costs a
 * short sum a tenth of its time. `one`, constant: there is but one segment.
 */
INLINE void multiply_short(const int rows, const int vectors, const int one, const cf_product *product, int64_t tiles,
                           int64_t panels,
                           const float *const *inputs, const float *weights, const float *bias,
                           float *const *outputs, int64_t channel) {
    const int64_t length = product->length, panel = product->panel, segments = one ? 1 : product->segments;
    const int64_t *offsets = product->offsets;
    const int64_t width = vectors * CF_LANES, next_panel = width / CF_PANEL * panel;
    const vec low = product->low, high = product->high;
    for (int64_t t = 0; t < tiles; t++) {
        const float *in[MOST_ROWS], *w = weights;
        UNROLL for (int r = 0; r < rows; r++) in[r] = inputs[r] + offsets[0];
        for (int64_t c = 0; c < panels * width; c += width) {
            vec sum[MOST_ROWS][CF_COLUMNS / CF_LANES];
            UNROLL for (int r = 0; r < rows; r++) {
                UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = zero();
            }
            const float *w_at = w;
            for (int64_t s = 0; s < segments; s++) {
                if (!one) {
                    UNROLL for (int r = 0; r < rows; r++) in[r] = inputs[r] + offsets[s];
                }
                for (int64_t k = 0; k < length; k++) {
                    multiply_step(rows, vectors, in, k, w_at + k * CF_PANEL, panel, sum);
                }
                w_at += length * CF_PANEL;
            }
            UNROLL for (int v = 0; v < vectors; v++) {
                const vec b = load(bias + c + v * CF_LANES);
                UNROLL for (int r = 0; r < rows; r++) sum[r][v] += b;
            }
            float *out[MOST_ROWS]; /* read before anything is stored: stores may alias */
            UNROLL for (int r = 0; r < rows; r++) out[r] = outputs[r] + channel + c;
            UNROLL for (int r = 0; r < rows; r++) {
                UNROLL for (int v = 0; v < vectors; v++) store(out[r] + v * CF_LANES, clamp(sum[r][v], low, high));
            }
            w += next_panel;
        }
        inputs += rows;
        outputs += rows;
    }
}

static void short_full(const cf_product *product, int64_t tiles, int64_t panels, const float *const *inputs,
                       const float *weights, const float *bias, float *const *outputs, int64_t channel) {
    enum { VECTORS = CF_COLUMNS / CF_LANES };
    if (product->segments == 1) {
        multiply_short(CF_ROWS, VECTORS, 1, product, tiles, panels, inputs, weights, bias, outputs, channel);
    } else {
        multiply_short(CF_ROWS, VECTORS, 0, product, tiles, panels, inputs, weights, bias, outputs, channel);
    }
}

static void short_half(const cf_product *product, int64_t tiles, const float *const *inputs, const float *weights,
                       const float *bias, float *const *outputs, int64_t channel) {
    enum { VECTORS = CF_COLUMNS / CF_LANES / 2 };
    if (product->segments == 1) {
        multiply_short(CF_HALF_ROWS, VECTORS, 1, product, tiles, 1, inputs, weights, bias, outputs, channel);
    } else {
        multiply_short(CF_HALF_ROWS, VECTORS, 0, product, tiles, 1, inputs, weights, bias, outputs, channel);
    }
}

#endif
