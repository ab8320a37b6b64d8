/* A layer of integer sums as its tasks see it. */
#ifndef COLDFORGE_INTEGER_LAYER_H
#define COLDFORGE_INTEGER_LAYER_H

#include "fused/indirection.h"
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

#endif
