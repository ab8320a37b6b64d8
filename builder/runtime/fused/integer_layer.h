/* A layer of integer sums as its tasks see it. */
#ifndef COLDFORGE_INTEGER_LAYER_H
#define COLDFORGE_INTEGER_LAYER_H

#include "fused/epilogue.h"
#include "fused/integer_dot.h"

#if CF_TILES
enum { CF_TILED_SEGMENTS = 8 };

/* How a layer's K is cut into tiles: see integer_tiles.h. */
typedef struct {
    int64_t segments, length, tiles; /* segments of K, of so many quads each, in so many tiles */
    int64_t offsets[CF_TILED_SEGMENTS]; /* of the segments of a row that inputs are copied to, in quads */
    int in_place;                       /* the segments are the indirection's: inputs may be read where they lie */
    int64_t row_bytes, most_rows;       /* of a row; of a task */
    int8_t *rows;                       /* in scratch, most_rows for each thread */
} cf_tiling;
#endif

typedef struct {
    cf_layer layer; /* with the quantised input in place of its own, in words */
    cf_layer_data data;
    int64_t pixels, m_blocks, n_blocks; /* M; tasks for the same channels; tasks for the same pixels */
    cf_indirection indirection;         /* in quads of adjacent channels */
    int32_t offset;
    int64_t quantised; /* bytes of scratch that the quantised input takes, if it is not read where it lies */
#if CF_TILES
    cf_tiling tiling;
#endif
} cf_integer_gemm;

/* Whether a micro-kernel can do the epilogue itself. */
INLINE int simple_integer_epilogue(const cf_integer_gemm *m) {
    return simple_epilogue(&m->layer, &m->data) && !m->layer.stores_sums;
}

/* The same of a tile with more lanes than channels: bytes alone are stored for those that are there. */
INLINE int stores_bytes_alone(const cf_layer_data *data) {
    return stored_bytes(data) != NULL && !stores_floats(data) && data->residual == NULL;
}

/* How outputs are rounded to bytes. Sums of integers are numbers, so where nothing else is added, none is NaN. */
INLINE cf_quantiser sums_quantiser(const cf_layer *layer, const cf_layer_data *data) {
    cf_quantiser q = clamping_quantiser(layer);
    if (data->residual == NULL) q.nan_is_low = 1;
    return q;
}

/* What comes after a block's sums, CF_NR for each pixel, if its micro-kernel has not done it: the sums are stored as they
 * are, or the epilogue is run. */
static void finish_block(const cf_integer_gemm *m, const cf_pixel_pointers *pointers, int64_t count, int64_t channel,
                         int64_t channels, float *sums) {
    if (!m->layer.stores_sums) {
        run_epilogue(&m->layer, &m->data, pointers, 0, count, channel, channels, sums, CF_NR);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        memcpy(pointers->output[i] + channel, sums + i * CF_NR, (size_t)channels * sizeof(int32_t));
    }
}

#endif
