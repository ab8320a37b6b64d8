"""Operators on single elements, with broadcasting."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from onnx import helper

from builder.importers.frameworks.array_functions import divide_values, scale_negative
from builder.importers.frameworks.graph_values import Value
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


def hard_sigmoid(x: Value, *, alpha: float = 0.2, beta: float = 0.5) -> Value:
    """Return alpha x + beta within 0 and 1."""
    return jnp.clip(np.asarray(alpha, x.dtype) * x + np.asarray(beta, x.dtype), 0, 1).astype(x.dtype)


def compute_gelu(x: Value, *, approximate: str = "none") -> Value:
    """Return x times the normal distribution's function of x, or its approximation by tanh."""
    return jax.nn.gelu(x, approximate=approximate == "tanh")


def cast_type(x: Value, to: Any) -> Value:
    """Return ``x`` in the type with ONNX's number ``to``."""
    return jnp.asarray(x).astype(helper.tensor_dtype_to_np_dtype(to))


OPS.enter_all(
    {
        "Abs": jnp.abs, "Acos": jnp.arccos, "Acosh": jnp.arccosh, "Add": jnp.add, "And": jnp.logical_and,
        "Asin": jnp.arcsin, "Asinh": jnp.arcsinh, "Atan": jnp.arctan, "Atanh": jnp.arctanh,
        "BitwiseAnd": jnp.bitwise_and, "BitwiseNot": jnp.bitwise_not, "BitwiseOr": jnp.bitwise_or,
        "BitwiseXor": jnp.bitwise_xor, "Ceil": jnp.ceil, "Cos": jnp.cos, "Cosh": jnp.cosh, "Div": divide_values,
        "Equal": jnp.equal, "Erf": lax.erf, "Exp": jnp.exp, "Floor": jnp.floor, "Gelu": compute_gelu,
        "Greater": jnp.greater, "GreaterOrEqual": jnp.greater_equal, "HardSigmoid": hard_sigmoid,
        "Identity": lambda x: x, "IsNaN": jnp.isnan, "Less": jnp.less, "LessOrEqual": jnp.less_equal, "Log": jnp.log,
        "Mul": jnp.multiply, "Neg": jnp.negative, "Not": jnp.logical_not, "Or": jnp.logical_or, "PRelu": scale_negative,
        "Reciprocal": jnp.reciprocal, "Relu": jax.nn.relu, "Round": jnp.round, "Sigmoid": jax.nn.sigmoid,
        "Sign": jnp.sign, "Sin": jnp.sin, "Sinh": jnp.sinh, "Softplus": jax.nn.softplus, "Sqrt": jnp.sqrt,
        "Sub": jnp.subtract, "Tan": jnp.tan, "Tanh": jnp.tanh, "Where": jnp.where, "Xor": jnp.logical_xor,
        "BitShift": lambda a, b, *, direction: (jnp.left_shift if direction == "LEFT" else jnp.right_shift)(a, b),
        "Cast": lambda x, *, to, **_: cast_type(x, to),
        "CastLike": lambda x, like, **_: jnp.asarray(x).astype(like.dtype),
        "IsInf": lambda x, *, detect_negative=1, detect_positive=1: (
            (jnp.isposinf(x) & bool(detect_positive)) | (jnp.isneginf(x) & bool(detect_negative))
        ),
        "LeakyRelu": lambda x, *, alpha=0.01: scale_negative(x, alpha),
        "Max": lambda *inputs: functools.reduce(jnp.maximum, inputs),
        "Mean": lambda *inputs: functools.reduce(jnp.add, inputs) / np.asarray(len(inputs), inputs[0].dtype),
        "Min": lambda *inputs: functools.reduce(jnp.minimum, inputs),
        "Mod": lambda a, b, *, fmod=0: jnp.fmod(a, b) if fmod else jnp.mod(a, b),
        "Sum": lambda *inputs: functools.reduce(jnp.add, inputs),
    }
)  # fmt: skip


def _is_float(value: Value) -> bool:
    return bool(jnp.issubdtype(value.dtype, jnp.floating))


@OPS.define("Pow")
def raise_to_power(a: Value, b: Value) -> Value:
    """Return the power in the type of ``a``."""
    if not _is_float(a) and _is_float(b):
        return jnp.trunc(jnp.power(jnp.asarray(a, b.dtype), b)).astype(a.dtype)
    if _is_float(a) and np.ndim(b) == 0 and isinstance(b, (np.ndarray, np.generic)) and float(b).is_integer():
        return lax.integer_pow(jnp.asarray(a), int(b)) if abs(float(b)) < 64 else jnp.power(a, b.astype(a.dtype))
    return jnp.power(a, jnp.asarray(b).astype(a.dtype))


@OPS.define("BitCast")
def cast_bits(a: Value, *, to: int) -> Value:
    """Return the bits of ``a`` as another type of the same size."""
    dtype = helper.tensor_dtype_to_np_dtype(to)
    bits = jnp.asarray(a).astype(np.uint8) if a.dtype == np.dtype(bool) else jnp.asarray(a)
    return bits != 0 if dtype == np.dtype(bool) else lax.bitcast_convert_type(bits, dtype)


@OPS.define("Clip")
def clip_values(x: Value, low: Value = None, high: Value = None, *, min: Any = None, max: Any = None) -> Value:
    """Return ``x`` within bounds, which are inputs since opset 11 and attributes before."""
    low, high = low if low is not None else min, high if high is not None else max
    x = x if low is None else jnp.maximum(x, jnp.asarray(low, x.dtype))
    return x if high is None else jnp.minimum(x, jnp.asarray(high, x.dtype))


@OPS.define("Dropout")
def drop_nothing(x: Value, ratio: Value = None, training: Value = None, *, outputs: int, **_: Any) -> Any:
    """Return ``x`` as it is, as a model in use does, and the mask of what is kept."""
    if training is not None and bool(np.asarray(training).any()):
        raise ValueError("it is in training mode: export the model for inference")
    return (x, jnp.ones(np.shape(x), bool))[:outputs]
