"""Operators on single elements, with broadcasting."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from onnx import helper

from builder.importers.frameworks.graph_values import Value
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()

_UNARY: dict[str, Callable[..., Any]] = {
    "Abs": jnp.abs, "Acos": jnp.arccos, "Acosh": jnp.arccosh, "Asin": jnp.arcsin, "Asinh": jnp.arcsinh,
    "Atan": jnp.arctan, "Atanh": jnp.arctanh, "BitwiseNot": jnp.bitwise_not, "Ceil": jnp.ceil, "Cos": jnp.cos,
    "Cosh": jnp.cosh, "Erf": lax.erf, "Exp": jnp.exp, "Floor": jnp.floor, "Identity": lambda x: x, "IsNaN": jnp.isnan,
    "Log": jnp.log, "Neg": jnp.negative, "Not": jnp.logical_not, "Reciprocal": jnp.reciprocal, "Relu": jax.nn.relu,
    "Round": jnp.round, "Sigmoid": jax.nn.sigmoid, "Sign": jnp.sign, "Sin": jnp.sin, "Sinh": jnp.sinh,
    "Softplus": jax.nn.softplus, "Sqrt": jnp.sqrt, "Tan": jnp.tan, "Tanh": jnp.tanh,
}  # fmt: skip
_BINARY: dict[str, Callable[..., Any]] = {
    "Add": jnp.add, "And": jnp.logical_and, "BitwiseAnd": jnp.bitwise_and, "BitwiseOr": jnp.bitwise_or,
    "BitwiseXor": jnp.bitwise_xor, "Equal": jnp.equal, "Greater": jnp.greater, "GreaterOrEqual": jnp.greater_equal,
    "Less": jnp.less, "LessOrEqual": jnp.less_equal, "Mul": jnp.multiply, "Or": jnp.logical_or, "Sub": jnp.subtract,
    "Xor": jnp.logical_xor,
}  # fmt: skip
_VARIADIC: dict[str, Callable[[Any, Any], Any]] = {"Max": jnp.maximum, "Min": jnp.minimum, "Sum": jnp.add}


def _reduce_inputs(function: Callable[[Any, Any], Any], *inputs: Value) -> Value:
    return functools.reduce(function, inputs)


for _name, _function in (_UNARY | _BINARY).items():
    OPS.enter(_name, _function)
for _name, _pair_function in _VARIADIC.items():
    OPS.enter(_name, functools.partial(_reduce_inputs, _pair_function))


def _is_float(value: Value) -> bool:
    return bool(jnp.issubdtype(value.dtype, jnp.floating))


@OPS.define("Mean")
def average_inputs(*inputs: Value) -> Value:
    """Return the mean of the inputs."""
    return _reduce_inputs(jnp.add, *inputs) / np.asarray(len(inputs), inputs[0].dtype)


@OPS.define("Div")
def divide_values(a: Value, b: Value) -> Value:
    """Return the quotient; that of integers is cut off towards zero."""
    return jnp.divide(a, b) if _is_float(a) else lax.div(*jnp.broadcast_arrays(a, b))


@OPS.define("Mod")
def find_remainder(a: Value, b: Value, *, fmod: int = 0) -> Value:
    """Return the remainder, with the sign of ``b``, or that of ``a`` with ``fmod``."""
    return jnp.fmod(a, b) if fmod else jnp.mod(a, b)


@OPS.define("Pow")
def raise_to_power(a: Value, b: Value) -> Value:
    """Return the power in the type of ``a``."""
    if not _is_float(a) and _is_float(b):
        return jnp.trunc(jnp.power(jnp.asarray(a, b.dtype), b)).astype(a.dtype)
    if _is_float(a) and np.ndim(b) == 0 and isinstance(b, (np.ndarray, np.generic)) and float(b).is_integer():
        return lax.integer_pow(jnp.asarray(a), int(b)) if abs(float(b)) < 64 else jnp.power(a, b.astype(a.dtype))
    return jnp.power(a, jnp.asarray(b).astype(a.dtype))


@OPS.define("BitShift")
def shift_bits(a: Value, b: Value, *, direction: str) -> Value:
    """Return ``a`` shifted by ``b`` bits to the LEFT or RIGHT."""
    return jnp.left_shift(a, b) if direction == "LEFT" else jnp.right_shift(a, b)


@OPS.define("BitCast")
def cast_bits(a: Value, *, to: int) -> Value:
    """Return the bits of ``a`` as another type of the same size."""
    a = jnp.asarray(a)
    dtype = helper.tensor_dtype_to_np_dtype(to)
    bits = a.astype(np.uint8) if a.dtype == np.dtype(bool) else a
    return bits != 0 if dtype == np.dtype(bool) else lax.bitcast_convert_type(bits, dtype)


@OPS.define("IsInf")
def is_infinite(x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    """Say of each element whether it is infinite, of the signs that are asked for."""
    return (jnp.isposinf(x) & bool(detect_positive)) | (jnp.isneginf(x) & bool(detect_negative))


@OPS.define("Clip")
def clip_values(x: Value, low: Value = None, high: Value = None, *, min: Any = None, max: Any = None) -> Value:
    """Return ``x`` within bounds, which are inputs since opset 11 and attributes before."""
    low, high = low if low is not None else min, high if high is not None else max
    x = x if low is None else jnp.maximum(x, jnp.asarray(low, x.dtype))
    return x if high is None else jnp.minimum(x, jnp.asarray(high, x.dtype))


@OPS.define("Where")
def select_values(condition: Value, a: Value, b: Value) -> Value:
    """Return ``a`` where the condition holds, and ``b`` elsewhere."""
    return jnp.where(condition, a, b)


@OPS.define("Cast")
def cast_type(x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """Return ``x`` in another type."""
    return jnp.asarray(x).astype(helper.tensor_dtype_to_np_dtype(to))


@OPS.define("CastLike")
def cast_like(x: Value, like: Value, *, saturate: int = 1, round_mode: str = "up") -> Value:
    """Return ``x`` in the type of ``like``."""
    return jnp.asarray(x).astype(like.dtype)


@OPS.define("Dropout")
def drop_nothing(x: Value, ratio: Value = None, training: Value = None, *, outputs: int, **_: Any) -> Any:
    """Return ``x`` as it is, as a model in use does, and the mask of what is kept."""
    if training is not None and bool(np.asarray(training).any()):
        raise ValueError("it is in training mode: export the model for inference")
    return (x, jnp.ones(np.shape(x), bool))[:outputs]


@OPS.define("LeakyRelu")
def leaky_relu(x: Value, *, alpha: float = 0.01) -> Value:
    """Return x where it is not negative, and alpha x elsewhere."""
    return jnp.where(x >= 0, x, np.asarray(alpha, x.dtype) * x)


@OPS.define("PRelu")
def parametric_relu(x: Value, slope: Value) -> Value:
    """Return x where it is not negative, and slope x elsewhere."""
    return jnp.where(x >= 0, x, slope * x)


@OPS.define("HardSigmoid")
def hard_sigmoid(x: Value, *, alpha: float = 0.2, beta: float = 0.5) -> Value:
    """Return alpha x + beta within 0 and 1."""
    return jnp.clip(np.asarray(alpha, x.dtype) * x + np.asarray(beta, x.dtype), 0, 1).astype(x.dtype)


@OPS.define("Gelu")
def compute_gelu(x: Value, *, approximate: str = "none") -> Value:
    """Return x times the normal distribution's function of x, or its approximation by tanh."""
    return jax.nn.gelu(x, approximate=approximate == "tanh")
