/*
 * Depthwise convolution with integer sums: one filter for every channel, of bytes where they lie.
 *
 * Channels are in the lanes of the vectors. The bytes that a window has in one column, up to four rows of them, are put
 * into the 32-bit word of their channel, so that one instruction adds all their products (integer_dot.h). Windows of
 * adjacent pixels overlap, and each column's words are made once for all of them.
 */
#ifndef COLDFORGE_INTEGER_DEPTHWISE_H
#define COLDFORGE_INTEGER_DEPTHWISE_H

#include "fused/halo.h"
#include "fused/integer_layer.h"

enum {
    CF_DEPTHWISE_TILE = CF_LANES == 16 ? 8 : 4, /* the most pixels of a tile */
    CF_DEPTHWISE_WIDTH = 5,                     /* the widest kernel whose loops are unrolled, */
    CF_DEPTHWISE_QUADS = 2                      /* and the most fours of its rows */
};

typedef uint8_t unsigned_byte_vec __attribute__((vector_size(CF_LANES), aligned(1), may_alias));

/* A layer and how it is divided among tasks. */
typedef struct {
    const cf_layer *layer;
    const cf_layer_data *data;
    cf_quantiser rounding;
    int32_t offset; /* what a byte that is multiplied is more than byte - zero */
    int64_t quads;  /* fours of rows of the kernel */
    int64_t row_tasks, channel_block, channel_blocks;
} cf_integer_depthwise;

/* A vector's channels of adjacent pixels in a row of the output. */
typedef struct {
    const cf_integer_depthwise *depthwise;
    const int8_t *input, *weights; /* the first pixel's window; the weights of these channels */
    int64_t row, column, step;     /* bytes from row to row of a window, from column to column, from window to window */
    int64_t pixels, channel, n;    /* n of the vector's channels are there */
    vec factor, bias;
    ivec start;
    int8_t *bytes;  /* of the first pixel, or NULL */
    int32_t *sums;  /* likewise, where they are what is stored */
    int64_t output; /* elements between pixels of either */
} cf_byte_strip;

/* The bytes of CF_LANES channels, one in each word. Some may be those of another pixel, which nothing uses. */
INLINE unsigned_ivec load_words(const int8_t *from) {
    const unsigned_ivec words = __builtin_convertvector(*(const unsigned_byte_vec *)(const void *)from, unsigned_ivec);
    return CF_FORM == CF_PAIRS && CF_BYTES_LESS > 0 ? words ^ 0x80 : words;
}

/* Words of `rows` rows, 1 to 4, of a column, as they are multiplied: CF_WORDS of them. rows: a constant, mostly. */
INLINE void column_words(const int8_t *from, int64_t row, int64_t rows, ivec *words) {
    enum { SECOND = CF_WORDS - 1 }; /* of pairs, the odd rows are in a second word */
    unsigned_ivec first = load_words(from), second = {0};
    if (CF_FORM == CF_PAIRS) {
        if (rows > 1) second = load_words(from + row);
        if (rows > 2) first |= load_words(from + 2 * row) << 16;
        if (rows > 3) second |= load_words(from + 3 * row) << 16;
        words[SECOND] = (ivec)second;
    } else {
        if (rows > 1) first |= load_words(from + row) << 8;
        if (rows > 2) first |= load_words(from + 2 * row) << 16;
        if (rows > 3) first |= load_words(from + 3 * row) << 24;
    }
    words[0] = (ivec)first;
}

INLINE void add_products(ivec *sum, const ivec *words, const ivec *weights) {
    UNROLL for (int i = 0; i < CF_WORDS; i++) *sum = dot_lanes(*sum, words[i], weights[i]);
}

/* The weights of a column's four rows: CF_WORDS words. */
INLINE void column_weights(const int8_t *weights, ivec *words) {
    UNROLL for (int i = 0; i < CF_WORDS; i++) words[i] = weight_word(weights, i);
}

/* Dequantise, round and store the sums of `tile` pixels from number `at` on. */
INLINE void store_pixels(const int tile, const cf_byte_strip *s, int64_t at, const ivec *sum) {
    if (s->sums != NULL) {
        for (int u = 0; u < tile; u++) {
            memcpy(s->sums + (at + u) * s->output, &sum[u], (size_t)s->n * sizeof(int32_t));
        }
        return;
    }
    const cf_quantiser rounding = s->depthwise->rounding;
    int8_t *to = s->bytes + at * s->output;
    int u = 0;
    if (s->n == CF_LANES) {
        UNROLL for (; u + 1 < tile; u += 2) {
            const vec one = __builtin_convertvector(sum[u], vec) * s->factor + s->bias,
                      next = __builtin_convertvector(sum[u + 1], vec) * s->factor + s->bias;
            store_two(to, to + s->output, rounded(&rounding, one), rounded(&rounding, next));
            to += 2 * s->output;
        }
    }
    for (; u < tile; u++, to += s->output) {
        store_bytes(to, rounded(&rounding, __builtin_convertvector(sum[u], vec) * s->factor + s->bias), s->n);
    }
}

/* `tile` pixels from number `at` on, by a kernel of constant width and height, and stride 1 or 2: dense in its input. */
INLINE void depthwise_tile(const int width, const int height, const int stride, const int tile, const cf_byte_strip *s,
                           int64_t at) {
    enum { WORDS = CF_WORDS };
    ivec sum[CF_DEPTHWISE_TILE];
    UNROLL for (int u = 0; u < tile; u++) sum[u] = s->start;
    const int quads = (height + 3) / 4;
    UNROLL for (int q = 0; q < quads; q++) {
        ivec weights[CF_DEPTHWISE_WIDTH][WORDS];
        UNROLL for (int x = 0; x < width; x++) {
            column_weights(s->weights + (x * quads + q) * CF_PANEL * CF_QUAD, weights[x]);
        }
        const int8_t *from = s->input + at * s->step + q * CF_QUAD * s->row;
        UNROLL for (int i = 0; i < (tile - 1) * stride + width; i++) {
            ivec words[WORDS];
            column_words(from, s->row, height - q * CF_QUAD < CF_QUAD ? height - q * CF_QUAD : CF_QUAD, words);
            UNROLL for (int u = 0; u < tile; u++) {
                const int x = i - u * stride;
                if (x >= 0 && x < width) add_products(&sum[u], words, weights[x]);
            }
            from += s->column;
        }
    }
    store_pixels(tile, s, at, sum);
}

/* The same of one pixel, by any kernel. */
static void depthwise_pixel(const cf_byte_strip *s, int64_t at) {
    const cf_layer *layer = s->depthwise->layer;
    ivec sum = s->start;
    const int8_t *weights = s->weights;
    for (int64_t x = 0; x < layer->kernel[1]; x++) {
        const int8_t *from = s->input + at * s->step + x * s->column;
        for (int64_t y = 0; y < layer->kernel[0]; y += CF_QUAD) {
            ivec words[CF_WORDS], column[CF_WORDS];
            const int64_t rows = layer->kernel[0] - y;
            if (rows >= CF_QUAD) {
                column_words(from + y * s->row, s->row, CF_QUAD, words);
            } else {
                column_words(from + y * s->row, s->row, rows, words);
            }
            column_weights(weights, column);
            add_products(&sum, words, column);
            weights += CF_PANEL * CF_QUAD;
        }
    }
    store_pixels(1, s, at, &sum);
}

/* All pixels of a strip, in tiles, the last of which may overlap the one before. */
INLINE void depthwise_strip(const int width, const int height, const int stride, const cf_byte_strip *strip) {
    const cf_byte_strip s = *strip; /* a copy, which no store can alias */
    const int64_t pixels = s.pixels, tile = balanced_mr(pixels, CF_DEPTHWISE_TILE);
#define TILES(count)                                                                                                   \
    for (int64_t at = 0; at < pixels; at += count) {                                                                   \
        depthwise_tile(width, height, stride, count, &s, min64(at, pixels - count));                                   \
    }
    if (CF_DEPTHWISE_TILE == 8 && tile > 6 && pixels >= 8) {
        TILES(8)
    } else if (CF_DEPTHWISE_TILE == 8 && tile > 5 && pixels >= 6) {
        TILES(6)
    } else if (CF_DEPTHWISE_TILE == 8 && tile > 4) {
        TILES(5)
    } else if (tile > 3) {
        TILES(4)
    } else if (tile > 2) {
        TILES(3)
    } else {
        TILES(1)
    }
#undef TILES
}

typedef void (*cf_byte_strip_function)(const cf_byte_strip *s);
static void bytes_3_1(const cf_byte_strip *s) { depthwise_strip(3, 3, 1, s); }
static void bytes_3_2(const cf_byte_strip *s) { depthwise_strip(3, 3, 2, s); }
static void bytes_5_1(const cf_byte_strip *s) { depthwise_strip(5, 5, 1, s); }
static void bytes_5_2(const cf_byte_strip *s) { depthwise_strip(5, 5, 2, s); }
static void bytes_any(const cf_byte_strip *s) {
    for (int64_t at = 0; at < s->pixels; at++) depthwise_pixel(s, at);
}

static cf_byte_strip_function find_byte_strip(const cf_layer *layer) {
    const int64_t size = layer->kernel[0], stride = layer->stride[1];
    if (layer->kernel[1] != size || layer->dilation[1] != 1 || stride > 2) return bytes_any;
    if (size == 3) return stride == 1 ? bytes_3_1 : bytes_3_2;
    if (size == 5) return stride == 1 ? bytes_5_1 : bytes_5_2;
    return bytes_any;
}

/* Channels `channel` to `end` of a row of the output. */
static void depthwise_byte_row(const cf_integer_depthwise *d, cf_byte_strip_function run, int64_t image, int64_t row,
                               int64_t channel, int64_t end) {
    const cf_layer *layer = d->layer;
    const cf_layer_data *data = d->data;
    const cf_view *in = &layer->input, *out = layer->stores_sums ? &layer->output : &layer->rounded;
    const int8_t *input = (const int8_t *)data->input + in->first + image * in->image +
                          (row * layer->stride[0] - layer->padding[0]) * in->row - layer->padding[1] * in->pixel;
    const int64_t first = out->first + image * out->image + row * out->row, taps = layer->kernel[1] * d->quads;
    cf_byte_strip s = {.depthwise = d, .row = layer->dilation[0] * in->row, .column = layer->dilation[1] * in->pixel};
    s.step = layer->stride[1] * in->pixel;
    s.pixels = layer->out[1];
    s.output = out->pixel;
    for (int64_t c = channel; c < end; c += CF_LANES) {
        s.input = input + c;
        s.weights = (const int8_t *)data->weights + c / CF_PANEL * taps * CF_PANEL * CF_QUAD + c % CF_PANEL * CF_QUAD;
        s.channel = c;
        s.n = min64(CF_LANES, end - c);
        s.factor = load(data->weight_scale + c) * splat(layer->input_scale);
        s.bias = load(data->bias + c);
        s.start = initial_sums(data, c, d->offset);
        if (layer->stores_sums) {
            s.sums = (int32_t *)(void *)data->output + first + c;
        } else {
            s.bytes = stored_bytes(data) + first + c;
        }
        run(&s);
    }
}

static void integer_depthwise_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_integer_depthwise *d = argument;
    const int64_t block = task % d->channel_blocks, row_task = task / d->channel_blocks;
    const int64_t rows = d->layer->batch * d->layer->out[0], channel = block * d->channel_block;
    const int64_t end = min64(channel + d->channel_block, d->layer->out_channels);
    const cf_byte_strip_function run = find_byte_strip(d->layer);
    for (int64_t row = part_start(rows, row_task, d->row_tasks); row < part_start(rows, row_task + 1, d->row_tasks); row++) {
        depthwise_byte_row(d, run, row / d->layer->out[0], row % d->layer->out[0], channel, end);
    }
}

/* A depthwise layer whose input is bytes, and whose output are bytes or sums. */
static void run_integer_depthwise(cf_context *context, const cf_layer *layer, const cf_layer_data *data,
                                  cf_halos *halos) {
    cf_integer_depthwise d = {.layer = layer, .data = data, .quads = ceil_div(layer->kernel[0], CF_QUAD)};
    d.offset = layer->input_zero - (CF_FORM == CF_SIGNED ? 128 : 0);
    if (!layer->stores_sums) d.rounding = sums_quantiser(layer, data);
    const int64_t rows = layer->batch * layer->out[0], channels = layer->out_channels;
    const int64_t threads = threads_for(context, rows * layer->out[1] * layer->kernel[0] * layer->kernel[1] * channels, 40);
    d.row_tasks = threads == 1 ? 1 : min64(rows, 4 * threads);
    d.channel_block = channels;
    if (threads > 1 && d.row_tasks < threads) d.channel_block = ceil_div(ceil_div(channels, threads), CF_PANEL) * CF_PANEL;
    d.channel_blocks = ceil_div(channels, d.channel_block);
    run_with_halos(context, halos, threads, d.row_tasks * d.channel_blocks, integer_depthwise_task, &d);
}

#endif
