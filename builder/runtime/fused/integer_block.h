/* Integer GEMM by register tiles: the blocks of a task's channels and of K, whose weights stay in the first-level cache. */
#ifndef COLDFORGE_INTEGER_BLOCK_H
#define COLDFORGE_INTEGER_BLOCK_H

#include "fused/epilogue.h"
#include "fused/integer_microkernel.h"

enum { CF_L1_WEIGHT_BYTES = CF_NR << 10 }; /* weights that stay in the first-level cache beside some pixels */

/* Put a panel's int8 weights for a block of K into the form that is multiplied. */
static void repack_panel(const int8_t *weights, const cf_k_block *block, int8_t *buffer) {
#if CF_MATRIX
    pair_panel(weights, block->segments, block->segment_length, buffer);
#else
    enum { PER_PANEL = CF_PANEL / CF_LANES };
    for (int64_t k = 0; k < block->k; k++) {
        UNROLL for (int i = 0; i < CF_WORDS; i++) {
            UNROLL for (int v = 0; v < PER_PANEL; v++) {
                *(loose_ivec *)(buffer + (i * PER_PANEL + v) * CF_LANES * 4) =
                    weight_word(weights + v * CF_LANES * 4, i);
            }
        }
        weights += CF_PANEL * CF_QUAD;
        buffer += CF_QUAD_BYTES;
    }
#endif
}

/* How many quads of room `segments` segments of `quads` quads take in the form that is multiplied. */
INLINE int64_t repacked_quads(int64_t segments, int64_t quads) {
#if CF_MATRIX
    return segments * paired_quads(quads);
#else
    return segments * quads;
#endif
}

/* The most quads of a block of K whose repacked weights have room for `room` quads. */
INLINE int64_t quads_in(int64_t room, int64_t segment_length) {
    const int64_t segment = repacked_quads(1, segment_length);
    /* An even number has room for a piece of a segment, whatever its length. */
    return room >= segment ? room / segment * segment_length : room & ~INT64_C(1);
}

/* Set the weights of `panels` panels for p's block of K: where they lie, or repacked, in `buffer`. */
static void set_weights(cf_integer_params *p, int64_t panels, int8_t *buffer) {
    const int64_t all = p->gemm->indirection.k * CF_PANEL * CF_QUAD;
    const int8_t *from =
        (const int8_t *)p->gemm->data.weights + p->channel / CF_PANEL * all + p->block.begin * CF_PANEL * CF_QUAD;
    p->weights = buffer == NULL ? from : buffer;
    p->panel_stride =
        buffer == NULL ? all : repacked_quads(p->block.segments, p->block.segment_length) * CF_QUAD_BYTES;
    if (buffer == NULL) return;
    for (int64_t i = 0; i < panels; i++) repack_panel(from + i * all, &p->block, buffer + i * p->panel_stride);
}

/* MR of the next tile when `rest` pixels remain, and how many tiles of that height follow one another. */
INLINE int64_t tile_height(int64_t rest) {
    const int64_t mr = balanced_mr(rest, CF_INTEGER_MR);
    if (!CF_MATRIX || mr % 2 == 0 || rest <= CF_GEMV_PIXELS) return mr;
    return min64(mr + 1, rest / 2 * 2); /* pixels come in twos; and Clang spills the sums of five */
}
INLINE int64_t tiles_of(int64_t rest, int64_t mr) {
    return mr == balanced_mr(rest, CF_INTEGER_MR) ? equal_tiles(rest, CF_INTEGER_MR) : rest / mr;
}

/* All pixels of a block times p->n_tiles tiles from p->channel on, K block by K block. */
static void integer_block(cf_integer_params *p, const cf_pixel_pointers *pointers, int64_t count, int64_t channels,
                          int64_t width) {
    const cf_integer_gemm *m = p->gemm;
    const int in_registers =
        simple_integer_epilogue(m) && (channels == p->n_tiles * width || stores_bytes_alone(&m->data));
    const int64_t panels = ceil_div(channels, CF_PANEL);
    const int half = width < CF_NR;
    _Alignas(64) float sums[CF_MC * CF_NR];
    const cf_integer_microkernel *microkernels = integer_microkernels[!half];
    int8_t *buffer = NULL;
    int64_t kc = m->indirection.k;
#if CF_REPACKS
    _Alignas(64) int8_t repacked[CF_L1_WEIGHT_BYTES];
    if (m->pixels <= CF_GEMV_PIXELS) {
        microkernels = integer_gemv_microkernels[!half];
    } else {
        buffer = repacked;
        kc = quads_in(CF_L1_WEIGHT_BYTES / (panels * CF_QUAD_BYTES), m->indirection.segment_length);
    }
#endif
    while (next_k_block(&m->indirection, kc, &p->block)) {
        p->first = p->block.begin == 0;
        p->last = p->block.begin + p->block.k == m->indirection.k;
        set_weights(p, panels, buffer);
        const int64_t size = p->n_tiles * width / CF_PANEL * p->panel_stride;
        /* What is repacked is read in one go, and so are the weights of a few pixels. */
        const int prefetches = buffer == NULL && count > CF_GEMV_PIXELS;
        p->ahead_step = prefetches ? ceil_div(width / CF_PANEL * CF_QUAD_BYTES, ceil_div(count, CF_INTEGER_MR)) : 0;
        for (int64_t at = 0; at < count;) {
            p->ahead = p->weights + (prefetches ? size + size * at / count : 0);
            const int64_t mr = tile_height(count - at), equal = tiles_of(count - at, mr);
            microkernels[mr](p, equal, pointers->input + at, sums + at * CF_NR,
                             in_registers && stores_floats(&m->data) ? pointers->output + at : NULL,
                             in_registers && stored_bytes(&m->data) != NULL ? pointers->rounded + at : NULL,
                             m->data.residual != NULL ? pointers->residual + at : NULL);
            at += mr * equal;
        }
    }
    if (!in_registers) finish_block(m, pointers, count, p->channel, channels, sums);
}

/* Channels `channel` to `end` of `count` pixels. */
static void blocked_task(const cf_integer_gemm *m, const cf_pixel_pointers *pointers, int64_t count, int64_t channel,
                         int64_t end) {
    /* Tiles side by side whose weights stay in the first-level cache: all their channels are computed for MR
     * pixels, then for the next MR. */
    const int64_t quads = repacked_quads(m->indirection.segments, m->indirection.segment_length),
                  cached_tiles = CF_L1_WEIGHT_BYTES / (quads * CF_QUAD_BYTES * (CF_NR / CF_PANEL));
    const int64_t max_n_tiles = simple_integer_epilogue(m) ? max64(cached_tiles, 1) : 1;
    while (channel < end) {
        const int64_t rest = end - channel, width = rest <= CF_NR / 2 ? CF_NR / 2 : CF_NR;
        cf_integer_params params = {
            .gemm = m, .channel = channel, .n_tiles = min64(max_n_tiles, max64(rest / width, 1))};
        if (stored_bytes(&m->data) != NULL) params.rounding = sums_quantiser(&m->layer, &m->data);
        const int64_t channels = min64(rest, params.n_tiles * width);
        integer_block(&params, pointers, count, channels, width);
        channel += channels;
    }
}

#endif
