"""Layer normalisation and softmax over the last dimension as one step, where XLA makes four to seven of them.

There are many ways to write a norm (one pass over the squares or two, gamma on the factor or on the numbers), so it is
recognised by its values, as activations are: values that depend only on ``x`` are evaluated for a few rows, and must be
``(x - mean) / sqrt(variance + epsilon) * gamma + beta``, or the same without the mean. A softmax is written in one way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.evaluate import ELEMENTWISE, apply_elementwise
from builder.compiler.lower.hlo import Dag, Value, find_channel_vector
from builder.compiler.lower.reductions import is_dense_float32, match_reduction, match_softmax
from builder.compiler.lower.steps.image_step import NormKind

_FEWEST = 8
"""The fewest channels: with fewer, most lanes of the kernel's vectors would be idle."""
_FEWEST_OF_SOFTMAX = 32
"""The same of a softmax, whose row is short beside the product before it if it is that short."""
_MOST_VALUES = 60
_DEEPEST = 8
"""The most steps from the terms of a variance back to the normalised value."""
_TOLERANCE = 1e-5
_PEAKS = 8

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Norm:
    """A norm or softmax of ``input``, which stores ``value``; ``inside``: the values that it computes besides."""

    value: Value
    input: Value
    gamma: Array
    beta: Array
    epsilon: float
    kind: NormKind
    inside: tuple[Value, ...]

    @property
    def channels(self) -> int:
        """Number of channels."""
        return self.value.dims[-1]

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values that it stores, as ``base``."""
        return (self.value.base,)


def find_norms(dag: Dag) -> list[Norm]:
    """Find every live layer normalisation of float32, including those that take the mean as 0, and every softmax."""
    floats = [value for value in dag.live if value.dtype == "float32"]
    norms = [_match_norm(value, dag) for value in floats if value.op in ("rsqrt", "sqrt")]
    softmaxes = [_match_softmax(value) for value in floats if value.op == "divide"]
    return [norm for norm in (*norms, *softmaxes) if norm is not None]


def _match_softmax(value: Value) -> Norm | None:
    softmax = match_softmax(value)
    if softmax is None or value.dims[-1] < _FEWEST_OF_SOFTMAX:
        return None
    inside = tuple(v for v in softmax.inside if v is not value)
    return Norm(value, softmax.source, np.empty(0), np.empty(0), 0.0, "softmax", inside)


def _match_norm(root: Value, dag: Dag) -> Norm | None:
    """Match the normalisation whose standard deviation is ``root`` or 1 / ``root``."""
    for source in _find_sources(root):
        rows = _SampledRows(source)
        if rows.compute_value(root) is None:
            continue
        best = None
        for end, inside in _find_ends(rows, root, dag):
            affine = _match_affine(rows, root, end)
            if affine is not None:
                best = Norm(end, source, *affine, inside)
        if best is not None:
            return best
    return None


def _find_sources(root: Value) -> list[Value]:
    """Find the values that may be normalised: sources of the sums that ``root`` is made of, the furthest first."""
    sources: dict[Value, None] = {}
    pending = [(root, 0)]
    while pending and len(sources) < _MOST_VALUES:
        value, depth = pending.pop()
        for operand in value.operands:
            summed = match_reduction(operand, "add")
            if summed is not None:
                sources[summed[0]] = None
                pending.append((summed[0], 1))
            elif depth == 0 and operand.elements == root.elements:
                pending.append((operand, 0))
            elif 0 < depth < _DEEPEST and value.elements == operand.elements:
                sources[operand] = None
                pending.append((operand, depth + 1))
    rows = root.elements
    return sorted(
        (v for v in sources if is_dense_float32(v) and v.dims[-1] >= _FEWEST and v.elements == rows * v.dims[-1]),
        key=lambda v: v.number,
    )


class _SampledRows:
    """The values made of ``source``, for a few rows instead of all: [rows, channels], or [rows, 1] for sums."""

    def __init__(self, source: Value) -> None:
        self.source, self.channels = source, source.dims[-1]
        self.rows = source.elements // self.channels
        first = np.where(np.arange(self.channels) % 2, -1.0, 1.0)
        random = np.random.default_rng(0).standard_normal((4, self.channels))
        shifts = np.array([[0.0], [3.0], [-0.5], [0.0]])
        scales = np.array([[1e6], [0.5], [20.0], [1e-3]])
        # A norm is largest for one channel far from all others: a limit beyond that changes nothing.
        peaks = np.zeros((_PEAKS, self.channels))
        peaks[np.arange(_PEAKS), np.arange(_PEAKS) * self.channels // _PEAKS] = 1e6
        self.samples: Array = np.concatenate([first[None], -first[None], shifts + scales * random, peaks, -peaks])
        self.numbers: dict[Value, Array] = {source: self.samples}
        self.partial: dict[Value, tuple[Value, ...]] = {}
        """The sums of windows that XLA computes first, by the whole sum."""

    def is_source(self, value: Value) -> bool:
        """Return whether ``value`` has the source's bytes, row by row."""
        return value.base is self.source.base and is_dense_float32(value) and self._classify_shape(value) == "all"

    def is_whole(self, value: Value) -> bool:
        """Return whether ``value`` has a number for each channel of each row."""
        return self._classify_shape(value) == "all"

    def list_derived(self) -> set[Value]:
        """List the known values that are made of the source."""
        return {v for v in self.numbers if not self.is_source(v) and find_channel_vector(v) is None}

    def compute_value(self, value: Value) -> Array | None:
        """Compute ``value`` for the sampled rows; None if it has other sources or an operation that is unknown here."""
        if value in self.numbers:
            return self.numbers[value]
        if self.is_source(value):
            return self.samples
        order, pending, seen = list[Value](), [value], {value}
        while pending:
            node = pending.pop()
            order.append(node)
            if len(order) > _MOST_VALUES:
                return None
            for operand in self._list_operands(node):
                if operand not in seen and operand not in self.numbers:
                    seen.add(operand)
                    pending.append(operand)
        for node in sorted(order, key=lambda v: v.number):
            numbers = self._evaluate_value(node)
            if numbers is None:
                return None
            self.numbers[node] = numbers
        return self.numbers[value]

    def _list_operands(self, value: Value) -> tuple[Value, ...]:
        if find_channel_vector(value) is not None or self.is_source(value):
            return ()
        summed = match_reduction(value, "add")
        return (summed[0],) if summed is not None else value.operands

    def _evaluate_value(self, value: Value) -> Array | None:
        if self.is_source(value):
            return self.samples
        vector = find_channel_vector(value)
        if vector is not None:
            return vector[None] if vector.size in (1, self.channels) else None
        if (not is_dense_float32(value) and value.dims) or value.dtype != "float32":
            return None
        summed = match_reduction(value, "add")
        if summed is not None:
            self.partial[value] = tuple(summed[1][1:])
            whole = self.numbers.get(summed[0])
            # Sums of values that are the same in all channels, or in all rows, are not needed.
            return None if whole is None or whole.shape != self.samples.shape else whole.sum(-1, keepdims=True)
        operands = [self.numbers[operand] for operand in value.operands if operand in self.numbers]
        if len(operands) != len(value.operands):
            return None
        if value.op == "bitcast":
            return operands[0] if self._classify_shape(value) == self._classify_shape(value.operands[0]) else None
        if value.op == "broadcast":
            return operands[0] if self._is_along_channels(value) else None
        if value.op not in ELEMENTWISE or self._classify_shape(value) is None:
            return None
        with np.errstate(all="ignore"):
            result = apply_elementwise(value, operands)
        return None if result is None else np.asarray(result, np.float64)

    def _classify_shape(self, value: Value) -> str | None:
        """Return "all" if ``value`` has a number for each channel of each row, "rows" for one a row, or None."""
        if value.elements == self.rows * self.channels and value.dims[-1:] == (self.channels,):
            return "all"
        return "rows" if value.elements == self.rows else None

    def _is_along_channels(self, value: Value) -> bool:
        """Return whether ``value`` repeats a number of each row for each channel, or has the same bytes."""
        source = value.operands[0]
        axes, last = list(value.instruction.dimensions), len(value.dims) - 1
        if self._classify_shape(source) != "rows" or self._classify_shape(value) is None or not source.row_major:
            return False
        moved = [(axis, size) for axis, size in zip(axes, source.dims, strict=True) if size > 1]
        kept = [(axis, size) for axis, size in enumerate(value.dims) if size > 1]
        if self._classify_shape(value) == "all":
            kept = [pair for pair in kept if pair[0] != last]
        return moved == kept


def _find_ends(rows: _SampledRows, root: Value, dag: Dag) -> Iterator[tuple[Value, tuple[Value, ...]]]:
    """Yield values made only of ``root`` and the source, each with the values on the way, which nothing else reads."""
    region, ends = rows.list_derived(), {root}
    while len(region) < _MOST_VALUES:
        users = [u for v in region for u in dag.users.get(v, ()) if u not in region]
        latest = next((u for u in sorted(users, key=lambda v: v.number) if rows.compute_value(u) is not None), None)
        if latest is None:
            return
        # The other values that it is made of are on the way as well.
        region |= rows.list_derived()
        if any(operand in ends for operand in latest.operands):
            ends.add(latest)
        others = region - {latest}
        partial = [part for value in others for part in rows.partial.get(value, ())]
        whole = {*region, *partial}
        closed = all(user in whole for value in (*others, *partial) for user in dag.users[value])
        if latest in ends and closed and latest.op != "bitcast" and is_dense_float32(latest) and rows.is_whole(latest):
            yield latest, (*others, *partial)


def _match_affine(rows: _SampledRows, root: Value, end: Value) -> tuple[Array, Array, float, NormKind] | None:
    """Return (gamma, beta, epsilon, kind) if ``end`` is a normalisation of the source, else None."""
    x, y = rows.samples, rows.compute_value(end)
    zero = _SampledRows(rows.source)
    zero.numbers[rows.source] = np.zeros_like(x)
    shifted = zero.compute_value(root.operands[0])
    if y is None or y.shape != x.shape or shifted is None or not np.isfinite(y).all():
        return None
    epsilon = float(np.ravel(shifted)[0])
    if not 0 < epsilon < 1:
        return None
    beta = (y[0] + y[1]) / 2
    kinds: tuple[NormKind, ...] = ("layer norm", "RMS norm")
    for kind in kinds:
        d = x - x.mean(-1, keepdims=True) if kind == "layer norm" else x
        normal = d / np.sqrt((d * d).mean(-1, keepdims=True) + epsilon)
        gamma = (y[0] - y[1]) / 2 / normal[0]
        allowed = _TOLERANCE * (np.abs(gamma) * (np.abs(normal) + 1) + np.abs(beta)) + 1e-30
        if (np.abs(normal * gamma + beta - y) <= allowed).all():
            return gamma, beta, epsilon, kind
    return None
