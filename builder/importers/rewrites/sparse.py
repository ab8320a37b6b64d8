"""Sparse tensors, and reductions over runs of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from builder.base.tf import tf
from builder.importers.rewrites.constant_nodes import resolve_shape
from builder.importers.rewrites.op import NotRewritten, Op, rewrites
from builder.importers.rewrites.open_sizes import number_rows, take_first, with_room


@rewrites("SparseTensorDenseMatMul", any_rows=True)
def rewrite_sparse_matmul(op: Op, indices: Any, values: Any, shape: Any, dense: Any) -> Any:
    """Add up the dense matrix' rows, each times a value, by the value's row.

    The shape has to be a constant. Off by the order of the sums.
    """
    rows, columns = (int(n) for n in op.get_constant(2))
    row, column = indices[:, 0], indices[:, 1]
    if op.get_attribute("adjoint_a"):
        row, column, rows, values = column, row, columns, tf.math.conj(values)
    if op.get_attribute("adjoint_b"):
        dense = tf.linalg.adjoint(dense)
    return tf.math.unsorted_segment_sum(values[:, None] * tf.gather(dense, column), row, rows)


@rewrites("SparseTensorDenseAdd", any_rows=True)
def rewrite_sparse_add(op: Op, indices: Any, values: Any, shape: Any, dense: Any) -> Any:
    """Add each value to the element at its place. The same bits."""
    return tf.tensor_scatter_nd_add(dense, indices, values)


@rewrites("SparseDenseCwiseAdd", "SparseDenseCwiseDiv", "SparseDenseCwiseMul", any_rows=True)
def rewrite_sparse_elementwise(op: Op, indices: Any, values: Any, shape: Any, dense: Any) -> Any:
    """Combine each value with the dense element at its place. The shape has to be a constant. The same bits."""
    there = tf.gather_nd(tf.broadcast_to(dense, op.get_constant(2)), indices)
    if op.type == "SparseDenseCwiseMul":
        return values * there
    return values + there if op.type == "SparseDenseCwiseAdd" else tf.raw_ops.Div(x=values, y=there)


@rewrites("SparseReduceMax", "SparseReduceSum", any_rows=True)
def rewrite_sparse_reduce(op: Op, indices: Any, values: Any, shape: Any, axes: Any) -> Any:
    """Reduce to a dense result, 0 where there is no value to reduce.

    Shape and axes have to be constants. Off by the order of the sums.
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


@rewrites("SparseSoftmax", any_rows=True)
def rewrite_sparse_softmax(op: Op, indices: Any, values: Any, shape: Any) -> Any:
    """Compute softmax over the values of each row.

    The shape has to be a constant. Off by a few units in the last place.
    """
    sizes = [int(n) for n in op.get_constant(2)]
    row = _flatten_indices(indices[:, :-1], sizes[:-1])
    rows = int(np.prod(sizes[:-1], dtype=np.int64))
    raised = tf.exp(values - tf.gather(tf.math.unsorted_segment_max(values, row, rows), row))
    return raised / tf.gather(tf.math.unsorted_segment_sum(raised, row, rows), row)


@rewrites("SparseReshape", any_rows=True)
def rewrite_sparse_reshape(op: Op, indices: Any, shape: Any, wanted: Any) -> Any:
    """Compute the new places. Both shapes have to be constants. The same numbers."""
    old = np.asarray(op.get_constant(1), np.int64)
    new = resolve_shape(old, op.get_constant(2))
    number, steps = _flatten_indices(indices, old), _compute_strides(new)
    places = [number // step % size for step, size in zip(steps, new, strict=True)]
    return tf.stack(places, axis=1), tf.constant(new)


@rewrites("SparseReorder", any_rows=True)
def rewrite_sparse_reorder(op: Op, indices: Any, values: Any, shape: Any) -> Any:
    """Sort by row, then by column, and so on.

    The shape has to be a constant. The same values in the same order; TensorFlow leaves open which of two values at one
    place comes first.
    """
    sizes = np.asarray(op.get_constant(2), np.int64)
    place, there = with_room(_flatten_indices(indices, sizes))
    order = tf.argsort(tf.where(tf.range(place.shape[0]) < there, place, int(np.prod(sizes))), stable=True)
    if indices.shape[0] is None:
        order = take_first(order, there, indices)
    return tf.gather(indices, order), tf.gather(values, order)


@rewrites("SparseToDense", any_rows=True)
def rewrite_sparse_to_dense(op: Op, indices: Any, shape: Any, values: Any, default: Any) -> Any:
    """Leave it to XLA where the shape is a constant. That of a CTC decoder is as long as its longest answer."""
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


@rewrites("SparseFillEmptyRows", any_rows=True)
def rewrite_fill_empty_rows(op: Op, indices: Any, values: Any, shape: Any, default: Any) -> Any:
    """Compute all four outputs. The shape has to be a constant. The same bits."""
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
    """Fill empty rows where the places are constants."""
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
    """Return the place [values] of each when all axes are laid out in one."""
    if not len(sizes):
        return tf.zeros_like(indices, tf.int64)[:, 0]
    return tf.reduce_sum(indices * _compute_strides(np.asarray(sizes, np.int64)), axis=1)


def _compute_strides(sizes: Any) -> Any:
    """Return how far apart neighbours of each axis are when all axes are laid out in one."""
    return np.cumprod([1, *sizes[:0:-1]], dtype=np.int64)[::-1] if len(sizes) else np.zeros(0, np.int64)


@rewrites(*(f"Segment{kind}" for kind in ("Max", "Mean", "Min", "Prod", "Sum")), any_rows=True)
def rewrite_segment(op: Op, data: Any, ids: Any) -> Any:
    """Reduce segments, whose ids are constants, or the rows of a sparse tensor of constant shape.

    Either says how many segments there can be. Off by the order of the sums.
    """
    ids, count, number = _count_segments(op, ids, 1)
    result = _UNSORTED[op.type](data, ids, count)
    if op.type in ("SegmentMin", "SegmentMax"):
        there = tf.math.unsorted_segment_sum(tf.ones_like(ids, tf.int32), ids, count) > 0
        shape = (count, *([1] * (len(data.shape) - 1)))
        result = tf.where(tf.reshape(there, shape), result, tf.cast(0, data.dtype))
    return result if number is None else take_first(result, number, ids)


@rewrites(
    *(f"SparseSegment{kind}{size}" for kind in ("Mean", "SqrtN", "Sum") for size in ("", "WithNumSegments")),
    any_rows=True,
)
def rewrite_sparse_segment(op: Op, data: Any, indices: Any, ids: Any, num_segments: Any = None) -> Any:
    """Sum the named rows, or divide the sum by their number or its root.

    An input says how many segments there can be, or they are limited as for SegmentSum. Off by the order of the sums.
    """
    number = None
    if num_segments is not None:
        count = int(op.get_constant(3))
    else:
        ids, count, number = _count_segments(op, ids, 2)
    rows = tf.gather(data, indices)
    if op.type.startswith("SparseSegmentSum"):
        result = tf.math.unsorted_segment_sum(rows, ids, count)
    else:
        result = _average_segments(rows, ids, count, root=op.type.startswith("SparseSegmentSqrtN"))
    return result if number is None else take_first(result, number, ids)


def _count_segments(op: Op, ids: Any, place: int) -> tuple[Any, int, Any | None]:
    """Return the ids (the input ``place``), the most segments, and their number if the data decides, or None.

    The last id says how many there are.
    """
    if (known := op.find_constant(place)) is not None:
        return known, int(known[-1]) + 1 if known.size else 0, None
    rows = op.get_row_limit(place)
    if rows.all_there:
        return ids, rows.most, None
    return ids, rows.most, tf.maximum(tf.cast(tf.reduce_max(ids), tf.int32), -1) + 1


def _average_segments(rows: Any, ids: Any, count: int, root: bool) -> Any:
    sums = tf.math.unsorted_segment_sum(rows, ids, count)
    ones = tf.ones_like(ids, rows.dtype)
    numbers = tf.maximum(tf.math.unsorted_segment_sum(ones, ids, count), tf.cast(1, rows.dtype))
    numbers = tf.reshape(tf.sqrt(numbers) if root else numbers, (count, *([1] * (len(rows.shape) - 1))))
    return sums / numbers if rows.dtype.is_floating or rows.dtype.is_complex else tf.truncatediv(sums, numbers)


_UNSORTED: Mapping[str, Callable[[Any, Any, int], Any]] = {
    "SegmentMax": lambda *rows: tf.math.unsorted_segment_max(*rows),
    "SegmentMean": lambda rows, ids, count: _average_segments(rows, ids, count, root=False),
    "SegmentMin": lambda *rows: tf.math.unsorted_segment_min(*rows),
    "SegmentProd": lambda *rows: tf.math.unsorted_segment_prod(*rows),
    "SegmentSum": lambda *rows: tf.math.unsorted_segment_sum(*rows),
}
