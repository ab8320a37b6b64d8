"""Sparse tensors. Their shape has to be known when the model is built; how many values there are, the data may say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from builder.base.tf import tf
from builder.importers.rewrites.constant_nodes import resolve_shape
from builder.importers.rewrites.op import NotRewritten, Op, Rewrite
from builder.importers.rewrites.open_sizes import number_rows, take_first, with_room


def rewrite_sparse_matmul(op: Op, indices: Any, values: Any, shape: Any, dense: Any) -> Any:
    """For each value, its multiple of a row of the dense matrix, added up by row. The shape has to be a constant.

    Off by the order of the sums.
    """
    rows, columns = (int(n) for n in op.get_constant(2))
    row, column = indices[:, 0], indices[:, 1]
    if op.get_attribute("adjoint_a"):
        row, column, rows, values = column, row, columns, tf.math.conj(values)
    if op.get_attribute("adjoint_b"):
        dense = tf.linalg.adjoint(dense)
    return tf.math.unsorted_segment_sum(values[:, None] * tf.gather(dense, column), row, rows)


def rewrite_sparse_add(op: Op, indices: Any, values: Any, shape: Any, dense: Any) -> Any:
    """Each value added to the element at its place. The same bits."""
    return tf.tensor_scatter_nd_add(dense, indices, values)


def rewrite_sparse_elementwise(op: Op, indices: Any, values: Any, shape: Any, dense: Any) -> Any:
    """Each value with the dense element at its place. The shape has to be a constant. The same bits."""
    there = tf.gather_nd(tf.broadcast_to(dense, op.get_constant(2)), indices)
    if op.type == "SparseDenseCwiseMul":
        return values * there
    return values + there if op.type == "SparseDenseCwiseAdd" else tf.raw_ops.Div(x=values, y=there)


def rewrite_sparse_reduce(op: Op, indices: Any, values: Any, shape: Any, axes: Any) -> Any:
    """To a dense result, 0 where there is no value to reduce. Shape and axes have to be constants.

    Off by the order of the sums.
    """
    sizes = [int(n) for n in op.get_constant(2)]
    rank, gone = len(sizes), op.get_constant(3).ravel()
    if not gone.size:
        raise NotRewritten("it names no axis to reduce")
    reduced = {int(axis) % rank for axis in gone}
    kept = [axis for axis in range(rank) if axis not in reduced]
    number = _flatten_indices(tf.gather(indices, np.array(kept, np.int32), axis=1), [sizes[axis] for axis in kept])
    total = int(np.prod([sizes[axis] for axis in kept], dtype=np.int64))
    if op.type == "SparseReduceSum":
        flat = tf.math.unsorted_segment_sum(values, number, total)
    else:
        flat = tf.math.unsorted_segment_max(values, number, total)
        there = tf.math.unsorted_segment_sum(tf.ones_like(number), number, total) > 0
        flat = tf.where(there, flat, tf.cast(0, values.dtype))
    dims = [1 if axis in reduced else n for axis, n in enumerate(sizes)] if op.get_attribute("keep_dims") else None
    return tf.reshape(flat, dims or [sizes[axis] for axis in kept])


def rewrite_sparse_softmax(op: Op, indices: Any, values: Any, shape: Any) -> Any:
    """Over the values of each row. The shape has to be a constant. Off by a few units in the last place."""
    sizes = [int(n) for n in op.get_constant(2)]
    row = _flatten_indices(indices[:, :-1], sizes[:-1])
    rows = int(np.prod(sizes[:-1], dtype=np.int64))
    raised = tf.exp(values - tf.gather(tf.math.unsorted_segment_max(values, row, rows), row))
    return raised / tf.gather(tf.math.unsorted_segment_sum(raised, row, rows), row)


def rewrite_sparse_reshape(op: Op, indices: Any, shape: Any, wanted: Any) -> Any:
    """Both shapes have to be constants. The same numbers."""
    old = np.asarray(op.get_constant(1), np.int64)
    new = resolve_shape(old, op.get_constant(2))
    number, steps = _flatten_indices(indices, old), _compute_strides(new)
    places = [number // step % size for step, size in zip(steps, new, strict=True)]
    return tf.stack(places, axis=1), tf.constant(new)


def rewrite_sparse_reorder(op: Op, indices: Any, values: Any, shape: Any) -> Any:
    """By row, then by column, and so on. The shape has to be a constant. The same values in the same order; TensorFlow
    leaves open which of two values at one place comes first.
    """
    sizes = np.asarray(op.get_constant(2), np.int64)
    place, there = with_room(_flatten_indices(indices, sizes))
    order = tf.argsort(tf.where(tf.range(place.shape[0]) < there, place, int(np.prod(sizes))), stable=True)
    if indices.shape[0] is None:
        order = take_first(order, there, indices)
    return tf.gather(indices, order), tf.gather(values, order)


def rewrite_sparse_to_dense(op: Op, indices: Any, shape: Any, values: Any, default: Any) -> Any:
    """Left to XLA where the shape is a constant. That of a CTC decoder is as long as the longest of its answers."""
    if op.find_constant(1) is not None:
        return None
    sizes, decided = op.get_size_limits(1)
    dense = tf.raw_ops.SparseToDense(
        sparse_indices=indices,
        output_shape=tf.constant(sizes, shape.dtype),
        sparse_values=values,
        default_value=default,
        validate_indices=False,
    )
    ends = [tf.cast(shape[axis], tf.int32) if axis in decided else None for axis in range(len(sizes))]
    return dense[tuple(slice(end) for end in ends)]


def rewrite_fill_empty_rows(op: Op, indices: Any, values: Any, shape: Any, default: Any) -> Any:
    """All four outputs. The shape has to be a constant. The same bits."""
    rows = int(op.get_constant(2)[0])
    if (known := op.find_constant(0)) is not None:
        return _fill_known_rows(known, values, rows, default)
    row = tf.cast(indices[:, 0], tf.int32)
    empty = tf.equal(tf.math.unsorted_segment_sum(tf.ones_like(row), row, rows), 0)
    place, there = with_room(row)
    # What is not there comes last: values beyond those there are, and defaults of rows that have some.
    kept = tf.where(number_rows(place) < there, place, rows)
    filled = tf.where(empty, tf.range(rows), rows)
    order = tf.argsort(tf.concat([kept, filled], 0), stable=True)
    total = there + tf.reduce_sum(tf.cast(empty, tf.int32))
    taken = take_first(order, total, indices)
    added = tf.pad(tf.range(rows, dtype=tf.int64)[:, None], [(0, 0), (0, indices.shape[1] - 1)])
    roomy_indices, roomy_values = with_room(indices)[0], with_room(values)[0]
    all_indices = tf.concat([roomy_indices, added], 0)
    all_values = tf.concat([roomy_values, tf.fill([rows], default)], 0)
    moved = take_first(tf.cast(tf.argsort(order)[: tf.size(place)], tf.int64), there, indices)
    return tf.gather(all_indices, taken), tf.gather(all_values, taken), empty, moved


def _fill_known_rows(indices: Any, values: Any, rows: int, default: Any) -> Any:
    """Where it is known which rows are empty."""
    empty = np.setdiff1d(np.arange(rows), indices[:, 0])
    added = np.pad(empty[:, None], [(0, 0), (0, indices.shape[1] - 1)])
    places = np.concatenate([indices, added])
    order = np.argsort(places[:, 0], kind="stable")
    return (
        tf.constant(places[order]),
        tf.gather(tf.concat([values, tf.fill([len(empty)], default)], 0), order),
        tf.constant(np.isin(np.arange(rows), empty)),
        tf.constant(np.argsort(order)[: len(indices)]),
    )


def _flatten_indices(indices: Any, sizes: Any) -> Any:
    """[values]: the place of each when all axes are laid out in one."""
    if not len(sizes):
        return tf.zeros_like(indices, tf.int64)[:, 0]
    return tf.reduce_sum(indices * _compute_strides(np.asarray(sizes, np.int64)), axis=1)


def _compute_strides(sizes: Any) -> Any:
    """How far apart neighbours of each axis are when all axes are laid out in one."""
    return np.cumprod([1, *sizes[:0:-1]], dtype=np.int64)[::-1] if len(sizes) else np.zeros(0, np.int64)


REWRITES: Mapping[str, Rewrite] = {
    "SparseFillEmptyRows": rewrite_fill_empty_rows,
    "SparseDenseCwiseAdd": rewrite_sparse_elementwise,
    "SparseDenseCwiseDiv": rewrite_sparse_elementwise,
    "SparseDenseCwiseMul": rewrite_sparse_elementwise,
    "SparseReduceMax": rewrite_sparse_reduce,
    "SparseReduceSum": rewrite_sparse_reduce,
    "SparseReorder": rewrite_sparse_reorder,
    "SparseReshape": rewrite_sparse_reshape,
    "SparseSoftmax": rewrite_sparse_softmax,
    "SparseTensorDenseAdd": rewrite_sparse_add,
    "SparseTensorDenseMatMul": rewrite_sparse_matmul,
    "SparseToDense": rewrite_sparse_to_dense,
}

OPEN = frozenset(REWRITES)
