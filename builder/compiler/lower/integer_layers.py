"""Layers of integers: sums of products of bytes in int32, and the bytes that are made of them.

A quantised model says this of a convolution or product: ``x - zero`` in int32, the sums with constant weights that int8
holds, a bias in int32, one float32 factor for each channel, rounding to even, the output's zero point, bounds, int8.
Every step is exact, or one float32 operation, so a LayerStep of integer sums has the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.compress import Array
from builder.compiler.lower.evaluate import evaluate_constant
from builder.compiler.lower.hlo import Dag, Value, find_channel_vector, find_scalar
from builder.compiler.lower.layers import Core, find_cores
from builder.compiler.lower.steps.quantisation import Quantisation

LEAST_BYTES = {"int8": -128, "uint8": 0}
"""The types of bytes, and the least number of each: a byte as the kernels count it is so much above it."""


@dataclass(frozen=True)
class RoundedSums:
    """Rounding of sums to bytes: ``clamp(rint(float32(sum + bias) * factor), low, high)``, plus ``by.zero``.

    ``bias``: int32 [channels]; ``factor``: float32 [channels]; ``value``: the bytes; ``inside``: the values before.
    """

    value: Value
    bias: NDArray[np.int32]
    factor: Array
    low: float
    high: float
    by: Quantisation
    inside: tuple[Value, ...]


@dataclass(frozen=True)
class IntegerLayer:
    """A core of integers, whose ``input`` is a tensor of bytes, and what its sums become; None if they are stored.

    ``kernel``: [KH, KW, C / groups, OC]. ``zero``: the input's zero point, 0 to 255. ``centred``: the input less its
    zero point, in int32, which is read instead if nothing stores the bytes (``reads_centred``).
    """

    core: Core
    kernel: Array
    zero: int
    centred: Value
    rounding: RoundedSums | None
    reads_centred: bool = False

    @property
    def value(self) -> Value:
        """The sums."""
        return self.core.value

    @property
    def input(self) -> Value:
        """The value that it reads."""
        return self.centred if self.reads_centred else self.core.input

    @property
    def end(self) -> Value:
        """The value that it stores."""
        return self.core.value if self.rounding is None else self.rounding.value

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The value that it stores, as ``base``."""
        return (self.end.base,)

    @property
    def inside(self) -> tuple[Value, ...]:
        """Values that it computes and does not store."""
        return () if self.rounding is None else self.rounding.inside


def find_integer_layers(dag: Dag) -> list[IntegerLayer]:
    """Find every live layer of integers with constant weights."""
    layers = []
    for found in find_cores(dag, "int32"):
        core = _find_filters(found) or found
        source, kernel = find_centred_bytes(core.input), _find_kernel(core)
        if source is None or kernel is None or not (core.geometry.summable or core.geometry.depthwise):
            continue
        value, zero = source
        rounding = _match_rounding(core, dag)
        layers.append(IntegerLayer(replace(core, input=value), kernel, zero, core.input.base, rounding))
    return layers


def find_centred_bytes(value: Value) -> tuple[Value, int] | None:
    """Return the tensor of bytes, and its zero point from 0 to 255, that ``value`` in int32 is less its zero point."""
    inner, zero = value.base, 0.0
    if inner.op in ("add", "subtract"):
        scalars = [find_scalar(operand, "int32") for operand in inner.operands]
        place = 0 if scalars[1] is not None else 1
        scalar = scalars[1 - place]
        if scalar is None or (inner.op == "subtract" and place == 1):
            return None
        zero = scalar if inner.op == "subtract" else -scalar
        inner = inner.operands[place]
    if inner.op != "convert" or inner.operands[0].dtype not in LEAST_BYTES or not inner.operands[0].row_major:
        return None
    (source,) = inner.operands
    byte = int(zero) - LEAST_BYTES[source.dtype]
    return (source, byte) if 0 <= byte <= 255 else None


def find_byte_bounds(clamped: Value, dtype: str) -> tuple[int, int] | None:
    """Return the bounds of a clamp if both are numbers of the bytes, or None."""
    low, high = (find_scalar(clamped.operands[place], clamped.dtype) for place in (0, 2))
    if low is None or high is None or low != int(low) or high != int(high):
        return None
    least = LEAST_BYTES[dtype]
    return (int(low), int(high)) if least <= low <= high <= least + 255 else None


def _find_filters(core: Core) -> Core | None:
    """Return a depthwise core as one of groups, or None if it is not one.

    XLA's CPU backend writes its kernel of integers out with zeros: where one index of a channel equals the other, there
    is a filter [KH, KW, channels].
    """
    numbers = core.value.instruction.convolution_dimension_numbers
    if core.weights.op != "select" or core.geometry.groups != 1:
        return None
    mask, filters, zeros = core.weights.operands
    axes = [*numbers.kernel_spatial_dimensions, numbers.kernel_output_feature_dimension]
    places = {axis for operand in mask.operands if operand.op == "iota" for axis in operand.instruction.dimensions}
    if mask.op != "compare" or mask.instruction.comparison_direction != "EQ" or len(mask.operands) != 2:
        return None
    diagonal = places == {numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension}
    if not diagonal or filters.op != "broadcast" or list(filters.instruction.dimensions) != axes:
        return None
    if find_scalar(zeros, "int32") != 0 or core.geometry.in_channels != core.geometry.out_channels:
        return None
    channels = core.geometry.out_channels
    return replace(core, weights=filters.operands[0], geometry=replace(core.geometry, groups=channels))


def _find_kernel(core: Core) -> Array | None:
    """Return the weights of a core [KH, KW, C / groups, OC], or None if int8 does not hold them."""
    weights = evaluate_constant(core.weights)
    if weights is None or weights.size == 0 or weights.min() < -128 or weights.max() > 127:
        return None
    if core.geometry.depthwise and weights.ndim == 3:
        return np.asarray(weights[:, :, None], np.float32)
    return np.asarray(core.arrange_weights(weights), np.float32)


def _match_rounding(core: Core, dag: Dag) -> RoundedSums | None:
    """Match the operations from a core's sums to bytes, none of which anything else reads."""
    channels = core.geometry.out_channels
    stored = {output.base for output in dag.outputs}
    passed = [core.value]

    def follow(op: str) -> Value | None:
        """Move on to the one reader of the last value, if it is an ``op``, past views of the same bytes."""
        value = passed[-1]
        while value.base not in stored and len(users := dag.users[value]) == 1 and users[0].row_major:
            if users[0].op == op:
                passed.append(users[0])
                return users[0]
            if users[0].op != "bitcast" or users[0].dims[-1:] != (channels,):
                return None
            value = users[0]
        return None

    def find_other(user: Value, dtype: str) -> NDArray[np.float64] | None:
        """Return the numbers of each channel that ``user`` combines with the value before it."""
        before = passed[-2].base
        others = [o for o in user.operands if o.base is not before]
        return find_channel_vector(others[0], dtype) if len(others) == 1 else None

    bias = np.zeros(channels)
    if (added := follow("add")) is not None:
        vector = find_other(added, "int32")
        if vector is None:
            return None
        bias += vector
    if (converted := follow("convert")) is None or converted.dtype != "float32":
        return None
    factor = find_other(multiplied, "float32") if (multiplied := follow("multiply")) else None
    if factor is None or follow("round-nearest-even") is None:
        return None
    zero = 0.0
    if (moved := follow("add")) is not None:
        vector = find_other(moved, "float32")
        if vector is None or (vector != vector[0]).any():
            return None
        zero = float(vector[0])
    if (clamped := follow("clamp")) is None or clamped.operands[1].base is not passed[-2].base:
        return None
    low, high = find_scalar(clamped.operands[0]), find_scalar(clamped.operands[2])
    if (end := follow("convert")) is None or end.dtype not in LEAST_BYTES or low is None or high is None:
        return None
    least = LEAST_BYTES[end.dtype]
    by = Quantisation(1.0, int(zero) - least)
    if not (0 <= by.zero <= 255 and zero == int(zero) and least <= low <= high <= least + 255):
        return None
    return RoundedSums(
        end,
        bias.astype(np.int32),
        np.broadcast_to(factor, channels).astype(np.float32),
        low - zero,
        high - zero,
        by,
        inside=tuple(value.base for value in passed[:-1]),
    )
