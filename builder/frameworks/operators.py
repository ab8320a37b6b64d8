"""Operators that torchax would write as slower programs than they are."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, MutableMapping
from typing import Any

import jax
import jax.numpy as jnp
import torch

_POOLS = (torch.ops.aten.max_pool2d_with_indices, torch.ops.aten.max_pool3d_with_indices)


def improve(operators: MutableMapping[Any, Any]) -> None:
    """Replace such operators in torchax's table, in place.

    With 64-bit types in JAX, torchax takes the maximum of float32 in float64.
    """
    for operator, entry in list(operators.items()):
        if getattr(operator, "overloadpacket", operator) not in _POOLS:
            continue
        operators[operator] = dataclasses.replace(entry, func=_in_its_own_type(entry.func))


def _in_its_own_type(pool: Callable[..., Any]) -> Callable[..., Any]:
    """``pool``, which gives values and indices, with values of float32 never wider."""

    @functools.wraps(pool)
    def narrow(values: Any, *arguments: Any, **options: Any) -> Any:
        if values.dtype != jnp.float32:
            return pool(values, *arguments, **options)
        with jax.enable_x64(False):
            found, indices = pool(values, *arguments, **options)
        return found, indices.astype(jnp.int64)

    return narrow
