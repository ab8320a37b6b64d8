"""Replacements for operators that PyTorch or torchax would write as needlessly slow programs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, MutableMapping
from typing import Any

import jax
import jax.numpy as jnp
import torch

from builder.importers.frameworks import missing_operators
from builder.importers.frameworks.torch_recurrent import apply_gru, apply_lstm, apply_rnn_relu, apply_rnn_tanh

_POOLS = (torch.ops.aten.max_pool2d_with_indices, torch.ops.aten.max_pool3d_with_indices)
_LOOPS = {
    torch.ops.aten.lstm.input: apply_lstm,
    torch.ops.aten.gru.input: apply_gru,
    torch.ops.aten.rnn_tanh.input: apply_rnn_tanh,
    torch.ops.aten.rnn_relu.input: apply_rnn_relu,
}


def make_decompositions() -> dict[Any, Any]:
    """Return PyTorch's decompositions with our own, without the operators that ``improve_operators`` has."""
    table: dict[Any, Any] = torch.export.default_decompositions()
    for operator in _LOOPS:
        del table[operator]
    table[torch.ops.aten.hardswish.default] = _hard_swish
    for operator, function in missing_operators.unchecked_decompositions().items():  # `|` would return a plain dict.
        table[operator] = function
    return table


def improve_operators(operators: MutableMapping[Any, Any], make: Callable[..., Any]) -> None:
    """Replace such operators in torchax's table, in place, and add loops and missing operators.

    ``make`` is torchax's ``Operator``. With 64-bit types in JAX, torchax takes the maximum of float32 in float64.
    """
    for operator, entry in list(operators.items()):
        if getattr(operator, "overloadpacket", operator) not in _POOLS:
            continue
        operators[operator] = dataclasses.replace(entry, func=_keep_type(entry.func))
    for operator, function in {**_LOOPS, **missing_operators.OPERATORS}.items():
        operators[operator] = make(operator, function, True, False, False, False)


def _hard_swish(x: torch.Tensor) -> torch.Tensor:
    """Return x · (relu6(x + 3) / 6).

    PyTorch divides the product. XLA then moves the division past a gate that follows, and the rest is not an activation
    that a layer could end with.
    """
    return x * (torch.clamp(x + 3, 0, 6) / 6)


def _keep_type(pool: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``pool``, which returns values and indices, without widening values of float32."""

    @functools.wraps(pool)
    def narrow(values: Any, *arguments: Any, **options: Any) -> Any:
        if values.dtype != jnp.float32:
            return pool(values, *arguments, **options)
        with jax.enable_x64(False):
            pooled, indices = pool(values, *arguments, **options)
        return pooled, indices.astype(jnp.int64)

    return narrow
