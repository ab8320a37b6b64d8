"""Ragged tensors of a fixed number of values, made dense or sparse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from builder.importers.rewrites.op import Op, Rewrite
from builder.importers.tf import tensorflow

_FIRST_PARTITION = 3
"""RaggedTensorToTensor's input of that number: after the shape, the values and the default."""


def to_tensor(op: Op, shape: Any, values: Any, default: Any, *partitions: Any) -> Any:
    """Its shape has to be known: a constant, or from partitions that are constants. The same bits.

    Rows, and values in rows, beyond that shape are left out.
    """
    tf = tensorflow()
    sizes = _sizes(op, values, len(partitions))
    kinds = list(op.attr("row_partition_types"))
    ragged = list(partitions)
    if kinds[0] == "FIRST_DIM_SIZE":
        kinds, ragged = kinds[1:], ragged[1:]
    axes = len(ragged) + 1
    # From the innermost axis outwards: ``item`` of that axis does each value lie in, as number ``offset``.
    item, places, count = None, [], values.shape[0]
    for kind, partition in reversed(list(zip(kinds, ragged, strict=True))):
        row, offset = _located(kind, tf.cast(partition, tf.int32), count)
        count = int(partition.shape[0]) - 1  # of splits: the rows, which are the items of the axis before
        places.append(offset if item is None else tf.gather(offset, item))
        item = row if item is None else tf.gather(row, item)
    places.append(item)
    total = int(np.prod(sizes[:axes], dtype=np.int64))
    number, fits = tf.zeros_like(item), tf.ones_like(item, tf.bool)
    for place, size in zip(reversed(places), sizes[:axes], strict=True):
        number, fits = number * size + place, fits & (place < size)
    number = tf.where(fits, number, total)  # one row more takes what is left out
    inner = tuple(values.shape[1:])
    dense = tf.broadcast_to(tf.cast(default, values.dtype), (total + 1, *inner))
    return tf.reshape(tf.tensor_scatter_nd_update(dense, number[:, None], values)[:total], (*sizes[:axes], *inner))


def _located(kind: str, partition: Any, count: int) -> tuple[Any, Any]:
    """Of ``count`` items, in order: the row of each, and its place within that row."""
    tf = tensorflow()
    if kind == "ROW_SPLITS":
        number = tf.range(count)
        row = tf.searchsorted(partition, number, side="right") - 1
        return row, number - tf.gather(partition, row)
    number = tf.range(partition.shape[0])
    return partition, number - tf.searchsorted(partition, partition, side="left")


def _sizes(op: Op, values: Any, count: int) -> list[int]:
    """The result's shape."""
    kinds = list(op.attr("row_partition_types"))
    axes = count + 1 - (kinds[0] == "FIRST_DIM_SIZE")
    given = np.atleast_1d(op.constant(0))
    wanted = given.tolist() if given.size >= axes else [-1] * axes
    sizes = []
    for axis in range(axes):
        if wanted[axis] >= 0:
            sizes.append(int(wanted[axis]))
        elif axis == 0 and kinds[0] == "FIRST_DIM_SIZE":
            sizes.append(int(op.constant(_FIRST_PARTITION)))
        elif axis == 0:
            sizes.append(op.constant(_FIRST_PARTITION).size - 1)
        else:
            number = axis - (kinds[0] != "FIRST_DIM_SIZE")
            partition = op.constant(_FIRST_PARTITION + number)
            lengths = np.diff(partition) if kinds[number] == "ROW_SPLITS" else np.bincount(partition)
            sizes.append(int(lengths.max(initial=0)))
    return [*sizes, *values.shape[1:]]


def to_sparse(op: Op, *tensors: Any) -> Any:
    """Of row splits that are constants. The same bits."""
    tf = tensorflow()
    *splits, values = tensors
    known = [op.constant(i) for i in range(len(splits))]
    inner = tuple(values.shape[1:])
    place = np.arange(known[0].size - 1)[:, None]
    for split in known:
        lengths = np.diff(split)
        owner = np.repeat(np.arange(lengths.size), lengths)
        place = np.concatenate([place[owner], (np.arange(split[-1]) - split[:-1][owner])[:, None]], axis=1)
    for size in inner:
        place = np.concatenate([np.repeat(place, size, 0), np.tile(np.arange(size), len(place))[:, None]], axis=1)
    shape = [known[0].size - 1, *(int(np.diff(split).max(initial=0)) for split in known), *inner]
    return tf.constant(place, tf.int64), tf.reshape(values, [-1]), tf.constant(shape, tf.int64)


REWRITES: Mapping[str, Rewrite] = {"RaggedTensorToSparse": to_sparse, "RaggedTensorToTensor": to_tensor}
