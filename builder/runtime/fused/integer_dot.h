/*
 * The one operation of integer GEMM that differs from one instruction set to the next: adding to each of a vector of
 * sums the products of four adjacent input channels, or of two. The quantised inputs are stored in one of these forms:
 *
 *  - CF_PAIRS: int16 byte - zero, multiplied two at a time: AVX2, AVX-512 without VNNI, WebAssembly. Of four channels
 *    the second and the third change places, so that int8 weights are widened by shifts alone: into those of the even
 *    channels and those of the odd ones.
 *  - CF_UNSIGNED: the bytes themselves, four at a time: VNNI.
 *  - CF_SIGNED: byte - 128, four at a time: arm64's dot products; and with CF_MATRIX eight, in integer_matrix.h.
 *
 * The last two leave a multiple of the weights' sums in the result, which initial_sums cancels.
 */
#ifndef COLDFORGE_INTEGER_DOT_H
#define COLDFORGE_INTEGER_DOT_H

#include "fused/fused.h"
#include "fused/vector.h"

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

/* Whether tiles of several pixels are summed by matrix multiplications. */
#ifndef CF_MATRIX
#if CF_FORM == CF_SIGNED && CF_LANES == 4 && defined(__ARM_FEATURE_MATMUL_INT8)
#define CF_MATRIX 1
#else
#define CF_MATRIX 0
#endif
#endif

/* Whether sums of more than a few pixels are made by instructions for tiles of 16 x 16. */
#ifndef CF_TILES
#if CF_FORM == CF_UNSIGNED && CF_LANES == 16 && defined(__AMX_INT8__)
#define CF_TILES 1
#else
#define CF_TILES 0
#endif
#endif

/* Whether weights are put into another form, in the first-level cache, where that pays: for more than a few pixels. */
#define CF_REPACKS (CF_FORM == CF_PAIRS || CF_MATRIX)

enum {
    CF_QUAD = 4,                           /* input channels whose weights lie side by side in a panel */
    CF_WORDS = CF_FORM == CF_PAIRS ? 2 : 1 /* 32-bit words that hold a pixel's four quantised channels */
};

#if CF_FORM == CF_PAIRS
typedef int16_t cf_quantised;
#else
typedef int8_t cf_quantised; /* or the same bits, unsigned */
#endif
typedef cf_quantised quantised_vec __attribute__((vector_size(CF_LANES * sizeof(cf_quantised))));
typedef cf_quantised loose_quantised_vec
    __attribute__((vector_size(CF_LANES * sizeof(cf_quantised)), aligned(sizeof(cf_quantised)), may_alias));
typedef int16_t pairs __attribute__((vector_size(CF_LANES * 4)));
typedef uint16_t unsigned_pairs __attribute__((vector_size(CF_LANES * 4)));

INLINE ivec iload(const void *p) { return *(const loose_ivec *)p; }

/* a + b. Sums may wrap around on the way to a result that fits. */
INLINE ivec plus(ivec a, ivec b) { return (ivec)((unsigned_ivec)a + (unsigned_ivec)b); }

/* One word of a pixel's quantised channels, for all lanes. */
#if CF_FORM == CF_SIGNED && CF_LANES == 4 && defined(__ARM_FEATURE_DOTPROD)
/* In one lane, which the instruction can name: copying it to all lanes, as Clang would, costs a vector unit's time. */
typedef int8x8_t cf_word;
INLINE cf_word broadcast_word(const int32_t *p) {
    cf_word word = vcreate_s8((uint64_t)(uint32_t)*p);
    __asm__("" : "+w"(word));
    return word;
}
#else
typedef ivec cf_word;
INLINE cf_word broadcast_word(const int32_t *p) { return isplat(*p); }
#endif

/* sum + the products of a word's channels with each lane's weights. */
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

/* The same with words of their own in each lane. */
INLINE ivec dot_lanes(ivec sum, ivec words, ivec weights) {
#if CF_FORM == CF_SIGNED && CF_LANES == 4 && defined(__ARM_FEATURE_DOTPROD)
    return (ivec)vdotq_s32((int32x4_t)sum, (int8x16_t)words, (int8x16_t)weights);
#elif defined(CF_PRODUCTS)
    return plus(sum, (ivec)CF_PRODUCTS(words, weights));
#else
    return dot(sum, words, weights);
#endif
}

/*
 * dot() for `vectors` vectors. Compilers know that integers may be added in any order, and would keep dozens of
 * products for later: HERE prevents that. All products come before the first addition, because an addition right
 * behind the multiplication it waits for costs 3 %.
 */
#ifdef CF_PRODUCTS
#define HERE(v) __asm__("" : "+v"(v))
INLINE void dots(const int vectors, ivec *sums, cf_word word, const ivec *weights) {
    ivec products[CF_NR / CF_LANES];
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

/* Word number `which` of the int8 weights of CF_LANES output channels for four input channels. */
INLINE ivec weight_word(const int8_t *widen, const int which) {
    const ivec bytes = iload(widen);
    if (CF_WORDS == 1) return bytes;
    return which == 0 ? (ivec)((pairs)((unsigned_pairs)bytes << 8) >> 8) : (ivec)((pairs)bytes >> 8);
}

/* What is added to byte - zero where a quantised input is stored. */
INLINE int32_t stored_offset(const cf_layer *layer) {
    return CF_FORM == CF_PAIRS ? 0 : layer->input_zero - (CF_FORM == CF_SIGNED ? 128 : 0);
}

/* The initial sums of CF_LANES output channels from `channel` on: the bias, and what cancels that which the stored offset
 * adds to the products. */
INLINE ivec initial_sums(const cf_layer_data *data, int64_t channel, int32_t offset) {
    const ivec bias = data->sum_bias != NULL ? iload(data->sum_bias + channel) : (ivec){0};
    if (offset == 0) return bias;
    return plus(bias, (ivec)((unsigned_ivec)iload(data->weight_sums + channel) * (unsigned_ivec)isplat(-offset)));
}

#endif
