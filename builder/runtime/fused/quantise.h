/*
 * A layer's input as whole numbers, and the one operation that differs from one instruction set to the next: adding to
 * each of a vector of sums the products of four adjacent input channels, or of two of them.
 *
 *  - CF_PAIRS: int16 numbers byte - zero, multiplied two at a time: AVX2, AVX-512 without VNNI, WebAssembly. Of four
 *    channels the second and the third change places, so that packed weights come apart by shifts: into those of the
 *    even channels and those of the odd ones.
 *  - CF_UNSIGNED: the bytes themselves, four at a time: VNNI.
 *  - CF_SIGNED: byte - 128, four at a time: arm64's dot products.
 *
 * Bytes leave a multiple of the weights' sums in the result, which `start_at` takes away.
 */
#ifndef COLDFORGE_QUANTISE_H
#define COLDFORGE_QUANTISE_H

#include "fused/finish.h"

#define CF_PAIRS 0
#define CF_UNSIGNED 1
#define CF_SIGNED 2
#ifndef CF_FORM
#if CF_LANES == 16 && defined(__AVX512VNNI__)
#define CF_FORM CF_UNSIGNED
#elif CF_LANES == 4 && defined(__ARM_FEATURE_DOTPROD)
#define CF_FORM CF_SIGNED
#else
#define CF_FORM CF_PAIRS
#endif
#endif

enum {
    CF_QUAD = 4,                              /* input channels whose weights lie side by side */
    CF_WORDS = CF_FORM == CF_PAIRS ? 2 : 1,   /* 32-bit words that hold a pixel's four */
    CF_ROUNDED = 4096                         /* numbers of a task, about */
};

#if CF_FORM == CF_PAIRS
typedef int16_t cf_number;
#else
typedef int8_t cf_number; /* or the same bits, unsigned */
#endif
typedef cf_number numbers __attribute__((vector_size(CF_LANES * sizeof(cf_number))));
typedef cf_number loose_numbers
    __attribute__((vector_size(CF_LANES * sizeof(cf_number)), aligned(sizeof(cf_number)), may_alias));
typedef int16_t pairs __attribute__((vector_size(CF_LANES * 4)));
typedef uint16_t unsigned_pairs __attribute__((vector_size(CF_LANES * 4)));
typedef int32_t loose_ivec __attribute__((vector_size(CF_LANES * 4), aligned(4), may_alias));

INLINE ivec iload(const void *p) { return *(const loose_ivec *)p; }

/* Sums of products, which may wrap around on the way to what fits. */
INLINE ivec plus(ivec a, ivec b) { return (ivec)((unsigned_ivec)a + (unsigned_ivec)b); }

/* A word of a pixel's numbers, for all lanes. */
#if CF_FORM == CF_SIGNED && CF_LANES == 4 && defined(__ARM_FEATURE_DOTPROD)
/* In one lane, which instructions can name: to copy it to all takes a vector unit's time. Clang would. */
typedef int8x8_t cf_word;
INLINE cf_word word_at(const int32_t *p) {
    cf_word word = vcreate_s8((uint64_t)(uint32_t)*p);
    __asm__("" : "+w"(word));
    return word;
}
#else
typedef ivec cf_word;
INLINE cf_word word_at(const int32_t *p) { return isplat(*p); }
#endif

/* sum + the products of a word's numbers with each lane's weights. */
#if CF_FORM == CF_PAIRS && CF_LANES == 16 && defined(__AVX512BW__)
#define CF_PRODUCTS(word, weights) _mm512_madd_epi16((__m512i)(word), (__m512i)(weights))
#elif CF_FORM == CF_PAIRS && CF_LANES == 8 && defined(__AVX2__)
#define CF_PRODUCTS(word, weights) _mm256_madd_epi16((__m256i)(word), (__m256i)(weights))
#elif CF_FORM == CF_PAIRS && CF_LANES == 4 && defined(__wasm_simd128__)
INLINE ivec dot(ivec sum, cf_word word, ivec weights) {
    return plus(sum, (ivec)wasm_i32x4_dot_i16x8((v128_t)word, (v128_t)weights));
}
#elif CF_FORM == CF_UNSIGNED && CF_LANES == 16 && defined(__AVX512VNNI__)
INLINE ivec dot(ivec sum, cf_word word, ivec weights) {
    return (ivec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)word, (__m512i)weights);
}
#elif CF_FORM == CF_SIGNED && CF_LANES == 4 && defined(__ARM_FEATURE_DOTPROD)
INLINE ivec dot(ivec sum, cf_word word, ivec weights) {
    return (ivec)vdotq_lane_s32((int32x4_t)sum, (int8x16_t)weights, word, 0);
}
#elif CF_FORM == CF_PAIRS
INLINE ivec dot(ivec sum, cf_word word, ivec weights) {
    const ivec low = ((ivec)((unsigned_ivec)word << 16) >> 16) * ((ivec)((unsigned_ivec)weights << 16) >> 16);
    return plus(sum, plus(low, (word >> 16) * (weights >> 16)));
}
#else
INLINE ivec dot(ivec sum, cf_word word, ivec weights) {
    UNROLL for (int i = 0; i < 32; i += 8) {
        const ivec w = (ivec)((unsigned_ivec)weights << (24 - i)) >> 24;
        const ivec at_top = (ivec)((unsigned_ivec)word << (24 - i));
        sum = plus(sum, w * (CF_FORM == CF_SIGNED ? at_top >> 24 : (ivec)((unsigned_ivec)at_top >> 24)));
    }
    return sum;
}
#endif

/*
 * The same for `vectors` of them. Compilers know that integers may be added up in any order, and then keep dozens of
 * products for later: HERE ends that. And it costs 3 % to have an addition follow the multiplication it waits for.
 */
#ifdef CF_PRODUCTS
#define HERE(v) __asm__("" : "+v"(v))
INLINE void dots(const int vectors, ivec *sums, cf_word word, const ivec *weights) {
    ivec products[CF_COLUMNS / CF_LANES];
    UNROLL for (int v = 0; v < vectors; v++) products[v] = (ivec)CF_PRODUCTS(word, weights[v]);
    UNROLL for (int v = 0; v < vectors; v++) HERE(products[v]);
    UNROLL for (int v = 0; v < vectors; v++) {
        sums[v] = plus(sums[v], products[v]);
        HERE(sums[v]);
    }
}
#undef HERE
#else
INLINE void dots(const int vectors, ivec *sums, cf_word word, const ivec *weights) {
    UNROLL for (int v = 0; v < vectors; v++) sums[v] = dot(sums[v], word, weights[v]);
}
#endif

/* Word number `which` of the weights that CF_LANES output channels have for four input channels. */
INLINE ivec weights_of(const int8_t *packed, const int which) {
    const ivec bytes = iload(packed);
    if (CF_WORDS == 1) return bytes;
    return which == 0 ? (ivec)((pairs)((unsigned_pairs)bytes << 8) >> 8) : (ivec)((pairs)bytes >> 8);
}

/* A number is stored as itself, which is byte - zero, and so much more. */
INLINE int32_t offset_of(const cf_layer *layer) {
    return CF_FORM == CF_PAIRS ? 0 : layer->input_zero - (CF_FORM == CF_SIGNED ? 128 : 0);
}

/* Where sums of CF_LANES output channels start. */
INLINE ivec start_at(const int32_t *weight_sums, int32_t offset) {
    return CF_FORM == CF_PAIRS ? (ivec){0} : (ivec)((unsigned_ivec)iload(weight_sums) * (unsigned_ivec)isplat(-offset));
}

typedef struct {
    const cf_layer *layer;
    const float *input; /* the first row that is read, padding and all */
    cf_number *output;
    int64_t batch, rows, columns; /* that are kept */
    int64_t sample[2];            /* of how many rows and columns one is kept */
    int64_t channels;             /* a multiple of 4 */
    int64_t parts;                /* of a row: tasks */
    float inverse, low, high;     /* of the scale; of what a byte holds, less its zero */
    int32_t offset;
} cf_rounding;

/* The same in vectors, out of reach of what is stored. */
typedef struct {
    vec inverse, low, high, magic;
    ivec offset;
} cf_rounder;

/*
 * To the nearest whole number, ties to the even one; NaN becomes 0. Clamped between the multiplication and the addition
 * that rounds, so that no compiler makes one operation of them, with another result.
 */
INLINE numbers round_vec(const cf_rounder *q, vec x) {
    vec scaled = x * q->inverse;
    scaled = (vec)((ivec)scaled & (scaled == scaled));
    scaled = clamp(scaled, q->low, q->high);
    const numbers all = __builtin_convertvector((ivec)(scaled + q->magic) + q->offset, numbers);
    if (CF_FORM != CF_PAIRS) return all;
#if CF_LANES == 16
    return __builtin_shufflevector(all, all, 0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
#elif CF_LANES == 8
    return __builtin_shufflevector(all, all, 0, 2, 1, 3, 4, 6, 5, 7);
#else
    return __builtin_shufflevector(all, all, 0, 2, 1, 3);
#endif
}

/* `count` adjacent floats, and zeros up to a multiple of 4. */
INLINE void round_run(const cf_rounder *q, const float *from, int64_t count, cf_number *to) {
    int64_t i = 0;
    for (; i + CF_LANES <= count; i += CF_LANES) *(loose_numbers *)(to + i) = round_vec(q, load(from + i));
    if (i < count) {
        const numbers last = round_vec(q, load_some(from + i, count - i));
        UNROLL for (int j = 0; j < CF_LANES; j += CF_QUAD) {
            if (i + j < count) memcpy(to + i + j, (const cf_number *)&last + j, CF_QUAD * sizeof(cf_number));
        }
    }
}

static void round_task(void *argument, int64_t task, uint32_t thread) {
    (void)thread;
    const cf_rounding *q = argument;
    const cf_layer *layer = q->layer;
    const cf_view *in = &layer->input;
    const int64_t part = task % q->parts, row = task / q->parts % q->rows, image = task / q->parts / q->rows;
    const int64_t first = part_start(q->columns, part, q->parts), end = part_start(q->columns, part + 1, q->parts);
    const int64_t step = q->sample[1] * in->pixel, count = layer->in_channels;
    const float *from = q->input + image * in->image + row * q->sample[0] * in->row + first * step;
    const int64_t channels = q->channels, columns = end - first;
    cf_number *to = q->output + ((image * q->rows + row) * q->columns + first) * channels;
    const vec magic = splat(12582912.0f); /* 1.5 * 2^23: adding it rounds to a whole number */
    const cf_rounder rounder = {splat(q->inverse), splat(q->low), splat(q->high), magic,
                                isplat(q->offset) - (ivec)magic};
    if (step == channels && count == channels) {
        round_run(&rounder, from, columns * count, to);
        return;
    }
    for (int64_t column = 0; column < columns; column++) {
        round_run(&rounder, from, count, to);
        from += step;
        to += channels;
    }
}

static void round_input(cf_context *context, cf_rounding *q) {
    const int64_t row = q->columns * q->channels, work = q->batch * q->rows * row;
    q->parts = min64(q->columns, ceil_div(row, CF_ROUNDED));
    run_tasks(context, threads_for(context, work, 4), q->batch * q->rows * q->parts, round_task, q);
}

#endif
