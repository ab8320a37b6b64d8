/*
 * The algorithm "thin": a convolution with few output channels for each group. In a tile of GEMM output channels lie in
 * the lanes, and most lanes would be idle; here pixels do.
 *
 * A task computes a block of pixels. It first copies the block's input into planes, one for each channel, with rows
 * `width` apart. The output in row r and column c then has the position r * width + c, each tap has an offset, and a
 * sum is that of the inputs at position + offset. So all positions of a block are one long vector, whatever kernel,
 * padding and dilation. The few between two rows are nobody's output.
 *
 * With strides, every `stride`th pixel lies in the same plane (a phase): neighbouring outputs read neighbouring inputs.
 */
#ifndef COLDFORGE_THIN_H
#define COLDFORGE_THIN_H

#include "fused/epilogue.h"
#include "fused/halo.h"
#include "fused/transpose.h"

enum {
    CF_THIN_CHANNELS = 8, /* the most output channels of a tile */
    CF_THIN_VECTORS = 8,  /* the most vectors of positions */
    CF_THIN_REACH = 128   /* floats that a tile may reach past the last position */
};

typedef struct {
    const cf_layer *layer;
    const cf_layer_data *data;
    int64_t row_blocks, column_blocks;       /* tasks for one group of a picture */
    int64_t group_in_channels, group_out_channels;
    int64_t width, plane, planes;            /* floats of a row, of a plane, of all planes of a task */
    int64_t sums, scratch;                   /* floats of an output channel's sums; of a thread's scratch */
    int64_t offsets[CF_MAX_TAPS];
} cf_thin;

/* A block of a task: pixels of one group of a picture. */
typedef struct {
    int64_t image, group, row, rows, column, columns;
    int64_t positions;
} cf_thin_block;

/* What the tiles of a block have in common. */
typedef struct {
    const float *planes, *weights, *bias; /* weights: [tap][input channel][weights_row] */
    const int64_t *offsets;
    int64_t taps, channels, plane;
    float *sums;
    int64_t weights_row, sums_row;
    vec low, high;
} cf_thin_params;

/* sums[channel][position] = clamp(products + bias) of `channels` output channels and `vectors` vectors of positions
 * from `at` on; both are constants. */
INLINE void thin_microkernel(const int channels, const int vectors, const cf_thin_params *p, int64_t at) {
    vec sum[CF_THIN_CHANNELS][CF_THIN_VECTORS];
    UNROLL for (int j = 0; j < channels; j++) { UNROLL for (int v = 0; v < vectors; v++) sum[j][v] = zero(); }
    const float *weights = p->weights;
    const int64_t plane = p->plane;
    for (int64_t tap = 0; tap < p->taps; tap++) {
        const float *in = p->planes + p->offsets[tap] + at;
        for (int64_t c = 0; c < p->channels; c++) {
            if (vectors <= channels) { /* the fewer of the two wait in registers */
                vec x[CF_THIN_VECTORS];
                UNROLL for (int v = 0; v < vectors; v++) x[v] = load(in + v * CF_LANES);
                UNROLL for (int j = 0; j < channels; j++) {
                    const vec w = splat(weights[j]);
                    UNROLL for (int v = 0; v < vectors; v++) sum[j][v] += w * x[v];
                }
            } else {
                vec w[CF_THIN_CHANNELS];
                UNROLL for (int j = 0; j < channels; j++) w[j] = splat(weights[j]);
                UNROLL for (int v = 0; v < vectors; v++) {
                    const vec x = load(in + v * CF_LANES);
                    UNROLL for (int j = 0; j < channels; j++) sum[j][v] += w[j] * x;
                }
            }
            weights += p->weights_row;
            in += plane;
        }
    }
    UNROLL for (int j = 0; j < channels; j++) {
        const vec bias = splat(p->bias[j]);
        float *to = p->sums + j * p->sums_row + at;
        UNROLL for (int v = 0; v < vectors; v++) store(to + v * CF_LANES, clamp(sum[j][v] + bias, p->low, p->high));
    }
}

/* All positions, in tiles of `vectors` vectors. What is left then is less work in single vectors, if it is so little
 * that waiting for their sums does not outweigh that. */
INLINE void thin_tiles(const int channels, const int vectors, const cf_thin_params *params, int64_t positions) {
    const cf_thin_params p = *params; /* a copy, which no store can alias */
    enum { LATENCY = 4 }; /* of a multiply-add, in such instructions */
    const int alone = channels > LATENCY ? channels : LATENCY;
    for (int64_t at = 0; at < positions;) {
        if (ceil_div(positions - at, CF_LANES) * alone < channels * vectors) {
            thin_microkernel(channels, 1, &p, at);
            at += CF_LANES;
        } else {
            thin_microkernel(channels, vectors, &p, at);
            at += vectors * CF_LANES;
        }
    }
}

typedef void (*cf_thin_function)(const cf_thin_params *params, int64_t positions);
#define THIN(channels, vectors)                                                                                        \
    static void thin_##channels(const cf_thin_params *params, int64_t positions) {                                     \
        thin_tiles(channels, vectors, params, positions);                                                              \
    }

/* By the number of output channels. Vectors of positions: so many that their sums, and the inputs or the weights, fit
 * into the registers, of which there are 32 or 16. */
#if defined(__AVX512F__) || defined(__ARM_NEON)
THIN(1, 8)
THIN(2, 8)
THIN(3, 8)
THIN(4, 6)
THIN(5, 4)
THIN(6, 4)
THIN(7, 3)
THIN(8, 3)
#else
THIN(1, 8)
THIN(2, 6)
THIN(3, 3)
THIN(4, 2)
THIN(5, 2)
THIN(6, 2)

/* Four output channels, then the others: more would leave registers for one vector of positions alone. */
INLINE void thin_parts(cf_thin_function others, const cf_thin_params *params, int64_t positions) {
    cf_thin_params rest = *params;
    rest.weights += 4;
    rest.bias += 4;
    rest.sums += 4 * rest.sums_row;
    thin_4(params, positions);
    others(&rest, positions);
}
static void thin_7(const cf_thin_params *params, int64_t positions) { thin_parts(thin_3, params, positions); }
static void thin_8(const cf_thin_params *params, int64_t positions) { thin_parts(thin_4, params, positions); }
#endif
#undef THIN

static const cf_thin_function thin_functions[] = {NULL,   thin_1, thin_2, thin_3, thin_4,
                                                  thin_5, thin_6, thin_7, thin_8};

/* to[c * to_row + r] = from[r * from_row + c] for r < rows and c < columns. Nothing else is written, and
 * read only within the first and last number. */
static __attribute__((noinline)) void transpose(float *to, int64_t to_row, const float *from, int64_t from_row, int64_t rows, int64_t columns) {
    if (rows == 1 && to_row == 1) {
        memcpy(to, from, (size_t)columns * sizeof *to);
    } else if (columns == 1 && from_row == 1) {
        memcpy(to, from, (size_t)rows * sizeof *to);
    } else if (rows > 4 && (columns == 2 || columns == 3)) {
        /* Blocks as below, of which one or two columns are the next row's. The last row has none behind it. */
        int64_t r = 0;
        for (; r + 4 < rows; r += 4) {
            const float *in = from + r * from_row;
            quad block[4];
            UNROLL for (int i = 0; i < 4; i++) block[i] = *(const loose_quad *)(in + i * from_row);
            transpose_quads(block);
            *(loose_quad *)(to + r) = block[0];
            *(loose_quad *)(to + to_row + r) = block[1];
            if (columns == 3) *(loose_quad *)(to + 2 * to_row + r) = block[2];
        }
        for (; r < rows; r++) {
            for (int64_t c = 0; c < columns; c++) to[c * to_row + r] = from[r * from_row + c];
        }
    } else if (rows < 4 || columns < 4) {
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t c = 0; c < columns; c++) to[c * to_row + r] = from[r * from_row + c];
        }
    } else {
        /* The last blocks overlap those before. */
        for (int64_t c = 0; c < columns; c += 4) {
            const int64_t column = min64(c, columns - 4);
            for (int64_t r = 0; r < rows; r += 4) {
                const int64_t row = min64(r, rows - 4);
                const float *in = from + row * from_row + column;
                float *out = to + column * to_row + row;
                quad block[4];
                UNROLL for (int i = 0; i < 4; i++) block[i] = *(const loose_quad *)(in + i * from_row);
                transpose_quads(block);
                UNROLL for (int i = 0; i < 4; i++) *(loose_quad *)(out + i * to_row) = block[i];
            }
        }
    }
}

/* Whether any tap along an axis reads pixels of this phase. */
INLINE int thin_phase_is_read(const cf_layer *layer, int axis, int64_t phase) {
    for (int64_t tap = 0; tap < layer->kernel[axis]; tap++) {
        if (tap * layer->dilation[axis] % layer->stride[axis] == phase) return 1;
    }
    return 0;
}

/* Copy the block's input into the planes of one phase. What lies between and behind its rows stays as it is: no output
 * reads that. */
static void thin_pack_phase(const cf_thin *t, const cf_thin_block *b, int64_t down, int64_t across, float *planes) {
    const cf_layer *layer = t->layer;
    const cf_view *in = &layer->input;
    const int64_t row_stride = layer->stride[0], stride = layer->stride[1], channels = t->group_in_channels;
    /* The pixels under the block's windows. */
    const int64_t rows = (b->rows - 1) * row_stride + (layer->kernel[0] - 1) * layer->dilation[0] + 1;
    const int64_t columns = (b->columns - 1) * stride + (layer->kernel[1] - 1) * layer->dilation[1] + 1;
    const int64_t own_rows = ceil_div(rows - down, row_stride), own_columns = ceil_div(columns - across, stride);
    const float *from = t->data->input + in->first + b->image * in->image + b->group * channels +
                        (b->row * row_stride - layer->padding[0] + down) * in->row +
                        (b->column * stride - layer->padding[1] + across) * in->pixel;
    for (int64_t row = 0; row < own_rows; row++) {
        transpose(planes + row * t->width, t->plane, from + row * row_stride * in->row, stride * in->pixel, own_columns,
                  channels);
    }
}

/* Whether sums become outputs one by one, so that their pixels may lie in the lanes. */
INLINE int plain_epilogue(const cf_layer_data *data) {
    return data->residual == NULL && data->slopes == NULL && !has_second(data) && stored_bytes(data) == NULL;
}

/* The epilogue of `count` output channels from `channel` on, and the way back to pixels of adjacent channels. */
static void thin_store(const cf_thin *t, const cf_thin_block *b, int64_t channel, int64_t count, float *sums) {
    const cf_layer *layer = t->layer;
    const cf_layer_data *data = t->data;
    cf_pixel_pointers pointers;
    if (plain_epilogue(data)) {
        if (layer->activation != CF_CLAMP) { /* else thin_microkernel did it; in place, with pixels in the lanes */
            for (int64_t j = 0; j < count; j++) pointers.output[j] = sums + j * t->sums;
            run_epilogue(layer, data, &pointers, 0, count, 0, b->positions, sums, t->sums);
        }
        for (int64_t row = 0; row < b->rows; row++) {
            set_output_pointers(&pointers, 0, layer, data, b->image, b->row + row, b->column);
            transpose(pointers.output[0] + channel, layer->output.pixel, sums + row * t->width, t->sums, count,
                      b->columns);
        }
        return;
    }
    _Alignas(64) float pixels[CF_MC * CF_PANEL];
    for (int64_t row = 0; row < b->rows; row++) {
        for (int64_t column = 0; column < b->columns; column += CF_MC) {
            const int64_t some = min64(CF_MC, b->columns - column);
            for (int64_t i = 0; i < some; i++) {
                set_output_pointers(&pointers, i, layer, data, b->image, b->row + row, b->column + column + i);
            }
            transpose(pixels, CF_PANEL, sums + row * t->width + column, t->sums, count, some);
            run_epilogue(layer, data, &pointers, 0, some, channel, count, pixels, CF_PANEL);
        }
    }
}

static void thin_task(void *argument, int64_t task, uint32_t thread) {
    const cf_thin *t = argument;
    const cf_layer *layer = t->layer;
    const int64_t column_block = task % t->column_blocks, row_block = task / t->column_blocks % t->row_blocks;
    const int64_t matrix = task / t->column_blocks / t->row_blocks;
    cf_thin_block b = {.image = matrix / layer->groups, .group = matrix % layer->groups};
    b.row = part_start(layer->out[0], row_block, t->row_blocks);
    b.rows = part_start(layer->out[0], row_block + 1, t->row_blocks) - b.row;
    b.column = part_start(layer->out[1], column_block, t->column_blocks);
    b.columns = part_start(layer->out[1], column_block + 1, t->column_blocks) - b.column;
    b.positions = (b.rows - 1) * t->width + b.columns;
    float *planes = t->data->scratch + (int64_t)thread * t->scratch, *sums = planes + t->planes;
    for (int64_t down = 0; down < layer->stride[0]; down++) {
        for (int64_t across = 0; across < layer->stride[1]; across++) {
            if (!thin_phase_is_read(layer, 0, down) || !thin_phase_is_read(layer, 1, across)) continue;
            thin_pack_phase(t, &b, down, across,
                            planes + (down * layer->stride[1] + across) * t->group_in_channels * t->plane);
        }
    }
    const int clamped = layer->activation == CF_CLAMP && plain_epilogue(t->data);
    cf_thin_params p = {.planes = planes, .offsets = t->offsets, .sums = sums, .sums_row = t->sums};
    p.taps = layer->kernel[0] * layer->kernel[1];
    p.channels = t->group_in_channels;
    p.plane = t->plane;
    p.low = splat(clamped ? layer->low : -__builtin_inff());
    p.high = splat(clamped ? layer->high : __builtin_inff());
    const int64_t tiles = ceil_div(t->group_out_channels, CF_THIN_CHANNELS);
    for (int64_t tile = 0; tile < tiles; tile++) {
        const int64_t first = part_start(t->group_out_channels, tile, tiles);
        const int64_t count = part_start(t->group_out_channels, tile + 1, tiles) - first;
        const int64_t channel = b.group * t->group_out_channels + first;
        /* Always float32: see builder/compiler/lower/packing.py. */
        p.weights = (const float *)t->data->weights + channel * p.taps * p.channels;
        p.bias = t->data->bias + channel;
        p.weights_row = count;
        thin_functions[count](&p, b.positions);
        thin_store(t, &b, channel, count, sums);
    }
}

static void run_thin(cf_context *context, const cf_layer *layer, const cf_layer_data *data, cf_halos *halos) {
    cf_thin t; /* not cleared: its offsets are more than a small layer's work */
    const int64_t taps = layer->kernel[0] * layer->kernel[1];
    int64_t reach[2];
    for (int axis = 0; axis < 2; axis++) {
        reach[axis] = (layer->kernel[axis] - 1) * layer->dilation[axis] / layer->stride[axis];
    }
    t.layer = layer;
    t.data = data;
    t.group_in_channels = layer->in_channels / layer->groups;
    t.group_out_channels = layer->out_channels / layer->groups;
    t.width = layer->block[1] + reach[1];
    t.plane = odd_lines((layer->block[0] + reach[0]) * t.width + CF_THIN_REACH);
    t.planes = layer->stride[0] * layer->stride[1] * t.group_in_channels * t.plane;
    t.sums = odd_lines(layer->block[0] * t.width + CF_THIN_REACH);
    t.scratch = t.planes + min64(CF_THIN_CHANNELS, t.group_out_channels) * t.sums;
    for (int64_t tap = 0; tap < taps; tap++) {
        const int64_t y = tap / layer->kernel[1] * layer->dilation[0], x = tap % layer->kernel[1] * layer->dilation[1];
        const int64_t phase = y % layer->stride[0] * layer->stride[1] + x % layer->stride[1];
        t.offsets[tap] = phase * t.group_in_channels * t.plane + y / layer->stride[0] * t.width + x / layer->stride[1];
    }
    t.row_blocks = ceil_div(layer->out[0], layer->block[0]);
    t.column_blocks = ceil_div(layer->out[1], layer->block[1]);
    const int64_t pixels = layer->out[0] * layer->out[1], matrices = layer->batch * layer->groups;
    const int64_t work = layer->batch * pixels * layer->out_channels * taps * t.group_in_channels;
    const int64_t threads = threads_for(context, work, 40);
    if (threads > 1) {
        /* About three tasks for each thread, equally many for all. */
        const int64_t wanted = ceil_div(ceil_div(3 * threads, matrices), t.column_blocks);
        t.row_blocks = min64(layer->out[0], max64(t.row_blocks, wanted));
        if (t.row_blocks == layer->out[0]) {
            t.column_blocks = max64(t.column_blocks, min64(ceil_div(3 * threads, matrices * t.row_blocks),
                                                           layer->out[1] / (CF_THIN_VECTORS * CF_LANES)));
        }
    }
    run_with_halos(context, halos, threads, matrices * t.row_blocks * t.column_blocks, thin_task, &t);
}

#endif
