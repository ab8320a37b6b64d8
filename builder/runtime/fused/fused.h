/* The interface of the fused kernels: the layers that a generated program.c passes, and the table of kernels. */
#ifndef COLDFORGE_FUSED_H
#define COLDFORGE_FUSED_H

#include <stddef.h>
#include <stdint.h>

#include "ops/weight_type.h"
#include "platform/threads.h"

enum { CF_MAX_TAPS = 1024 };

/* What no step of a program has, its kernels know nothing of, and take less room: layers of CF_INTEGER, and so bytes
 * between layers; weights that are not float32; algorithms that only convolutions have; hard_swish in the micro-kernels
 * of GEMM; norms; recurrent layers; layers of a batch's images one by one. See kernel_kinds in builder/compiler/emit/print_program.py.
 */
#ifndef CF_HAS_INTEGER
#define CF_HAS_INTEGER 0
#endif
#ifndef CF_HAS_SMALL_WEIGHTS
#define CF_HAS_SMALL_WEIGHTS 0
#endif
#ifndef CF_HAS_CONVOLUTIONS
#define CF_HAS_CONVOLUTIONS 0
#endif
#ifndef CF_HAS_HARD_SWISH
#define CF_HAS_HARD_SWISH 0
#endif
#ifndef CF_HAS_NORM
#define CF_HAS_NORM 0
#endif
#ifndef CF_HAS_RECURRENT
#define CF_HAS_RECURRENT 0
#endif
#ifndef CF_HAS_ONE_BY_ONE
#define CF_HAS_ONE_BY_ONE 0
#endif

/* A float32 NHWC tensor: strides in floats, and the offset of element [0, 0, 0, 0] from the buffer's start. */
typedef struct {
    int64_t first, image, row, pixel;
} cf_view;

/* Zeros around a picture, in pixels. */
typedef struct {
    int64_t top, left, bottom, right;
} cf_halo;

typedef enum {
    CF_DIRECT,
    CF_DEPTHWISE,
    CF_WINOGRAD2,
    CF_WINOGRAD4,
    CF_INTEGER,
    CF_INTEGER_WINOGRAD4, /* CF_INTEGER where a processor multiplies bytes, elsewhere CF_WINOGRAD4 of rounded inputs */
    CF_THIN,
    CF_INTEGER_DEPTHWISE
} cf_algorithm;

typedef enum {
    CF_CLAMP, /* "identity" is a clamp to +-infinity; NaN stays NaN */
    CF_SIGMOID,
    CF_SWISH,
    CF_HARD_SIGMOID, /* clamp(x + 3, 0, 6) / 6 */
    CF_HARD_SWISH,
    CF_GELU,
    CF_GELU_TANH,
    CF_TANH,
    CF_ELU,
    CF_PRELU /* x * slope where x is negative, a slope for each channel */
} cf_activation;

/* See LayerStep and Epilogue in builder/compiler/lower/steps/layer_step.py. */
typedef struct {
    cf_algorithm algorithm;
    cf_activation activation;
    int64_t batch, groups, in_channels, out_channels;
    int64_t out[2], kernel[2], stride[2], dilation[2], padding[2];
    cf_view input, output, residual, second;
    cf_halo halo, second_halo;
    int64_t residual_channels; /* the first ones are all that the residual has; 0: it has as many as the output */
    float low, high, second_low, second_high;
    int32_t finishes; /* the second output takes the place of the output */
    int64_t band;     /* Winograd: tiles that are transformed together */
    int64_t block[2]; /* CF_THIN: rows and columns of the output that a task computes at most */
    cf_weight_type weight_type;
    float input_scale;  /* this and input_zero, for both CF_INTEGERs: see builder/compiler/lower/steps/quantisation.py */
    int32_t input_zero;
    int32_t input_rounded; /* for them: the input is stored as bytes, and its view is in bytes */
    int32_t stores_sums;   /* of CF_INTEGER: the output is the sums themselves, in int32 */
    int64_t joined;        /* of CF_INTEGER: output pixels side by side that are computed as one; 0 is 1 */
    int32_t one_by_one;    /* of CF_DIRECT with one pixel: each image's sums are added as those of one alone */
    cf_view rounded;       /* the last output as bytes, in bytes: see Rounded there */
    cf_halo rounded_halo;
    float rounded_scale;
    int32_t rounded_zero;
} cf_layer;

/* The start of each buffer. What a layer does not have is NULL; weights, input and bias it always has, and output or
 * rounded. A second output has second_scale and second_shift, and second, rounded or finishes: bytes are of that one
 * then. */
typedef struct {
    const float *input;
    const void *weights; /* of weight_type */
    const float *factor; /* of each input channel: of CF_DIRECT 1x1 layers of one picture and one group */
    const float *bias;
    float *output;
    int8_t *rounded;
    const float *residual, *residual_scale;
    const float *slopes; /* of CF_PRELU, a channel vector as bias is */
    float *second;
    const float *second_scale, *second_shift;
    float *scratch;
    const int32_t *weight_sums; /* of both CF_INTEGERs: [panels][16], the sum of each output channel's int8 weights */
    const int32_t *sum_bias;    /* of CF_INTEGER: [panels][16], added to the sums; or NULL */
    const float *weight_scale; /* int8: [panels][16], the scale of each output channel */
} cf_layer_data;

/* See PoolStep in builder/compiler/lower/steps/image_step.py. The largest element (NaN if any is NaN), or scale * sum, of those
 * inside the picture. `least` and what follows is of sums of bytes: SumRounding there. */
typedef struct {
    int32_t maximum;
    float scale;
    int64_t batch, channels;
    int64_t in[2], out[2], window[2], stride[2], padding[2];
    cf_view input, output;
    cf_halo halo;
    int32_t rounded, zero; /* both pictures are of bytes, whose zero this is */
    int32_t least, low, high, divided;
    float offset;
} cf_pooling;

typedef enum {
    CF_REPACK_FLOATS,
    CF_REPACK_SIGNED,   /* int8 to bytes as layers of integers have them, or back */
    CF_REPACK_UNSIGNED, /* the same of uint8 */
    CF_REPACK_CENTRED,  /* int32, less a zero, to such bytes */
    CF_REPACK_BYTES     /* such bytes, to some channels of a picture */
} cf_repack_form;

/* See RepackStep in builder/compiler/lower/steps/image_step.py. */
typedef struct {
    cf_repack_form form;
    int32_t zero; /* of bytes */
    int64_t batch, size[2], channels;
    cf_view input, output;
    cf_halo halo;
} cf_repack;

/* See AdditionStep in builder/compiler/lower/steps/addition_step.py; views are in bytes. */
typedef struct {
    int64_t batch, size[2], channels;
    cf_view first, second, output;
    cf_halo halo;
    int32_t factors[2], start, shift, zero, low, high;
} cf_addition;

typedef struct {
    const int8_t *first, *second;
    int8_t *output;
} cf_addition_data;

/* See NormStep in builder/compiler/lower/steps/image_step.py. */
typedef struct {
    int64_t batch, size[2], channels;
    cf_view input, output;
    cf_halo halo;
    float epsilon;
    int32_t centred;
    int32_t softmax; /* in place of the norm */
} cf_norm;

/* The start of each buffer; gamma and beta are channel vectors, as a layer's bias is, and NULL of a softmax. */
typedef struct {
    const float *input, *gamma, *beta;
    float *output;
} cf_norm_data;

typedef enum { CF_LSTM, CF_GRU } cf_recurrence;

/* See RecurrentStep in builder/compiler/lower/steps/recurrent_step.py. */
typedef struct {
    cf_recurrence kind;
    int64_t steps, batch, units;
    int64_t output_step; /* floats from step to step of the output */
    int32_t backwards;
    int32_t by_units; /* the weights, float32, as pack_units of builder/compiler/lower/packing.py has them; batch is 1 */
    cf_layer product; /* of the state: a dense layer of `batch` rows, without activation */
    int64_t product_scratch; /* floats of a task, for a product of bytes */
} cf_recurrent;

/* `hidden` and `cell` [batch][units] are the state, before and after; input: [steps][batch][gates * units]. output may
 * be NULL. */
typedef struct {
    const float *input;
    const void *weights; /* of the product's weight_type */
    const float *bias, *weight_scale;
    const int32_t *weight_sums; /* of a product of bytes */
    float *hidden, *cell, *output;
    float *scratch; /* [batch][gates * units], and behind it that of products of bytes */
} cf_recurrent_data;

enum { CF_MOST_HEAD = 256 }; /* numbers of a query, key or value of one head */

/* See Rows in builder/compiler/lower/steps/attention_step.py. */
typedef struct {
    int64_t first, outer[3], row;
} cf_rows;

typedef enum {
    CF_MASK_NONE,
    CF_MASK_ADDED,  /* score + number */
    CF_MASK_CHOSEN, /* the score where the number is not 0, else `fill` */
    CF_MASK_CAUSAL  /* the score where key <= query + past, else `fill` */
} cf_mask;

typedef enum { CF_MASK_F32, CF_MASK_S32, CF_MASK_SET, CF_MASK_U8 } cf_mask_type;

/* See AttentionStep and Mask in builder/compiler/lower/steps/attention_step.py. */
typedef struct {
    int64_t outer[3], queries, keys, size, value_size; /* the last two at most CF_MOST_HEAD */
    cf_rows query, key, value, output;
    float scale;
    cf_mask mask;
    cf_mask_type mask_type;
    float mask_scale, mask_shift, fill;
    int64_t mask_first, mask_strides[5];
    int64_t past;
    int32_t safe;
} cf_attention;

typedef struct {
    const float *query, *key, *value;
    const void *mask; /* NULL if there is none */
    float *output;
} cf_attention_data;

/*
 * The kernels for one instruction set. They read padding as zeros from the input's halo, and write the zeros of the
 * output's halo. No function allocates. Weights and channel vectors are packed by builder/compiler/lower/packing.py. The answer
 * does not depend on the number of threads. A residual may be the output itself.
 */
typedef struct {
    void (*layer)(cf_context *context, const cf_layer *layer, const cf_layer_data *data);
    void (*pool)(cf_context *context, const cf_pooling *pooling, const float *input, float *output);
    void (*repack)(cf_context *context, const cf_repack *repack, const void *input, float *output);
    void (*norm)(cf_context *context, const cf_norm *norm, const cf_norm_data *data);
    void (*recurrent)(cf_context *context, const cf_recurrent *recurrent, const cf_recurrent_data *data);
    void (*add)(cf_context *context, const cf_addition *addition, const cf_addition_data *data);
} cf_fused;

/* Integer GEMM, for layers of CF_INTEGER, which `cf_fused.layer` does not take, and of CF_INTEGER_WINOGRAD4. Few programs
 * have any, so these kernels are compiled into those alone. */
typedef void (*cf_integer_layer)(cf_context *context, const cf_layer *layer, const cf_layer_data *data);

/* Attention. Compiled like those, and likewise only into programs that have it. */
typedef void (*cf_attention_layer)(cf_context *context, const cf_attention *attention, const cf_attention_data *data);

#endif
