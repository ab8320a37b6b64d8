"""The elements of a model's inputs that are indices, and the ranges outside of which TensorFlow raises.

XLA clamps an index that is out of range, or drops its update. Where elements of an input become indices unchanged,
their range is known when the model is built, and the library refuses others. Calculated indices stay clamped.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.tf import import_tensorflow, tf
from builder.config.tensor import INTEGERS, IndexRange, TensorSpec, integer_limits
from builder.importers.rewrites.constant_nodes import constant_of

Array = NDArray[np.int64]
Check = tuple[int, Any, Any]
"""The number of an op's input of indices, and their valid range: numbers, or arrays along the last axis."""

_MOST_ELEMENTS = 1 << 22
"""Larger tensors are not followed."""
_MOST_RANGES = 1024
"""An input whose elements have more ranges than this is not checked."""
_LOWEST, _HIGHEST = integer_limits("int64")
_EXACT = {"bfloat16": 1 << 8, "float16": 1 << 11, "float32": 1 << 24, "float64": 1 << 53}
"""The number up to which a floating-point type represents every whole number."""

_UNCHANGED = {"Identity", "PlaceholderWithDefault", "PreventGradient", "Snapshot", "StopGradient"}
_MOVED = {
    "BroadcastTo", "ConcatV2", "ExpandDims", "GatherNd", "GatherV2", "Pack", "Reshape", "ReverseV2", "Slice", "Split",
    "SplitV", "Squeeze", "StridedSlice", "Tile", "Transpose", "Unpack",
}  # fmt: skip
"""Ops that move elements and do not change them."""
_FOLLOWED = _UNCHANGED | _MOVED | {"Cast", "SelectV2"}
_MOVED_TYPES = {"T", "Tparams"}
"""Names of the attribute with the type of the elements that an op moves."""


def find_index_ranges(operations: Iterable[Any], feeds: Mapping[str, TensorSpec]) -> dict[str, tuple[IndexRange, ...]]:
    """Find the ranges of the indices in ``feeds``, by the names of their tensors.

    ``operations`` belong to one tf.Graph, and run whatever is fed. A range always includes 0. Feeds without indices are
    left out.
    """
    tracer = _Tracer(feeds)
    low, high = np.full(tracer.count + 1, _LOWEST), np.full(tracer.count + 1, _HIGHEST)
    for op in operations:
        if op.type not in _CHECKS or not _looks_at_indices(op) or not any(map(tracer.trace_elements, op.inputs)):
            continue
        for number, least, greatest in _CHECKS[op.type](op):
            elements = tracer.trace_elements(op.inputs[number])
            ends = elements and _ends_before(elements, np.asarray(least, np.int64), np.asarray(greatest, np.int64))
            if elements and ends:
                np.maximum.at(low, elements.numbers, np.broadcast_to(ends[0], elements.numbers.shape))
                np.minimum.at(high, elements.numbers, np.broadcast_to(ends[1], elements.numbers.shape))
    joined = {}
    for name, first in tracer.first.items():
        own = slice(first, first + feeds[name].elements)
        joined[name] = tuple(_join_ranges(low[own], high[own], feeds[name]))
    return {name: ranges for name, ranges in joined.items() if 0 < len(ranges) <= _MOST_RANGES}


@dataclass(frozen=True)
class _Elements:
    """Elements of feeds that a tensor consists of.

    ``numbers`` has their numbers, from 1 on over all feeds, and 0 for other values. ``wrap`` was added to negative
    elements. ``exact``: elements above it may have been rounded, or have overflowed an integer; None if neither is
    possible.
    """

    numbers: Array
    wrap: int = 0
    exact: int | None = None


def _ends_before(elements: _Elements, least: Array, greatest: Array) -> tuple[Array, Array] | None:
    """Return the range of a feed's elements whose indices are from ``least`` to ``greatest``, or None."""
    if (least > 0).any() or (greatest < 0).any():
        return None
    if elements.exact is not None and ((least == _LOWEST) | (greatest < _HIGHEST) & (greatest >= elements.exact)).any():
        return None
    if not elements.wrap:
        return least, greatest
    if (least != 0).any() or (greatest != elements.wrap - 1).any():
        return None
    return np.asarray(-elements.wrap), greatest


class _Tracer:
    """A tracer of the ``count`` elements of ``feeds`` through a graph; those of a feed begin at ``first[name]``."""

    def __init__(self, feeds: Mapping[str, TensorSpec]) -> None:
        self.first: dict[str, int] = {}
        self.count = 0
        self._traced: dict[str, _Elements | None] = {}
        for name, spec in feeds.items():
            if spec.dtype != "bool" and 0 < spec.elements <= _MOST_ELEMENTS:
                self.first[name] = self.count + 1
                numbers = np.arange(self.count + 1, self.count + 1 + spec.elements).reshape(spec.shape)
                self._traced[name] = _Elements(numbers, exact=_EXACT.get(spec.dtype))
                self.count += spec.elements

    def trace_elements(self, tensor: Any) -> _Elements | None:
        """Find the elements that ``tensor`` consists of, or return None where they are unknown."""
        stack = [(tensor, False)]  # A long chain is too deep for recursion.
        while stack:
            current, traced_inputs = stack.pop()
            if traced_inputs:
                self._traced[current.name] = self._trace_op(current)
            elif current.name not in self._traced:
                self._traced[current.name] = None  # A loop leads back to this entry.
                stack.append((current, True))
                stack += [(source, False) for source in current.op.inputs if current.op.type in _FOLLOWED]
        return self._traced[tensor.name]

    def _trace_op(self, tensor: Any) -> _Elements | None:
        op = tensor.op
        if op.type in _UNCHANGED:
            return self.trace_elements(op.inputs[0])
        if op.type == "Cast":
            return _trace_cast(self.trace_elements(op.inputs[0]), op.inputs[0].dtype, tensor.dtype)
        if op.type == "SelectV2":
            return self._trace_wrapped(op)
        return self._trace_moved(tensor) if op.type in _MOVED and _is_small(tensor) else None

    def _trace_moved(self, tensor: Any) -> _Elements | None:
        op = tensor.op
        traced = {number: self.trace_elements(op.inputs[number]) for number in _moved_inputs(op)}
        histories = {(part.wrap, part.exact) for part in traced.values() if part is not None}
        if len(histories) != 1:
            return None
        values: list[Any] = []
        for number, source in enumerate(op.inputs):
            if number not in traced:
                known = op.type in ("BroadcastTo", "Reshape")  # This shape may be calculated.
                values.append(tensor.shape.as_list() if known else constant_of(source, {}))
            elif (elements := traced[number]) is not None:
                values.append(elements.numbers)
            else:
                values.append(np.zeros(source.shape, np.int64) if _is_small(source) else None)
        if any(value is None for value in values):
            return None
        return _Elements(_run_on_numbers(op, values)[tensor.value_index], *histories.pop())

    def _trace_wrapped(self, op: Any) -> _Elements | None:
        """Trace ``where(i < 0, i + n, i)``, which takes negative indices as NumPy does."""
        condition, added, _ = (tensor.op for tensor in op.inputs)
        elements = self.trace_elements(op.inputs[2])
        if elements is None or elements.wrap or (condition.type, added.type) != ("Less", "AddV2"):
            return None
        (less, zero), (index, size) = condition.inputs, added.inputs
        zero, size = constant_of(zero, {}), constant_of(size, {})
        if zero is None or zero.any() or size is None or size.size != 1 or size.item() < 1:
            return None
        return replace(elements, wrap=int(size.item())) if {less.name, index.name} == {op.inputs[2].name} else None


def _trace_cast(elements: _Elements | None, source: Any, target: Any) -> _Elements | None:
    """Return ``elements`` after a cast that keeps all but large whole numbers, or None after another cast.

    An index that is cast to int32 is checked in its own type: 2**32 + 3, which TensorFlow turns into 3, is refused.
    """
    if elements is None or source == target:
        return elements
    if target.name in _EXACT:
        if source.name in _EXACT and _EXACT[target.name] < _EXACT[source.name]:
            return None  # 9.9999999 may become 10.
        return replace(elements, exact=min(_EXACT[target.name], elements.exact or _HIGHEST))
    if source.name not in _EXACT and target.name in INTEGERS:
        (low, high), (least, greatest) = integer_limits(target.name), integer_limits(source.name)
        if low <= least and greatest <= high:
            return elements
        elements = replace(elements, exact=min(high + 1, elements.exact or _HIGHEST))
    return elements if target.name in ("int32", "int64") else None


def _moved_inputs(op: Any) -> list[int]:
    """Return the numbers of the inputs whose elements ``op`` moves; the other inputs control it."""
    types = []
    for argument in op.op_def.input_arg:
        types += [argument.type_attr] * (op.get_attr(argument.number_attr) if argument.number_attr else 1)
    return [number for number, name in enumerate(types) if name in _MOVED_TYPES]


def _run_on_numbers(op: Any, values: Iterable[Any]) -> list[Array]:
    """Have TensorFlow run ``op`` on int64 in the place of the elements that it moves."""
    from tensorflow.python.eager import context, execute

    import_tensorflow()
    moved, attributes = _moved_inputs(op), list[Any]()
    for attribute in op.op_def.attr:
        value = tf.int64 if attribute.name in _MOVED_TYPES else op.get_attr(attribute.name)
        attributes += [attribute.name, getattr(value, "as_datatype_enum", value)]
    with context.eager_mode():  # A graph may be under construction.
        inputs = [
            tf.constant(value, tf.int64 if number in moved else tensor.dtype)
            for number, (tensor, value) in enumerate(zip(op.inputs, values, strict=True))
        ]
        results = execute.execute(op.type, len(op.outputs), inputs, tuple(attributes), context.context())
    return [result.numpy() for result in results]


def _looks_at_indices(op: Any) -> bool:
    """Return whether TensorFlow checks the indices of ``op``, which it may not do for an empty result."""
    known = all(tensor.shape.rank is not None for tensor in (*op.inputs, *op.outputs))
    ignores = op.node_def.attr["bad_indices_policy"].s == b"IGNORE"
    return known and not ignores and all(0 not in tensor.shape.as_list() for tensor in op.outputs)


def _is_small(tensor: Any) -> bool:
    return bool(tensor.shape.is_fully_defined() and tensor.shape.num_elements() <= _MOST_ELEMENTS)


def _join_ranges(low: Array, high: Array, feed: TensorSpec) -> Iterator[IndexRange]:
    """Yield the joined ranges of adjacent elements with the same limits, where these restrict the type's."""
    lowest, highest = integer_limits(feed.dtype if feed.dtype in INTEGERS else "int64")
    low, high = np.maximum(low, lowest), np.minimum(high, highest)
    limits = np.stack([low, high], axis=1)
    sizes = itertools.accumulate(reversed(feed.shape), operator.mul, initial=1)
    period = next(size for size in sizes if (limits.reshape(-1, size, 2) == limits[:size]).all())
    limits = limits[:period]
    starts = [0, *(np.flatnonzero((limits[1:] != limits[:-1]).any(axis=1)) + 1), period]
    for start, end in itertools.pairwise(map(int, starts)):
        least, greatest = map(int, limits[start])
        if (least, greatest) != (lowest, highest):
            yield IndexRange(start, end - start, period, least, greatest)


def _read_sizes(tensor: Any) -> Array:
    """Return the shape of ``tensor``, with the highest int64 for unknown sizes."""
    return np.array([_HIGHEST if size is None else size for size in tensor.shape.as_list()], np.int64)


def _read_constant(tensor: Any, default: int) -> Array:
    value = constant_of(tensor, {})
    return np.asarray(default if value is None else value, np.int64)


def _find_last_places(indices: Any, tensor: Any) -> Array:
    """Return the last position in ``tensor`` that a row of ``indices`` can refer to."""
    depth = indices.shape[-1]
    return _read_sizes(tensor)[:depth] - 1


def _check_gather(op: Any) -> Iterator[Check]:
    axis = _read_constant(op.inputs[2], 0) if op.type == "GatherV2" else 0
    yield 1, 0, _read_sizes(op.inputs[0])[axis] - 1


def _check_strided_slice(op: Any) -> Iterator[Check]:
    """Check single indices, as in ``t[i]``. The ends of other slices may be anything."""
    sizes, (count,) = _read_sizes(op.inputs[0]), op.inputs[1].shape
    masks = {name: op.get_attr(f"{name}_mask") for name in ("begin", "ellipsis", "new_axis", "shrink_axis")}
    named = [{name for name, mask in masks.items() if mask >> at & 1} for at in range(count or 0)]
    axis, least, greatest = 0, np.full(len(named), _LOWEST), np.full(len(named), _HIGHEST)
    for at, names in enumerate(named):
        if "ellipsis" in names:
            axis = len(sizes) - sum("new_axis" not in later for later in named[at + 1 :])
        elif "new_axis" not in names:
            if names == {"shrink_axis"} and sizes[axis] < _HIGHEST:
                least[at], greatest[at] = -sizes[axis], sizes[axis] - 1
            axis += 1
    yield 1, least, greatest


def _check_sparse_segment(op: Any) -> Iterator[Check]:
    yield 1, 0, _read_sizes(op.inputs[0])[0] - 1
    if op.type.endswith("WithNumSegments"):
        yield 2, 0, _read_constant(op.inputs[3], _HIGHEST) - 1


_CHECKS: Mapping[str, Callable[[Any], Iterable[Check]]] = {
    "Bincount": lambda op: [(0, 0, _HIGHEST)],
    "CropAndResize": lambda op: [(2, 0, _read_sizes(op.inputs[0])[0] - 1)],
    "DenseBincount": lambda op: [(0, 0, _HIGHEST)],
    "DynamicPartition": lambda op: [(1, 0, op.get_attr("num_partitions") - 1)],
    "Gather": _check_gather,
    "GatherNd": lambda op: [(1, 0, _find_last_places(op.inputs[1], op.inputs[0]))],
    "GatherV2": _check_gather,
    "ReverseSequence": lambda op: [(1, 0, _read_sizes(op.inputs[0])[op.get_attr("seq_dim")])],
    "ScatterNd": lambda op: [(0, 0, _find_last_places(op.inputs[0], op.outputs[0]))],
    "Slice": lambda op: [(1, 0, _read_sizes(op.inputs[0]) - np.maximum(_read_constant(op.inputs[2], 0), 0))],
    "SparseSoftmaxCrossEntropyWithLogits": lambda op: [(1, 0, _read_sizes(op.inputs[0])[1] - 1)],
    "SparseTensorDenseMatMul": lambda op: [(0, 0, _read_constant(op.inputs[2], _HIGHEST) - 1)],
    "SparseToDense": lambda op: [(0, 0, (_read_sizes(op.outputs[0]) - 1)[() if op.inputs[0].shape.rank else 0])],
    "StridedSlice": _check_strided_slice,
    "UnravelIndex": lambda op: [(0, _LOWEST, _read_constant(op.inputs[1], _HIGHEST).prod() - 1)],
    **dict.fromkeys(
        [f"SparseSegment{kind}{size}" for kind in ("Mean", "SqrtN", "Sum") for size in ("", "WithNumSegments")],
        _check_sparse_segment,
    ),
    **dict.fromkeys(
        [*(f"TensorScatter{kind}" for kind in ("Add", "Max", "Min", "Sub", "Update")), "ScatterNdNonAliasingAdd"],
        lambda op: [(1, 0, _find_last_places(op.inputs[1], op.inputs[0]))],
    ),
    **dict.fromkeys(
        [f"UnsortedSegment{kind}" for kind in ("Max", "Min", "Prod", "Sum")],
        lambda op: [(1, _LOWEST, _read_sizes(op.outputs[0])[0] - 1)],
    ),
}
"""The checks of indices that TensorFlow makes, by op. Other ops (``OneHot``) accept any index."""
