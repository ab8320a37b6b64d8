"""Sums of tensors of bytes in fixed point: what quantised models make of a residual, or of bytes with another scale.

XNNPACK and LiteRT compute ``clamp(((a - za) * ma + (b - zb) * mb + half) >> shift) + zero)`` in int32. XLA writes the
same in any order, so it is read as a linear function of the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from builder.compiler.lower.hlo import Dag, Value, find_scalar
from builder.compiler.lower.integer_layers import LEAST_BYTES, find_byte_bounds


@dataclass(frozen=True)
class IntegerSum:
    """``clamp(((a * factors[0] + b * factors[1] + start) >> shift) + zero, low, high)``, all of bytes from 0 to 255.

    ``sources``: a and b, or a alone. ``value``: the sum as it is stored. ``inside``: the values before.
    """

    value: Value
    sources: tuple[Value, ...]
    factors: tuple[int, ...]
    start: int
    shift: int
    zero: int
    low: int
    high: int
    inside: tuple[Value, ...]

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The value that it stores, as ``base``."""
        return (self.value.base,)


@dataclass(frozen=True)
class _Linear:
    """The number ``constant`` plus that of each source times its factor; ``inside``: the values on the way to it."""

    factors: dict[Value, int]
    constant: int
    inside: tuple[Value, ...] = ()

    def add(self, other: _Linear, sign: int = 1) -> _Linear:
        factors = dict(self.factors)
        for source, factor in other.factors.items():
            factors[source] = factors.get(source, 0) + sign * factor
        return _Linear(factors, self.constant + sign * other.constant, (*self.inside, *other.inside))

    def multiply(self, number: int) -> _Linear:
        factors = {source: factor * number for source, factor in self.factors.items()}
        return _Linear(factors, self.constant * number, self.inside)


def find_integer_sums(dag: Dag) -> list[IntegerSum]:
    """Find every live sum of one or two tensors of bytes of the sum's own shape."""
    return [found for value in dag.live if (found := _match_sum(value)) is not None]


def _match_sum(value: Value) -> IntegerSum | None:
    if value.op != "convert" or value.dtype not in LEAST_BYTES or not value.row_major or not value.dims:
        return None
    (clamped,) = value.operands
    if clamped.op != "clamp" or clamped.dtype != "int32":
        return None
    bounds = find_byte_bounds(clamped, value.dtype)
    shifted, zero, inside = clamped.operands[1], 0.0, [clamped]
    if shifted.op == "add":
        numbers = [(find_scalar(operand, "int32"), other) for operand, other in _pair(shifted)]
        known = [(number, other) for number, other in numbers if number is not None]
        if len(known) != 1:
            return None
        inside.append(shifted)
        ((zero, shifted),) = known
    if shifted.op != "shift-right-arithmetic" or bounds is None:
        return None
    shift, linear = find_scalar(shifted.operands[1], "int32"), _read_linear(shifted.operands[0], value.dims)
    if shift is None or linear is None or not 1 <= len(linear.factors) <= 2 or not 0 <= shift < 32:
        return None
    least = LEAST_BYTES[value.dtype]
    sources, factors = tuple(linear.factors), tuple(linear.factors.values())
    start = linear.constant + sum(f * LEAST_BYTES[s.dtype] for s, f in linear.factors.items())
    if any(s.dtype != value.dtype for s in sources):
        return None
    return IntegerSum(
        value,
        sources,
        factors,
        start,
        int(shift),
        zero=int(zero) - least,
        low=bounds[0] - least,
        high=bounds[1] - least,
        inside=(*inside, shifted, *linear.inside),
    )


def _pair(value: Value) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    return (value.operands[0], value.operands[1]), (value.operands[1], value.operands[0])


def _read_linear(value: Value, dims: tuple[int, ...]) -> _Linear | None:
    """Return int32 ``value`` as a linear function of tensors of bytes with the shape ``dims``, or None."""
    number = find_scalar(value, "int32")
    if number is not None:
        return _Linear({}, int(number))
    if value.dims != dims or not value.row_major:
        return None
    if value.op == "convert" and value.operands[0].dtype in LEAST_BYTES and value.operands[0].row_major:
        return _Linear({value.operands[0]: 1}, 0)
    if value.op not in ("add", "subtract", "multiply"):
        return None
    first, second = (_read_linear(operand, dims) for operand in value.operands)
    if first is None or second is None:
        return None
    if value.op != "multiply":
        result = first.add(second, 1 if value.op == "add" else -1)
    elif second.factors and first.factors:
        return None
    else:
        result = first.multiply(second.constant) if first.factors else second.multiply(first.constant)
    return _Linear(result.factors, result.constant, (*result.inside, value))
