/*
 * The operations XLA leaves to a runtime, on buffers of logical tensors with element strides.
 *
 * Every function runs on the caller's thread, allocates nothing, keeps no state, and needs of the
 * C library only memcpy and memset. Buffers are aligned to their elements, and an output
 * overlaps no input. Integer arithmetic wraps around; F16 is computed in float and rounded once.
 */
#ifndef COLDFORGE_KERNELS_H
#define COLDFORGE_KERNELS_H

#include <stdint.h>

#include "ops/weight_type.h"

typedef enum { CF_F32, CF_F64, CF_F16, CF_S8, CF_S16, CF_S32, CF_S64, CF_U8, CF_U16, CF_U32, CF_U64 } cf_dtype;

/*
 * XLA's convolution (https://openxla.org/xla/operation_semantics#conv_convolution). The kernel's logical
 * shape is [spatial..., in_channels / groups, out_channels]; block g of the output channels sees block g of
 * the input channels. Output o and tap t of a dimension meet at p = o * stride - pad_low + t * window_dilation
 * of the input dilated by base_dilation: at input p / base_dilation if that is whole and within [0, in), else
 * at a zero. pad_low may be negative; the high padding follows from out. A reversed dimension takes its taps
 * from the kernel's far end.
 */
typedef struct {
    cf_dtype dtype;
    int32_t spatial_rank; /* 1..3 */
    int64_t batch, groups, in_channels, out_channels;
    int64_t in[3], out[3], kernel[3], stride[3], pad_low[3], base_dilation[3], window_dilation[3];
    int32_t reversed[3];
    /* element strides of the logical dimensions */
    int64_t in_batch, in_channel, in_spatial[3];
    int64_t kernel_in, kernel_out, kernel_spatial[3];
    int64_t out_batch, out_channel, out_spatial[3];
} cf_convolution;

/* Fast for F32 with in_channel == 1 and kernel_out == 1 (XLA's NHWC x HWIO); everything else is a loop nest. */
void cf_run_convolution(const cf_convolution *c, const void *input, const void *kernel, void *output);

/* out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]; zeros if k is 0. Strides are in elements. */
typedef struct {
    cf_dtype dtype;
    int64_t batch, m, n, k;
    int64_t lhs_batch, lhs_m, lhs_k;
    int64_t rhs_batch, rhs_k, rhs_n;
    int64_t out_batch, out_m, out_n;
} cf_dot;

/* Fast for F32 and F64 when each operand has a stride of 1 in one of its dimensions m, k or n. */
void cf_run_dot(const cf_dot *d, const void *lhs, const void *rhs, void *out);

/* The same for one matrix of the batch; the pointers are those of the whole tensors. */
void cf_run_dot_at(const cf_dot *d, int64_t batch, const void *lhs, const void *rhs, void *out);

/* dst[i...] = src[i...] on up to 8 dimensions. A source stride may be 0 (a broadcast). */
typedef struct {
    int32_t rank; /* 0..8 */
    int64_t dims[8], src_stride[8], dst_stride[8]; /* elements */
    int64_t item_size; /* bytes, any */
} cf_copy;

void cf_run_copy(const cf_copy *c, const void *src, void *dst);

/*
 * target[i...] = source[i...], plus or times other[i...], of F32. The target's last stride is 1; a stride of 0 repeats.
 * The source may be the target where their strides are the same.
 */
typedef enum { CF_BROADCAST_COPY, CF_BROADCAST_ADD, CF_BROADCAST_MULTIPLY } cf_broadcast_op;

typedef struct {
    cf_broadcast_op op;
    int64_t dims[4], source[4], other[4], target[4]; /* sizes, then strides in elements */
} cf_broadcast;

/* Rows [from, to) of the dims[0] * dims[1] * dims[2]. other may be NULL for CF_BROADCAST_COPY. */
void cf_run_broadcast(const cf_broadcast *b, int64_t from, int64_t to, const float *source, const float *other,
                      float *target);

/*
 * output[i] = table[index], a row of `width` floats, for each of `count` indices. table: [rows, width] of `type`, int8
 * with a `scale` for each row. An index is converted as XLA converts it, to int32 unless it is `wide`; below 0 it counts
 * from the table's end if `negative`; and past either end it means the row at that end.
 */
typedef struct {
    cf_weight_type type;
    cf_dtype index; /* F32 or an integer */
    int32_t wide, negative;
    int64_t count, rows, width;
} cf_gather;

void cf_run_gather(const cf_gather *g, const void *indices, const void *table, const float *scale, float *output);

/*
 * XLA's comparator: *result = 1 if the left element comes first. operands[2 * i] is the left element of
 * input i, operands[2 * i + 1] the right one; the last three arguments and run_options are NULL.
 */
typedef void (*cf_comparator)(uint8_t *result, const void *run_options, const void **operands,
                              const void *buffer_table, void *status, void *counters);

/* Inputs of the shape [outer, length, inner], dense, sorted together along the middle dimension. */
typedef struct {
    int32_t inputs; /* 1..16 */
    int64_t outer, length, inner;
    int64_t item_size[16]; /* bytes */
} cf_sort;

/*
 * In place and stable. scratch: length * 16 bytes (two arrays of indices) and then length * (the largest
 * item_size) bytes (one column), aligned to 8. With a comparator that is no strict weak order (NaNs) the
 * order is unspecified, but the result is a permutation and nothing outside the buffers is touched.
 */
void cf_run_sort(const cf_sort *s, cf_comparator less, void *const *data, void *scratch);

/* values is [batch, length], the outputs are [batch, k], dense; 0 <= k <= length <= INT32_MAX. */
typedef struct {
    int64_t batch, length, k;
} cf_topk;

/*
 * The k largest, largest first, of equals the lower index first. The order is that of XLA's run time, total:
 * -NaN < -Inf < ... < -0 < +0 < ... < +Inf < +NaN.
 */
void cf_run_topk(const cf_topk *t, const float *values, float *out_values, int32_t *out_indices);

/* CF_FFT: exp(-2 pi i j k / size); CF_IFFT: its inverse. Of the real ones only the first size / 2 + 1 numbers are kept. */
typedef enum { CF_FFT, CF_IFFT, CF_RFFT, CF_IRFFT } cf_fft_kind;

/*
 * One dimension of `size` numbers, of which complex transforms of `length` are made: half the size where the numbers
 * are real and even in number. length has no prime factor over 31, unless `padded` has none and is at least
 * 2 * length - 1; else padded is 0. split: a transform's lanes come from one line, and 8 divides its length.
 * `tables` is where its constants begin, in floats, each a pair of real and imaginary part: with n = padded or length,
 * m = n / 8 if split, else n, and e(x) = exp(-2 pi i x),
 *   e(k / m), k < m;
 *   if split, for k < m: the real parts of e(k l / n), l < 8, then the imaginary ones;
 *   if padded, e(k * k / 2 length), k < length; then the transform of what is 1 / e(k * k / 2 length) at k and at
 *   padded - k and 0 elsewhere, over padded;
 *   of halves, -i * e(k / size), k <= length / 2.
 */
typedef struct {
    int64_t size, length, padded, tables;
    int32_t split;
} cf_fft_axis;

/* Over the last `rank` dimensions of dense tensors; batch is the product of the others. */
typedef struct {
    cf_fft_kind kind;
    int32_t rank; /* 1..3 */
    int64_t batch;
    cf_fft_axis axes[3];
    int64_t lines, copy; /* where in the scratch memory, in floats, eight lines of reals are, and the inverse's input */
} cf_fft;

/* scratch is aligned to 32 bytes; builder/compiler/lower/steps/fft_step.py says how large it is. */
void cf_run_fft(const cf_fft *f, const float *input, const float *tables, float *output, float *scratch);

/*
 * Non-maximum suppression of boxes [boxes, 4], of two opposite corners each: the box with the largest score over `score`
 * is kept, then the next that overlaps no kept one by more than `overlap`, and so on; of equal scores the lower index
 * first. decay < 0: boxes are not left out, but their scores shrink by exp(decay * overlap^2) for each kept box, and
 * their turn comes later; else decay is 0. overlaps: `boxes` gives the overlaps themselves, [boxes, boxes].
 */
typedef struct {
    int64_t boxes, size; /* at most `size` are kept */
    float overlap, score, decay;
    int32_t overlaps;
} cf_nms;

/* indices[size] and the scores kept[size] are filled up with zeros; *count is how many there are. scratch: 12 bytes for
 * each box, and then 20 for each that may be kept, aligned to 4. */
void cf_run_nms(const cf_nms *n, const float *boxes, const float *scores, int32_t *indices, float *kept, int32_t *count,
                void *scratch);

/*
 * The same for every class: boxes [batch, boxes, box_classes, 4], where box_classes is 1 or `classes`, and scores
 * [batch, boxes, classes]. Of each class at most per_class are kept, and of all the `size` with the largest scores. Equal
 * scores of a class come in the order of TensorFlow's heap, and of several classes in the order of the classes.
 */
typedef struct {
    int64_t batch, boxes, box_classes, classes, per_class, size;
    float overlap, score;
    int32_t clip; /* corners to [0, 1] */
} cf_combined_nms;

/* Of shapes [batch, size, 4], [batch, size] twice, and [batch]. scratch: 8 bytes for each box, 16 for each class and box
 * of it that may be kept, and then 20 for each that one class may keep, aligned to 4. */
void cf_run_combined_nms(const cf_combined_nms *n, const float *boxes, const float *scores, float *out_boxes,
                         float *out_scores, float *out_classes, int32_t *counts, void *scratch);

#endif
