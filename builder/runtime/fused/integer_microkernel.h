/* The micro-kernels of integer GEMM: register tiles of int32 sums of products of bytes, exact whatever their order. */
#ifndef COLDFORGE_INTEGER_MICROKERNEL_H
#define COLDFORGE_INTEGER_MICROKERNEL_H

#include "fused/integer_layer.h"
#if CF_MATRIX
#include "fused/integer_matrix.h"
#endif
#include "fused/rounding.h"

/* MR: the most pixels of a tile, which is CF_NR channels wide, or half of that where no more are left. */
#if CF_LANES == 4 && defined(__wasm__)
enum { CF_INTEGER_MR = 3 }; /* on x86-64, WebAssembly has 16 registers */
#else
enum { CF_INTEGER_MR = CF_MR };
#endif
enum {
    CF_TASK_MR = CF_INTEGER_MR,             /* pixels that tasks share out together */
    CF_NR_VECTORS = CF_NR / CF_LANES,       /* vectors of a tile's width */
    CF_QUAD_BYTES = CF_WORDS * 4 * CF_PANEL /* of a panel's weights for four input channels, repacked */
};

/* What all tiles of a block have in common: the weights from `channel` on, for a block of K. */
typedef struct {
    const cf_integer_gemm *gemm;
    cf_k_block block;
    const int8_t *weights;
    int64_t panel_stride;     /* bytes between panels */
    int64_t channel, n_tiles; /* the latter: tiles side by side */
    int first, last;          /* whether it is the first block of K; the last */
    const int8_t *ahead;      /* weights to prefetch meanwhile, */
    int64_t ahead_step;       /* so many bytes farther with each quad: the tiles share them */
    cf_quantiser rounding;    /* of outputs to bytes */
} cf_integer_params;

/* Add the products of one quad of input channels. widen, a constant: the weights are as they lie, else words. */
INLINE void dot_update(const int mr, const int vectors, const int widen, const int32_t *const *in, int64_t k,
                       const int8_t *weights, int64_t panel_stride, ivec sum[][CF_NR_VECTORS]) {
    enum { PER_PANEL = CF_PANEL / CF_LANES };
    UNROLL for (int i = 0; i < CF_WORDS; i++) {
        ivec w[CF_NR_VECTORS];
        UNROLL for (int v = 0; v < vectors; v++) {
            const int8_t *panel_weights = weights + (v / PER_PANEL) * panel_stride + (v % PER_PANEL) * CF_LANES * 4;
            w[v] = widen ? weight_word(panel_weights, i) : iload(panel_weights + i * CF_PANEL * 4);
        }
        UNROLL for (int r = 0; r < mr; r++) { dots(vectors, sum[r], broadcast_word(in[r] + k * CF_WORDS + i), w); }
    }
}

INLINE void add_residuals(const int mr, const int vectors, const float *const *residuals, int64_t channel,
                          vec value[][CF_NR_VECTORS]) {
    UNROLL for (int r = 0; r < mr; r++) {
        UNROLL for (int v = 0; v < vectors; v++) value[r][v] += load(residuals[r] + channel + v * CF_LANES);
    }
}

/*
 * m_tiles x n_tiles tiles of mr pixels by `vectors` vectors; mr, vectors and widen are constants. Before the last
 * block of K the sums are kept in `sums`, CF_NR for each pixel. After it they are dequantised and get the bias; with
 * outputs and bytes NULL they are stored in `sums` again, otherwise clamp(value + residual) goes to outputs[pixel] +
 * channel and, rounded, to bytes[pixel] + channel, or to the one of both that is there.
 */
INLINE void integer_microkernel(const int mr, const int vectors, const int widen, const cf_integer_params *p,
                                int64_t m_tiles, const float *const *inputs, float *sums, float *const *outputs,
                                int8_t *const *bytes, const float *const *residuals) {
    const cf_integer_gemm *m = p->gemm;
    const int64_t segments = p->block.segments, quads = p->block.segment_length, panel_stride = p->panel_stride,
                  width = vectors * CF_LANES;
    const int64_t *offsets = p->block.offsets;
    const int64_t step = widen ? CF_PANEL * CF_QUAD : CF_QUAD_BYTES, end = p->channel + p->n_tiles * width;
    const int first = p->first, last = p->last;
    const vec low = splat(m->layer.low), high = splat(m->layer.high), input_scale = splat(m->layer.input_scale);
    const int8_t *ahead = p->ahead;
    const int64_t ahead_step = p->ahead_step;
    for (int64_t t = 0; t < m_tiles; t++) {
        const int8_t *weights = p->weights;
        for (int64_t c = p->channel; c < end; c += width) {
            ivec sum[CF_INTEGER_MR][CF_NR_VECTORS];
            if (first) {
                UNROLL for (int v = 0; v < vectors; v++) {
                    const ivec start = initial_sums(&m->data, c + v * CF_LANES, m->offset);
                    UNROLL for (int r = 0; r < mr; r++) sum[r][v] = start;
                }
            } else {
                UNROLL for (int r = 0; r < mr; r++) {
                    UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = iload(sums + r * CF_NR + v * CF_LANES);
                }
            }
#if CF_MATRIX
            if (!widen) matrix_sums(mr, vectors, segments, quads, offsets, inputs, weights, panel_stride, sum);
#endif
            const int8_t *w = weights;
            for (int64_t s = 0; s < segments && !(CF_MATRIX && !widen); s++) {
                const int32_t *in[CF_INTEGER_MR];
                UNROLL for (int r = 0; r < mr; r++) in[r] = (const int32_t *)inputs[r] + offsets[s] * CF_WORDS;
                for (int64_t k = 0; k < quads; k++) {
                    dot_update(mr, vectors, widen, in, k, w, panel_stride, sum);
                    w += step;
                    __builtin_prefetch(ahead);
                    ahead += ahead_step;
                }
            }
            weights += vectors * CF_LANES / CF_PANEL * panel_stride;
            if (!last || m->layer.stores_sums) {
                UNROLL for (int r = 0; r < mr; r++) {
                    UNROLL for (int v = 0; v < vectors; v++) {
                        *(loose_ivec *)(sums + r * CF_NR + v * CF_LANES) = sum[r][v];
                    }
                }
                continue;
            }
            vec value[CF_INTEGER_MR][CF_NR_VECTORS];
            UNROLL for (int v = 0; v < vectors; v++) {
                const vec factor = load(m->data.weight_scale + c + v * CF_LANES) * input_scale;
                const vec bias = load(m->data.bias + c + v * CF_LANES);
                UNROLL for (int r = 0; r < mr; r++) {
                    value[r][v] = __builtin_convertvector(sum[r][v], vec) * factor + bias;
                }
            }
            if (outputs == NULL && (!CF_HAS_INTEGER || bytes == NULL)) {
                UNROLL for (int r = 0; r < mr; r++) {
                    UNROLL for (int v = 0; v < vectors; v++) store(sums + r * CF_NR + v * CF_LANES, value[r][v]);
                }
                continue;
            }
            if (!CF_HAS_INTEGER || bytes == NULL) {
                float *out[CF_INTEGER_MR]; /* read before anything is stored: stores may alias */
                UNROLL for (int r = 0; r < mr; r++) out[r] = outputs[r] + c;
                if (residuals != NULL) add_residuals(mr, vectors, residuals, c, value);
                UNROLL for (int r = 0; r < mr; r++) {
                    UNROLL for (int v = 0; v < vectors; v++) {
                        store(out[r] + v * CF_LANES, clamp(value[r][v], low, high));
                    }
                }
                continue;
            }
            if (residuals != NULL) add_residuals(mr, vectors, residuals, c, value);
            /* In memory: loops take far less room than the tile of each micro-kernel. */
            const cf_quantiser rounding = p->rounding;
            const int floats = outputs != NULL ? mr : 0;
            ROLLED for (int r = 0; r < floats; r++) {
                UNROLL for (int v = 0; v < vectors; v++) {
                    store(outputs[r] + c + v * CF_LANES, clamp(value[r][v], low, high));
                }
            }
            if (m->layer.out_channels - c < width) {
                ROLLED for (int r = 0; r < mr; r++) {
                    UNROLL for (int v = 0; v < vectors; v++) {
                        const int64_t n = m->layer.out_channels - c - v * CF_LANES;
                        if (n > 0) store_bytes(bytes[r] + c + v * CF_LANES, rounded(&rounding, value[r][v]), n);
                    }
                }
                continue;
            }
            ROLLED for (int r = 0; r < mr; r++) {
                int8_t *to = bytes[r] + c;
                if (vectors == 1) store_bytes(to, rounded(&rounding, value[r][0]), CF_LANES);
                UNROLL for (int v = 0; v + 1 < vectors; v += 2) {
                    const ivec one = rounded(&rounding, value[r][v]), next = rounded(&rounding, value[r][v + 1]);
                    store_two(to + v * CF_LANES, to + (v + 1) * CF_LANES, one, next);
                }
            }
        }
        sums += mr * CF_NR;
        inputs += mr;
        if (outputs != NULL) outputs += mr;
        if (CF_HAS_INTEGER && bytes != NULL) bytes += mr;
        if (residuals != NULL) residuals += mr;
    }
}

typedef void (*cf_integer_microkernel)(const cf_integer_params *params, int64_t m_tiles, const float *const *inputs,
                                       float *sums, float *const *outputs, int8_t *const *bytes,
                                       const float *const *residuals);
#define TILE(mr, halves, widen)                                                                                        \
    static void integer_##mr##_##halves##_##widen(const cf_integer_params *params, int64_t m_tiles,                    \
                                                  const float *const *inputs, float *sums, float *const *outputs,      \
                                                  int8_t *const *bytes, const float *const *residuals) {               \
        integer_microkernel(mr, CF_NR_VECTORS / 2 * halves, widen, params, m_tiles, inputs, sums, outputs, bytes,      \
                            residuals);                                                                                \
    }
#define ENTRY(mr, halves, widen) integer_##mr##_##halves##_##widen,
#define MR_1_TO_3(X, h, p) X(1, h, p) X(2, h, p) X(3, h, p)
#define MR_1_TO_6(X, h, p) MR_1_TO_3(X, h, p) X(4, h, p) X(5, h, p) X(6, h, p)
#define MR_1_TO_12(X, h, p) MR_1_TO_6(X, h, p) X(7, h, p) X(8, h, p) X(9, h, p) X(10, h, p) X(11, h, p) X(12, h, p)
#if CF_LANES == 4 && defined(__wasm__)
#define EVERY_MR MR_1_TO_3
#elif CF_LANES == 16
#define EVERY_MR MR_1_TO_12
#else
#define EVERY_MR MR_1_TO_6
#endif
/* Micro-kernels by width (half, full) and MR: for repacked weights; where they are, also for weights as they lie. */
EVERY_MR(TILE, 1, 0)
EVERY_MR(TILE, 2, 0)
static const cf_integer_microkernel integer_microkernels[][CF_INTEGER_MR + 1] = {{NULL, EVERY_MR(ENTRY, 1, 0)},
                                                                                 {NULL, EVERY_MR(ENTRY, 2, 0)}};
#if CF_REPACKS
MR_1_TO_3(TILE, 1, 1)
MR_1_TO_3(TILE, 2, 1)
static const cf_integer_microkernel integer_gemv_microkernels[][CF_GEMV_PIXELS + 1] = {{NULL, MR_1_TO_3(ENTRY, 1, 1)},
                                                                                       {NULL, MR_1_TO_3(ENTRY, 2, 1)}};
#endif
#undef TILE
#undef ENTRY
#undef MR_1_TO_3
#undef MR_1_TO_6
#undef MR_1_TO_12
#undef EVERY_MR

#endif
