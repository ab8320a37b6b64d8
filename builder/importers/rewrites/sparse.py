"""Sparse tensors of a fixed number of values. Their shape has to be known when the model is built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from builder.importers.rewrites.op import NotRewritten, Op, Rewrite
from builder.importers.tf import tensorflow


def matmul(op: Op, indices: Any, values: Any, shape: Any, dense: Any) -> Any:
    """For each value, its multiple of a row of the dense matrix, added up by row. The shape has to be a constant.

    Off by the order of the sums.
    """
    tf = tensorflow()
    rows, columns = (int(n) for n in op.constant(2))
    row, column = indices[:, 0], indices[:, 1]
    if op.attr("adjoint_a"):
        row, column, rows, values = column, row, columns, tf.math.conj(values)
    if op.attr("adjoint_b"):
        dense = tf.linalg.adjoint(dense)
    return tf.math.unsorted_segment_sum(values[:, None] * tf.gather(dense, column), row, rows)


def add(op: Op, indices: Any, values: Any, shape: Any, dense: Any) -> Any:
    """Each value added to the element at its place. The same bits."""
    return tensorflow().tensor_scatter_nd_add(dense, indices, values)


def elementwise(op: Op, indices: Any, values: Any, shape: Any, dense: Any) -> Any:
    """Each value with the dense element at its place. The shape has to be a constant. The same bits."""
    tf = tensorflow()
    there = tf.gather_nd(tf.broadcast_to(dense, op.constant(2)), indices)
    if op.type == "SparseDenseCwiseMul":
        return values * there
    return values + there if op.type == "SparseDenseCwiseAdd" else tf.raw_ops.Div(x=values, y=there)


def reduce(op: Op, indices: Any, values: Any, shape: Any, axes: Any) -> Any:
    """To a dense result, 0 where there is no value to reduce. Shape and axes have to be constants.

    Off by the order of the sums.
    """
    tf = tensorflow()
    sizes = [int(n) for n in op.constant(2)]
    rank, gone = len(sizes), op.constant(3).ravel()
    if not gone.size:
        raise NotRewritten("it names no axis to reduce")
    reduced = {int(axis) % rank for axis in gone}
    kept = [axis for axis in range(rank) if axis not in reduced]
    number = _number(tf.gather(indices, np.array(kept, np.int32), axis=1), [sizes[axis] for axis in kept])
    total = int(np.prod([sizes[axis] for axis in kept], dtype=np.int64))
    if op.type == "SparseReduceSum":
        flat = tf.math.unsorted_segment_sum(values, number, total)
    else:
        flat = tf.math.unsorted_segment_max(values, number, total)
        there = tf.math.unsorted_segment_sum(tf.ones_like(number), number, total) > 0
        flat = tf.where(there, flat, tf.cast(0, values.dtype))
    dims = [1 if axis in reduced else n for axis, n in enumerate(sizes)] if op.attr("keep_dims") else None
    return tf.reshape(flat, dims or [sizes[axis] for axis in kept])


def softmax(op: Op, indices: Any, values: Any, shape: Any) -> Any:
    """Over the values of each row. The shape has to be a constant. Off by a few units in the last place."""
    tf = tensorflow()
    sizes = [int(n) for n in op.constant(2)]
    row = _number(indices[:, :-1], sizes[:-1])
    rows = int(np.prod(sizes[:-1], dtype=np.int64))
    raised = tf.exp(values - tf.gather(tf.math.unsorted_segment_max(values, row, rows), row))
    return raised / tf.gather(tf.math.unsorted_segment_sum(raised, row, rows), row)


def reshape(op: Op, indices: Any, shape: Any, wanted: Any) -> Any:
    """Both shapes have to be constants. The same numbers."""
    tf = tensorflow()
    old, new = (np.asarray(op.constant(i), np.int64) for i in (1, 2))
    if (new < 0).any():
        new = np.where(new < 0, int(np.prod(old)) // max(int(np.prod(new[new >= 0])), 1), new)
    number, steps = _number(indices, old), _steps(new)
    places = [number // step % size for step, size in zip(steps, new, strict=True)]
    return tf.stack(places, axis=1), tf.constant(new)


def reorder(op: Op, indices: Any, values: Any, shape: Any) -> Any:
    """By row, then by column, and so on. The shape has to be a constant. The same values in the same order; TensorFlow
    leaves open which of two values at one place comes first.
    """
    tf = tensorflow()
    order = tf.argsort(_number(indices, op.constant(2)), stable=True)
    return tf.gather(indices, order), tf.gather(values, order)


def _number(indices: Any, sizes: Any) -> Any:
    """[values]: the place of each when all axes are laid out in one."""
    tf = tensorflow()
    if not len(sizes):
        return tf.zeros([indices.shape[0]], tf.int64)
    return tf.reduce_sum(indices * _steps(np.asarray(sizes, np.int64)), axis=1)


def _steps(sizes: Any) -> Any:
    """How far apart neighbours of each axis are when all axes are laid out in one."""
    return np.cumprod([1, *sizes[:0:-1]], dtype=np.int64)[::-1] if len(sizes) else np.zeros(0, np.int64)


REWRITES: Mapping[str, Rewrite] = {
    "SparseDenseCwiseAdd": elementwise,
    "SparseDenseCwiseDiv": elementwise,
    "SparseDenseCwiseMul": elementwise,
    "SparseReduceMax": reduce,
    "SparseReduceSum": reduce,
    "SparseReorder": reorder,
    "SparseReshape": reshape,
    "SparseSoftmax": softmax,
    "SparseTensorDenseAdd": add,
    "SparseTensorDenseMatMul": matmul,
}
