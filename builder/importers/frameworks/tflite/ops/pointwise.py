"""Operators on single elements, with broadcasting."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from builder.importers.frameworks.array_functions import count_below, divide_values, scale_negative
from builder.importers.frameworks.graph_values import Value
from builder.importers.frameworks.operator_table import OperatorTable
from builder.importers.frameworks.tflite.fused_activation import activate

OPS = OperatorTable()

_UNARY: dict[str, Callable[[Any], Any]] = {
    "ABS": jnp.abs, "CEIL": jnp.ceil, "COMPLEX_ABS": jnp.abs, "COS": jnp.cos, "ELU": jax.nn.elu, "EXP": jnp.exp,
    "FLOOR": jnp.floor, "IMAG": jnp.imag, "LOG": jnp.log, "LOGICAL_NOT": jnp.logical_not, "LOGISTIC": jax.nn.sigmoid,
    "NEG": jnp.negative, "REAL": jnp.real, "RELU": jax.nn.relu, "RELU6": jax.nn.relu6, "ROUND": jnp.round,
    "RELU_0_TO_1": lambda x: jnp.clip(x, 0, 1), "RELU_N1_TO_1": lambda x: jnp.clip(x, -1, 1), "RSQRT": lax.rsqrt,
    "SIGN": jnp.sign, "SIN": jnp.sin, "SQRT": jnp.sqrt, "SQUARE": jnp.square, "TANH": jnp.tanh,
    "ZEROS_LIKE": jnp.zeros_like, "DEQUANTIZE": lambda x: x, "QUANTIZE": lambda x: x, "DENSIFY": lambda x: x,
    "LOG_SOFTMAX": jax.nn.log_softmax, "HARD_SWISH": lambda x: x * jnp.clip(x + 3, 0, 6) / 6, "CAST": lambda x: x,
}  # fmt: skip
"""An output has the type that the file says, so a cast leaves its input as it is."""
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "ADD": jnp.add, "ATAN2": jnp.arctan2, "BITWISE_XOR": jnp.bitwise_xor, "DIV": divide_values, "EQUAL": jnp.equal,
    "FLOOR_DIV": jnp.floor_divide, "FLOOR_MOD": jnp.mod, "GREATER": jnp.greater, "GREATER_EQUAL": jnp.greater_equal,
    "LESS": jnp.less, "LESS_EQUAL": jnp.less_equal, "LOGICAL_AND": jnp.logical_and, "LOGICAL_OR": jnp.logical_or,
    "MAXIMUM": jnp.maximum, "MINIMUM": jnp.minimum, "MUL": jnp.multiply, "NOT_EQUAL": jnp.not_equal, "POW": jnp.power,
    "RIGHT_SHIFT": lambda a, b: jnp.right_shift(a, jnp.clip(b, 0, 8 * b.dtype.itemsize - 1)), "SUB": jnp.subtract,
    "SQUARED_DIFFERENCE": lambda a, b: jnp.square(a - b), "STABLEHLO_ADD": jnp.add, "STABLEHLO_AND": jnp.bitwise_and,
    "STABLEHLO_MAXIMUM": jnp.maximum, "STABLEHLO_MINIMUM": jnp.minimum, "STABLEHLO_MULTIPLY": jnp.multiply,
    "STABLEHLO_SHIFT_LEFT": jnp.left_shift,
}  # fmt: skip

for _name, _unary in _UNARY.items():
    OPS.enter(_name, lambda _, x, _function=_unary: _function(x))
for _name, _binary in _BINARY.items():
    OPS.enter(_name, lambda options, a, b, _function=_binary: activate(_function(a, b), options))


OPS.enter("ADD_N", lambda _, *inputs: functools.reduce(jnp.add, inputs))
OPS.enter("GELU", lambda options, x: jax.nn.gelu(x, approximate=bool(options.approximate)))
OPS.enter("LEAKY_RELU", lambda options, x: scale_negative(x, options.alpha))
OPS.enter("PRELU", lambda _, x, slope: scale_negative(x, slope))
OPS.enter("SOFTMAX", lambda options, x: jax.nn.softmax(x if options.beta == 1 else x * np.float32(options.beta), -1))
OPS.enter("BITCAST", lambda _, x, *, outputs: lax.bitcast_convert_type(jnp.asarray(x), outputs[0].dtype))
OPS.enter("BUCKETIZE", lambda options, x: count_below(np.float32(options.boundaries), x, "right"))


@OPS.define("SELECT", "SELECT_V2")
def select_values(_: Any, condition: Value, a: Value, b: Value) -> Value:
    """Return ``a`` where the condition holds, and ``b`` elsewhere; a condition of one dimension may be for rows."""
    if np.ndim(condition) == 1 and np.ndim(a) > 1 and np.shape(condition)[0] == np.shape(a)[0] != np.shape(a)[-1]:
        condition = jnp.reshape(condition, (-1,) + (1,) * (np.ndim(a) - 1))
    return jnp.where(condition, a, b)


@OPS.define("FAKE_QUANT")
def round_to_grid(options: Any, x: Value) -> Value:
    """Return ``x`` rounded to a grid of 2^bits numbers within the bounds, which are moved so that 0 is one of them."""
    low, high, top = np.float32(options.min), np.float32(options.max), np.float32(2**options.numBits - 1)
    scale = (high - low) / top
    zero = np.clip(np.floor(-low / scale + np.float32(0.5)), 0, top).astype(np.float32)
    least, most = -zero * scale, (top - zero) * scale
    return jnp.floor((jnp.clip(x, least, most) - least) / scale + np.float32(0.5)) * scale + least
