"""A layer's weights quantised to fewer bits: what is stored, and what the kernels dequantise it to.

Rounding is to nearest, ties to even. int8 has one scale per output channel and no zero point: the largest magnitude
of the channel is 127. The kernels dequantise to exactly ``Stored.restored`` and multiply in float32, so a graph with
those numbers in the place of its own (``Compressor.restored``) has the library's answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.steps.quantisation import Quantisation
from builder.config.model_spec import WeightType

Array = NDArray[np.float32]

ITEM_SIZES: dict[WeightType, int] = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}
"""Bytes."""

LEAST_WEIGHTS = 1024
"""A layer with fewer keeps its own: nothing to gain."""

LEAST_SUMMED, LEAST_SUMMED_CHANNELS = 512, 16
"""Where inputs are rounded as well, sums of bytes gain time with fewer weights too, of so many input channels at least:
with three, they were no faster with VNNI, and slower without."""

MOST_CHANGE = 1e-3
"""float16 of a layer that its subnormal numbers would change by more, as a share of the weights' norm, is refused."""


@dataclass(frozen=True)
class WeightRules:
    """Which type each layer's weights have: ``type``, or that of the last of ``layers`` whose pattern its name fits.

    ``summed``: the inputs of layers with int8 weights are rounded too.
    """

    type: WeightType = "float32"
    layers: tuple[tuple[str, WeightType], ...] = ()
    summed: bool = False

    def choose_type(self, name: str) -> WeightType:
        return next((kind for pattern, kind in reversed(self.layers) if fnmatchcase(name, pattern)), self.type)

    def get_least_weights(self, kind: WeightType, input_channels: int) -> int:
        """How many weights of ``kind`` a layer has at least, for them not to be float32."""
        summed = self.summed and kind == "int8" and input_channels >= LEAST_SUMMED_CHANNELS
        return LEAST_SUMMED if summed else LEAST_WEIGHTS


@dataclass(frozen=True)
class StoredWeights:
    """``numbers``: what lies in the library, each a number that ``type`` has; ``restored``: what is multiplied with.

    Both [KH, KW, C / groups, OC]. ``scale`` [OC] is that of int8, else None. ``kept``: why the type is not the one
    that was asked for.
    """

    type: WeightType
    numbers: Array
    restored: Array
    scale: Array | None = None
    kept: str = ""


def compress_weights(weights: Array, wanted: WeightType, least: int = LEAST_WEIGHTS) -> StoredWeights:
    """``weights`` [KH, KW, C / groups, OC] as ``wanted``, or as they are where that would not do.

    ``least``: of fewer, they stay as they are.
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
    """``weights`` [KH, KW, C / groups, OC], all finite, as ``kind`` in any case."""
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
    """The nearest float16 numbers, as float32; infinite beyond 65,504."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def round_to_bfloat16(values: Array) -> Array:
    """The nearest bfloat16 numbers, as float32; infinite beyond the largest. No NaN may be among ``values``."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    bits = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)


def encode_numbers(numbers: Array, kind: WeightType) -> bytes:
    """Little-endian bytes of ``numbers``, every one of which ``kind`` has."""
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
"""Takes a constant of the graph, and returns the view of it in the order of a layer's weights."""


@dataclass(frozen=True)
class RoundedInput:
    """A layer with rounded weights: the digest of its constant in the graph, its name there, and how its input is
    rounded, None where it is not."""

    constant: str
    layer: str
    quantisation: Quantisation | None


@dataclass
class Compressor:
    """Compresses the layers of one program by ``rules`` and keeps count.

    ``names``: of all layers so far. ``restored``: constants of the graph that are to be exchanged for the graph to
    calculate with what the library has, by ``digest_constant`` of what they are now.
    """

    rules: WeightRules = field(default_factory=WeightRules)
    names: list[str] = field(default_factory=list)
    restored: dict[str, Array] = field(default_factory=dict)
    rounded: list[RoundedInput] = field(default_factory=list)

    def record_input(self, name: str, constant: Array, quantisation: Quantisation | None) -> None:
        """Note how the input of the layer ``name`` is rounded, which reads ``constant``."""
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
        """The ``weights`` of the layer ``name``, which are ``view_of(constant) * scale``; ``scale`` is per channel.

        ``alone``: nothing but layers like this one reads the constant.
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
    """The SHA-256 of a constant's numbers in row-major order, whatever its shape."""
    return hashlib.sha256(np.ascontiguousarray(constant, "<f4").tobytes()).hexdigest()
