/*
 * Convolution with sums of integers: the input is rounded into scratch first, then pixels x (KH KW C) times
 * (KH KW C) x channels, in register tiles. The sums are exact, so an answer depends neither on threads nor on tiles
 * nor, until the epilogue, on the instruction set.
 */
#ifndef COLDFORGE_INTEGER_H
#define COLDFORGE_INTEGER_H

#include "fused/quantise.h"
#include "fused/reach.h"

/* The most pixels of a tile; it is CF_COLUMNS channels wide, or half of that where no more are left. */
#if CF_LANES == 4 && defined(__wasm__)
enum { CF_HIGH = 3 }; /* of WebAssembly's registers there are 16 on x86-64 */
#else
enum { CF_HIGH = CF_ROWS };
#endif
enum {
    CF_WIDE = CF_COLUMNS / CF_LANES, /* vectors of a tile */
    CF_FEW = 3,                      /* no more pixels in the whole layer: weights are used as they come from memory */
    CF_NEAR = CF_COLUMNS << 10,      /* bytes of weights that stay in the first-level cache beside some pixels */
    CF_QUAD_BYTES = CF_WORDS * 4 * CF_PANEL, /* of a panel's weights for four input channels, unpacked */
    CF_BLOCK_INPUT = 160 << 10       /* bytes of rounded pixels that a block may have, in the second-level cache */
};

typedef struct {
    cf_layer layer; /* with the rounded input in place of its own, in words */
    cf_layer_data data;
    int64_t pixels, blocks, shares; /* of the batch; tasks for the same channels, and for the same pixels */
    cf_reach reach;                 /* in fours of adjacent channels */
    int32_t offset;
} cf_integer;

/* What the tiles of a block have in common: the weights from `channel` on, for a part of the depth. */
typedef struct {
    const cf_integer *integer;
    cf_part part;
    const int8_t *weights;
    int64_t panel;           /* bytes between panels */
    int64_t channel, panels; /* tiles' widths side by side */
    int first, last;
} cf_integer_part;

/* A panel's weights for `quads` fours of input channels, as the words that are multiplied. */
static void unpack_words(const int8_t *packed, int64_t quads, int8_t *room) {
    enum { PER_PANEL = CF_PANEL / CF_LANES };
    for (int64_t k = 0; k < quads; k++) {
        UNROLL for (int i = 0; i < CF_WORDS; i++) {
            UNROLL for (int v = 0; v < PER_PANEL; v++) {
                *(loose_ivec *)(room + (i * PER_PANEL + v) * CF_LANES * 4) = weights_of(packed + v * CF_LANES * 4, i);
            }
        }
        packed += CF_PANEL * CF_QUAD;
        room += CF_QUAD_BYTES;
    }
}

/* The products of four input channels. */
INLINE void multiply_quad(const int rows, const int vectors, const int packed, const int32_t *const *in, int64_t k,
                          const int8_t *weights, int64_t panel, ivec sum[][CF_WIDE]) {
    enum { PER_PANEL = CF_PANEL / CF_LANES };
    UNROLL for (int i = 0; i < CF_WORDS; i++) {
        ivec w[CF_WIDE];
        UNROLL for (int v = 0; v < vectors; v++) {
            const int8_t *own = weights + (v / PER_PANEL) * panel + (v % PER_PANEL) * CF_LANES * 4;
            w[v] = packed ? weights_of(own, i) : iload(own + i * CF_PANEL * 4);
        }
        UNROLL for (int r = 0; r < rows; r++) {
            dots(vectors, sum[r], word_at(in[r] + k * CF_WORDS + i), w);
        }
    }
}

/*
 * `tiles` tiles of `rows` pixels one below the other, of `vectors` vectors; all three constants. Before the last part,
 * or with outputs NULL, to sums: CF_COLUMNS numbers a pixel, with the bias in the end. Otherwise clamped, with the
 * residual if any, to outputs[pixel] + channel.
 */
INLINE void integer_tiles(const int rows, const int vectors, const int packed, const cf_integer_part *p, int64_t tiles,
                          const float *const *inputs, float *sums, float *const *outputs,
                          const float *const *residuals) {
    const cf_integer *m = p->integer;
    const int64_t segments = p->part.segments, quads = p->part.length, panel = p->panel, width = vectors * CF_LANES;
    const int64_t *offsets = p->part.offsets;
    const int64_t step = packed ? CF_PANEL * CF_QUAD : CF_QUAD_BYTES, end = p->channel + p->panels * width;
    const int first = p->first, last = p->last;
    const vec low = splat(m->layer.low), high = splat(m->layer.high), input_scale = splat(m->layer.input_scale);
    for (int64_t t = 0; t < tiles; t++) {
        const int8_t *weights = p->weights;
        for (int64_t c = p->channel; c < end; c += width) {
            ivec sum[CF_HIGH][CF_WIDE];
            if (first) {
                UNROLL for (int v = 0; v < vectors; v++) {
                    const ivec start = start_at(m->data.weight_sums + c + v * CF_LANES, m->offset);
                    UNROLL for (int r = 0; r < rows; r++) sum[r][v] = start;
                }
            } else {
                UNROLL for (int r = 0; r < rows; r++) {
                    UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = iload(sums + r * CF_COLUMNS + v * CF_LANES);
                }
            }
            const int8_t *w = weights;
            for (int64_t s = 0; s < segments; s++) {
                const int32_t *in[CF_HIGH];
                UNROLL for (int r = 0; r < rows; r++) in[r] = (const int32_t *)inputs[r] + offsets[s] * CF_WORDS;
                for (int64_t k = 0; k < quads; k++) {
                    multiply_quad(rows, vectors, packed, in, k, w, panel, sum);
                    w += step;
                }
            }
            weights += vectors * CF_LANES / CF_PANEL * panel;
            if (!last) {
                UNROLL for (int r = 0; r < rows; r++) {
                    UNROLL for (int v = 0; v < vectors; v++) {
                        *(loose_ivec *)(sums + r * CF_COLUMNS + v * CF_LANES) = sum[r][v];
                    }
                }
                continue;
            }
            vec value[CF_HIGH][CF_WIDE];
            UNROLL for (int v = 0; v < vectors; v++) {
                const vec factor = load(m->data.weight_scale + c + v * CF_LANES) * input_scale;
                const vec bias = load(m->data.bias + c + v * CF_LANES);
                UNROLL for (int r = 0; r < rows; r++) {
                    value[r][v] = __builtin_convertvector(sum[r][v], vec) * factor + bias;
                }
            }
            if (outputs == NULL) {
                UNROLL for (int r = 0; r < rows; r++) {
                    UNROLL for (int v = 0; v < vectors; v++) store(sums + r * CF_COLUMNS + v * CF_LANES, value[r][v]);
                }
                continue;
            }
            float *out[CF_HIGH]; /* read before anything is stored: stores may alias */
            UNROLL for (int r = 0; r < rows; r++) out[r] = outputs[r] + c;
            if (residuals != NULL) {
                UNROLL for (int r = 0; r < rows; r++) {
                    UNROLL for (int v = 0; v < vectors; v++) value[r][v] += load(residuals[r] + c + v * CF_LANES);
                }
            }
            UNROLL for (int r = 0; r < rows; r++) {
                UNROLL for (int v = 0; v < vectors; v++) {
                    store(out[r] + v * CF_LANES, clamp(value[r][v], low, high));
                }
            }
        }
        sums += rows * CF_COLUMNS;
        inputs += rows;
        if (outputs != NULL) outputs += rows;
        if (residuals != NULL) residuals += rows;
    }
}

typedef void (*cf_integer_function)(const cf_integer_part *part, int64_t tiles, const float *const *inputs,
                                    float *sums, float *const *outputs, const float *const *residuals);
#define TILE(rows, halves, packed)                                                                                 \
    static void integer_##rows##_##halves##_##packed(const cf_integer_part *part, int64_t tiles,                   \
                                                     const float *const *inputs, float *sums,                      \
                                                     float *const *outputs, const float *const *residuals) {       \
        integer_tiles(rows, CF_WIDE / 2 * halves, packed, part, tiles, inputs, sums, outputs, residuals);          \
    }
#define ENTRY(rows, halves, packed) integer_##rows##_##halves##_##packed,
#define THREE(X, h, p) X(1, h, p) X(2, h, p) X(3, h, p)
#define SIX(X, h, p) THREE(X, h, p) X(4, h, p) X(5, h, p) X(6, h, p)
#define TWELVE(X, h, p) SIX(X, h, p) X(7, h, p) X(8, h, p) X(9, h, p) X(10, h, p) X(11, h, p) X(12, h, p)
#if CF_LANES == 16
#define ALL TWELVE
#elif CF_LANES == 4 && defined(__wasm__)
#define ALL THREE
#else
#define ALL SIX
#endif
/* Of half the width, and of all; of unpacked weights, and of packed ones, where they are not the same. */
ALL(TILE, 1, 0)
ALL(TILE, 2, 0)
static const cf_integer_function tile_functions[][CF_HIGH + 1] = {{NULL, ALL(ENTRY, 1, 0)}, {NULL, ALL(ENTRY, 2, 0)}};
#if CF_FORM == CF_PAIRS
THREE(TILE, 1, 1)
THREE(TILE, 2, 1)
static const cf_integer_function few_functions[][CF_FEW + 1] = {{NULL, THREE(ENTRY, 1, 1)}, {NULL, THREE(ENTRY, 2, 1)}};
#endif
#undef TILE
#undef ENTRY
#undef THREE
#undef SIX
#undef TWELVE
#undef ALL

/* The weights of `panels` panels for a part of the depth, as words: where they lie, or in `room`. */
static void find_weights(cf_integer_part *p, int64_t panels, int8_t *room) {
    const int64_t all = p->integer->reach.depth * CF_PANEL * CF_QUAD;
    const int8_t *from = (const int8_t *)p->integer->data.weights + p->channel / CF_PANEL * all +
                         p->part.done * CF_PANEL * CF_QUAD;
    p->weights = room == NULL ? from : room;
    p->panel = room == NULL ? all : p->part.depth * CF_QUAD_BYTES;
    if (room == NULL) return;
    for (int64_t i = 0; i < panels; i++) unpack_words(from + i * all, p->part.depth, room + i * p->panel);
}

/* All pixels of a block times tiles that lie side by side from p->channel on. */
static void multiply_block(cf_integer_part *p, const cf_places *places, int64_t count, int64_t channels,
                           int64_t width) {
    const cf_integer *m = p->integer;
    const int in_registers = simple_epilogue(&m->layer, &m->data) && channels == p->panels * width;
    const int64_t panels = ceil_div(channels, CF_PANEL);
    const int half = width < CF_COLUMNS;
    _Alignas(64) float sums[CF_BLOCK * CF_COLUMNS];
    const cf_integer_function *tiles = tile_functions[!half];
    int8_t *room = NULL;
    int64_t most = m->reach.depth;
#if CF_FORM == CF_PAIRS
    _Alignas(64) int8_t words[CF_NEAR];
    if (m->pixels <= CF_FEW) {
        tiles = few_functions[!half];
    } else {
        room = words;
        most = CF_NEAR / (panels * CF_QUAD_BYTES);
    }
#endif
    while (next_part(&m->reach, most, &p->part)) {
        p->first = p->part.done == 0;
        p->last = p->part.done + p->part.depth == m->reach.depth;
        find_weights(p, panels, room);
        for (int64_t at = 0; at < count;) {
            const int64_t rows = tile_rows(count - at, CF_HIGH), alike = tiles_alike(count - at, CF_HIGH);
            tiles[rows](p, alike, places->input + at, sums + at * CF_COLUMNS, in_registers ? places->output + at : NULL,
                        m->data.residual != NULL ? places->residual + at : NULL);
            at += rows * alike;
        }
    }
    if (!in_registers) finish(&m->layer, &m->data, places, 0, count, p->channel, channels, sums, CF_COLUMNS);
}

static void integer_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_integer *m = argument;
    const cf_layer *layer = &m->layer;
    const int64_t share = task % m->shares, block = task / m->shares;
    const int64_t tiles_high = ceil_div(m->pixels, CF_HIGH), tiles_wide = ceil_div(layer->out_channels, CF_COLUMNS);
    const int64_t first = part_start(tiles_high, block, m->blocks) * CF_HIGH;
    const int64_t count = min64(part_start(tiles_high, block + 1, m->blocks) * CF_HIGH, m->pixels) - first;
    const int64_t end = min64(part_start(tiles_wide, share + 1, m->shares) * CF_COLUMNS, layer->out_channels);
    cf_places places;
    place_pixels(&places, layer, &m->data, first, count, 0);
    /* Tiles side by side whose weights stay near: all these channels of a few pixels, then of the next. */
    const int64_t near = CF_NEAR / (m->reach.depth * CF_QUAD_BYTES * (CF_COLUMNS / CF_PANEL));
    const int64_t most = simple_epilogue(layer, &m->data) ? max64(near, 1) : 1;
    for (int64_t channel = part_start(tiles_wide, share, m->shares) * CF_COLUMNS; channel < end;) {
        const int64_t rest = end - channel, width = rest <= CF_COLUMNS / 2 ? CF_COLUMNS / 2 : CF_COLUMNS;
        cf_integer_part part = {.integer = m, .channel = channel, .panels = min64(most, max64(rest / width, 1))};
        const int64_t channels = min64(rest, part.panels * width);
        multiply_block(&part, &places, count, channels, width);
        channel += channels;
    }
}

/* What is to be rounded, and where each tap of the rounded picture lies. */
static void plan_integer(cf_integer *m, cf_rounding *q, const cf_layer *layer, const cf_layer_data *data) {
    const cf_view *in = &layer->input;
    m->layer = *layer;
    m->data = *data;
    m->offset = offset_of(layer);
    q->layer = layer;
    q->output = (cf_number *)data->scratch;
    q->input = data->input + in->first - layer->padding[0] * in->row - layer->padding[1] * in->pixel;
    q->batch = layer->batch;
    q->channels = ceil_div(layer->in_channels, CF_QUAD) * CF_QUAD;
    q->inverse = 1.0f / layer->input_scale;
    q->low = (float)-layer->input_zero;
    q->high = (float)(255 - layer->input_zero);
    q->offset = m->offset;
    int64_t size[2];
    for (int i = 0; i < 2; i++) {
        /* Of a dimension with one tap, nothing between the strides is needed. */
        q->sample[i] = layer->kernel[i] == 1 ? layer->stride[i] : 1;
        m->layer.stride[i] = layer->kernel[i] == 1 ? 1 : layer->stride[i];
        m->layer.padding[i] = 0;
        size[i] = (layer->out[i] - 1) * m->layer.stride[i] + (layer->kernel[i] - 1) * layer->dilation[i] + 1;
    }
    q->rows = size[0];
    q->columns = size[1];
    cf_reach *reach = &m->reach;
    const int64_t quads = q->channels / CF_QUAD, row = q->columns * quads;
    m->layer.input = (cf_view){0, q->rows * row * CF_WORDS, row * CF_WORDS, quads * CF_WORDS};
    m->data.input = data->scratch;
    /* Adjacent taps are one segment. */
    const int64_t together = layer->dilation[1] == 1 ? layer->kernel[1] : 1;
    reach->segments = 0;
    for (int64_t y = 0; y < layer->kernel[0]; y++) {
        for (int64_t x = 0; x < layer->kernel[1]; x += together) {
            reach->offsets[reach->segments++] = y * layer->dilation[0] * row + x * layer->dilation[1] * quads;
        }
    }
    reach->length = together * quads;
    reach->depth = reach->segments * reach->length;
}

static void run_integer(cf_context *context, const cf_layer *layer, const cf_layer_data *data) {
    cf_integer m; /* not cleared: its offsets are more than a small layer's work */
    cf_rounding q;
    plan_integer(&m, &q, layer, data);
    round_input(context, &q);
    m.pixels = layer->batch * layer->out[0] * layer->out[1];
    const int64_t work = m.pixels * m.reach.depth * CF_QUAD * layer->out_channels;
    const int64_t threads = threads_for(context, work, 80);
    const int64_t tiles_high = ceil_div(m.pixels, CF_HIGH), tiles_wide = ceil_div(layer->out_channels, CF_COLUMNS);
    const int64_t bytes = q.channels * (int64_t)sizeof(cf_number) * m.layer.stride[0] * m.layer.stride[1];
    const int64_t most = max64(4, min64(CF_BLOCK_INPUT / bytes, CF_BLOCK) / CF_HIGH);
    divide(threads, 1, tiles_high, tiles_wide, most, &m.blocks, &m.shares);
    run_tasks(context, threads, m.blocks * m.shares, integer_task, &m);
}

#endif
