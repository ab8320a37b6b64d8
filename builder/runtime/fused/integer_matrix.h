/*
 * Integer sums by matrix multiplications: an instruction that adds to 2 x 2 sums the products of two pixels' eight
 * channels with those of two output channels, twice the products of a dot product. arm64 has it with i8mm.
 *
 * Weights are repacked for it: of two quads of input channels that follow one another in a segment, the eight bytes of
 * each output channel side by side. Behind the last quad of an odd number stand zeros.
 */
#ifndef COLDFORGE_INTEGER_MATRIX_H
#define COLDFORGE_INTEGER_MATRIX_H

#include "fused/integer_dot.h"

typedef int64_t two_rows __attribute__((vector_size(16))); /* of eight bytes */

#if defined(__ARM_FEATURE_MATMUL_INT8)
INLINE ivec add_squares(ivec sums, two_rows pixels, two_rows weights) {
    return (ivec)vmmlaq_s32((int32x4_t)sums, (int8x16_t)pixels, (int8x16_t)weights);
}
#else
INLINE ivec add_squares(ivec sums, two_rows pixels, two_rows weights) {
    typedef int8_t bytes __attribute__((vector_size(16)));
    const bytes p = (bytes)pixels, w = (bytes)weights;
    int32_t added[4] = {0};
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 8; j++) added[i] += p[i / 2 * 8 + j] * w[i % 2 * 8 + j];
    }
    return plus(sums, iload(added));
}
#endif

/* Quads of a segment's weights as they are repacked. */
INLINE int64_t paired_quads(int64_t quads) { return quads + quads % 2; }

/* The last quad of a row of eight bytes has zeros behind it: nothing behind a segment is read. */
INLINE int64_t row_of(const int8_t *from, const int quads) {
    int64_t row = 0;
    memcpy(&row, from, (size_t)quads * CF_QUAD);
    return row;
}

/* Repack a panel's weights for `segments` segments of `quads` quads each. */
INLINE void pair_panel(const int8_t *weights, int64_t segments, int64_t quads, int8_t *buffer) {
    enum { WIDTH = CF_PANEL * CF_QUAD, PER_PANEL = CF_PANEL / CF_LANES };
    for (int64_t s = 0; s < segments; s++) {
        for (int64_t k = 0; k < quads; k += 2) {
            UNROLL for (int v = 0; v < PER_PANEL; v++) {
                const ivec zeros = {0}, even = iload(weights + v * 16),
                           odd = k + 1 < quads ? iload(weights + WIDTH + v * 16) : zeros;
                *(loose_ivec *)(buffer + v * 32) = __builtin_shufflevector(even, odd, 0, 4, 1, 5);
                *(loose_ivec *)(buffer + v * 32 + 16) = __builtin_shufflevector(even, odd, 2, 6, 3, 7);
            }
            weights += k + 1 < quads ? 2 * WIDTH : WIDTH;
            buffer += 2 * WIDTH;
        }
    }
}

/* Add the products of two quads of input channels, or with `quads` 1, a constant, of one. */
INLINE void square_update(const int mr, const int vectors, const int quads, const int8_t *const *in, int64_t k,
                          const int8_t *weights, int64_t panel_stride, ivec squares[][2 * (CF_NR / CF_LANES)]) {
    enum { PER_PANEL = CF_PANEL / CF_LANES };
    two_rows pixels[(CF_MR + 1) / 2];
    UNROLL for (int r = 0; r < mr; r += 2) {
        const int other = r + 1 < mr ? r + 1 : r;
        pixels[r / 2] = (two_rows){row_of(in[r] + k * CF_QUAD, quads), row_of(in[other] + k * CF_QUAD, quads)};
    }
    UNROLL for (int v = 0; v < 2 * vectors; v++) {
        const int8_t *from = weights + v / 2 / PER_PANEL * panel_stride + v % (2 * PER_PANEL) * 16;
        const two_rows w = (two_rows)iload(from);
        UNROLL for (int r = 0; r < mr; r += 2) squares[r / 2][v] = add_squares(squares[r / 2][v], pixels[r / 2], w);
    }
}

/* sum[pixel][vector of channels] += the products of a block of K with repacked weights; mr, vectors are constants. */
INLINE void matrix_sums(const int mr, const int vectors, int64_t segments, int64_t quads, const int64_t *offsets,
                        const float *const *inputs, const int8_t *weights, int64_t panel_stride,
                        ivec sum[][CF_NR / CF_LANES]) {
    ivec squares[(CF_MR + 1) / 2][2 * (CF_NR / CF_LANES)];
    UNROLL for (int r = 0; r < mr; r += 2) {
        UNROLL for (int v = 0; v < vectors; v++) {
            const ivec a = sum[r][v], b = sum[r + 1 < mr ? r + 1 : r][v];
            squares[r / 2][2 * v] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
            squares[r / 2][2 * v + 1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
        }
    }
    for (int64_t s = 0; s < segments; s++) {
        const int8_t *in[CF_MR];
        UNROLL for (int r = 0; r < mr; r++) in[r] = (const int8_t *)inputs[r] + offsets[s] * CF_QUAD;
        int64_t k = 0;
        for (; k + 1 < quads; k += 2) {
            square_update(mr, vectors, 2, in, k, weights, panel_stride, squares);
            weights += 2 * CF_PANEL * CF_QUAD;
        }
        if (k < quads) {
            square_update(mr, vectors, 1, in, k, weights, panel_stride, squares);
            weights += 2 * CF_PANEL * CF_QUAD;
        }
    }
    UNROLL for (int r = 0; r < mr; r += 2) {
        UNROLL for (int v = 0; v < vectors; v++) {
            const ivec a = squares[r / 2][2 * v], b = squares[r / 2][2 * v + 1];
            sum[r][v] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
            if (r + 1 < mr) sum[r + 1][v] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
        }
    }
}

#endif
