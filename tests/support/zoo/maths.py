"""Number types, linear algebra, indexing, reductions and element-wise functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from .case import Function, boolean, case, f32, f64, i32, i64, u8, weights


@case(f32("x", 48, 64), covers=("Dot",))
def matmul_float32() -> Function:
    kernel, column, row = weights(64, 40), weights(64, 1), weights(48, 33)
    return lambda x: (x @ kernel, x @ column, tf.linalg.matmul(x, row, transpose_a=True))


@case(f64("a", 3, 17, 29), f64("b", 3, 29, 28), f64("c", 3, 15, 29), absolute=1e-12, relative=1e-12, covers=("Dot",))
def matmul_float64_batched_transposed() -> Function:
    return lambda a, b, c: (
        tf.linalg.matmul(a, b),
        tf.linalg.matmul(a, c, transpose_b=True),
        tf.linalg.matmul(b, a, transpose_a=True, transpose_b=True),
    )


@case(i32("a", 24, 40), i32("b", 40, 21), ranges={"a": (-99, 99), "b": (-99, 99)}, covers=("Dot",))
def matmul_int32() -> Function:
    return lambda a, b: (a @ b, tf.linalg.matmul(b, a, transpose_a=True, transpose_b=True))


@case(i64("a", 20, 33), i64("b", 33, 18))
def matmul_int64() -> Function:
    return lambda a, b: a @ b


@case(f32("x", 40, 48), absolute=0.1, relative=2e-2, covers=("Dot",))
def matmul_half_inside() -> Function:
    kernel = weights(48, 36)
    return lambda x: (
        tf.cast(tf.cast(x, tf.float16) @ tf.cast(kernel, tf.float16), tf.float32),
        tf.cast(tf.cast(x, tf.bfloat16) @ tf.cast(kernel, tf.bfloat16), tf.float32),
    )


@case(f32("a", 2, 4, 26, 18), f32("b", 2, 4, 25, 18), covers=("Dot",))
def matmul_batched_rank_4() -> Function:
    return lambda a, b: tf.linalg.matmul(tf.nn.softmax(tf.linalg.matmul(a, b, transpose_b=True)), b)


@case(f32("a", 13, 14, 15), f32("b", 15, 14, 16), f32("c", 16), covers=("Dot",))
def einsum() -> Function:
    return lambda a, b, c: (
        tf.einsum("abc,cbd->ad", a, b),
        tf.einsum("abc,cbd->adb", a, b),
        tf.einsum("cbd,d->bc", b, c),
    )


@case(f32("x", 6, 6), absolute=1e-4)
def cholesky_and_solve() -> Function:
    def build(x: Any) -> Any:
        positive = x @ tf.transpose(x) + 6.0 * tf.eye(6)
        lower = tf.linalg.cholesky(positive)
        return lower, tf.linalg.triangular_solve(lower, x), tf.linalg.inv(positive)

    return build


@case(f32("x", 5, 4), absolute=1e-4, relative=1e-3)
def svd() -> Function:
    """Singular vectors have no fixed sign, so what is fetched does not depend on it."""

    def build(x: Any) -> Any:
        values, left, right = tf.linalg.svd(x)
        return values, left @ tf.linalg.diag(values) @ tf.linalg.adjoint(right)

    return build


@case(f32("x", 5, 3), absolute=1e-4, relative=1e-3)
def qr() -> Function:
    def build(x: Any) -> Any:
        orthogonal, upper = tf.linalg.qr(x)
        return orthogonal @ upper, tf.abs(upper)

    return build


@case(u8("image", 1, 20, 30, 3), ranges={"image": (0, 256)})
def uint8_image_resized() -> Function:
    def build(image: Any) -> Any:
        pixels = tf.cast(image, tf.float32) / 127.5 - 1.0
        return (
            tf.image.resize(pixels, (9, 12)),
            tf.image.resize(pixels, (40, 45), method="nearest"),
            tf.cast(255 - image, tf.uint8),
        )

    return build


@case(f32("left", 2, 8), i32("right", 2, 3), f64("scale"), ranges={"right": (-5, 5)})
def several_inputs_and_outputs() -> Function:
    return lambda left, right, scale: {
        "sum": tf.reduce_sum(left, axis=1) + tf.cast(tf.reduce_sum(right, axis=1), tf.float32),
        "doubled": right * 2,
        "scaled": tf.cast(left, tf.float64) * scale,
        "positive": left > 0.0,
    }


@case(i32("x", 30), i32("y", 30), ranges={"x": (-1000, 1000), "y": (1, 40)})
def int32_arithmetic() -> Function:
    return lambda x, y: (x // y, x % y, x * y - 3, tf.maximum(x, y), tf.abs(x), tf.truncatediv(x, y))


@case(i64("x", 4, 9), ranges={"x": (-(2**40), 2**40)})
def int64_arithmetic() -> Function:
    return lambda x: (
        tf.reduce_sum(x, axis=1),
        tf.math.floormod(x, 97),
        tf.argmax(x, axis=1),
        tf.cumsum(x, axis=1, reverse=True),
    )


@case(i32("x", 25), i32("shift", 25), ranges={"x": (-(2**31), 2**31), "shift": (0, 31)})
def bits() -> Function:
    return lambda x, shift: (
        tf.bitwise.bitwise_and(x, 0x0F0F0F0F),
        tf.bitwise.bitwise_xor(x, shift),
        tf.bitwise.invert(x),
        tf.bitwise.left_shift(x, shift),
        tf.bitwise.right_shift(x, shift),
        tf.bitcast(tf.bitwise.bitwise_or(tf.bitwise.bitwise_and(x, 0x007FFFFF), 0x3F800000), tf.float32),
        tf.raw_ops.PopulationCount(x=x),
    )


@case(boolean("a", 4, 7), boolean("b", 4, 7))
def logic() -> Function:
    return lambda a, b: (a & b, a | b, a ^ b, tf.reduce_any(a, axis=1), tf.reduce_all(a | b, axis=0))


@case(f32("x", 50), f32("y", 50), ranges={"x": (-4.0, 4.0), "y": (0.2, 5.0)}, relative=1e-3)
def elementwise() -> Function:
    return lambda x, y: (
        tf.math.erf(x),
        tf.pow(y, x),
        tf.tanh(x),
        tf.atan2(x, y),
        tf.math.floormod(x, y),
        tf.raw_ops.Mod(x=x, y=y),
        tf.math.log1p(y),
        tf.math.expm1(x),
        tf.math.rsqrt(y),
        tf.round(x),
        tf.math.sin(x) + tf.math.cos(y),
        tf.math.asinh(x),
        tf.math.lgamma(y),
        tf.math.digamma(y),
        tf.math.sign(x) * tf.math.ceil(x),
    )


@case(f64("x", 20), ranges={"x": (0.1, 3.0)}, absolute=1e-12, relative=1e-9)
def elementwise_float64() -> Function:
    return lambda x: (tf.exp(x), tf.math.log(x), tf.tanh(x), tf.sqrt(x), tf.math.erf(x), tf.sin(x), x**1.7)


@case(f32("table", 12, 5), i32("index", 7), i64("pairs", 6, 2), ranges={"index": (0, 12), "pairs": (0, 5)})
def gather() -> Function:
    return lambda table, index, pairs: (
        tf.gather(table, index),
        tf.gather(table, index % 5, axis=1),
        tf.gather_nd(table, pairs),
    )


@case(f32("x", 10, 4), i32("index", 6, 1), f32("rows", 6, 4), ranges={"index": (0, 10)})
def scatter() -> Function:
    return lambda x, index, rows: (
        tf.scatter_nd(index, rows, (10, 4)),
        tf.tensor_scatter_nd_add(x, index, rows),
        tf.tensor_scatter_nd_max(x, index, rows),
        tf.math.unsorted_segment_sum(rows, [0, 0, 1, 1, 1, 3], 5),
    )


@case(f32("x", 10, 4), f32("rows", 3, 4))
def scatter_update() -> Function:
    index = tf.constant([[7], [0], [3]])
    return lambda x, rows: tf.tensor_scatter_nd_update(x, index, rows)


@case(i32("x", 8), ranges={"x": (-1, 7)})
def one_hot() -> Function:
    return lambda x: (tf.one_hot(x, 6), tf.one_hot(x, 5, on_value=3, off_value=-1, axis=0, dtype=tf.int32))


@case(f32("x", 3, 5, 7))
def reductions() -> Function:
    return lambda x: (
        tf.argmax(x, axis=2),
        tf.argmin(x, axis=0, output_type=tf.int32),
        tf.reduce_mean(x, axis=[0, 2]),
        tf.reduce_prod(x, axis=1),
        tf.math.reduce_std(x, axis=0),
        tf.reduce_logsumexp(x),
        tf.norm(x, axis=1),
    )


@case(f32("x", 4, 50), relative=1e-3)
def cumulative() -> Function:
    return lambda x: (
        tf.cumsum(x, axis=1),
        tf.cumsum(x, axis=0, exclusive=True),
        tf.math.cumprod(x, axis=1, reverse=True),
        tf.math.cumulative_logsumexp(x, axis=1),
    )


@case(f32("x", 6, 9, 4))
def slices() -> Function:
    return lambda x: (
        x[1:-1:2, ::-3, None, 1],
        tf.reverse(x, [0, 2]),
        tf.roll(x, [2, -1], axis=[0, 1]),
        tf.concat([x[:2], x[4:]], axis=0),
        tf.stack(tf.unstack(x, axis=2)[1:], axis=0),
        tf.tile(x[:1, :2], [2, 1, 3]),
        tf.pad(x[0], [[1, 2], [0, 1]], mode="REFLECT"),
    )


@case(f32("x", 5, 8), i32("start"), ranges={"start": (-3, 8)})
def slice_at_fed_index() -> Function:
    return lambda x, start: tf.slice(x, [0, tf.clip_by_value(start, 0, 5)], [5, 3])


@case(f32("x", 64, 48, 32))
def transposed_large() -> Function:
    """Bigger than the caches' first level: layouts, not arithmetic."""
    return lambda x: tf.transpose(tf.reshape(tf.transpose(x, [2, 0, 1]) * 1.5, (48, 64, 32)), [2, 1, 0])


@case(f32("x", 1, 8, 8, 12))
def space_and_depth() -> Function:
    return lambda x: (
        tf.nn.depth_to_space(x, 2),
        tf.nn.space_to_depth(x, 4),
        tf.space_to_batch(x, [2, 2], [[0, 0], [2, 0]]),
        tf.image.extract_patches(x, [1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID"),
    )


@case(f32("a"), f32("b"), i32("n"), ranges={"n": (-1000, 1000)})
def scalars() -> Function:
    return lambda a, b, n: (a * b + 1.0, tf.cast(n, tf.float32) / 3.0, a > b)


@case(f32("x", 3, 4))
def empty_fetch() -> Function:
    return lambda x: (x[:0], tf.reduce_sum(x[:0]), x + 1.0)


@case(f32("x", 4))
def constant_fetch() -> Function:
    return lambda x: (tf.constant([1.5, -2.0, 3.25]), tf.constant(7), tf.zeros_like(x))


@case(f32("x", 3, 5), i32("y", 2))
def feed_is_fetch() -> Function:
    return lambda x, y: (x, y, x * 2.0)


@case(f32("x", 3, 5))
def same_fetch_twice() -> Function:
    def build(x: Any) -> Any:
        y = tf.nn.softmax(x)
        return y, y, tf.reshape(y, (15,))

    return build


@case(f32("x", 4), f32("unused", 2, 2))
def feed_without_use() -> Function:
    return lambda x, unused: tf.exp(x)


@case(f32("x", 8, 3))
def casts() -> Function:
    return lambda x: tuple(
        tf.cast(x * 20.0, dtype) for dtype in (tf.int32, tf.int64, tf.float64, tf.bool, tf.int8, tf.int16)
    )


@case(f32("x", 9), ranges={"x": (-3.0, 3.0)}, absolute=2e-2, relative=2e-2)
def half_precision_inside() -> Function:
    """Half and bfloat16 may not cross the border, but a graph may compute in them."""
    return lambda x: (
        tf.cast(tf.cast(x, tf.float16) * 1.5 + 0.25, tf.float32),
        tf.cast(tf.tanh(tf.cast(x, tf.bfloat16)), tf.float32),
    )


@case(f32("x", 7), ranges={"x": (-2.0, 2.0)})
def infinities() -> Function:
    """Division by zero, logarithms of negatives: the same infinities and NaNs as TensorFlow."""
    return lambda x: (1.0 / tf.nn.relu(x), tf.math.log(x), tf.sqrt(x), tf.math.is_nan(tf.sqrt(x)))


@case(f32("sound", 1, 1024), covers=("0 / 0 in silence",))
def normalised_spectrum() -> Function:
    """How networks for audio begin: logarithms of a spectrum, between its own least and greatest."""
    dense, bias, head = weights(33, 8), weights(8, scale=0.3), weights(8, 5)
    turn = 2 * np.pi / 64 * np.outer(np.arange(64), np.arange(33))
    window = np.hanning(64)[:, None]
    real, imaginary = (tf.constant((window * wave(turn)).astype("float32")) for wave in (np.cos, np.sin))

    def network(sound: Any) -> Any:
        frames = tf.signal.frame(sound, 64, 32)
        power = tf.math.log(tf.square(frames @ real) + tf.square(frames @ imaginary) + 1e-10)
        above = power - tf.reduce_min(power, [1, 2], keepdims=True)
        scaled = tf.math.divide_no_nan(above, tf.reduce_max(above, [1, 2], keepdims=True))
        return tf.sigmoid(tf.reduce_max(tf.nn.relu(scaled @ dense + bias), 1) @ head)

    return network


@case(
    f32("a", 5), f32("b", 5), f32("x", 5), f32("square", 2, 5, 5), i32("at", 5),
    ranges={"a": (0.5, 3.0), "b": (0.5, 3.0), "x": (0.05, 0.95), "at": (0, 6)},
)  # fmt: skip
def special_functions_and_diagonals() -> Function:
    """Also sparse tensors whose places are fed, and a drawing that has one outcome."""

    def build(a: tf.Tensor, b: tf.Tensor, x: tf.Tensor, square: tf.Tensor, at: tf.Tensor) -> tuple[tf.Tensor, ...]:
        places = tf.cast(tf.stack([tf.range(5), at], 1), tf.int64)
        sparse = tf.SparseTensor(places, x, (5, 7))
        return (
            tf.math.betainc(a, b, x),
            tf.math.igamma(a, b),
            tf.math.igammac(a, b),
            tf.math.zeta(a + 1.5, b),
            tf.math.polygamma(tf.constant([1.0, 2.0, 3.0, 1.0, 2.0]), b),
            tf.math.ndtri(x),
            tf.math.erfinv(x),
            tf.math.bessel_i0e(b) + tf.math.bessel_i1e(a) + tf.math.bessel_i0(a) + tf.math.bessel_i1(b),
            tf.linalg.diag(x, k=-1),
            tf.raw_ops.MatrixDiagV3(diagonal=square[:, :2], k=[-1, 0], num_rows=-1, num_cols=-1, padding_value=2.0),
            tf.raw_ops.MatrixDiagPartV3(input=square, k=[-1, 1], padding_value=3.0),
            tf.raw_ops.MatrixSetDiagV3(input=square, diagonal=square[:, 1], k=0),
            tf.raw_ops.Bucketize(input=square, boundaries=[-1.0, 0.0, 0.5]),
            tf.math.in_top_k(at, tf.concat([square[0], square[1]], 1), 3),
            tf.cast(tf.random.categorical(tf.constant([[-100.0, 100.0, -100.0]]) + x[0], 4), tf.int32),
            tf.sparse.to_dense(sparse, validate_indices=False),
            tf.sparse.sparse_dense_matmul(sparse, tf.concat([square[0], square[1, :2]], 0)),
        )

    return build
