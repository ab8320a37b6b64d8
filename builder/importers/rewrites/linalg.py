"""Elimination with partial pivots: Lu, MatrixDeterminant, LogMatrixDeterminant, TridiagonalSolve."""

from __future__ import annotations

from typing import Any

from builder.base.tf import tf
from builder.importers.rewrites.op import NotRewritten, Op, rewrites


@rewrites("Lu")
def rewrite_lu(op: Op, matrix: Any) -> Any:
    """Eliminate with partial pivots, for real matrices of any batch.

    Off by rounding that grows with the matrix's condition. A matrix that TensorFlow refuses as not invertible gives 0
    on U's diagonal.
    """
    packed, rows, _ = _eliminate_rows(_require_real(matrix))
    return packed, tf.cast(rows, op.get_attribute("output_idx_type"))


@rewrites("MatrixDeterminant")
def rewrite_determinant(op: Op, matrix: Any) -> Any:
    """Multiply U's diagonal, and the sign of the rows' order, as for Lu."""
    packed, _, sign = _eliminate_rows(_require_real(matrix))
    return tf.reduce_prod(tf.linalg.diag_part(packed), axis=-1) * sign


@rewrites("LogMatrixDeterminant")
def rewrite_log_determinant(op: Op, matrix: Any) -> Any:
    """Return the determinant's sign, and the logarithm of its size, as for Lu."""
    packed, _, sign = _eliminate_rows(_require_real(matrix))
    diagonal = tf.linalg.diag_part(packed)
    sizes = tf.reduce_sum(tf.math.log(tf.abs(diagonal)), axis=-1)
    return tf.reduce_prod(tf.sign(diagonal), axis=-1) * sign, sizes


def _require_real(matrix: Any) -> Any:
    if matrix.dtype.is_complex:
        raise NotRewritten("its matrix is complex")
    if matrix.shape[-1] == 0:
        raise NotRewritten("its matrix is empty")
    return matrix


def _eliminate_rows(matrix: Any) -> tuple[Any, Any, Any]:
    """Return LU [..., n, n], the rows [..., n] in their new order (int32), and the sign [...] of that order.

    The sign is 1 or -1.
    """
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


@rewrites("TridiagonalSolve")
def rewrite_tridiagonal_solve(op: Op, diagonals: Any, right: Any) -> Any:
    """Solve with partial pivots, where XLA has no kernel for them.

    Off by rounding that grows with the matrix's condition. A matrix that TensorFlow refuses as not invertible gives
    infinities.
    """
    if not op.get_attribute("partial_pivoting"):
        return None
    if op.get_attribute("perturb_singular"):
        raise NotRewritten("it replaces pivots of 0")
    size = diagonals.shape[-1]
    if size == 0:
        return right
    batch = len(right.shape) - 2
    rows_first = [batch, *range(batch), batch + 1]
    above, middle, below = (tf.transpose(diagonals[..., i, :], [batch, *range(batch)])[..., None] for i in range(3))
    zero = tf.zeros_like(middle[:1])
    above = tf.concat([above[:-1], zero], 0)  # the last one is no element of the matrix, nor is the first below
    right = tf.transpose(right, rows_first)

    def eliminate(state: Any, row: Any) -> Any:
        """Eliminate by the row before: ``state`` has its pivot, next element and right side."""
        _, (pivot, beside, wanted) = state
        under, centre, over, given = row
        swapped = tf.abs(pivot) < tf.abs(under)
        factor = tf.where(swapped, pivot / under, under / pivot)
        done = (
            tf.where(swapped, under, pivot),
            tf.where(swapped, centre, beside),
            tf.where(swapped, over, tf.zeros_like(over)),
            tf.where(swapped, given, wanted),
        )
        rest = (
            tf.where(swapped, beside - factor * centre, centre - factor * beside),
            tf.where(swapped, -factor * over, over),
            tf.where(swapped, wanted - factor * given, given - factor * wanted),
        )
        return done, rest

    start = (zero[0], zero[0], zero[0], tf.zeros_like(right[0])), (middle[0], above[0], right[0])
    done, rest = tf.scan(eliminate, (below[1:], middle[1:], above[1:], right[1:]), start)
    pivot, beside, further, wanted = (
        (
            tf.concat([column, end[None]], 0)
            for column, end in zip(done, (rest[0][-1], zero[0], zero[0], rest[2][-1]), strict=True)
        )
        if size > 1
        else (middle, zero, zero, right)
    )

    def substitute(state: Any, row: Any) -> Any:
        one, two = state
        at, next_one, next_two, given = row
        return (given - next_one * one - next_two * two) / at, one

    none = tf.zeros_like(right[0])
    solved, _ = tf.scan(substitute, (pivot, beside, further, wanted), (none, none), reverse=True)
    return tf.transpose(solved, [*range(1, batch + 1), 0, batch + 1])
