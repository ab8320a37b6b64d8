"""A layer's weights quantised to fewer bits: the stored numbers, and the floats that the kernels restore from them.

Rounding is to nearest, ties to even. int8 has one scale per output channel and no zero point: the largest magnitude of
the channel is 127. The kernels dequantise to exactly ``StoredWeights.restored`` and multiply in float32, so a graph
with those numbers in the place of its own (``Compressor.restored``) has the library's answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.steps.quantisation import Quantisation
from builder.config.schema import WeightType

Array = NDArray[np.float32]

ITEM_SIZES: dict[WeightType, int] = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}
"""Bytes per weight of each type."""

LEAST_WEIGHTS = 1024
"""Minimum number of weights worth compressing: a smaller layer keeps its own."""

LEAST_SUMMED, LEAST_SUMMED_CHANNELS = 512, 16
"""Minimum weights and input channels if inputs are rounded too: sums of bytes gain time with fewer weights. With three
channels, they were no faster with VNNI, and slower without."""

MOST_CHANGE = 1e-3
"""Largest change by float16, whose small numbers are subnormal, as a share of the norm; above it, float32 is kept."""


@dataclass(frozen=True)
class WeightRules:
    """Type of each layer's weights: that of the last of ``layers`` whose pattern its name matches, or ``type``.

    ``summed``: the inputs of layers with int8 weights are rounded too.
    """

    type: WeightType = "float32"
    layers: tuple[tuple[str, WeightType], ...] = ()
    summed: bool = False

    def choose_type(self, name: str) -> WeightType:
        """Choose the type of the weights of the layer ``name``."""
        return next((kind for pattern, kind in reversed(self.layers) if fnmatchcase(name, pattern)), self.type)

    def get_least_weights(self, kind: WeightType, input_channels: int) -> int:
        """Return the fewest weights of a layer that are stored as ``kind`` rather than float32."""
        summed = self.summed and kind == "int8" and input_channels >= LEAST_SUMMED_CHANNELS
        return LEAST_SUMMED if summed else LEAST_WEIGHTS


@dataclass(frozen=True)
class StoredWeights:
    """A layer's weights: ``numbers`` are stored in the library, ``restored`` are the floats that the kernels multiply.

    Both are [KH, KW, C / groups, OC]. ``scale``: [OC] for int8, else None. ``kept``: why the type is not the requested
    one.
    """

    type: WeightType
    numbers: Array
    restored: Array
    scale: Array | None = None
    kept: str = ""


def compress_weights(weights: Array, wanted: WeightType, least: int = LEAST_WEIGHTS) -> StoredWeights:
    """Return ``weights`` [KH, KW, C / groups, OC] as ``wanted``, or unchanged with the reason why that is not possible.

    ``least``: the fewest weights that are compressed.
    """
    weights = np.asarray(weights, np.float32)
    if wanted == "float32":
        return StoredWeights("float32", weights, weights)
    if weights.size < least:
        return _keep_float32(weights, f"fewer than {least:,} weights")
    if not np.isfinite(weights).all():
        return _keep_float32(weights, "not all of its weights are finite")
    stored = quantise_weights(weights, wanted)
    if not np.isfinite(stored.restored).all():
        return _keep_float32(weights, f"weights up to {np.abs(weights).max():.3g} are beyond {wanted}")
    change = _measure_change(weights, stored.restored)
    if wanted == "float16" and change > MOST_CHANGE:
        return _keep_float32(weights, f"so small that float16 would change them by {100 * change:.2g} %")
    return stored


def quantise_weights(weights: Array, kind: WeightType) -> StoredWeights:
    """Return finite ``weights`` [KH, KW, C / groups, OC] as ``kind``, without checks."""
    match kind:
        case "float16":
            rounded = round_to_float16(weights)
        case "bfloat16":
            rounded = round_to_bfloat16(weights)
        case "int8":
            return _quantise_int8(weights)
        case _:
            rounded = weights
    return StoredWeights(kind, rounded, rounded)


def round_to_float16(values: Array) -> Array:
    """Return the nearest float16 numbers, as float32, infinite beyond 65,504."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def round_to_bfloat16(values: Array) -> Array:
    """Return the nearest bfloat16 numbers, as float32, infinite beyond the largest, for ``values`` without NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    bits = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)


def encode_numbers(numbers: Array, kind: WeightType) -> bytes:
    """Encode ``numbers``, all of which ``kind`` can represent, as little-endian bytes."""
    numbers = np.ascontiguousarray(numbers, np.float32)
    match kind:
        case "float16":
            return numbers.astype("<f2").tobytes()
        case "bfloat16":
            return (numbers.view(np.uint32) >> np.uint32(16)).astype("<u2").tobytes()
        case "int8":
            return numbers.astype(np.int8).tobytes()
    return numbers.tobytes()


def _quantise_int8(weights: Array) -> StoredWeights:
    largest = np.abs(weights).max(axis=(0, 1, 2))
    scale = np.where(largest > 0, np.maximum(largest / np.float32(127), np.finfo(np.float32).tiny), 1)
    scale = scale.astype(np.float32)
    numbers = np.clip(np.rint(weights / scale), -127, 127).astype(np.float32)
    with np.errstate(over="ignore"):
        return StoredWeights("int8", numbers, numbers * scale, scale)


def _keep_float32(weights: Array, reason: str) -> StoredWeights:
    return StoredWeights("float32", weights, weights, kept=reason)


def _measure_change(weights: Array, rounded: Array) -> float:
    norm = float(np.linalg.norm(weights.astype(np.float64)))
    return float(np.linalg.norm(rounded.astype(np.float64) - weights)) / norm if norm else 0.0


WeightView = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""A function that returns the view of a constant of the graph in the order of a layer's weights."""


@dataclass(frozen=True)
class RoundedInput:
    """A layer with rounded weights: the digest of its constant, its name, and the rounding of its input, or None."""

    constant: str
    layer: str
    quantisation: Quantisation | None


@dataclass
class Compressor:
    """Compressor of the layers of one program by ``rules``; it records what it has done.

    ``names``: the names of all layers so far. ``restored``: the constants that replace those of the graph, so that it
    calculates with the library's weights, by ``digest_constant`` of the constant replaced.
    """

    rules: WeightRules = field(default_factory=WeightRules)
    names: list[str] = field(default_factory=list)
    restored: dict[str, Array] = field(default_factory=dict)
    rounded: list[RoundedInput] = field(default_factory=list)

    def record_input(self, name: str, constant: Array, quantisation: Quantisation | None) -> None:
        """Record how the input of the layer ``name``, which reads ``constant``, is rounded."""
        self.rounded.append(RoundedInput(digest_constant(constant), name, quantisation))

    def compress_layer(
        self,
        name: str,
        weights: Array,
        constant: Array,
        view_of: WeightView,
        scale: NDArray[np.float64] | float = 1.0,
        *,
        alone: bool = True,
    ) -> StoredWeights:
        """Compress the ``weights`` of layer ``name``: ``view_of(constant) * scale``, with a ``scale`` per channel.

        ``alone``: only layers like this one read the constant.
        """
        self.names.append(name)
        wanted = self.rules.choose_type(name)
        stored = compress_weights(weights, wanted, self.rules.get_least_weights(wanted, weights.shape[2]))
        if stored.type == "float32":
            return stored
        if not alone:
            return _keep_float32(weights, "another step reads the same weights")
        exchanged = np.array(constant, np.float32, order="C")
        view = view_of(exchanged)
        with np.errstate(divide="ignore", invalid="ignore"):
            unscaled = stored.restored / np.asarray(scale)
        view[...] = np.where(np.isfinite(unscaled), unscaled, view)
        key = digest_constant(constant)
        if not np.array_equal(self.restored.setdefault(key, exchanged), exchanged):
            return _keep_float32(weights, "another layer has the same weights, scaled otherwise")
        return stored


def digest_constant(constant: Array) -> str:
    """Return the SHA-256 of a constant's numbers in row-major order, whatever its shape."""
    return hashlib.sha256(np.ascontiguousarray(constant, "<f4").tobytes()).hexdigest()
