"""Elimination with partial pivots: Lu, MatrixDeterminant, LogMatrixDeterminant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builder.importers.rewrites.op import NotRewritten, Op, Rewrite
from builder.importers.tf import tensorflow


def lu(op: Op, matrix: Any) -> Any:
    """Elimination with partial pivots, real, of any batch. Off by rounding that grows with the matrix's condition.

    A matrix that TensorFlow refuses as not invertible gives 0 on U's diagonal.
    """
    tf = tensorflow()
    packed, rows, _ = _eliminated(_real(matrix))
    return packed, tf.cast(rows, op.attr("output_idx_type"))


def determinant(op: Op, matrix: Any) -> Any:
    """The product of U's diagonal, times the sign of the rows' order. As for Lu."""
    packed, _, sign = _eliminated(_real(matrix))
    return tensorflow().reduce_prod(tensorflow().linalg.diag_part(packed), axis=-1) * sign


def log_determinant(op: Op, matrix: Any) -> Any:
    """The determinant's sign, and the logarithm of its size. As for Lu."""
    tf = tensorflow()
    packed, _, sign = _eliminated(_real(matrix))
    diagonal = tf.linalg.diag_part(packed)
    sizes = tf.reduce_sum(tf.math.log(tf.abs(diagonal)), axis=-1)
    return tf.reduce_prod(tf.sign(diagonal), axis=-1) * sign, sizes


def _real(matrix: Any) -> Any:
    if matrix.dtype.is_complex:
        raise NotRewritten("its matrix is complex")
    if matrix.shape[-1] == 0:
        raise NotRewritten("its matrix is empty")
    return matrix


def _eliminated(matrix: Any) -> tuple[Any, Any, Any]:
    """[..., n, n], the [..., n] rows in their new order as int32, and [...] 1 or -1 for the sign of that order."""
    tf = tensorflow()
    size = matrix.shape[-1]
    batch = tuple(matrix.shape[:-2])
    number = tf.range(size)
    zero = tf.cast(0, matrix.dtype)

    def step(k: Any, a: Any, rows: Any, sign: Any) -> tuple[Any, Any, Any, Any]:
        column = tf.gather(a, k, axis=-1)
        pivot = tf.argmax(tf.where(number >= k, tf.abs(column), tf.cast(-1, a.dtype)), axis=-1, output_type=tf.int32)
        here = pivot[..., None]
        order = tf.where(tf.equal(number, k), here, tf.where(tf.equal(number, here), k, number))
        a, rows = tf.gather(a, order, batch_dims=len(batch)), tf.gather(rows, order, batch_dims=len(batch))
        top = tf.gather(a, k, axis=-2)
        divisor = tf.gather(top, k, axis=-1)[..., None]
        divided = tf.gather(a, k, axis=-1) / tf.where(tf.equal(divisor, zero), tf.cast(1, a.dtype), divisor)
        factor = tf.where(number > k, divided, zero)[..., :, None]
        left = factor * tf.where(number > k, top, zero)[..., None, :]
        a = tf.where(tf.equal(number, k)[None, :] & (number > k)[:, None], factor, a - left)
        return k + 1, a, rows, tf.where(tf.equal(pivot, k), sign, -sign)

    start = tf.constant(0), matrix, tf.broadcast_to(number, (*batch, size)), tf.ones(batch, matrix.dtype)
    _, packed, rows, sign = tf.while_loop(lambda k, *_: k < size, step, start)
    return packed, rows, sign


REWRITES: Mapping[str, Rewrite] = {
    "LogMatrixDeterminant": log_determinant,
    "Lu": lu,
    "MatrixDeterminant": determinant,
}
