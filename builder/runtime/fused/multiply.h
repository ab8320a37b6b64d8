/*
 * The register tile of the direct and Winograd kernels: pixels x channels, summed over segments of the input.
 *
 * Every tile adds a pixel's products one after the other in the order of the weights, whatever its size, so
 * an answer does not depend on how the pixels are divided among tiles.
 */
#ifndef COLDFORGE_MULTIPLY_H
#define COLDFORGE_MULTIPLY_H

#include "finish.h"

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
 * outputs NULL: sums[pixel * output_row] = first + sum of products. Otherwise the clamped sum, with the
 * residual if any, goes to outputs[pixel] + channel.
 */
typedef void (*cf_tile_function)(const cf_product *product, const float *const *inputs, const float *weights,
                                 const float *first, float *sums, float *const *outputs,
                                 const float *const *residuals, int64_t channel);

/* rows pixels of `vectors` vectors of channels; both constant. */
INLINE void multiply(const int rows, const int vectors, const cf_product *product,
                     const float *const *inputs, const float *weights, const float *first, float *sums,
                     float *const *outputs, const float *const *residuals, int64_t channel) {
    enum { PER_PANEL = CF_PANEL / CF_LANES };
    vec sum[CF_ROWS][CF_COLUMNS / CF_LANES];
    const int64_t length = product->length, panel = product->panel, ahead = product->ahead;
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = zero();
    }
    for (int64_t s = 0; s < product->segments; s++) {
        const float *in[CF_ROWS];
        UNROLL for (int r = 0; r < rows; r++) in[r] = inputs[r] + product->offsets[s];
        for (int64_t k = 0; k < length; k++) {
            vec w[CF_COLUMNS / CF_LANES];
            UNROLL for (int v = 0; v < vectors; v++) {
                w[v] = load(weights + (v / PER_PANEL) * panel + (v % PER_PANEL) * CF_LANES);
            }
            UNROLL for (int v = 0; v < vectors; v += PER_PANEL) {
                __builtin_prefetch(weights + (v / PER_PANEL) * panel + ahead);
            }
            UNROLL for (int r = 0; r < rows; r++) {
                const vec a = splat(in[r][k]);
                UNROLL for (int v = 0; v < vectors; v++) sum[r][v] += a * w[v];
            }
            weights += CF_PANEL;
        }
    }
    /* Last, not first: a deep sum is then one of partial sums, whose rounding grows far less with the depth. */
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++) sum[r][v] += load(first + r * product->first_row + v * CF_LANES);
    }
    if (outputs == NULL) {
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int v = 0; v < vectors; v++) {
                store(sums + r * product->output_row + v * CF_LANES, sum[r][v]);
            }
        }
        return;
    }
    const vec low = product->low, high = product->high;
    if (residuals != NULL) {
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] += load(residuals[r] + channel + v * CF_LANES);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++) {
            store(outputs[r] + channel + v * CF_LANES, clamp(sum[r][v], low, high));
        }
    }
}

#define TILE(rows, vectors)                                                                                 \
    static void tile_##rows##x##vectors(const cf_product *product, const float *const *inputs,              \
                                        const float *weights, const float *first, float *sums,              \
                                        float *const *outputs, const float *const *residuals,               \
                                        int64_t channel) {                                                  \
        multiply(rows, vectors, product, inputs, weights, first, sums, outputs, residuals, channel);        \
    }
/*
 * WebAssembly does not say how many registers there are. On x86-64 they are 16: 6 x 8 sums, their weights and
 * one splat fit, where 6 x 16 would be spilled; so a full tile is two narrow ones, next to each other.
 */
#define TILE_IN_HALVES(rows, vectors)                                                                       \
    static void tile_##rows##x##vectors(const cf_product *product, const float *const *inputs,              \
                                        const float *weights, const float *first, float *sums,              \
                                        float *const *outputs, const float *const *residuals,               \
                                        int64_t channel) {                                                  \
        const int64_t half = CF_COLUMNS / 2;                                                                \
        tile_##rows##x2(product, inputs, weights, first, sums, outputs, residuals, channel);                \
        tile_##rows##x2(product, inputs, weights + half, first + half, sums + half, outputs, residuals,     \
                        channel + half);                                                                    \
    }
#define EACH_ROWS(X, v) X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v)
#if CF_ROWS == 12
#define EACH_TILE(X, v) EACH_ROWS(X, v) X(7, v) X(8, v) X(9, v) X(10, v) X(11, v) X(12, v)
#else
#define EACH_TILE(X, v) EACH_ROWS(X, v)
#endif
#define ENTRY(rows, vectors) tile_##rows##x##vectors,

/* A tile of all CF_COLUMNS channels, or of half as many where no more are left. */
#if CF_LANES == 4
EACH_TILE(TILE, 2)
#ifdef __wasm__
EACH_TILE(TILE_IN_HALVES, 4)
#else
EACH_TILE(TILE, 4)
#endif
static const cf_tile_function full_tiles[] = {NULL, EACH_TILE(ENTRY, 4)};
static const cf_tile_function half_tiles[] = {NULL, EACH_TILE(ENTRY, 2)};
#else
EACH_TILE(TILE, 2)
EACH_TILE(TILE, 1)
static const cf_tile_function full_tiles[] = {NULL, EACH_TILE(ENTRY, 2)};
static const cf_tile_function half_tiles[] = {NULL, EACH_TILE(ENTRY, 1)};
#endif
#undef TILE
#undef TILE_IN_HALVES
#undef ENTRY

/* Rows of the next tile when `rest` remain: tiles of about equal height. */
INLINE int64_t tile_rows(int64_t rest) { return ceil_div(rest, ceil_div(rest, CF_ROWS)); }

#endif
