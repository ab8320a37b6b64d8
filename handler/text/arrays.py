"""Small arrays as lists, and the ops on them that lead from strings to the numbers that a model takes.

Each op is TensorFlow's of that name, with its attributes as keywords that begin in lower case; see
https://www.tensorflow.org/api_docs/python/tf/raw_ops. An array holds bytes, whole numbers, floats or bools.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain, pairwise, repeat
from math import prod

from ..errors import TextTooLongError, UnfitTextError
from ..named_tuples import NamedTuple
from ..typed import Any

MOST = 4_000_000
"""The most elements of an array: a text may ask for any number of them."""
MOST_BYTES = 8_000_000
"""The most bytes of all strings of an array, repeated ones included: hashing so many takes seconds."""


class Array(NamedTuple):
    """An array whose ``values`` are in row-major order."""

    shape: tuple[int, ...]
    values: list[Any]

    @property
    def scalar(self) -> Any:
        """The only value, or the first."""
        return self.values[0]


Op = Callable[..., Any]


def make_vector(values: Iterable[Any]) -> Array:
    """Return an array of one dimension."""
    listed = list(values)
    return Array((len(listed),), listed)


def require_elements(size: int) -> None:
    """Raise TextTooLongError for an array that is too large."""
    if size > MOST:
        raise TextTooLongError("the text would become more numbers than the function can hold; send a shorter one")


def require_bytes(size: int) -> None:
    """Raise TextTooLongError for strings that are too large together."""
    if size > MOST_BYTES:
        raise TextTooLongError(f"the text would become more than {MOST_BYTES:,} bytes on its way; send a shorter one")


def collect_strings(strings: Iterable[bytes]) -> list[bytes]:
    """Return ``strings`` as a list. Raises TextTooLongError as soon as they are too large together."""
    collected, size = [], 0
    for string in strings:
        size += len(string) + 8  # 8 bytes for the reference to it
        require_bytes(size)
        collected.append(string)
    return collected


def require_numbers(values: Sequence[Any]) -> None:
    """Raise UnfitTextError for integers of more than 64 bits: TensorFlow has no such numbers, and they are slow."""
    if values and type(values[0]) is int and not -(1 << 63) <= min(values) <= max(values) < 1 << 64:
        raise UnfitTextError("a text becomes a number that the model cannot take")


def estimate_memory(array: Array) -> int:
    """Return roughly the bytes of ``array``. Raises TextTooLongError or UnfitTextError if no step may use it."""
    if array.values and isinstance(array.values[0], bytes):
        size = sum(map(len, array.values))
        require_bytes(size)
        return 41 * len(array.values) + size
    require_numbers(array.values)
    return 40 * len(array.values)


def apply_elementwise(
    function: Callable[..., Any], *arrays: Array, collect: Callable[[Iterable[Any]], list[Any]] = list
) -> Array:
    """Apply ``function`` to the arrays' elements, with broadcasting."""
    shape = arrays[0].shape
    if any(array.shape != shape for array in arrays):
        shape = _broadcast_shapes([array.shape for array in arrays])
        arrays = tuple(Array(shape, _broadcast_values(array, shape)) for array in arrays)
    return Array(shape, collect(map(function, *(array.values for array in arrays))))


def _broadcast_shapes(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max(map(len, shapes))
    rows = zip(*([1] * (rank - len(shape)) + [*shape] for shape in shapes), strict=True)
    return tuple(0 if 0 in sizes else max(sizes) for sizes in rows)


def _broadcast_values(array: Array, shape: tuple[int, ...]) -> list[Any]:
    """Return the values of ``array``, broadcast to ``shape``."""
    if array.shape == shape:
        return array.values
    require_elements(prod(shape))
    if len(array.values) == 1:
        return array.values * prod(shape)
    own = [1] * (len(shape) - len(array.shape)) + [*array.shape]
    return pick_values(
        array.values, own, [[0] * size if length == 1 else range(size) for length, size in zip(own, shape, strict=True)]
    )


def pick_values(values: list[Any], shape: Sequence[int], axes: Sequence[Sequence[int]]) -> list[Any]:
    """Return the elements of ``values``, of ``shape``, at every combination of the indices in ``axes``."""
    require_elements(prod(map(len, axes)))
    places, step = [0], prod(shape)
    for size, wanted in zip(shape, axes, strict=True):
        step = step // size if size else 0
        places = [place + step * at for place in places for at in wanted]
    return [values[place] for place in places]


def _make_binary(function: Callable[[Any, Any], Any]) -> Op:
    return lambda x, y: apply_elementwise(function, x, y)


def _make_unary(function: Callable[[Any], Any]) -> Op:
    return lambda x: apply_elementwise(function, x)


def _cast_array(x: Array, *, to: str) -> Array:
    """Convert ``x`` to "int", "bool" or "float"; fractions are rounded towards zero."""
    return apply_elementwise({"int": int, "bool": bool, "float": float}[to], x)


def _reshape_array(x: Array, target: Array) -> Array:
    sizes = [int(value) for value in target.values]
    if -1 in sizes:
        known = prod(value for value in sizes if value != -1)
        sizes[sizes.index(-1)] = len(x.values) // known if known else 0
    return Array(tuple(sizes), x.values)


def _expand_dims(x: Array, dim: Array) -> Array:
    at = dim.scalar + (len(x.shape) + 1 if dim.scalar < 0 else 0)
    return Array((*x.shape[:at], 1, *x.shape[at:]), x.values)


def _squeeze_array(x: Array, *, squeeze_dims: Sequence[int]) -> Array:
    rank = len(x.shape)
    dropped = {at % rank for at in squeeze_dims} or {at for at, size in enumerate(x.shape) if size == 1}
    return Array(tuple(size for at, size in enumerate(x.shape) if at not in dropped), x.values)


def _pack_arrays(*values: Array, axis: int) -> Array:
    at = axis % (len(values[0].shape) + 1)
    parts = [Array((*value.shape[:at], 1, *value.shape[at:]), value.values) for value in values]
    return _concat_arrays(*parts, Array((), [at]))


def _concat_arrays(*arrays: Array) -> Array:
    """Concatenate arrays; the last of ``arrays`` is the axis."""
    *parts, axis = arrays
    at = axis.scalar % len(parts[0].shape)
    outer = prod(parts[0].shape[:at])
    rows = [prod(part.shape[at:]) for part in parts]
    require_elements(outer * sum(rows))
    values = [
        value
        for row in range(outer)
        for part, width in zip(parts, rows, strict=True)
        for value in part.values[row * width : (row + 1) * width]
    ]
    length = sum(part.shape[at] for part in parts)
    return Array((*parts[0].shape[:at], length, *parts[0].shape[at + 1 :]), values)


def _strided_slice(
    x: Array, begin: Array, end: Array, strides: Array, *,
    begin_mask: int = 0, end_mask: int = 0, ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0,
) -> Array:  # fmt: skip
    axes: list[Sequence[int]] = []
    result: list[int] = []
    specs = len(begin.values)
    used = sum(not (new_axis_mask | ellipsis_mask) >> at & 1 for at in range(specs))
    for at in range(specs):
        bit = 1 << at
        if ellipsis_mask & bit:
            for size in x.shape[len(axes) : len(axes) + len(x.shape) - used]:
                axes.append(range(size))
                result.append(size)
            continue
        if new_axis_mask & bit:
            result.append(1)
            continue
        length, first = x.shape[len(axes)], int(begin.values[at])
        if shrink_axis_mask & bit:
            if not -length <= first < length:
                raise IndexError(f"there is no element {first} of {length}")
            axes.append([first % length])
            continue
        bounds = (None if begin_mask & bit else first, None if end_mask & bit else int(end.values[at]))
        axes.append(range(length)[slice(*bounds, int(strides.values[at]))])
        result.append(len(axes[-1]))
    for size in x.shape[len(axes) :]:
        axes.append(range(size))
        result.append(size)
    return Array(tuple(result), pick_values(x.values, x.shape, axes))


def _gather_values(params: Array, indices: Array, axis: Array, *, batch_dims: int = 0) -> Array:
    """Take elements along an axis: ``GatherV2``. Raises IndexError for an index outside of the array."""
    at = axis.scalar % max(len(params.shape), 1)
    length = params.shape[at]
    if any(not 0 <= index < length for index in indices.values):
        raise IndexError("an index is not within the array")
    wanted = [range(size) for size in params.shape]
    axes = [*wanted[:at], indices.values, *wanted[at + 1 :]]
    return Array(
        (*params.shape[:at], *indices.shape, *params.shape[at + 1 :]), pick_values(params.values, params.shape, axes)
    )


def _find_true(condition: Array) -> Array:
    """Return the indices of the elements that are true, [n, rank]."""
    positions = [at for at, value in enumerate(condition.values) if value]
    steps = [prod(condition.shape[at + 1 :]) for at in range(len(condition.shape))]
    places = [at // step % size for at in positions for step, size in zip(steps, condition.shape, strict=True)]
    return Array((len(positions), len(condition.shape)), places)


def _select_elements(condition: Array, x: Array, y: Array) -> Array:
    return apply_elementwise(lambda chosen, one, other: one if chosen else other, condition, x, y)


def _pad_array(x: Array, paddings: Array, value: Array | None = None) -> Array:
    sides = list(zip(paddings.values[::2], paddings.values[1::2], strict=True))
    target = tuple(size + before + after for size, (before, after) in zip(x.shape, sides, strict=True))
    require_elements(prod(target))
    filler = value.scalar if value else type(x.values[0])() if x.values else 0
    axes = [[-1] * before + [*range(size)] + [-1] * after for size, (before, after) in zip(x.shape, sides, strict=True)]
    places, step = [0], len(x.values)
    for size, wanted in zip(x.shape, axes, strict=True):
        step = step // size if size else 0
        places = [-1 if at < 0 or place < 0 else place + step * at for place in places for at in wanted]
    return Array(target, [filler if place < 0 else x.values[place] for place in places])


def _slice_array(x: Array, begin: Array, sizes: Array) -> Array:
    ends = [
        length if size < 0 else first + size
        for length, first, size in zip(x.shape, begin.values, sizes.values, strict=True)
    ]
    axes = [range(length)[first:end] for length, first, end in zip(x.shape, begin.values, ends, strict=True)]
    return Array(tuple(map(len, axes)), pick_values(x.values, x.shape, axes))


def _tile_array(x: Array, multiples: Array) -> Array:
    require_elements(prod(x.shape) * prod(multiples.values))
    axes = [[*range(size)] * int(times) for size, times in zip(x.shape, multiples.values, strict=True)]
    return Array(tuple(map(len, axes)), pick_values(x.values, x.shape, axes))


def _broadcast_to(x: Array, target: Array) -> Array:
    sizes = tuple(map(int, target.values))
    return Array(sizes, _broadcast_values(x, sizes))


def _make_range(start: Array, limit: Array, delta: Array) -> Array:
    numbers = range(start.scalar, limit.scalar, delta.scalar)
    require_elements(len(numbers))
    return make_vector(numbers)


def _sum_cumulatively(x: Array, axis: Array, *, exclusive: bool = False, reverse: bool = False) -> Array:
    """Return the cumulative sums of a vector."""
    values = x.values[::-1] if reverse else x.values
    sums = list(accumulate(values, initial=0))
    sums = sums[:-1] if exclusive else sums[1:]
    return make_vector(sums[::-1] if reverse else sums)


def _make_reduction(function: Callable[[list[Any]], Any]) -> Op:
    def reduce(x: Array, axis: Array, *, keep_dims: bool = False) -> Array:
        rank = len(x.shape)
        dropped = {int(at) % rank for at in axis.values}
        order = [at for at in range(rank) if at not in dropped] + sorted(dropped)
        steps = [prod(x.shape[at + 1 :]) for at in range(rank)]
        places = [0]
        for at in order:
            places = [place + steps[at] * number for place in places for number in range(x.shape[at])]
        count = prod(x.shape[at] for at in dropped)
        kept = prod(x.shape[at] for at in range(rank) if at not in dropped)
        rows = [[x.values[place] for place in places[row * count : (row + 1) * count]] for row in range(kept)]
        target = [1 if at in dropped else size for at, size in enumerate(x.shape) if keep_dims or at not in dropped]
        return Array(tuple(target), [function(row) for row in rows])

    return reduce


def _multiply_all(row: list[Any]) -> Any:
    """Multiply whole numbers. Raises UnfitTextError before the product has so many digits that it takes long."""
    product = 1
    for value in row:
        product *= value
        require_numbers([product])
    return product


def _count_bins(values: Array, size: Array, weights: Array, *, binary_output: bool = False) -> Array:
    """Count each whole number below ``size`` in each row: ``DenseBincount``."""
    length = int(size.scalar)
    rows = values.shape[0] if len(values.shape) == 2 else 1
    require_elements(rows * length)
    counts = [0] * (rows * length)
    width = len(values.values) // rows if rows else 0
    weighed = weights.values or repeat(1)
    for at, (value, weight) in enumerate(zip(values.values, weighed, strict=False)):
        if value < 0:
            raise IndexError("a number to be counted is negative")
        if value < length:
            place = at // width * length + value
            counts[place] = 1 if binary_output else counts[place] + weight
    return Array((rows, length) if len(values.shape) == 2 else (length,), counts)


def _count_flat_bins(values: Array, size: Array, weights: Array) -> Array:
    return _count_bins(make_vector(values.values), size, make_vector(weights.values))


def _count_ragged_bins(
    splits: Array, values: Array, size: Array, weights: Array, *, binary_output: bool = False
) -> Array:
    length = int(size.scalar)
    ends = splits.values
    require_elements((len(ends) - 1) * length)
    rows = [
        _count_bins(
            make_vector(values.values[a:b]), size, make_vector(weights.values[a:b]), binary_output=binary_output
        ).values
        for a, b in pairwise(ends)
    ]
    return Array((len(rows), length), list(chain.from_iterable(rows)))


def _ragged_range(starts: Array, limits: Array, deltas: Array) -> tuple[Array, Array]:
    count = max(len(array.values) for array in (starts, limits, deltas))
    columns = [array.values * count if len(array.values) == 1 else array.values for array in (starts, limits, deltas)]
    rows = [range(*row) for row in zip(*columns, strict=True)]
    require_elements(sum(map(len, rows)))
    return make_vector(accumulate(map(len, rows), initial=0)), make_vector(chain.from_iterable(rows))


def _ragged_to_tensor(
    target: Array, values: Array, default: Array, *partitions: Array, row_partition_types: Sequence[str]
) -> Array:
    """Make a dense array of ragged rows of single values; what does not fit into the target is left out."""
    kinds, splits = [*row_partition_types], [partition.values for partition in partitions]
    first = None
    if kinds[0] == "FIRST_DIM_SIZE":
        first, kinds, splits = int(splits[0][0]), kinds[1:], splits[1:]
    rows: list[Any] = values.values
    for at, (kind, partition) in reversed([*enumerate(zip(kinds, splits, strict=True))]):
        if kind == "ROW_SPLITS":
            rows = [rows[a:b] for a, b in pairwise(partition)]
        else:
            count = first if at == 0 and first is not None else _rows_before(kinds, splits, at)
            grouped: list[Any] = [[] for _ in range(count)]
            for row, value in zip(partition, rows, strict=True):
                grouped[row].append(value)
            rows = grouped
    sizes = [-1] * (len(kinds) + 1) if not target.shape else [int(size) for size in target.values]
    longest, level = [len(rows)], rows
    for _ in kinds:
        longest.append(max(map(len, level), default=0))
        level = list(chain.from_iterable(level))
    sizes = [most if size < 0 else size for size, most in zip(sizes, longest, strict=True)]
    require_elements(prod(sizes))
    return Array(tuple(sizes), _pad_rows(rows, sizes, default.scalar))


def _rows_before(kinds: Sequence[str], given: Sequence[list[Any]], at: int) -> int:
    """Return the number of rows of the partition ``at``: the items of the partition before it."""
    return int(given[at - 1][-1]) if kinds[at - 1] == "ROW_SPLITS" else len(given[at - 1])


def _pad_rows(rows: list[Any], sizes: Sequence[int], default: Any) -> list[Any]:
    if len(sizes) == 1:
        return (rows[: sizes[0]] + [default] * (sizes[0] - len(rows))) if len(rows) != sizes[0] else rows
    inner = [_pad_rows(row, sizes[1:], default) for row in rows[: sizes[0]]]
    empty = [default] * prod(sizes[1:]) * (sizes[0] - len(inner))
    return [*chain.from_iterable(inner), *empty]


OPS: Mapping[str, Op] = {
    "AddV2": _make_binary(operator.add),
    "All": _make_reduction(all),
    "Any": _make_reduction(any),
    "Bincount": _count_flat_bins,
    "BroadcastTo": _broadcast_to,
    "Cast": _cast_array,
    "ConcatV2": _concat_arrays,
    "Cumsum": _sum_cumulatively,
    "DenseBincount": _count_bins,
    "Equal": _make_binary(operator.eq),
    "ExpandDims": _expand_dims,
    "Fill": lambda dims, value: _broadcast_to(value, dims),
    "FloorDiv": _make_binary(operator.floordiv),
    "FloorMod": _make_binary(operator.mod),
    "GatherV2": _gather_values,
    "Greater": _make_binary(operator.gt),
    "GreaterEqual": _make_binary(operator.ge),
    "Less": _make_binary(operator.lt),
    "LessEqual": _make_binary(operator.le),
    "LogicalAnd": _make_binary(lambda x, y: x and y),
    "LogicalNot": _make_unary(operator.not_),
    "LogicalOr": _make_binary(lambda x, y: x or y),
    "Max": _make_reduction(lambda row: max(row, default=-(1 << 63))),
    "Maximum": _make_binary(max),
    "Min": _make_reduction(lambda row: min(row, default=(1 << 63) - 1)),
    "Minimum": _make_binary(min),
    "Mul": _make_binary(operator.mul),
    "Neg": _make_unary(operator.neg),
    "NotEqual": _make_binary(operator.ne),
    "OnesLike": _make_unary(lambda value: 1),
    "Pack": _pack_arrays,
    "Pad": _pad_array,
    "PadV2": _pad_array,
    "Prod": _make_reduction(_multiply_all),
    "RaggedBincount": _count_ragged_bins,
    "RaggedRange": _ragged_range,
    "RaggedTensorToTensor": _ragged_to_tensor,
    "Range": _make_range,
    "Rank": lambda x: Array((), [len(x.shape)]),
    "Reshape": _reshape_array,
    "Select": _select_elements,
    "SelectV2": _select_elements,
    "Shape": lambda x: make_vector(x.shape),
    "Size": lambda x: Array((), [len(x.values)]),
    "Slice": _slice_array,
    "Squeeze": _squeeze_array,
    "StridedSlice": _strided_slice,
    "Sub": _make_binary(operator.sub),
    "Sum": _make_reduction(sum),
    "Tile": _tile_array,
    "Where": _find_true,
    "ZerosLike": _make_unary(lambda value: type(value)()),
}
