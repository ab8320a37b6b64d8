"""Operators of PyTorch that torchax lacks or supports only in part, or whose programs would be needlessly slow."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from numpy.typing import NDArray

from builder.importers.frameworks.array_functions import count_below
from builder.importers.frameworks.torch_recurrent import CELLS, apply_layers

Array = Any
Kernel = Callable[[NDArray[Any]], NDArray[Any]]

aten = torch.ops.aten

_POOLS = (aten.max_pool2d_with_indices, aten.max_pool3d_with_indices)
_LOOPS = {getattr(aten, name).input: functools.partial(apply_layers, cell) for name, cell in CELLS.items()}


def make_decompositions() -> dict[Any, Any]:
    """Return PyTorch's decompositions with our own, without the operators that ``improve_operators`` has."""
    table: dict[Any, Any] = torch.export.default_decompositions()
    for operator in _LOOPS:
        del table[operator]
    table[aten.hardswish.default] = _hard_swish
    for operator, function in _list_unchecked_decompositions().items():  # `|` would return a plain dict.
        table[operator] = function
    return table


def improve_operators(operators: MutableMapping[Any, Any], make: Callable[..., Any]) -> None:
    """Replace such operators in torchax's table, in place, and add loops and missing operators.

    ``make`` is torchax's ``Operator``. With 64-bit types in JAX, torchax takes the maximum of float32 in float64.
    """
    for operator, entry in list(operators.items()):
        packet = getattr(operator, "overloadpacket", operator)
        if packet in _POOLS:
            operators[operator] = dataclasses.replace(entry, func=_keep_type(entry.func))
        elif packet is aten.convolution:
            operators[operator] = dataclasses.replace(entry, func=_repeat_padding(entry.func))
    for operator, function in {**_LOOPS, **_MISSING}.items():
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


def _repeat_padding(convolve: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``convolve`` for a padding that is one number for all sides; torchax would write into PyTorch's list."""

    @functools.wraps(convolve)
    def convolve_padded(x: Any, weight: Any, bias: Any, stride: Any, padding: Sequence[int], *arguments: Any) -> Any:
        sides = [*padding] * (weight.ndim - 2) if len(padding) == 1 else padding
        return convolve(x, weight, bias, stride, sides, *arguments)

    return convolve_padded


def _list_unchecked_decompositions() -> dict[Any, Callable[..., Any]]:
    """Make decompositions without a check of the result, which is an effect and no value."""
    invert = lambda matrix: torch.linalg.inv_ex(matrix)[0]  # noqa: E731
    return {
        aten.linalg_inv.default: invert,
        aten.inverse.default: invert,
        aten.linalg_solve.default: lambda a, b, *, left=True: torch.linalg.solve_ex(a, b, left=left)[0],
        aten.linalg_cholesky.default: lambda a, *, upper=False: torch.linalg.cholesky_ex(a, upper=upper)[0],
    }


def _ignore_assertion(*_: Any) -> None:
    """Assert nothing: a library has no way to raise what PyTorch raises."""


def _search_sorted(
    sequence: Array, values: Array, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Array = None,
) -> Array:  # fmt: skip
    """Return the index of each value in its row of ``sequence``, or in all of it if it has one dimension."""
    sequence = sequence if sorter is None else jnp.take_along_axis(sequence, sorter, -1)
    side = "right" if right or side == "right" else "left"
    find = functools.partial(count_below, side=side)
    if sequence.ndim == 1:
        return find(sequence, values)
    rows = (array.reshape(-1, array.shape[-1]) for array in (sequence, values))
    return jax.vmap(find)(*rows).reshape(values.shape)


def _adaptive_max_pool(x: Array, sizes: Sequence[int]) -> tuple[Array, Array]:
    """Return the maxima of windows that cover the last dimensions, and their flat indices in these."""
    inner = x.shape[x.ndim - len(sizes) :]
    maxima, places = x, np.arange(math.prod(inner)).reshape(inner)
    for axis, (size, out) in enumerate(zip(inner, sizes, strict=True)):
        windows, dim = _find_windows(size, out), x.ndim - len(sizes) + axis
        parts = [lax.slice_in_dim(maxima, row[0], row[-1] + 1, axis=dim).max(dim) for row in windows.tolist()]
        maxima = jnp.stack(parts, dim)
        places = np.take(places, windows, axis=2 * axis)
    order = [*range(0, 2 * len(sizes), 2), *range(1, 2 * len(sizes), 2)]
    places = places.transpose(order).reshape(*sizes, -1)
    covered = jnp.take(x.reshape(*x.shape[: -len(sizes)], -1), places, axis=-1)  # XLA drops unused indices.
    largest = covered.argmax(-1, keepdims=True)
    return maxima, jnp.take_along_axis(jnp.broadcast_to(places, covered.shape), largest, -1)[..., 0]


def _find_windows(size: int, out: int) -> NDArray[Any]:
    """Return the indices in each of ``out`` windows as rows of one length; the last index is repeated."""
    starts = np.arange(out) * size // out
    ends = -(-(np.arange(out) + 1) * size // out)
    return np.minimum(starts[:, None] + np.arange((ends - starts).max()), ends[:, None] - 1)


def _solve_linear(a: Array, b: Array, *, left: bool = True) -> tuple[Array, ...]:
    """Return x of a x = b, or of x a = b, for matrices or vectors b, and no decomposition of a."""
    vectors = b.ndim == 1 or b.shape == a.shape[:-1]
    right = b[..., None] if vectors else b if left else b.mT
    x = jnp.linalg.solve(a if left else a.mT, right)
    return (x[..., 0] if vectors else x if left else x.mT, None, None, None)


def _smooth_resize(kernel: Kernel, support: float) -> Callable[..., Array]:
    """Make a resizing of the last two dimensions, whose ``kernel`` widens where a side shrinks."""

    def resize(x: Array, sizes: Sequence[int], align_corners: bool, *scales: float | None) -> Array:
        factors = [*scales, None, None][:2]
        steps = [
            _measure_step(n, out, align_corners, by) for n, out, by in zip(x.shape[-2:], sizes, factors, strict=True)
        ]
        rows, columns = (_compute_shares(x.shape[i], sizes[i], steps[i], kernel, support) for i in (-2, -1))
        return jnp.einsum("...hw,oh,pw->...op", x, rows.astype(x.dtype), columns.astype(x.dtype))

    return resize


def _measure_step(size: int, out: int, align_corners: bool, scale: float | None) -> float:
    """Return the distance in pixels between the centers of two pixels of the result."""
    if align_corners:
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return 1 / scale if scale else size / out


def _compute_shares(size: int, out: int, step: float, kernel: Kernel, support: float) -> NDArray[Any]:
    """Return the share of each of ``size`` pixels, along the last axis, in each of ``out``."""
    wide = max(step, 1.0)
    centers = step * (np.arange(out)[:, None] + 0.5)
    pixels = np.arange(size)
    first, end = (np.trunc(centers + sign * support * wide + 0.5) for sign in (-1, 1))
    shares = np.where((pixels >= first) & (pixels < end), kernel(np.abs(pixels - centers + 0.5) / wide), 0)
    normalized: NDArray[Any] = shares / shares.sum(-1, keepdims=True)
    return normalized


def _evaluate_linear(x: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.maximum(1 - x, 0))


def _evaluate_cubic(x: NDArray[Any]) -> NDArray[Any]:
    """Return Keys' cubic with a = -0.5, as Pillow does."""
    near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.asarray(np.where(x < 1, near, np.where(x < 2, far, 0)))


_MISSING: Mapping[Any, Callable[..., Any]] = {
    aten._assert_async: _ignore_assertion,
    aten._assert_scalar: _ignore_assertion,
    aten.searchsorted: _search_sorted,
    aten.searchsorted.Tensor: _search_sorted,
    aten.bucketize: lambda values, sequence, **options: _search_sorted(sequence, values, **options),
    aten.adaptive_max_pool2d: _adaptive_max_pool,
    aten.adaptive_max_pool3d: _adaptive_max_pool,
    aten._upsample_bilinear2d_aa: _smooth_resize(_evaluate_linear, 1),
    aten._upsample_bicubic2d_aa: _smooth_resize(_evaluate_cubic, 2),
    aten._linalg_solve_ex: _solve_linear,
    aten._linalg_det: lambda matrix: (jnp.linalg.det(matrix), None, None),
}
"""JAX functions by the operator that they are for."""
