/*
 * Convolution with sums of integers: the input is rounded into scratch first, then pixels x (KH KW C) times
 * (KH KW C) x channels, in register tiles that read the pixels from there and the weights as they are packed. The sums
 * are exact, so an answer depends neither on threads nor on tiles nor, until the epilogue, on the instruction set.
 */
#ifndef COLDFORGE_INTEGER_H
#define COLDFORGE_INTEGER_H

#include "quantise.h"

/* The most pixels of a tile; it is CF_COLUMNS channels wide, or half of that where no more are left. */
#if CF_LANES == 4 && defined(__wasm__)
enum { CF_HIGH = 3 }; /* of WebAssembly's registers there are 16 on x86-64 */
#else
enum { CF_HIGH = CF_ROWS };
#endif
enum {
    CF_WIDE = CF_COLUMNS / CF_LANES,   /* vectors of a tile */
    CF_NEAR = 16 << 10,                /* bytes of weights that stay in the first-level cache beside some pixels */
    CF_BLOCK_INPUT = 160 << 10         /* bytes of rounded pixels that a block may have, in the second-level cache */
};

typedef struct {
    cf_layer layer;     /* with the rounded input in place of its own, in words */
    cf_layer_data data;
    int64_t pixels, blocks, shares; /* of the batch; tasks for the same channels, and for the same pixels */
    int64_t panel;              /* bytes of a panel of weights */
    int64_t segments, quads;    /* the depth, as runs of adjacent fours */
    int32_t offset;
    int64_t offsets[CF_MAX_TAPS]; /* of the segments from a pixel's first word */
} cf_integer;

/* The products of four input channels. */
INLINE void multiply_quad(const int rows, const int vectors, const int32_t *const *in, int64_t k, const int8_t *weights,
                          int64_t panel, ivec sum[][CF_WIDE]) {
    enum { PER_PANEL = CF_PANEL / CF_LANES };
    UNROLL for (int i = 0; i < CF_WORDS; i++) {
        ivec w[CF_WIDE];
        UNROLL for (int v = 0; v < vectors; v++) {
            w[v] = weights_of(weights + (v / PER_PANEL) * panel + (v % PER_PANEL) * CF_LANES * CF_QUAD, i);
        }
        UNROLL for (int r = 0; r < rows; r++) {
            const ivec word = isplat(in[r][k * CF_WORDS + i]);
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = dot(sum[r][v], word, w[v]);
        }
    }
}

/*
 * `tiles` tiles of `rows` pixels one below the other, `panels` of `vectors` vectors side by side, from `channel` on.
 * outputs NULL: with the bias to sums, CF_COLUMNS floats a pixel. Otherwise clamped, with the residual if any, to
 * outputs[pixel] + channel.
 */
INLINE void integer_tiles(const int rows, const int vectors, const cf_integer *m, int64_t tiles, int64_t panels,
                          const float *const *inputs, int64_t channel, float *sums, float *const *outputs,
                          const float *const *residuals) {
    const int64_t segments = m->segments, quads = m->quads, panel = m->panel, width = vectors * CF_LANES;
    const int64_t end = channel + panels * width;
    const vec low = splat(m->layer.low), high = splat(m->layer.high), input_scale = splat(m->layer.input_scale);
    for (int64_t t = 0; t < tiles; t++) {
        for (int64_t c = channel; c < end; c += width) {
            ivec sum[CF_HIGH][CF_WIDE];
            UNROLL for (int v = 0; v < vectors; v++) {
                const ivec start = start_at(m->data.weight_sums + c + v * CF_LANES, m->offset);
                UNROLL for (int r = 0; r < rows; r++) sum[r][v] = start;
            }
            const int8_t *weights = (const int8_t *)m->data.weights + c / CF_PANEL * panel;
            for (int64_t s = 0; s < segments; s++) {
                const int32_t *in[CF_HIGH];
                UNROLL for (int r = 0; r < rows; r++) in[r] = (const int32_t *)inputs[r] + m->offsets[s];
                for (int64_t k = 0; k < quads; k++) {
                    multiply_quad(rows, vectors, in, k, weights, panel, sum);
                    weights += CF_PANEL * CF_QUAD;
                }
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
                    UNROLL for (int v = 0; v < vectors; v++) {
                        store(sums + (t * rows + r) * CF_COLUMNS + v * CF_LANES, value[r][v]);
                    }
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
        inputs += rows;
        if (outputs != NULL) outputs += rows;
        if (residuals != NULL) residuals += rows;
    }
}

typedef void (*cf_integer_function)(const cf_integer *m, int64_t tiles, int64_t panels, const float *const *inputs,
                                    int64_t channel, float *sums, float *const *outputs,
                                    const float *const *residuals);
#define TILE(rows, vectors)                                                                                        \
    static void integer_##rows##_##vectors(const cf_integer *m, int64_t tiles, int64_t panels,                     \
                                           const float *const *inputs, int64_t channel, float *sums,               \
                                           float *const *outputs, const float *const *residuals) {                 \
        integer_tiles(rows, CF_WIDE / vectors, m, tiles, panels, inputs, channel, sums, outputs, residuals);       \
    }
#define THREE(X, v) X(1, v) X(2, v) X(3, v)
#define SIX(X, v) THREE(X, v) X(4, v) X(5, v) X(6, v)
#define TWELVE(X, v) SIX(X, v) X(7, v) X(8, v) X(9, v) X(10, v) X(11, v) X(12, v)
#define ENTRY(rows, vectors) integer_##rows##_##vectors,
#if CF_LANES == 16
#define ALL TWELVE
#elif CF_LANES == 4 && defined(__wasm__)
#define ALL THREE
#else
#define ALL SIX
#endif
ALL(TILE, 1)
ALL(TILE, 2)
static const cf_integer_function whole_tiles[] = {NULL, ALL(ENTRY, 1)}, half_wide_tiles[] = {NULL, ALL(ENTRY, 2)};
#undef TILE
#undef ENTRY

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
    _Alignas(64) float sums[CF_BLOCK * CF_COLUMNS];
    const int simple = simple_epilogue(layer, &m->data);
    /* Tiles side by side whose weights stay near: all these channels of a few pixels, then of the next. */
    const int64_t near = max64(1, CF_NEAR / (m->panel * (CF_COLUMNS / CF_PANEL)));
    for (int64_t channel = part_start(tiles_wide, share, m->shares) * CF_COLUMNS; channel < end;) {
        const int64_t rest = end - channel, width = rest <= CF_COLUMNS / 2 ? CF_COLUMNS / 2 : CF_COLUMNS;
        const int in_registers = simple && rest >= width;
        const int64_t panels = in_registers ? min64(near, rest / width) : 1, channels = min64(rest, panels * width);
        const cf_integer_function *tiles = width == CF_COLUMNS ? whole_tiles : half_wide_tiles;
        for (int64_t at = 0; at < count;) {
            const int64_t rows = tile_rows(count - at, CF_HIGH), alike = tiles_alike(count - at, CF_HIGH);
            tiles[rows](m, alike, panels, places.input + at, channel, sums + at * CF_COLUMNS,
                        in_registers ? places.output + at : NULL,
                        m->data.residual != NULL ? places.residual + at : NULL);
            at += rows * alike;
        }
        if (!in_registers) {
            finish(layer, &m->data, &places, 0, count, channel, channels, sums, CF_COLUMNS);
        }
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
    m->quads = q->channels / CF_QUAD;
    m->panel = layer->kernel[0] * layer->kernel[1] * m->quads * CF_QUAD * CF_PANEL;
    const int64_t pixel = m->quads * CF_WORDS, row = q->columns * pixel;
    m->layer.input = (cf_view){0, q->rows * row, row, pixel};
    m->data.input = data->scratch;
    /* Adjacent taps are one segment. */
    const int64_t together = layer->dilation[1] == 1 ? layer->kernel[1] : 1;
    m->segments = 0;
    for (int64_t y = 0; y < layer->kernel[0]; y++) {
        for (int64_t x = 0; x < layer->kernel[1]; x += together) {
            m->offsets[m->segments++] = y * layer->dilation[0] * row + x * layer->dilation[1] * pixel;
        }
    }
    m->quads *= together;
}

static void run_integer(cf_context *context, const cf_layer *layer, const cf_layer_data *data) {
    cf_integer m; /* not cleared: its offsets are more than a small layer's work */
    cf_rounding q;
    plan_integer(&m, &q, layer, data);
    round_input(context, &q);
    m.pixels = layer->batch * layer->out[0] * layer->out[1];
    const int64_t work = m.pixels * m.panel / CF_PANEL * layer->out_channels;
    const int64_t threads = threads_for(context, work, 80);
    const int64_t tiles_high = ceil_div(m.pixels, CF_HIGH), tiles_wide = ceil_div(layer->out_channels, CF_COLUMNS);
    const int64_t bytes = q.channels * (int64_t)sizeof(cf_number) * m.layer.stride[0] * m.layer.stride[1];
    const int64_t most = max64(4, min64(CF_BLOCK_INPUT / bytes, CF_BLOCK) / CF_HIGH);
    m.blocks = ceil_div(tiles_high, most);
    m.shares = 1;
    if (threads > 1) {
        /* At least three tasks a thread, as many for each: first by more, smaller blocks, then by channels. */
        const int64_t wanted = 3 * threads;
        if (m.blocks < wanted) m.blocks = max64(m.blocks, min64(wanted, tiles_high / 4));
        if (m.blocks >= threads) m.blocks = min64(ceil_div(m.blocks, threads) * threads, tiles_high);
        m.shares = min64(ceil_div(wanted, m.blocks), tiles_wide);
    }
    run_tasks(context, threads, m.blocks * m.shares, integer_task, &m);
}

#endif
