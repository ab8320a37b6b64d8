/*
 * Attention, softmax(Q K^T + mask) V, of one block of queries after the other: no matrix of all scores is ever stored.
 *
 * The queries of a block lie in the lanes of the vectors. Everything of a query then stays in its lane: its scores (one
 * vector for each key), their maximum and sum, and its answer. Only the queries and answers are transposed, and keys and
 * values are read where they lie. As in FlashAttention (T. Dao et al., arXiv:2205.14135), keys are taken a block at a
 * time, and what was summed before is scaled down where a later block has a larger maximum.
 *
 * A query's answer does not depend on its lane or block, so it does not depend on the number of threads.
 */
#ifndef COLDFORGE_ATTENTION_H
#define COLDFORGE_ATTENTION_H

#include "fused/activation.h"
#include "fused/blocking.h"
#include "fused/transpose.h"

enum {
/* WebAssembly has registers for two vectors of queries; see gemm_microkernel.h. */
#ifdef __wasm__
    CF_QUERY_VECTORS = 2,
#else
    CF_QUERY_VECTORS = CF_NR / CF_LANES,
#endif
    CF_QUERIES = CF_QUERY_VECTORS * CF_LANES, /* of a block */
    CF_SCORE_BYTES = 16 << 10,                /* scores of a block of keys: they stay in the first-level cache */
    CF_KEYS = CF_SCORE_BYTES / (4 * CF_QUERIES)
};

typedef struct {
    const cf_attention *attention;
    const cf_attention_data *data;
    int64_t blocks; /* of queries, for each matrix */
} cf_attention_plan;

/* The start of a row; `matrix` has the matrix' place in three dimensions. */
INLINE int64_t row_at(const cf_rows *rows, const int64_t *matrix, int64_t row) {
    return rows->first + matrix[0] * rows->outer[0] + matrix[1] * rows->outer[1] + matrix[2] * rows->outer[2] +
           row * rows->row;
}

/* scores[key][query] of mr keys, `row` floats apart. queries: [size][vectors * CF_LANES]. */
INLINE void score_keys(const int mr, const int vectors, const float *queries, int64_t size, const float *keys,
                       int64_t row, float *scores) {
    vec sum[CF_MR][CF_QUERY_VECTORS];
    UNROLL for (int r = 0; r < mr; r++) { UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = zero(); }
    const float *in[CF_MR];
    UNROLL for (int r = 0; r < mr; r++) in[r] = keys + r * row;
    for (int64_t i = 0; i < size; i++) {
        vec q[CF_QUERY_VECTORS];
        UNROLL for (int v = 0; v < vectors; v++) q[v] = load(queries + v * CF_LANES);
        UNROLL for (int r = 0; r < mr; r++) {
            const vec k = splat(in[r][i]);
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] += k * q[v];
        }
        queries += vectors * CF_LANES;
    }
    UNROLL for (int r = 0; r < mr; r++) {
        UNROLL for (int v = 0; v < vectors; v++) store(scores + (r * vectors + v) * CF_LANES, sum[r][v]);
    }
}

/*
 * answers[i][query] = answers[i][query] * factor[query] + sum over keys of values[key][i] * weights[key][query], for mr
 * numbers i of the values, whose rows are `row` floats apart. factor NULL: 0.
 */
INLINE void add_values(const int mr, const int vectors, const float *weights, int64_t keys, const float *values,
                       int64_t row, const vec *factor, float *answers) {
    vec sum[CF_MR][CF_QUERY_VECTORS];
    UNROLL for (int r = 0; r < mr; r++) { UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = zero(); }
    for (int64_t key = 0; key < keys; key++) {
        vec w[CF_QUERY_VECTORS];
        UNROLL for (int v = 0; v < vectors; v++) w[v] = load(weights + v * CF_LANES);
        UNROLL for (int r = 0; r < mr; r++) {
            const vec x = splat(values[r]);
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] += x * w[v];
        }
        weights += vectors * CF_LANES;
        values += row;
    }
    UNROLL for (int r = 0; r < mr; r++) {
        UNROLL for (int v = 0; v < vectors; v++) {
            float *to = answers + (r * vectors + v) * CF_LANES;
            store(to, factor == NULL ? sum[r][v] : load(to) * factor[v] + sum[r][v]);
        }
    }
}

typedef void (*cf_score_keys)(const float *queries, int64_t size, const float *keys, int64_t row, float *scores);
typedef void (*cf_add_values)(const float *weights, int64_t keys, const float *values, int64_t row, const vec *factor,
                              float *answers);

#define TILE(mr, name, vectors)                                                                                        \
    static void score_##name##_##mr(const float *queries, int64_t size, const float *keys, int64_t row,                \
                                    float *scores) {                                                                   \
        score_keys(mr, vectors, queries, size, keys, row, scores);                                                     \
    }                                                                                                                  \
    static void add_##name##_##mr(const float *weights, int64_t keys, const float *values, int64_t row,                \
                                  const vec *factor, float *answers) {                                                 \
        add_values(mr, vectors, weights, keys, values, row, factor, answers);                                          \
    }
#define SCORE(mr, name, vectors) score_##name##_##mr,
#define ADD(mr, name, vectors) add_##name##_##mr,
#define MR_1_TO_6(X, n, v) X(1, n, v) X(2, n, v) X(3, n, v) X(4, n, v) X(5, n, v) X(6, n, v)
#if CF_MR == 12
#define EVERY_MR(X, n, v)                                                                                              \
    MR_1_TO_6(X, n, v) X(7, n, v) X(8, n, v) X(9, n, v) X(10, n, v) X(11, n, v) X(12, n, v)
#else
#define EVERY_MR(X, n, v) MR_1_TO_6(X, n, v)
#endif

/* By the number of keys, or of the values' numbers, in a tile; for blocks of full and of half the width. */
EVERY_MR(TILE, full, CF_QUERY_VECTORS)
EVERY_MR(TILE, half, CF_QUERY_VECTORS / 2)
static const cf_score_keys score_tiles[2][CF_MR + 1] = {{NULL, EVERY_MR(SCORE, half, 0)},
                                                        {NULL, EVERY_MR(SCORE, full, 0)}};
static const cf_add_values add_tiles[2][CF_MR + 1] = {{NULL, EVERY_MR(ADD, half, 0)}, {NULL, EVERY_MR(ADD, full, 0)}};
#undef TILE
#undef SCORE
#undef ADD
#undef MR_1_TO_6
#undef EVERY_MR

/* packed[i][query] = scale * queries[query][i]; lanes from `count` on repeat the last query. */
static void pack_queries(float *packed, int64_t lanes, const float *queries, int64_t row, int64_t count, int64_t size,
                         float scale) {
    const quad factor = scale - (quad){0};
    for (int64_t lane = 0; lane < lanes; lane += 4) {
        const float *in[4];
        for (int64_t q = 0; q < 4; q++) in[q] = queries + min64(lane + q, count - 1) * row;
        int64_t i = 0;
        for (; i + 4 <= size; i += 4) {
            quad block[4];
            for (int q = 0; q < 4; q++) block[q] = *(const loose_quad *)(in[q] + i) * factor;
            transpose_quads(block);
            for (int q = 0; q < 4; q++) *(loose_quad *)(packed + (i + q) * lanes + lane) = block[q];
        }
        for (; i < size; i++) {
            for (int q = 0; q < 4; q++) packed[i * lanes + lane + q] = in[q][i] * scale;
        }
    }
}

/* output[query][i] = answers[i][query] * factor[query] for `count` queries. */
static void store_answers(const float *answers, int64_t lanes, const float *factor, float *output, int64_t row,
                          int64_t count, int64_t size) {
    for (int64_t lane = 0; lane < count; lane += 4) {
        const quad factors = *(const loose_quad *)(factor + lane);
        const int64_t rows = min64(count - lane, 4);
        float *out = output + lane * row;
        int64_t i = 0;
        for (; i + 4 <= size; i += 4) {
            quad block[4];
            for (int q = 0; q < 4; q++) block[q] = *(const loose_quad *)(answers + (i + q) * lanes + lane) * factors;
            transpose_quads(block);
            for (int64_t q = 0; q < rows; q++) *(loose_quad *)(out + q * row + i) = block[q];
        }
        for (; i < size; i++) {
            for (int64_t q = 0; q < rows; q++) out[q * row + i] = answers[i * lanes + lane + q] * factors[q];
        }
    }
}

/* One element of the mask as a float. */
INLINE float mask_number(const cf_attention *a, const void *mask, int64_t at) {
    float element = 0.0f;
    switch (a->mask_type) {
    case CF_MASK_F32: element = ((const float *)mask)[at]; break;
    case CF_MASK_S32: element = (float)((const int32_t *)mask)[at]; break;
    case CF_MASK_SET: element = ((const int32_t *)mask)[at] != 0; break;
    case CF_MASK_U8: element = ((const uint8_t *)mask)[at] != 0; break;
    }
    return element * a->mask_scale + a->mask_shift;
}

/*
 * The mask of some keys: [key][lanes], or [key] where all queries have the same. `at` is the first query's and key's
 * element. Lanes from `count` on repeat the last query.
 */
static void read_mask(const cf_attention *a, const void *mask, int64_t at, int64_t keys, int64_t lanes, int64_t count,
                      float *numbers) {
    if (a->mask_strides[3] == 0) {
        for (int64_t key = 0; key < keys; key++) numbers[key] = mask_number(a, mask, at + key * a->mask_strides[4]);
        return;
    }
    for (int64_t lane = 0; lane < lanes; lane++) {
        const int64_t from = at + min64(lane, count - 1) * a->mask_strides[3];
        for (int64_t key = 0; key < keys; key++) {
            numbers[key * lanes + lane] = mask_number(a, mask, from + key * a->mask_strides[4]);
        }
    }
}

/*
 * Apply the mask to the scores of some keys, in place, and raise `largest` to their maximum. `first` is the number of
 * the first key less that of the block's first query.
 */
INLINE void mask_scores(const int kind, const int vectors, const cf_attention *a, const float *mask, int64_t step,
                        int64_t first, int64_t keys, float *scores, vec *largest) {
    const vec fill = splat(a->fill);
    for (int64_t key = 0; key < keys; key++) {
        UNROLL for (int v = 0; v < vectors; v++) {
            float *at = scores + (key * vectors + v) * CF_LANES;
            vec score = load(at);
            if (kind == CF_MASK_CAUSAL) {
                ivec query = isplat((int32_t)(v * CF_LANES));
                UNROLL for (int lane = 0; lane < CF_LANES; lane++) query[lane] += lane;
                score = choose(query < isplat((int32_t)(first + key)), fill, score);
            } else if (kind != CF_MASK_NONE) {
                const vec number = step == 1 ? splat(mask[key]) : load(mask + (key * vectors + v) * CF_LANES);
                score = kind == CF_MASK_ADDED ? score + number : choose(number != zero(), score, fill);
            }
            if (kind != CF_MASK_NONE) store(at, score);
            largest[v] = at_least(score, largest[v]);
        }
    }
}

INLINE void mask_scores_of(const int vectors, const cf_attention *a, const float *mask, int64_t step, int64_t first,
                           int64_t keys, float *scores, vec *largest) {
    switch (a->mask) {
    case CF_MASK_NONE: mask_scores(CF_MASK_NONE, vectors, a, mask, step, first, keys, scores, largest); break;
    case CF_MASK_ADDED: mask_scores(CF_MASK_ADDED, vectors, a, mask, step, first, keys, scores, largest); break;
    case CF_MASK_CHOSEN: mask_scores(CF_MASK_CHOSEN, vectors, a, mask, step, first, keys, scores, largest); break;
    case CF_MASK_CAUSAL: mask_scores(CF_MASK_CAUSAL, vectors, a, mask, step, first, keys, scores, largest); break;
    }
}

/* The answers of `count` queries, from number `query` on. `vectors`, a constant, holds them. */
INLINE void attend(const int vectors, const cf_attention_plan *plan, const int64_t *matrix, int64_t query, int64_t count) {
    const cf_attention *a = plan->attention;
    const cf_attention_data *data = plan->data;
    const int64_t lanes = vectors * CF_LANES, full = vectors == CF_QUERY_VECTORS;
    const cf_score_keys *score = score_tiles[full];
    const cf_add_values *add = add_tiles[full];
    _Alignas(64) float queries[CF_MOST_HEAD * CF_QUERIES], answers[CF_MOST_HEAD * CF_QUERIES];
    _Alignas(64) float scores[CF_KEYS * CF_QUERIES], mask[CF_KEYS * CF_QUERIES], factors[CF_QUERIES];
    const vec none = splat(-__builtin_inff());
    vec largest[CF_QUERY_VECTORS], total[CF_QUERY_VECTORS];
    UNROLL for (int v = 0; v < vectors; v++) {
        largest[v] = none;
        total[v] = zero();
    }
    pack_queries(queries, lanes, data->query + row_at(&a->query, matrix, query), a->query.row, count, a->size, a->scale);
    const int64_t end = a->mask == CF_MASK_CAUSAL ? min64(a->keys, max64(query + count + a->past, 1)) : a->keys;
    for (int64_t key = 0; key < end;) {
        const int64_t keys = min64(end - key, CF_KEYS);
        const float *from = data->key + row_at(&a->key, matrix, key);
        for (int64_t k = 0; k < keys;) {
            const int64_t mr = balanced_mr(keys - k, CF_MR);
            score[mr](queries, a->size, from + k * a->key.row, a->key.row, scores + k * lanes);
            k += mr;
        }
        if (a->mask == CF_MASK_ADDED || a->mask == CF_MASK_CHOSEN) {
            const int64_t *strides = a->mask_strides;
            const int64_t at = a->mask_first + matrix[0] * strides[0] + matrix[1] * strides[1] +
                               matrix[2] * strides[2] + query * strides[3] + key * strides[4];
            read_mask(a, data->mask, at, keys, lanes, count, mask);
        }
        vec before[CF_QUERY_VECTORS], factor[CF_QUERY_VECTORS], subtracted[CF_QUERY_VECTORS];
        UNROLL for (int v = 0; v < vectors; v++) before[v] = largest[v];
        mask_scores_of(vectors, a, mask, a->mask_strides[3] == 0 ? 1 : lanes, key - query - a->past, keys, scores,
                       largest);
        UNROLL for (int v = 0; v < vectors; v++) {
            /* Where everything so far is masked, there is nothing yet. */
            subtracted[v] = choose(largest[v] == none, zero(), largest[v]);
            factor[v] = choose(before[v] == none, zero(), exp_of_negative(before[v] - subtracted[v]));
            total[v] *= factor[v];
        }
        for (int64_t k = 0; k < keys; k++) {
            UNROLL for (int v = 0; v < vectors; v++) {
                float *at = scores + (k * vectors + v) * CF_LANES;
                const vec weight = exp_of_negative(load(at) - subtracted[v]);
                total[v] += weight;
                store(at, weight);
            }
        }
        const float *values = data->value + row_at(&a->value, matrix, key);
        for (int64_t i = 0; i < a->value_size;) {
            const int64_t mr = balanced_mr(a->value_size - i, CF_MR);
            add[mr](scores, keys, values + i, a->value.row, key == 0 ? NULL : factor, answers + i * lanes);
            i += mr;
        }
        key += keys;
    }
    UNROLL for (int v = 0; v < vectors; v++) {
        /* Softmax of nothing but -infinity is 0 / 0. */
        const vec empty = splat(a->safe ? 0.0f : __builtin_nanf(""));
        store(factors + v * CF_LANES, choose(largest[v] == none, empty, splat(1.0f) / total[v]));
    }
    store_answers(answers, lanes, factors, data->output + row_at(&a->output, matrix, query), a->output.row, count,
                  a->value_size);
}

static void attention_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_attention_plan *plan = argument;
    const cf_attention *a = plan->attention;
    const int64_t number = task / plan->blocks, query = task % plan->blocks * CF_QUERIES;
    const int64_t matrix[3] = {number / a->outer[2] / a->outer[1], number / a->outer[2] % a->outer[1],
                               number % a->outer[2]};
    const int64_t count = min64(a->queries - query, CF_QUERIES);
    if (count > CF_QUERIES / 2) {
        attend(CF_QUERY_VECTORS, plan, matrix, query, count);
    } else {
        attend(CF_QUERY_VECTORS / 2, plan, matrix, query, count);
    }
}

static void run_attention(cf_context *context, const cf_attention *a, const cf_attention_data *data) {
    cf_attention_plan plan = {a, data, ceil_div(a->queries, CF_QUERIES)};
    const int64_t matrices = a->outer[0] * a->outer[1] * a->outer[2], tasks = matrices * plan.blocks;
    const int64_t work = matrices * a->queries * a->keys * (a->size + a->value_size);
    run_tasks(context, threads_for(context, work, 20), tasks, attention_task, &plan);
}

#endif
