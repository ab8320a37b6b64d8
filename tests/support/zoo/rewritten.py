"""Ops that XLA has no kernel for, at every level of a graph: they are rewritten, and TensorFlow runs the original."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from .case import Function, case, f32, i32, i64, refused, u8, weights

RAW = tf.raw_ops


@case(u8("picture", 1, 20, 27, 3), f32("x", 1, 7, 9, 4), ranges={"picture": (0, 256)}, absolute=1e-3)
def resizes() -> Function:
    def build(picture: Any, x: Any) -> Any:
        bicubic = tf.image.resize(picture, (31, 10), method="bicubic", antialias=False)
        return (
            bicubic,
            tf.image.resize(picture, (6, 40), method="area"),
            tf.image.resize(picture, (9, 8), method="lanczos5", antialias=True),
            RAW.ResizeBicubic(images=x, size=[5, 16], align_corners=True),
            # Threefold: XLA's own kernel reads the wrong pixels.
            tf.keras.layers.UpSampling2D(3, interpolation="bilinear")(x),
            RAW.ResizeBilinear(images=x, size=[19, 17], align_corners=True),
            RAW.ResizeBilinear(images=x, size=[21, 45]),
        )

    return build


@case(i32("x", 3, 8), ranges={"x": (0, 9)})
def counts() -> Function:
    """Of a size that two limits hold, which XLA does not see."""

    def count(x: Any, **more: Any) -> Any:
        return tf.math.bincount(x, minlength=6, maxlength=6, **more)

    return lambda x: (
        count(x, axis=-1),
        count(x, weights=tf.cast(x, tf.float32) / 2),
        tf.map_fn(lambda row: count(row, axis=-1, binary_output=True), x),
        RAW.Bincount(arr=x[0], size=4, weights=tf.constant([], tf.float32)),
    )


@case(
    f32("x", 2, 12, 15, 3),
    f32("volume", 1, 5, 6, 7, 2),
    f32("boxes", 5, 4),
    i32("of", 5),
    ranges={"boxes": (-0.2, 1.2), "of": (0, 2)},
    absolute=1e-4,
)
def crops_and_windows() -> Function:
    kernel = weights(3, 2, 3)
    moved = np.array([[0.75, 0.5, -1.25, -0.25, 1.5, 2.125, 0, 0], [1, 0, 2, 0, 1, -3, 0, 0]], np.float32)
    modes = (("BILINEAR", "CONSTANT"), ("NEAREST", "WRAP"), ("BILINEAR", "REFLECT"))
    return lambda x, volume, boxes, of: (
        tf.image.crop_and_resize(x, boxes, of, (4, 6)),
        tf.image.crop_and_resize(x, boxes, of, (1, 3), method="nearest", extrapolation_value=2.0),
        *(
            RAW.ImageProjectiveTransformV3(
                images=x, transforms=moved, output_shape=[9, 10], fill_value=1.5, interpolation=how, fill_mode=mode
            )
            for how, mode in modes
        ),
        *tf.nn.max_pool_with_argmax(tf.round(x), (3, 2), (2, 2), "SAME", include_batch_in_index=True),
        tf.nn.dilation2d(x, kernel, (1, 1, 2, 1), "SAME", "NHWC", (1, 2, 1, 1)),
        tf.nn.erosion2d(x, kernel, (1, 1, 1, 1), "VALID", "NHWC", (1, 1, 1, 1)),
        tf.extract_volume_patches(volume, (1, 2, 3, 2, 1), (1, 2, 1, 3, 1), "SAME"),
    )


@case(f32("x", 7, 9), f32("table", 10, 4), i32("of", 7), ranges={"of": (0, 9)})
def segments_and_selections() -> Function:
    ids = tf.constant([0, 0, 1, 3, 3, 3, 5])
    return lambda x, table, of: (
        *(reduce(x, ids) for reduce in (tf.math.segment_sum, tf.math.segment_mean, tf.math.segment_max)),
        *(reduce(tf.round(x), ids) for reduce in (tf.math.segment_prod, tf.math.segment_min)),
        tf.sparse.segment_sum(table, of, ids),
        tf.sparse.segment_mean(table, of, ids, num_segments=8),
        tf.sparse.segment_sqrt_n(table, of, ids, num_segments=8),
        RAW.NthElement(input=x, n=3),
        RAW.NthElement(input=x, n=1, reverse=True),
        RAW.InTopK(predictions=x, targets=of, k=4),
        tf.histogram_fixed_width(x, (-1.5, 1.0), 7),
        tf.unravel_index(of, (3, 4)),
        tf.math.reduce_euclidean_norm(x, axis=1, keepdims=True),
    )


@case(f32("values", 6), f32("dense", 5, 4), f32("ragged", 6, 2))
def sparse_and_ragged() -> Function:
    indices = [[0, 1], [0, 4], [1, 2], [2, 0], [2, 3], [3, 3]]

    def build(values: Any, dense: Any, ragged: Any) -> Any:
        sparse = tf.SparseTensor(indices, values, (4, 5))
        turned = tf.sparse.reorder(tf.sparse.reshape(sparse, (-1, 2)))
        splits = tf.cast(tf.cumsum(tf.cast(values[:3] > 0.0, tf.int32)), tf.int64)
        rows = RAW.RaggedTensorToTensor(
            shape=[5, 3, 2],
            values=ragged,
            default_value=9.0,
            row_partition_tensors=[tf.concat([[0], splits, [6]], 0)],
            row_partition_types=["ROW_SPLITS"],
        )
        return (
            tf.sparse.sparse_dense_matmul(sparse, dense),
            tf.sparse.sparse_dense_matmul(sparse, dense[:4], adjoint_a=True),
            tf.sparse.reduce_sum(sparse, 1),
            tf.sparse.reduce_max(sparse, 0, keepdims=True),
            tf.sparse.softmax(sparse).values,
            tf.sparse.to_dense(sparse * dense[0, 0]),
            tf.sparse.to_dense(turned),
            tf.sparse.add(sparse, tf.transpose(dense)),
            rows,
        )

    return build


@case(f32("x", 3, 5, 5), absolute=1e-4)
def elimination() -> Function:
    def build(x: Any) -> Any:
        packed, rows = tf.linalg.lu(x)
        return tf.linalg.det(x), *tf.linalg.slogdet(x), packed, rows

    return build


@case(f32("x", 6, 2, 5), f32("state", 2, 8), f32("hidden", 2, 8))
def recurrent_cells_of_tensorflow_1() -> Function:
    w, ru, c, peephole, bias = weights(13, 32), weights(13, 16), weights(13, 8), weights(8), weights(32)

    def build(x: Any, state: Any, hidden: Any) -> Any:
        known = {"cs_prev": state, "h_prev": hidden, "w": w, "wci": peephole, "wcf": -peephole, "wco": peephole}
        cell = RAW.LSTMBlockCell(x=x[0], b=bias, cell_clip=0.5, use_peephole=True, forget_bias=1.0, **known)
        first = RAW.BlockLSTM(seq_len_max=tf.constant(4, tf.int64), x=x, b=bias, cell_clip=-1.0, **known)
        second = RAW.BlockLSTMV2(seq_len_max=tf.constant(6, tf.int64), x=x, b=bias, use_peephole=True, **known)
        gru = RAW.GRUBlockCell(x=x[1], h_prev=hidden, w_ru=ru, w_c=c, b_ru=bias[:16], b_c=bias[:8])
        return cell.cs, cell.h, first.cs, first.h, second.i, second.h, *gru

    return build


@case(f32("x", 2, 8, 10, 12), f32("volume", 1, 2, 5, 6, 7))
def channels_first_by_op() -> Function:
    """TensorFlow has no kernels for these on a CPU."""
    kernel, taps, deep = weights(3, 3, 8, 6), weights(3, 2, 8, 1), weights(2, 2, 3, 2, 4)

    def convolved(x: Any) -> Any:
        y = tf.nn.conv2d(x, kernel, (2, 1), "SAME", "NCHW")
        return tf.nn.max_pool2d(tf.nn.relu(tf.nn.bias_add(y, kernel[0, 0, 0], "NCHW")), (3, 2), 2, "VALID", "NCHW")

    return lambda x, volume: (
        convolved(x),
        tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, tf.nn.avg_pool2d(y, 3, 1, "SAME", "NCHW")), (0, x))[1],
        RAW.DepthwiseConv2dNative(
            input=x, filter=taps, strides=[1, 1, 1, 1], padding="SAME", data_format="NCHW", dilations=[1, 1, 2, 3]
        ),
        tf.nn.conv2d_transpose(x, weights(3, 3, 5, 8), (2, 5, 20, 24), 2, "SAME", "NCHW"),
        tf.nn.depth_to_space(x, 2, "NCHW"),
        RAW.Conv3D(input=volume, filter=deep, strides=[1] * 5, padding="VALID", data_format="NCDHW"),
    )


@case(i64("ids", 4, 5), f32("x", 4, 5), ranges={"ids": (-1, 3)}, big=True)
def looked_up_and_ragged() -> Function:
    """The data decides how many values there are: embeddings of sparse ids, ragged rows, values that differ."""
    table = weights(10, 4)

    def build(ids: Any, x: Any) -> Any:
        sparse, ragged = tf.sparse.from_dense(ids), tf.ragged.boolean_mask(x, x > 0)
        found = tf.where(ids > 0), tf.boolean_mask(ids, ids > 0), tf.constant([6, 5], tf.int64)
        return (
            tf.nn.safe_embedding_lookup_sparse(table, sparse, combiner="mean", default_id=1),
            tf.nn.embedding_lookup_sparse(table, tf.SparseTensor(*found), None, combiner="sum"),
            *RAW.SparseFillEmptyRows(
                indices=found[0], values=found[1], dense_shape=found[2], default_value=tf.constant(7, tf.int64)
            ),
            tf.unique(found[1])[1],
            *tf.unique_with_counts(ids[:, 0]),
            ragged.to_tensor(default_value=-1.0),
            ragged.to_tensor(shape=(6, 3)),
            ragged.to_sparse().indices,
            tf.gather(ragged, [1, 0, 1]).flat_values,
        )

    return build


@case(
    f32("scores", 9, 3, 5),
    i32("lengths", 3),
    i32("places", 5),
    f32("x", 5, 3),
    ranges={"lengths": (0, 10), "places": (0, 5)},
    absolute=1e-4,
)
def decoded_and_scattered() -> Function:
    """CTC, and ops inside loops and branches."""

    def build(scores: Any, lengths: Any, places: Any, x: Any) -> Any:
        (said,), total = tf.nn.ctc_greedy_decoder(scores, lengths)
        into = tf.TensorArray(tf.float32, 5, element_shape=(3,)).scatter(places, x)
        fresh = RAW.TensorListScatterV2(tensor=x, indices=[1, 0, 3, 4, 6], element_shape=[3], num_elements=-1)
        diagonals = tf.transpose(scores[:, :, :3], (1, 2, 0))
        return (
            said.indices,
            said.values,
            tf.sparse.to_dense(said, default_value=-1),
            tf.sparse.to_dense(tf.SparseTensor(said.indices, said.values, (3, 9)), default_value=-1),
            total,
            into.stack(),
            RAW.TensorListStack(input_handle=fresh, element_shape=[3], element_dtype=tf.float32, num_elements=7),
            tf.map_fn(
                lambda one: tf.linalg.tridiagonal_solve(one, tf.ones([9, 1]), diagonals_format="compact"), diagonals
            ),
            tf.cond(
                lengths[0] > 3,
                lambda: tf.reduce_max(tf.unique_with_counts(places)[2]),
                lambda: tf.reduce_min(tf.unique_with_counts(places)[2]),
            ),
        )

    return build


@case(f32("sound", 1600, 1), absolute=1e-4)
def speech_of_tensorflow_1() -> Function:
    def build(sound: Any) -> Any:
        spectrum = RAW.AudioSpectrogram(input=sound, window_size=480, stride=160, magnitude_squared=True)
        return RAW.Mfcc(spectrogram=spectrum, sample_rate=16000), tf.sqrt(spectrum)

    return build


@case(f32("x", 2, 11, 13, 3))
def resized() -> Function:
    """Twice in a function that is called with two shapes."""

    @tf.function(autograph=False)
    def small(x: tf.Tensor) -> tf.Tensor:
        return tf.image.resize(tf.debugging.check_numerics(x, "no number"), (5, 7), "bicubic")

    return lambda x: (
        small(x) + small(x[:, ::2]),
        tf.image.resize(x, (5, 30), "area"),
        tf.image.resize(x, (20, 6), "lanczos3", antialias=True),
    )


@case(f32("x", 2, 11, 13, 3))
def resized_in_loops_and_branches() -> Function:
    def step(i: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        bigger = tf.image.resize(x, (20, 31), "bicubic")
        again = tf.cond(
            tf.equal(i % 2, 0),
            lambda: tf.image.resize(bigger, (11, 13), "area"),
            lambda: tf.image.resize(bigger, (11, 13), "bicubic")[:, ::-1],
        )
        return i + 1, again

    return lambda x: (
        tf.while_loop(lambda i, _: i < 3, step, (0, x))[1],
        tf.map_fn(lambda one: tf.image.resize(one, (5, 6), "bicubic"), x),
    )


@refused("ScaleAndTranslate x1: its input 2 is not a constant", f32("x", 1, 8, 8, 3), f32("scale", 2))
def scaled_by_a_feed() -> Function:
    return lambda x, scale: tf.raw_ops.ScaleAndTranslate(images=x, size=[4, 4], scale=scale, translation=[0.0, 0.0])
