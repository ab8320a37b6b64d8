"""Activations that an epilogue can have, and the recognition of a scalar function of the graph as one of them.

XLA writes the same function in many ways (gelu alone is 70 operations). Clamps are matched by structure. Any other
function is recognised by its values: it is evaluated in float32 where the activations differ, around every constant
that occurs in it and far from zero, and must equal one of them everywhere, between a scale and shift of the argument
and a factor and term of the result. XLA merges these numbers with those of the activation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.evaluate import AnyArray, apply_elementwise
from builder.compiler.lower.hlo import Value, find_channel_vector, find_scalar
from builder.compiler.lower.steps.layer_step import ActivationName

Array = NDArray[np.float64]

_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _compute_sigmoid(x: Array) -> Array:
    small: Array = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


FUNCTIONS: dict[ActivationName, Callable[[Array], Array]] = {
    "identity": lambda x: x,
    "sigmoid": _compute_sigmoid,
    "swish": lambda x: x * _compute_sigmoid(x),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "gelu": lambda x: 0.5 * x * _erfc(-x / math.sqrt(2)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "tanh": np.tanh,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
}
"""Function of each activation, in float64. "clamp" and "prelu" have parameters and are handled apart."""


_CANCELLING = {"hard_sigmoid", "hard_swish", "gelu", "gelu_tanh"}
"""Activations whose small values are differences of larger ones, and so inexact in float32; their zeros are exact."""


@dataclass(frozen=True)
class Activation:
    """An activation by name; ``low`` and ``high`` are limits of "clamp", ``slopes`` of "prelu", one a channel."""

    name: ActivationName = "identity"
    low: float = -math.inf
    high: float = math.inf
    slopes: tuple[float, ...] = ()


@dataclass(frozen=True)
class ScaledActivation:
    """The function ``activation(x * scale + shift) * factor + term``."""

    activation: Activation
    scale: float = 1.0
    shift: float = 0.0
    factor: float = 1.0
    term: float = 0.0


def match_clamp(value: Value, of: Value) -> Activation | None:
    """Return ``value`` as a single maximum, minimum or clamp of ``of`` by scalars, or None."""
    if value.op == "clamp" and value.operands[1] is of:
        low, high = find_scalar(value.operands[0]), find_scalar(value.operands[2])
        return None if low is None or high is None or low > high else Activation("clamp", low, high)
    if value.op in ("maximum", "minimum") and of in value.operands:
        other = value.operands[value.operands[0] is of]
        limit = find_scalar(other)
        if limit is None:
            return None
        return Activation("clamp", limit) if value.op == "maximum" else Activation("clamp", high=limit)
    return None


def recognise_activation(value: Value, of: Value, region: set[Value]) -> ScaledActivation | None:
    """Return the activation that turns ``of`` into ``value`` through the elementwise ``region``, or None."""
    if value.dtype != "float32":
        return None
    clamp = match_clamp(value, of)
    if clamp is not None:
        return ScaledActivation(clamp)
    numbers = [c for v in region for o in v.operands if o not in region and (c := find_scalar(o)) is not None]
    x = _make_samples(tuple(sorted({c for c in numbers if math.isfinite(c) and abs(c) < 1e4})))
    with np.errstate(all="ignore"):
        results = _evaluate_region(of, region, x)
    y = results.get(value)
    if y is None or not np.isfinite(y).all():
        return _recognise_slopes(value, of, region)
    for name, function in FUNCTIONS.items():
        if name == "identity":
            continue  # x + 1e-7 is nearly the identity, but before a logarithm it makes a difference
        expected = function(x.astype(np.float64))
        allowed = 1e-5 * np.abs(expected) + 1e-30
        if name in _CANCELLING:
            allowed += np.where(expected == 0, 0, 1e-6 * np.abs(x))
        if np.all(np.abs(y - expected) <= allowed):
            return ScaledActivation(Activation(name))
    arguments = dict.fromkeys([(1.0, 0.0), *_find_arguments(region, results, x)])
    fits = (_fit_result(name, *argument, x, y) for argument in arguments for name in _SCALED)
    fitted = next((fit for fit in fits if fit is not None), None)
    return fitted or _recognise_slopes(value, of, region)


def _recognise_slopes(value: Value, of: Value, region: set[Value]) -> ScaledActivation | None:
    """Return the leaky ReLU, whose slopes may differ from channel to channel, that turns ``of`` into ``value``."""
    x = np.repeat(np.array([-1, -1e4, -3, -1e-3, 0, 1e-3, 1, 3, 1e4], np.float32)[:, None], of.dims[-1], axis=1)
    with np.errstate(all="ignore"):
        y = _evaluate_region(of, region, x).get(value)
    if y is None:
        return None
    slopes = -y[0]
    if not np.allclose(y, np.where(x > 0, x, x * slopes), rtol=1e-6, atol=0):
        return None
    if not slopes.any():
        return ScaledActivation(Activation("clamp", 0.0))
    return ScaledActivation(Activation("prelu", slopes=tuple(map(float, slopes))))


_SCALED: tuple[ActivationName, ...] = ("sigmoid", "swish", "hard_swish", "gelu", "gelu_tanh", "tanh", "elu")
"""Activations whose result may be scaled; of clamps, "hard_sigmoid" too, a scale and shift are others before them."""


def _find_arguments(
    region: set[Value], results: dict[Value, AnyArray], x: NDArray[np.float32]
) -> Iterator[tuple[float, float]]:
    """Find each scale and shift of ``x`` with which "hard_swish" begins and ends where a clamp in ``region`` does."""
    for value in region:
        if value.op != "clamp" or value.operands[1] not in results:
            continue
        low, high = find_scalar(value.operands[0]), find_scalar(value.operands[2])
        if low is None or high is None or not low < high:
            continue
        clamped = results[value.operands[1]].astype(np.float64)
        slope, at_zero = np.polyfit(x.astype(np.float64), clamped, 1)
        if slope and np.allclose(clamped, slope * x + at_zero, rtol=1e-5, atol=1e-5):
            scale = 6 * slope / (high - low)
            yield 1.0 if abs(scale - 1) < 1e-6 else scale, 6 * (at_zero - low) / (high - low) - 3


def _fit_result(
    name: ActivationName, scale: float, shift: float, x: NDArray[np.float32], y: AnyArray
) -> ScaledActivation | None:
    """Return ``name`` of ``x * scale + shift`` with the factor and term that make it ``y``, or None."""
    argument = x.astype(np.float64) * scale + shift
    values = FUNCTIONS[name](argument)
    first, last = int(np.argmin(argument)), int(np.argmin(np.abs(argument - 8)))
    factor = (float(y[last]) - float(y[first])) / (values[last] - values[first])
    term = float(y[first]) - factor * values[first]
    if not factor or not math.isfinite(factor):
        return None
    allowed = 1e-5 * np.abs(factor * values) + 1e-6 * abs(term) + 1e-30
    if name in _CANCELLING or shift:
        rounded = max(1.0, abs(shift)) if shift else 0.0  # the shift is a difference of numbers of about 3
        allowed += 1e-6 * abs(factor) * (np.abs(x * scale) + rounded)
    if (np.abs(y - factor * values - term) <= allowed).all():
        return ScaledActivation(Activation(name), scale, shift, 1.0 if abs(factor - 1) < 1e-6 else factor, term)
    return None


@functools.cache
def _make_samples(constants: tuple[float, ...]) -> NDArray[np.float32]:
    near = [sign * c + e for c in constants for sign in (1, -1) for e in (-1e-3, 0.0, 1e-3)]
    grid = [np.linspace(-12, 12, 1201), np.linspace(-80, 80, 161), np.array([-1e4, -1e3, 1e3, 1e4]), np.array(near)]
    return np.concatenate(grid).astype(np.float32)


def _evaluate_region(of: Value, region: set[Value], x: AnyArray) -> dict[Value, AnyArray]:
    """Return the numbers of each value of ``region``, as far as they are known, where those of ``of`` are ``x``.

    The last of two dimensions of ``x`` are channels.
    """
    results: dict[Value, AnyArray] = {of: x}
    for step in sorted(region - {of}, key=lambda v: v.number):
        operands: list[AnyArray] = []
        for operand in step.operands:
            if operand in results:
                operands.append(results[operand])
                continue
            vector = find_channel_vector(operand)
            if vector is None or vector.size not in (1, x.shape[-1] if x.ndim > 1 else 1):
                return results
            operands.append(np.broadcast_to(vector.astype(np.float32), x.shape))
        result = operands[0] if step.op == "bitcast" else apply_elementwise(step, operands)
        if result is None:
            return results
        results[step] = result
    return results
