/*
 * 3x3 convolution with stride 1 by Winograd's minimal filtering, F(2x2, 3x3) and F(4x4, 3x3) (Lavin and Gray, "Fast
 * Algorithms for Convolutional Neural Networks", 2015).
 *
 * A band is a number of tiles that are transformed together. For each band: transform the input, all channels. Then,
 * for each CF_NR output channels: transform the weights into scratch, CF_WINOGRAD_KC input channels at a time, run one
 * GEMM for each of the 16 or 36 points, and transform the products back. Weights stay untransformed in the library,
 * and each is transformed once for each band. While a block of them is multiplied, the next one is prefetched: to wait
 * for weights that come from memory would take as long as to multiply. Several threads share a band, or, where each has
 * tiles enough, every thread does all of this for tiles of its own.
 * Where the layer rounds its input to bytes, tiles of the rounded numbers are transformed.
 *
 * Scratch: the band's input [points][tiles][channels + 16]; then, with more tiles, for each thread weights
 * [points][panels][channels][16] and products [points][tiles][CF_NR]. See scratch_size in builder/compiler/lower/packing.py.
 */
#ifndef COLDFORGE_WINOGRAD_H
#define COLDFORGE_WINOGRAD_H

#include "fused/gemm_microkernel.h"
#include "fused/dequantise.h"

enum {
    CF_WINOGRAD_KC = 128,        /* input channels whose transformed weights are in scratch */
    CF_WINOGRAD_FEW_KC = 64,     /* with few tiles, which leave them in the second-level cache for a short time only */
    CF_WINOGRAD_MC = 24,         /* tiles whose products are in scratch, and what few tiles are */
    CF_FEW_TILES = 4,            /* the most that are multiplied at all points at once, */
    CF_FEW_TILES_KC = 4,         /* with the weights of so many input channels */
    CF_TASK_TILES = 4,           /* input tiles that a task transforms */
    CF_OWN_TILES = 12,           /* the fewest for which a thread transforms weights that others transform, too */
    CF_WINOGRAD_DEQUANTISED = 16 /* input channels whose weights are dequantised at a time */
};

typedef struct {
    const cf_layer *layer;
    const cf_layer_data *data;
    int size;                          /* 2 or 4: output pixels of a tile's side */
    int64_t points, across, down;      /* tiles of a picture */
    int64_t first, count;              /* tiles of this band */
    int64_t row, plane;                /* of the transformed input, floats */
    int64_t panel_u, plane_u, plane_m; /* of a thread's scratch, floats */
    int64_t thread_scratch;            /* floats of one thread's scratch */
    int64_t kc;                        /* input channels whose weights are transformed together */
    int64_t mc;                        /* tiles whose products are in scratch */
    int64_t task_tiles, m_blocks;      /* tiles of a task; tasks for the same channels */
    int64_t parts;                     /* of the tiles, where threads have their own */
    cf_quantiser rounding;             /* of the input, for CF_INTEGER_WINOGRAD4 */
    float *input, *threads;
} cf_winograd;

/* The input transform in one dimension: d[0], d[step], ... = B^T d. */
INLINE void input_transform(const int size, vec *d, const int step) {
    if (size == 2) {
        const vec a = d[0] - d[2 * step], b = d[step] + d[2 * step], c = d[2 * step] - d[step];
        d[3 * step] = d[step] - d[3 * step];
        d[0] = a, d[step] = b, d[2 * step] = c;
        return;
    }
    const vec four = splat(4.0f), five = splat(5.0f), two = splat(2.0f);
    const vec d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step], d5 = d[5 * step];
    const vec p = d4 - four * d2, q = d3 - four * d1, r = d4 - d2, t = two * (d3 - d1);
    d[0] = four * d0 - five * d2 + d4;
    d[step] = p + q;
    d[2 * step] = p - q;
    d[3 * step] = r + t;
    d[4 * step] = r - t;
    d[5 * step] = four * d1 - five * d3 + d5;
}

/* The weight transform in one dimension: o = G g, of three weights. */
INLINE void weight_transform(const int size, const vec *g, const int step, vec *o, const int out_step) {
    const vec g0 = g[0], g1 = g[step], g2 = g[2 * step], even = g0 + g2;
    if (size == 2) {
        const vec half = splat(0.5f);
        o[0] = g0;
        o[out_step] = half * (even + g1);
        o[2 * out_step] = half * (even - g1);
        o[3 * out_step] = g2;
        return;
    }
    const vec sixth = splat(-1.0f / 6), p = splat(1.0f / 24) * g0 + splat(1.0f / 6) * g2, q = splat(1.0f / 12) * g1;
    o[0] = splat(0.25f) * g0;
    o[out_step] = sixth * (even + g1);
    o[2 * out_step] = sixth * (even - g1);
    o[3 * out_step] = p + q;
    o[4 * out_step] = p - q;
    o[5 * out_step] = g2;
}

/* The output transform in one dimension: o = A^T m, from products to `size` outputs. */
INLINE void output_transform(const int size, const vec *m, const int step, vec *o, const int out_step) {
    if (size == 2) {
        o[0] = m[0] + m[step] + m[2 * step];
        o[out_step] = m[step] - m[2 * step] - m[3 * step];
        return;
    }
    const vec a = m[step] + m[2 * step], b = m[step] - m[2 * step];
    const vec c = m[3 * step] + m[4 * step], d = m[3 * step] - m[4 * step];
    o[0] = m[0] + a + c;
    o[out_step] = b + splat(2.0f) * d;
    o[2 * out_step] = a + splat(4.0f) * c;
    o[3 * out_step] = b + splat(8.0f) * d + m[5 * step];
}

/* Find the picture and the first output pixel of tile number `tile` of the batch. */
INLINE void find_tile(const cf_winograd *w, int64_t tile, int64_t *image, int64_t *row, int64_t *column) {
    const int64_t in_picture = tile % (w->across * w->down);
    *image = tile / (w->across * w->down);
    *row = in_picture / w->across * w->size;
    *column = in_picture % w->across * w->size;
}

/* What a tile's input is: floats, floats that are rounded first, or bytes. */
typedef enum { CF_TILE_FLOATS, CF_TILE_ROUNDED, CF_TILE_BYTES } cf_tile_input;

/* CF_LANES numbers of the input from number `at` of its buffer on. */
INLINE vec load_tile(const cf_tile_input form, const cf_winograd *w, int64_t at) {
    if (form == CF_TILE_FLOATS) return load(w->data->input + at);
    const cf_layer *layer = w->layer;
    ivec steps;
    if (form == CF_TILE_ROUNDED) {
        steps = rounded(&w->rounding, load(w->data->input + at));
    } else {
        const loose_byte_vec *bytes = (const loose_byte_vec *)((const int8_t *)w->data->input + at);
#if CF_BYTES_LESS == 0
        typedef uint8_t unsigned_byte_vec __attribute__((vector_size(CF_LANES)));
        steps = __builtin_convertvector((unsigned_byte_vec)*bytes, ivec) - isplat(layer->input_zero);
#else
        steps = __builtin_convertvector((byte_vec)*bytes, ivec) + isplat(CF_BYTES_LESS - layer->input_zero);
#endif
    }
    return __builtin_convertvector(steps, vec) * splat(layer->input_scale);
}

INLINE void transform_input_tile(const int size, const cf_tile_input form, const cf_winograd *w, int64_t tile) {
    enum { MOST = 6 };
    const int side = size + 2;
    const cf_layer *layer = w->layer;
    const cf_view *in = &layer->input;
    int64_t image, row, column;
    find_tile(w, w->first + tile, &image, &row, &column);
    const int64_t from = in->first + image * in->image + (row - layer->padding[0]) * in->row +
                         (column - layer->padding[1]) * in->pixel;
    /* The last tiles reach past the halo. What they read there is zero, and goes into outputs that are not stored. */
    const int64_t rows = min64(side, layer->out[0] + 2 - row), columns = min64(side, layer->out[1] + 2 - column);
    float *to = w->input + tile * w->row;
    for (int64_t begin = 0; begin < layer->in_channels; begin += CF_LANES) {
        const int64_t c = min64(begin, layer->in_channels - CF_LANES); /* the last may overlap that before */
        vec d[MOST * MOST];
        if (rows == side && columns == side) {
            UNROLL for (int y = 0; y < side; y++) {
                UNROLL for (int x = 0; x < side; x++) {
                    d[y * side + x] = load_tile(form, w, from + y * in->row + x * in->pixel + c);
                }
            }
        } else {
            for (int y = 0; y < side; y++) {
                for (int x = 0; x < side; x++) {
                    d[y * side + x] =
                        y < rows && x < columns ? load_tile(form, w, from + y * in->row + x * in->pixel + c) : zero();
                }
            }
        }
        UNROLL for (int x = 0; x < side; x++) input_transform(size, d + x, side);
        UNROLL for (int y = 0; y < side; y++) input_transform(size, d + y * side, 1);
        UNROLL for (int i = 0; i < side * side; i++) store(to + i * w->plane + c, d[i]);
    }
}

static __attribute__((noinline)) void transform_input_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_winograd *w = argument;
    const int64_t end = min64(w->count, (task + 1) * CF_TASK_TILES);
    for (int64_t tile = task * CF_TASK_TILES; tile < end; tile++) {
        if (w->size == 2) {
            transform_input_tile(2, CF_TILE_FLOATS, w, tile);
        } else if (!CF_HAS_INTEGER || w->layer->algorithm != CF_INTEGER_WINOGRAD4) {
            transform_input_tile(4, CF_TILE_FLOATS, w, tile);
        } else if (w->layer->input_rounded) {
            transform_input_tile(4, CF_TILE_BYTES, w, tile);
        } else {
            transform_input_tile(4, CF_TILE_ROUNDED, w, tile);
        }
    }
}

/* Transform one panel's weights of kc input channels from `from` into u. */
INLINE void transform_weight_panel(const int size, const cf_winograd *w, const float *from, int64_t kc, float *u) {
    const int side = size + 2;
    for (int64_t c = 0; c < kc; c++) {
        UNROLL for (int j = 0; j < CF_PANEL; j += CF_LANES) {
            vec g[9], t[18], o[36];
            UNROLL for (int i = 0; i < 9; i++) g[i] = load(from + i * CF_PANEL + j);
            UNROLL for (int x = 0; x < 3; x++) weight_transform(size, g + x, 3, t + x, 3);
            UNROLL for (int y = 0; y < side; y++) weight_transform(size, t + y * 3, 1, o + y * side, 1);
            UNROLL for (int i = 0; i < side * side; i++) store(u + i * w->plane_u + j, o[i]);
        }
        from += 9 * CF_PANEL;
        u += CF_PANEL;
    }
}

/* Transform the weights of panel number `panel`, input channels [from, from + kc), into u. */
static void transform_weights(const cf_winograd *w, int64_t panel, int64_t from, int64_t kc, float *u) {
    _Alignas(64) float buffer[CF_WINOGRAD_DEQUANTISED * 9 * CF_PANEL];
    const int64_t step = w->layer->weight_type == CF_FLOAT32 ? kc : CF_WINOGRAD_DEQUANTISED;
    for (int64_t c = 0; c < kc; c += step) {
        const int64_t count = min64(step, kc - c), first = panel * w->layer->in_channels + from + c;
        const float *weights = buffer;
        if (CF_HAS_INTEGER && w->layer->algorithm == CF_INTEGER_WINOGRAD4) {
            dequantise_quads(w->layer, w->data, panel, from + c, count, buffer);
        } else {
            weights = dequantise(w->layer, w->data, panel, first * 9 * CF_PANEL, count * 9 * CF_PANEL, buffer);
        }
        if (w->size == 4) {
            transform_weight_panel(4, w, weights, count, u + c * CF_PANEL);
        } else {
            transform_weight_panel(2, w, weights, count, u + c * CF_PANEL);
        }
    }
}

/* The weights that are transformed after those of kc input channels from number k on, or NULL. */
static const float *next_weights(const cf_winograd *w, int64_t channel, int64_t k, int64_t kc) {
    const cf_layer *layer = w->layer;
    if (layer->weight_type != CF_FLOAT32) return NULL; /* fewer bytes */
    k += kc;
    if (k == layer->in_channels) k = 0, channel += CF_NR;
    if (channel >= layer->out_channels) return NULL;
    return (const float *)w->data->weights + (channel * layer->in_channels + k * CF_PANEL) * 9;
}

/* Multiply tiles [at, at + count) of the band with the weights u of kc input channels from number k_begin on: at
 * each point m = products for the first channels, m += products for the others. `next`: weights to prefetch, or NULL. */
static void gemm_points(const cf_winograd *w, int64_t at, int64_t count, int64_t k_begin, int64_t kc, const float *u,
                        float *m, int64_t width, const float *next) {
    static const float zeros[CF_NR];
    const int64_t offset = k_begin;
    /* The points share the prefetching. A micro-kernel prefetches as many floats as it reads, which is more than its
     * point's share, so it runs ahead of the others. */
    const int64_t panels = ceil_div(width, CF_PANEL), share = kc * 9 * CF_PANEL * panels / w->points;
    cf_microkernel_params params = {.offsets = &offset,
                                    .segments = 1,
                                    .segment_length = kc,
                                    .panel_stride = w->panel_u,
                                    .addend_stride = k_begin == 0 ? 0 : CF_NR,
                                    .sums_stride = CF_NR,
                                    .prefetch_step = CF_PANEL * sizeof(float),
                                    .prefetch_stride = w->panel_u};
    const cf_gemm_microkernel *microkernels = microkernels_of(width);
    for (int64_t i = 0; i < w->points; i++) {
        const float *in = w->input + i * w->plane + at * w->row, *weights = u + i * w->plane_u;
        float *out = m + i * w->plane_m;
        if (next != NULL) {
            const float *from = next + i % panels * w->layer->in_channels * 9 * CF_PANEL + i / panels * share;
            params.prefetch = floats_between(weights, from);
        }
        for (int64_t t = 0; t < count;) {
            const int64_t mr = balanced_mr(count - t, CF_MR);
            const float *inputs[CF_MR];
            for (int64_t r = 0; r < mr; r++) inputs[r] = in + (t + r) * w->row;
            float *tile_sums = out + t * CF_NR;
            microkernels[mr](&params, 1, 1, inputs, weights, k_begin == 0 ? zeros : tile_sums, tile_sums, NULL, NULL,
                             0);
            params.prefetch = 0;
            t += mr;
        }
    }
}

/* Transform the products of one tile to its output pixels, and store them. */
INLINE void transform_output_tile(const int size, const cf_winograd *w, int64_t tile, const float *m, int64_t channel,
                                  int64_t channels, const float *bias) {
    const int side = size + 2;
    const cf_layer *layer = w->layer;
    int64_t image, row, column;
    find_tile(w, tile, &image, &row, &column);
    _Alignas(64) float sums[16 * CF_NR];
    for (int64_t j = 0; j < channels; j += CF_LANES) {
        vec p[36], half[24], o[16];
        UNROLL for (int i = 0; i < side * side; i++) p[i] = load(m + i * w->plane_m + j);
        UNROLL for (int x = 0; x < side; x++) output_transform(size, p + x, side, half + x, side);
        UNROLL for (int y = 0; y < size; y++) output_transform(size, half + y * side, 1, o + y * size, 1);
        const vec b = load(bias + j);
        UNROLL for (int i = 0; i < size * size; i++) store(sums + i * CF_NR + j, o[i] + b);
    }
    cf_pixel_pointers pointers;
    const int64_t rows = min64(size, layer->out[0] - row), columns = min64(size, layer->out[1] - column);
    if (columns == size) {
        for (int64_t i = 0; i < rows * size; i++) {
            set_output_pointers(&pointers, i, layer, w->data, image, row + i / size, column + i % size);
        }
        run_epilogue(layer, w->data, &pointers, 0, rows * size, channel, channels, sums, CF_NR);
        return;
    }
    for (int64_t y = 0; y < rows; y++) {
        for (int64_t x = 0; x < columns; x++)
            set_output_pointers(&pointers, x, layer, w->data, image, row + y, column + x);
        run_epilogue(layer, w->data, &pointers, 0, columns, channel, channels, sums + y * size * CF_NR, CF_NR);
    }
}

static void transform_output(const cf_winograd *w, int64_t tile, const float *m, int64_t channel, int64_t channels) {
    const float *bias = w->data->bias + channel;
    if (w->size == 4) {
        transform_output_tile(4, w, tile, m, channel, channels, bias);
    } else {
        transform_output_tile(2, w, tile, m, channel, channels, bias);
    }
}

/* m[point][tile][16] += products of the tiles with a panel's transformed weights of CF_FEW_TILES_KC input channels from
 * number k on. A cache line from `ahead` on is prefetched for each point. */
static void multiply_few_tiles(const cf_winograd *w, int64_t k, const float *u, float *m, const float *ahead) {
    /* The sums of four tiles are enough to hide the latency of additions, and few enough for any processor. With fewer
     * the last is computed again. */
    int64_t rows[CF_FEW_TILES];
    for (int64_t t = 0; t < CF_FEW_TILES; t++) rows[t] = min64(t, w->count - 1) * w->row + k;
    enum { POINTS = CF_LANES == 16 ? 2 : 1, VECTORS = CF_LANES == 16 ? 1 : 2 };
    for (int64_t i = 0; i < w->points; i += POINTS) {
        UNROLL for (int p = 0; p < POINTS; p++) __builtin_prefetch(ahead + (i + p) * CF_PANEL);
        for (int64_t j = 0; j < CF_PANEL; j += VECTORS * CF_LANES) {
            vec sum[POINTS][CF_FEW_TILES][VECTORS];
            UNROLL for (int p = 0; p < POINTS; p++) {
                UNROLL for (int t = 0; t < CF_FEW_TILES; t++) {
                    const float *from = m + ((i + p) * CF_FEW_TILES + t) * CF_PANEL + j;
                    UNROLL for (int v = 0; v < VECTORS; v++) sum[p][t][v] = load(from + v * CF_LANES);
                }
            }
            UNROLL for (int c = 0; c < CF_FEW_TILES_KC; c++) {
                UNROLL for (int p = 0; p < POINTS; p++) {
                    const float *weights = u + (i + p) * w->plane_u + c * CF_PANEL + j;
                    const float *in = w->input + (i + p) * w->plane + c;
                    vec by[VECTORS];
                    UNROLL for (int v = 0; v < VECTORS; v++) by[v] = load(weights + v * CF_LANES);
                    UNROLL for (int t = 0; t < CF_FEW_TILES; t++) {
                        const vec value = splat(in[rows[t]]);
                        UNROLL for (int v = 0; v < VECTORS; v++) sum[p][t][v] += value * by[v];
                    }
                }
            }
            UNROLL for (int p = 0; p < POINTS; p++) {
                UNROLL for (int t = 0; t < CF_FEW_TILES; t++) {
                    float *to = m + ((i + p) * CF_FEW_TILES + t) * CF_PANEL + j;
                    UNROLL for (int v = 0; v < VECTORS; v++) store(to + v * CF_LANES, sum[p][t][v]);
                }
            }
        }
    }
}

/* A panel's channels of all tiles, where they are few. */
static void few_tiles_task(void *argument, int64_t panel, uint32_t thread) {
    (void)thread;
    const cf_winograd *w = argument;
    const int64_t in_channels = w->layer->in_channels, channel = panel * CF_PANEL;
    _Alignas(64) float u[36 * (CF_FEW_TILES_KC | 1) * CF_PANEL];
    _Alignas(64) float m[36 * CF_FEW_TILES * CF_PANEL] = {0};
    for (int64_t k = 0; k < in_channels; k += CF_FEW_TILES_KC) {
        /* What is transformed the time after next; weights of other types are fewer bytes. */
        const int64_t next = (panel * in_channels + k + 2 * CF_FEW_TILES_KC) * 9 * CF_PANEL;
        const float *ahead = w->layer->weight_type == CF_FLOAT32 ? (const float *)w->data->weights + next : u;
        transform_weights(w, panel, k, CF_FEW_TILES_KC, u);
        multiply_few_tiles(w, k, u, m, ahead);
    }
    const int64_t channels = min64(CF_PANEL, w->layer->out_channels - channel);
    for (int64_t t = 0; t < w->count; t++) transform_output(w, t, m + t * CF_PANEL, channel, channels);
}

static __attribute__((noinline)) void winograd_task(void *argument, int64_t task, uint32_t thread) {
    const cf_winograd *w = argument;
    const cf_layer *layer = w->layer;
    const int64_t in_channels = layer->in_channels;
    const int64_t from = task % w->m_blocks * w->task_tiles, to = min64(w->count, from + w->task_tiles);
    const int64_t channel = task / w->m_blocks * CF_NR;
    const int64_t channels = min64(CF_NR, layer->out_channels - channel);
    float *u = w->threads + (int64_t)thread * w->thread_scratch, *m = u + w->points * w->plane_u;
    for (int64_t k = 0; k < in_channels; k += w->kc) {
        const int64_t kc = min64(w->kc, in_channels - k);
        for (int64_t p = 0; p < ceil_div(channels, CF_PANEL); p++) {
            transform_weights(w, channel / CF_PANEL + p, k, kc, u + p * w->panel_u);
        }
        for (int64_t at = from; at < to; at += w->mc) {
            const int64_t count = min64(w->mc, to - at);
            const float *next = at == from ? next_weights(w, channel, k, kc) : NULL;
            gemm_points(w, at, count, k, kc, u, m, tile_width(channels), next);
            if (k + kc < in_channels) continue;
            for (int64_t t = 0; t < count; t++) {
                transform_output(w, w->first + at + t, m + t * CF_NR, channel, channels);
            }
        }
    }
}

/* A part of the tiles, from their input to their output, on one thread. */
static void own_tiles_task(void *argument, int64_t part, uint32_t thread) {
    cf_winograd w = *(const cf_winograd *)argument;
    const int64_t tiles = w.layer->batch * w.down * w.across;
    w.first = part_start(tiles, part, w.parts);
    w.count = part_start(tiles, part + 1, w.parts) - w.first;
    w.task_tiles = w.count;
    w.m_blocks = 1;
    /* The scratch of a single band has a place for every tile. With several bands, each thread keeps to its part. */
    w.input += (tiles <= w.layer->band ? w.first : thread * ceil_div(tiles, w.parts)) * w.row;
    for (int64_t t = 0; t < ceil_div(w.count, CF_TASK_TILES); t++) transform_input_task(&w, t, thread);
    for (int64_t p = 0; p < ceil_div(w.layer->out_channels, CF_NR); p++) winograd_task(&w, p, thread);
}

static void run_winograd(cf_context *context, const cf_layer *layer, const cf_layer_data *data, int size,
                         cf_halos *halos) {
    cf_winograd w = {.layer = layer, .data = data, .size = size};
    const int64_t threads = cf_threads(context);
    w.kc = min64(layer->in_channels, layer->band <= CF_WINOGRAD_MC ? CF_WINOGRAD_FEW_KC : CF_WINOGRAD_KC);
    if (CF_HAS_INTEGER) w.rounding = quantiser(layer->input_scale, layer->input_zero, 0);
    w.points = (size + 2) * (size + 2);
    w.down = ceil_div(layer->out[0], size);
    w.across = ceil_div(layer->out[1], size);
    w.row = layer->in_channels + 16;
    w.plane = odd_lines(layer->band * w.row);
    w.panel_u = w.kc * CF_PANEL;
    w.plane_u = odd_lines(w.kc * CF_NR);
    w.mc = layer->in_channels > w.kc ? layer->band : min64(layer->band, CF_WINOGRAD_MC);
    w.plane_m = odd_lines(w.mc * CF_NR);
    w.thread_scratch = w.points * (w.plane_u + w.plane_m);
    w.input = data->scratch;
    w.threads = w.input + w.points * w.plane;
    const int64_t tiles = layer->batch * w.down * w.across;
    if (tiles <= CF_FEW_TILES) {
        w.count = tiles;
        w.plane_u = odd_lines(CF_FEW_TILES_KC * CF_PANEL);
        w.plane_m = CF_FEW_TILES * CF_PANEL;
        run_with_halos(context, halos, threads, ceil_div(tiles, CF_TASK_TILES), transform_input_task, &w);
        cf_parallel_for(context, ceil_div(layer->out_channels, CF_PANEL), few_tiles_task, &w);
        return;
    }
    /* Where there are tiles enough, each thread has its own, so that transformed inputs are in its cache. To transform
     * the weights as well takes less time than to read the inputs that others have transformed. */
    w.parts = tiles <= layer->band ? threads : ceil_div(ceil_div(tiles, layer->band / threads), threads) * threads;
    if (threads > 1 && tiles / w.parts >= CF_OWN_TILES) {
        run_with_halos(context, halos, threads, w.parts, own_tiles_task, &w);
        return;
    }
    const int64_t panels = ceil_div(layer->out_channels, CF_NR);
    for (w.first = 0; w.first < tiles; w.first += layer->band) {
        w.count = min64(layer->band, tiles - w.first);
        run_with_halos(context, halos, threads, ceil_div(w.count, CF_TASK_TILES), transform_input_task, &w);
        /* Tasks for the same channels transform the same weights, so there are only as many as the threads need. */
        w.m_blocks = threads == 1 ? 1 : min64(ceil_div(2 * threads, panels), ceil_div(w.count, 2 * CF_MR));
        w.task_tiles = ceil_div(w.count, w.m_blocks);
        w.m_blocks = ceil_div(w.count, w.task_tiles);
        cf_parallel_for(context, panels * w.m_blocks, winograd_task, &w);
    }
}

#endif
