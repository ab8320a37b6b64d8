/*
 * Integer sums by register tiles of two dimensions: one instruction adds to 16 x 16 sums the products of 16 pixels' 64
 * channels with those of 16 output channels, which is sixteen times what a dot product does. x86-64 has it with AMX.
 *
 * Weights are multiplied as they lie: 16 quads of a panel are a tile. So are the inputs of 16 pixels that are equally far
 * apart, in a row of the picture; those of others are copied. A block is 32 pixels by 32 channels, in four tiles of sums;
 * two tiles of inputs and two of weights are the other four that a processor has.
 */
#ifndef COLDFORGE_INTEGER_TILES_H
#define COLDFORGE_INTEGER_TILES_H

#include "fused/epilogue.h"
#include "fused/integer_layer.h"

enum {
    CF_TILE = 16,                  /* pixels of a tile of inputs, channels of a tile of weights, quads of both */
    CF_TILE_BYTES = 64,            /* of a row of a tile */
    CF_TASK_MR = 2 * CF_TILE,      /* pixels that tasks share out together */
    CF_TILED_QUADS = 12,           /* of K: fewer leave too much of a tile idle, and dot products are faster */
    CF_TILE_ROW_BYTES = 640 << 10, /* rows of a task's pixels: they stay in the second-level cache */
    CF_TILES_IN_CACHE = 16         /* of a panel's weights, which stay in the first-level cache beside another's */
};

#if defined(__AMX_INT8__)
/* `tile`: a literal number. A row's address is `from` + its number * `stride`. */
#define tile_load(tile, from, stride) _tile_loadd(tile, from, (size_t)(stride))
#define tile_store(tile, to, stride) _tile_stored(tile, to, (size_t)(stride))
#define tile_products(sums, pixels, weights) _tile_dpbusd(sums, pixels, weights)

/* Take the tiles into use, all of one size: Intel SDM vol. 1, 18.2. */
INLINE void tiles_begin(void) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } __attribute__((aligned(64))) configuration = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        configuration.row_bytes[i] = CF_TILE_BYTES;
        configuration.rows[i] = CF_TILE;
    }
    _tile_loadconfig(&configuration);
}
INLINE void tiles_end(void) { _tile_release(); }
#else
/* The same in plain C. */
static _Thread_local int32_t tiles[8][CF_TILE][CF_TILE];
INLINE void tile_load(int tile, const void *from, int64_t stride) {
    for (int64_t i = 0; i < CF_TILE; i++) memcpy(tiles[tile][i], (const char *)from + i * stride, CF_TILE_BYTES);
}
INLINE void tile_store(int tile, void *to, int64_t stride) {
    for (int64_t i = 0; i < CF_TILE; i++) memcpy((char *)to + i * stride, tiles[tile][i], CF_TILE_BYTES);
}
INLINE void tile_products(int sums, int pixels, int weights) {
    for (int i = 0; i < CF_TILE; i++) {
        for (int k = 0; k < CF_TILE; k++) {
            const uint32_t quad = (uint32_t)tiles[pixels][i][k];
            for (int j = 0; j < CF_TILE; j++) {
                const uint32_t by = (uint32_t)tiles[weights][k][j];
                int32_t sum = 0;
                for (int byte = 0; byte < 32; byte += 8) sum += (uint8_t)(quad >> byte) * (int8_t)(by >> byte);
                tiles[sums][i][j] = (int32_t)((uint32_t)tiles[sums][i][j] + (uint32_t)sum);
            }
        }
    }
}
INLINE void tiles_begin(void) {}
INLINE void tiles_end(void) { memset(tiles, 0, sizeof tiles); }
#endif

/* Whether tiles are faster than dot products for a layer. */
INLINE int worth_tiles(const cf_layer *layer) {
    const int64_t pixels = layer->batch * layer->out[0] * layer->out[1];
    const int64_t quads = layer->kernel[0] * layer->kernel[1] * ceil_div(layer->in_channels, CF_QUAD);
    return pixels > CF_GEMV_PIXELS && quads >= CF_TILED_QUADS;
}

/* The inputs of a task's pixels, so many tiles of 16 rows. */
typedef struct {
    const int8_t *first[CF_MC / CF_TILE];
    int64_t stride[CF_MC / CF_TILE];         /* bytes from row to row */
    const int64_t *offsets[CF_MC / CF_TILE]; /* of the segments of a row, in quads */
} cf_tile_rows;

/* Plan the tiles of m, whose pixels are counted, and rows in `scratch`. See _tile_rows in builder/compiler/lower/packing.py. */
static void plan_tiles(cf_integer_gemm *m, float *scratch) {
    cf_tiling *tiling = &m->tiling;
    const cf_indirection *indirection = &m->indirection;
    tiling->segments = indirection->segments;
    tiling->length = indirection->segment_length;
    tiling->tiles = ceil_div(tiling->length, CF_TILE);
    /* Segments that would leave much of their tiles idle are put together. */
    const int64_t fewest = ceil_div(indirection->k, CF_TILE);
    if (tiling->segments > CF_TILED_SEGMENTS || tiling->segments * tiling->tiles > 2 * fewest) {
        tiling->segments = 1;
        tiling->length = indirection->k;
        tiling->tiles = fewest;
    }
    tiling->in_place = tiling->segments == indirection->segments;
    for (int64_t s = 0; s < tiling->segments; s++) tiling->offsets[s] = s * tiling->tiles * CF_TILE;
    /* An odd number of cache lines: the rows of a tile must not share cache sets. One is behind the last segment. */
    tiling->row_bytes = ((tiling->segments * tiling->tiles + 1) | 1) * CF_TILE_BYTES;
    const int64_t fit = CF_TILE_ROW_BYTES / tiling->row_bytes / CF_TASK_MR * CF_TASK_MR;
    const int64_t rows = min64(ceil_div(m->pixels, CF_TASK_MR) * CF_TASK_MR, CF_MC);
    tiling->most_rows = max64(CF_TASK_MR, min64(fit, rows));
    tiling->rows = (int8_t *)scratch;
}

/* Copy a pixel's inputs to a row. What a tile has behind a segment does not matter: zeros multiply it. */
INLINE void copy_row(const cf_integer_gemm *m, const float *input, float *row) {
    const cf_indirection *indirection = &m->indirection;
    const int64_t length = indirection->segment_length;
    for (int64_t s = 0; s < indirection->segments; s++) {
        const float *from = input + indirection->offsets[s];
        float *to = row + (m->tiling.in_place ? m->tiling.offsets[s] : s * length);
        for (int64_t k = 0; k < length; k += CF_TILE) store(to + k, load_upto(from + k, length - k));
    }
}

/* Set `rows` to the inputs of `count` pixels from number `first` on: where they lie, if pixels are equally far apart
 * there, else copied to `room`. */
static void set_tile_rows(cf_tile_rows *rows, const cf_integer_gemm *m, const cf_pixel_pointers *pointers,
                          int64_t first, int64_t count, int8_t *room) {
    const cf_view *in = &m->layer.input;
    const int64_t step = m->layer.stride[1] * in->pixel, row = m->layer.stride[0] * in->row, width = m->layer.out[1];
    const int even = (m->layer.out[0] == 1 || row == width * step) &&
                     (m->layer.batch == 1 || in->image == m->layer.out[0] * row);
    const int64_t bytes = m->tiling.row_bytes;
    for (int64_t at = 0; at < count; at += CF_TILE, room += CF_TILE * bytes) {
        const int64_t tile = at / CF_TILE, pixel = first + at;
        /* A tile of it reads up to 60 bytes behind a segment: there are at least 16 more pixels. */
        if (m->tiling.in_place && (even || pixel % width + CF_TILE <= width) && pixel + 2 * CF_TILE <= m->pixels) {
            rows->first[tile] = (const int8_t *)pointers->input[at];
            rows->stride[tile] = step * CF_QUAD;
            rows->offsets[tile] = m->indirection.offsets;
            continue;
        }
        const int64_t end = min64(count, at + CF_TILE);
        for (int64_t i = at; i < end; i++) copy_row(m, pointers->input[i], (float *)(room + (i - at) * bytes));
        rows->first[tile] = room;
        rows->stride[tile] = bytes;
        rows->offsets[tile] = m->tiling.offsets;
    }
}

/* What all blocks of a task have in common, and the first channel of one. */
typedef struct {
    const cf_integer_gemm *gemm;
    int64_t channel;
    cf_quantiser rounding; /* of outputs to bytes */
} cf_tiled_params;

/* The weights of one or two panels side by side, and the block of K that is multiplied. A segment ends anywhere, and its
 * last tile has zeros behind it. */
typedef struct {
    int64_t panels, begin, end; /* the latter: of the block, in tiles */
    const int8_t *first[2];
    _Alignas(64) int32_t start[2][CF_TILE]; /* the sums of a pixel before the first block */
    int8_t last[2][CF_TILED_SEGMENTS][CF_TILE * CF_TILE_BYTES];
} cf_tile_weights;

/* Begin with p's panels. */
static void set_tile_weights(cf_tile_weights *weights, const cf_tiled_params *p, int64_t panels) {
    const cf_integer_gemm *m = p->gemm;
    const cf_tiling *tiling = &m->tiling;
    const int64_t panel = m->indirection.k * CF_PANEL * CF_QUAD, rest = tiling->length % CF_TILE * CF_TILE_BYTES;
    weights->panels = panels;
    weights->end = 0;
    for (int64_t i = 0; i < panels; i++) {
        weights->first[i] = (const int8_t *)m->data.weights + (p->channel / CF_PANEL + i) * panel;
        for (int64_t s = 0; s < tiling->segments && rest != 0; s++) {
            const int64_t end = (s + 1) * tiling->length * CF_TILE_BYTES;
            memcpy(weights->last[i][s], weights->first[i] + end - rest, (size_t)rest);
            memset(weights->last[i][s] + rest, 0, (size_t)(CF_TILE * CF_TILE_BYTES - rest));
        }
        UNROLL for (int v = 0; v < CF_TILE; v += CF_LANES) {
            *(loose_ivec *)(weights->start[i] + v) = initial_sums(&m->data, p->channel + i * CF_PANEL + v, m->offset);
        }
    }
}

/* m x n tiles of sums, of the pixels from tile `at` on by the panels: CF_NR sums for each pixel. m, n: constants. */
INLINE void multiply_tiles(const int m, const int n, const cf_tiling *tiling, const cf_tile_rows *rows, int64_t at,
                           const cf_tile_weights *weights, int32_t *sums) {
    enum { STRIDE = CF_NR * sizeof(int32_t) };
    const int first = weights->begin == 0;
    const int32_t *from = first ? weights->start[0] : sums, *below = first ? from : sums + CF_TILE * CF_NR;
    const int64_t sums_stride = first ? 0 : STRIDE;
    tile_load(0, from, sums_stride);
    if (n > 1) tile_load(1, from + CF_TILE, sums_stride);
    if (m > 1) tile_load(2, below, sums_stride);
    if (m > 1 && n > 1) tile_load(3, below + CF_TILE, sums_stride);

    const int8_t *in[2], *w[2];
    const int64_t *offsets[2], tiles = tiling->tiles, whole = tiling->length / CF_TILE;
    const int64_t stride = rows->stride[at], stride_below = rows->stride[at + m - 1];
    UNROLL for (int i = 0; i < m; i++) {
        in[i] = rows->first[at + i];
        offsets[i] = rows->offsets[at + i];
    }
    int64_t segment = weights->begin / tiles, k = weights->begin % tiles;
    for (int64_t i = weights->begin; i < weights->end; i++) {
        const int64_t quad = segment * tiling->length + k * CF_TILE;
        UNROLL for (int j = 0; j < n; j++) {
            w[j] = k < whole ? weights->first[j] + quad * CF_TILE_BYTES : weights->last[j][segment];
        }
        tile_load(4, in[0] + offsets[0][segment] * CF_QUAD + k * CF_TILE_BYTES, stride);
        tile_load(6, w[0], CF_TILE_BYTES);
        tile_products(0, 4, 6);
        if (n > 1) {
            tile_load(7, w[1], CF_TILE_BYTES);
            tile_products(1, 4, 7);
        }
        if (m > 1) {
            tile_load(5, in[1] + offsets[1][segment] * CF_QUAD + k * CF_TILE_BYTES, stride_below);
            tile_products(2, 5, 6);
            if (n > 1) tile_products(3, 5, 7);
        }
        if (++k == tiles) {
            k = 0;
            segment++;
        }
    }

    tile_store(0, sums, STRIDE);
    if (n > 1) tile_store(1, sums + CF_TILE, STRIDE);
    if (m > 1) tile_store(2, sums + CF_TILE * CF_NR, STRIDE);
    if (m > 1 && n > 1) tile_store(3, sums + CF_TILE * CF_NR + CF_TILE, STRIDE);
}

/* The same of one tile of pixels, or of `both`: this and the next. */
static void tile_block(const cf_tiling *tiling, const cf_tile_rows *rows, int64_t at, int both,
                       const cf_tile_weights *weights, int32_t *sums) {
    if (both && weights->panels == 2) {
        multiply_tiles(2, 2, tiling, rows, at, weights, sums);
    } else if (both) {
        multiply_tiles(2, 1, tiling, rows, at, weights, sums);
    } else if (weights->panels == 2) {
        multiply_tiles(1, 2, tiling, rows, at, weights, sums);
    } else {
        multiply_tiles(1, 1, tiling, rows, at, weights, sums);
    }
}

/* What comes after the sums of pixels `begin` to `end`, for `panels` panels: they are dequantised and get the bias. If
 * they are `last`, clamp(value + residual) is stored as floats, as bytes, or as both; otherwise floats take the place of
 * the sums. */
INLINE void finish_sums(const int panels, const int last, const cf_tiled_params *p, const cf_pixel_pointers *pointers,
                        int64_t begin, int64_t end, float *sums) {
    const cf_integer_gemm *m = p->gemm;
    const int64_t channel = p->channel;
    const int residual = m->data.residual != NULL, floats = stores_floats(&m->data);
    const int bytes = stored_bytes(&m->data) != NULL;
    const vec low = splat(m->layer.low), high = splat(m->layer.high);
    const cf_quantiser rounding = p->rounding;
    vec factor[2], bias[2];
    UNROLL for (int v = 0; v < panels; v++) {
        factor[v] = load(m->data.weight_scale + channel + v * CF_LANES) * splat(m->layer.input_scale);
        bias[v] = load(m->data.bias + channel + v * CF_LANES);
    }
    for (int64_t at = begin; at < end; at++) {
        UNROLL for (int v = 0; v < panels; v++) {
            float *sum = sums + at * CF_NR + v * CF_LANES;
            const int64_t to = channel + v * CF_LANES;
            vec value = __builtin_convertvector(iload(sum), vec) * factor[v] + bias[v];
            if (!last) {
                store(sum, value);
                continue;
            }
            if (residual) value += load(pointers->residual[at] + to);
            if (floats) store(pointers->output[at] + to, clamp(value, low, high));
            if (bytes) store_bytes(pointers->rounded[at] + to, rounded(&rounding, value), CF_LANES);
        }
    }
}

static void finish(const cf_tiled_params *p, const cf_pixel_pointers *pointers, int64_t begin, int64_t end,
                   int64_t panels, int last, float *sums) {
    if (panels == 2 && last) {
        finish_sums(2, 1, p, pointers, begin, end, sums);
    } else if (last) {
        finish_sums(1, 1, p, pointers, begin, end, sums);
    } else {
        finish_sums((int)panels, 0, p, pointers, begin, end, sums);
    }
}

/* p's channels, one panel or two, of `count` pixels. */
static void tiled_block(const cf_tiled_params *p, const cf_tile_rows *rows, const cf_pixel_pointers *pointers,
                        int64_t count, int64_t channels) {
    const cf_integer_gemm *m = p->gemm;
    const int64_t panels = ceil_div(channels, CF_PANEL);
    const int last = simple_integer_epilogue(m) && channels == panels * CF_PANEL;
    const int finishes = !m->layer.stores_sums;
    const int64_t k_tiles = m->tiling.segments * m->tiling.tiles, blocks = ceil_div(k_tiles, CF_TILES_IN_CACHE);
    _Alignas(64) float sums[CF_MC * CF_NR];
    cf_tile_weights weights;
    set_tile_weights(&weights, p, panels);
    for (int64_t block = 0; block < blocks; block++) {
        weights.begin = weights.end;
        weights.end = part_start(k_tiles, block + 1, blocks);
        int64_t done = 0;
        for (int64_t at = 0; at < count; at += CF_TASK_MR) {
            tile_block(&m->tiling, rows, at / CF_TILE, count - at > CF_TILE, &weights, (int32_t *)sums + at * CF_NR);
            /* The block before this one, while the processor makes these sums. */
            if (finishes && block + 1 == blocks) finish(p, pointers, done, at, panels, last, sums);
            done = at;
        }
        if (finishes && block + 1 == blocks) finish(p, pointers, done, count, panels, last, sums);
    }
    if (!last) finish_block(m, pointers, count, p->channel, channels, sums);
}

/* Channels `channel` to `end` of `count` pixels from number `first` on. */
static void tiled_task(const cf_integer_gemm *m, const cf_pixel_pointers *pointers, int64_t first, int64_t count,
                       int64_t channel, int64_t end, uint32_t thread) {
    cf_tile_rows rows;
    set_tile_rows(&rows, m, pointers, first, count, m->tiling.rows + thread * m->tiling.most_rows * m->tiling.row_bytes);
    cf_tiled_params params = {.gemm = m};
    if (stored_bytes(&m->data) != NULL) params.rounding = sums_quantiser(&m->layer, &m->data);
    tiles_begin();
    for (; channel < end; channel += CF_NR) {
        params.channel = channel;
        tiled_block(&params, &rows, pointers, count, min64(end - channel, CF_NR));
    }
    tiles_end();
}

#endif
