"""Maximum, sum and mean over windows or the whole image."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from builder.compiler.lower.absorbed_inputs import match_zero_pad
from builder.compiler.lower.hlo import Dag, Value, find_scalar
from builder.compiler.lower.layers import get_image_shape
from builder.compiler.lower.reductions import is_tree_half

PoolKind = Literal["max", "sum"]

_KINDS: dict[str, tuple[PoolKind, float]] = {"maximum": ("max", -math.inf), "add": ("sum", 0.0)}
"""Kinds of pooling and their initial value, which changes nothing, by the opcode of the reducer."""


@dataclass(frozen=True)
class Pool:
    """Pooling of an NHWC image, which stores ``value``; ``inside``: the values that it computes on the way."""

    value: Value
    input: Value
    kind: PoolKind
    in_image: tuple[int, int, int]
    out_image: tuple[int, int, int]
    channels: int
    window: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int] = (0, 0)
    scale: float = 1.0
    inside: tuple[Value, ...] = ()
    around: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Zeros (top, left, bottom, right) of an absorbed ``pad``, which count as pixels."""

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values that it stores, as ``base``."""
        return (self.value.base,)


def find_pools(dag: Dag) -> list[Pool]:
    """Find every live pooling of a float32 NHWC image."""
    pools: dict[Value, Pool] = {}
    for value in dag.live:
        pool = match_pool(value, _match_kind)
        if pool is not None:
            pools[value] = pool
    partial = {inner for pool in pools.values() for inner in pool.inside}
    return [_absorb_scale(pool, dag) for value, pool in pools.items() if value not in partial]


def restore_padding(pool: Pool) -> Pool:
    """Return ``pool`` without its absorbed padding: it reads the padded image."""
    if pool.around == (0, 0, 0, 0):
        return pool
    padded = pool.inside[0]
    return replace(
        pool,
        input=padded,
        in_image=get_image_shape(padded.dims)[:3],
        inside=pool.inside[1:],
        around=(0, 0, 0, 0),
    )


def match_pool(value: Value, match_kind: Callable[[Value], PoolKind | None]) -> Pool | None:
    """Match pooling over windows or the whole image, of a kind that ``match_kind`` tells; None if it is anything else.

    ``match_kind`` also tells whether the numbers and their layout suit.
    """
    match value.op:
        case "reduce-window":
            return _match_window(value, match_kind(value))
        case "reduce":
            return _match_global(value, match_kind)
    return None


def _match_kind(value: Value) -> PoolKind | None:
    if value.reducer not in _KINDS or value.dtype != "float32" or len(value.operands) != 2:
        return None
    kind, initial = _KINDS[value.reducer]
    source = value.operands[0]
    suitable = len(source.dims) == 4 and source.row_major and value.row_major and source.dtype == "float32"
    return kind if suitable and find_scalar(value.operands[1]) == initial else None


def _match_window(value: Value, kind: PoolKind | None) -> Pool | None:
    windows = list(value.instruction.window.dimensions)
    if kind is None or any(max(1, w.base_dilation) != 1 or max(1, w.window_dilation) != 1 for w in windows):
        return None
    if any((w.size, w.padding_low, w.padding_high) != (1, 0, 0) or w.stride > 1 for w in (windows[0], windows[3])):
        return None
    if any(w.padding_low < 0 or w.padding_low >= w.size for w in windows[1:3]):
        return None
    source = value.operands[0]
    pool = Pool(
        value,
        source,
        kind,
        in_image=get_image_shape(source.dims)[:3],
        out_image=get_image_shape(value.dims)[:3],
        channels=value.dims[3],
        window=(windows[1].size, windows[2].size),
        stride=(max(1, windows[1].stride), max(1, windows[2].stride)),
        padding=(windows[1].padding_low, windows[2].padding_low),
    )
    around = match_zero_pad(source)
    if around is not None and pool.padding == (0, 0):
        inner = source.operands[0]
        pool = replace(pool, input=inner, in_image=get_image_shape(inner.dims)[:3], inside=(source,), around=around)
    # A window must cover at least one pixel, or a maximum would be of nothing.
    for axis in (0, 1):
        last = (pool.out_image[1 + axis] - 1) * pool.stride[axis] - pool.padding[axis]
        if last >= pool.in_image[1 + axis] + pool.around[axis] + pool.around[2 + axis]:
            return None
    return pool


def _match_global(value: Value, match_kind: Callable[[Value], PoolKind | None]) -> Pool | None:
    kind = match_kind(value)
    if kind is None or list(value.instruction.dimensions) != [1, 2]:
        return None
    source, partials = value.operands[0], tuple[Value, ...]()
    same = source.op == "reduce-window" and source.reducer == value.reducer and match_kind(source) is not None
    if same and is_tree_half(source, (1, 2)):
        partials, source = (source,), source.operands[0]
    batch, height, width, channels = source.dims
    return Pool(
        value,
        source,
        kind,
        (batch, height, width),
        (batch, 1, 1),
        channels,
        window=(height, width),
        stride=(height, width),
        inside=partials,
    )


def _absorb_scale(pool: Pool, dag: Dag) -> Pool:
    """Absorb the factor that turns a sum into a mean, where the sum's only user multiplies by it."""
    value = pool.value
    if pool.kind != "sum" or any(value.base is o.base for o in dag.outputs):
        return pool
    users = dag.users[value]
    while len(users) == 1 and users[0].op == "bitcast" and users[0].row_major:
        value, users = users[0], dag.users[users[0]]
    if len(users) != 1 or users[0].op not in ("multiply", "divide") or not users[0].row_major:
        return pool
    user = users[0]
    first = user.operands[0] is value
    factor = find_scalar(user.operands[1 if first else 0])
    if factor is None or (user.op == "divide" and not (first and factor)) or user.operands[0] is user.operands[1]:
        return pool
    scale = factor if user.op == "multiply" else 1 / factor
    return replace(pool, value=user, scale=scale, inside=(*pool.inside, pool.value))
