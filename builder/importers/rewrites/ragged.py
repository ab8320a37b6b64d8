"""Ragged tensors, made dense or sparse, and rows of them. The data may decide how long rows are."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from builder.base.tf import tf
from builder.importers.rewrites.op import NotRewritten, Op, rewrites
from builder.importers.rewrites.open_sizes import number_rows, with_room

_FIRST_PARTITION = 3
"""RaggedTensorToTensor's input of that number: after the shape, the values and the default."""


@rewrites("RaggedTensorToTensor", any_rows=True)
def rewrite_ragged_to_tensor(op: Op, shape: Any, values: Any, default: Any, *partitions: Any) -> Any:
    """Fill a constant shape, or one with room for the longest row.

    Rows, and values in rows, beyond a constant shape are left out. The same bits.
    """
    kinds, ragged = list(op.get_attribute("row_partition_types")), list(partitions)
    first = None
    if kinds[0] == "FIRST_DIM_SIZE":
        kinds, ragged, first = kinds[1:], ragged[1:], ragged[0]
    _require_rows(ragged)
    axes = len(ragged) + 1
    values, there = with_room(values)
    inner = tuple(values.shape[1:])
    # From the innermost axis outwards: ``item`` of that axis does each value lie in, as number ``offset``.
    item, places, most, longest, items = None, [], [], [], number_rows(values)
    for kind, partition in reversed(list(zip(kinds, ragged, strict=True))):
        row, offset = _locate_items(kind, tf.cast(partition, tf.int32), items)
        inside = items < there if item is None else tf.ones_like(items, tf.bool)
        longest.append(tf.reduce_max(tf.concat([[-1], tf.where(inside, offset, -1)], 0)) + 1)
        most.append(tf.size(items))
        items = tf.range(int(partition.shape[0]) - 1)  # of splits: the rows, which are the items of the axis before
        places.append(offset if item is None else tf.gather(offset, item))
        item = row if item is None else tf.gather(row, item)
    places.append(item)
    sizes, left = _find_sizes(op, axes, first, ragged, most[::-1], longest[::-1])
    total = functools.reduce(lambda product, size: product * size, sizes)
    number, fits = tf.zeros_like(item), number_rows(values) < there
    for place, size in zip(reversed(places), sizes, strict=True):
        number, fits = number * size + place, fits & (place < size)
    number = tf.where(fits, number, total)  # one row more takes what is left out
    dense = tf.broadcast_to(tf.cast(default, values.dtype), (total + 1, *inner))
    dense = tf.reshape(tf.tensor_scatter_nd_update(dense, number[:, None], values)[:total], (*sizes, *inner))
    return dense[tuple(slice(end) for end in left)]


def _require_rows(partitions: Sequence[Any]) -> None:
    if any(partition.shape[0] is None for partition in partitions):
        raise NotRewritten("the data decides how many rows it has")


def _locate_items(kind: str, partition: Any, items: Any) -> tuple[Any, Any]:
    """Return for each of ``items`` (0, 1, 2 and so on) its row, and its place within that row."""
    if kind == "ROW_SPLITS":
        row = tf.searchsorted(partition, items, side="right") - 1
        return row, items - tf.gather(partition, row)
    return partition, items - tf.searchsorted(partition, partition, side="left")


def _find_sizes(
    op: Op, axes: int, first: Any, partitions: Sequence[Any], most: Sequence[Any], longest: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Return the most of each axis of the result, and its end if the data decides it, or None.

    ``most`` and ``longest``: of the rows of each partition.
    """
    given = np.atleast_1d(op.get_constant(0))
    wanted = given[:axes].tolist() if given.size >= axes else [-1] * axes
    skipped = first is not None
    sizes, ends = [], []
    for axis, size in enumerate(wanted):
        end = None
        if size >= 0:
            size = int(size)
        elif axis == 0 and skipped:
            size = int(op.get_constant(_FIRST_PARTITION))
        elif axis == 0:
            size = int(partitions[0].shape[0]) - 1
        elif (known := op.find_constant(_FIRST_PARTITION + skipped + axis - 1)) is not None:
            splits = op.get_attribute("row_partition_types")[skipped + axis - 1] == "ROW_SPLITS"
            size = int((np.diff(known) if splits else np.bincount(known)).max(initial=0))
        else:
            size, end = most[axis - 1], longest[axis - 1]
        sizes.append(size)
        ends.append(end)
    return sizes, ends


@rewrites("RaggedTensorToSparse", any_rows=True)
def rewrite_ragged_to_sparse(op: Op, *tensors: Any) -> Any:
    """List the places of the values in rows, whose splits may be fed. The same bits."""
    *splits, values = tensors
    _require_rows(splits)
    inner = tuple(values.shape[1:])
    item, columns, longest, items = None, [], [], number_rows(values)
    for split in reversed(splits):
        row, offset = _locate_items("ROW_SPLITS", tf.cast(split, tf.int32), items)
        longest.append(tf.reduce_max(split[1:] - split[:-1]) if split.shape[0] > 1 else tf.constant(0, split.dtype))
        items = tf.range(split.shape[0] - 1)
        columns.append(offset if item is None else tf.gather(offset, item))
        item = row if item is None else tf.gather(row, item)
    place = tf.stack([item, *reversed(columns)], axis=1)
    for size in inner:
        column = tf.tile(tf.range(size), [tf.shape(place)[0]])[:, None]
        place = tf.concat([tf.repeat(place, size, axis=0), column], axis=1)
    sizes = [splits[0].shape[0] - 1, *reversed(longest), *inner]
    return (
        tf.cast(place, tf.int64),
        tf.reshape(values, [-1]),
        tf.stack([tf.cast(size, tf.int64) for size in sizes]),
    )


@rewrites("RaggedGather", any_rows=True)
def rewrite_ragged_gather(op: Op, *tensors: Any) -> Any:
    """Join the named rows.

    There is room for the longest row as often as there are names; where row splits are fed, the longest can be all rows
    together. The same bits.
    """
    *splits, values, named = tensors
    _require_rows([*splits, named])
    sizes = named.shape.as_list()
    # Of names in a matrix, say, the result has the matrix's rows too.
    found = [
        tf.range(math.prod(sizes[:axis]) + 1, dtype=splits[0].dtype) * sizes[axis] for axis in range(1, len(sizes))
    ]
    named = tf.cast(tf.reshape(named, [-1]), splits[0].dtype)
    values, _ = with_room(values)
    below = [*(split.shape[0] - 1 for split in splits[1:]), tf.size(number_rows(values))]
    for number, (split, items) in enumerate(zip(splits, below, strict=True)):
        start = tf.gather(split, named)
        length = tf.gather(split, named + 1) - start
        known = op.find_constant(number)
        most = items if known is None else int(np.diff(known).max(initial=0))
        offset = tf.cast(tf.range(most), split.dtype)
        found.append(tf.concat([tf.zeros([1], split.dtype), tf.cumsum(length)], axis=0))
        named = tf.boolean_mask(start[:, None] + offset, offset < length[:, None])
    return (*found, tf.gather(values, named))


@rewrites("RaggedRange")
def rewrite_ragged_range(op: Op, starts: Any, limits: Any, steps: Any) -> Any:
    """Compute ranges of constants: nothing bounds how long the rows of others are. The same bits."""
    given = [np.atleast_1d(op.get_constant(number)) for number in range(3)]
    parts = [np.arange(*one, dtype=given[0].dtype) for one in zip(*np.broadcast_arrays(*given), strict=True)]
    splits = np.cumsum([0, *map(len, parts)])
    values = np.concatenate([np.zeros(0, given[0].dtype), *parts])
    return tf.constant(splits, op.get_attribute("Tsplits")), tf.constant(values)
