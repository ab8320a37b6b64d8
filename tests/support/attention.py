"""Attention's kernel as a function of NumPy arrays, with guard values around everything it may write."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from builder.compiler.lower.steps.attention_step import MaskKind, MaskType
from tests.support.fused import GUARD, Kernels

KINDS: dict[str | None, int] = {kind: number for number, kind in enumerate((None, *get_args(MaskKind)))}
TYPES: dict[str, int] = {name: number for number, name in enumerate(get_args(MaskType))}
"""In the order of cf_mask and cf_mask_type."""

_Outer = ctypes.c_int64 * 3


class _Rows(ctypes.Structure):
    _fields_ = (("first", ctypes.c_int64), ("outer", _Outer), ("row", ctypes.c_int64))


class _Attention(ctypes.Structure):
    _fields_ = (
        ("outer", _Outer),
        *((n, ctypes.c_int64) for n in ("queries", "keys", "size", "value_size")),
        *((n, _Rows) for n in ("query", "key", "value", "output")),
        ("scale", ctypes.c_float),
        ("mask", ctypes.c_int),
        ("mask_type", ctypes.c_int),
        *((n, ctypes.c_float) for n in ("mask_scale", "mask_shift", "fill")),
        ("mask_first", ctypes.c_int64),
        ("mask_strides", ctypes.c_int64 * 5),
        ("past", ctypes.c_int64),
        ("safe", ctypes.c_int32),
    )


class _Data(ctypes.Structure):
    _fields_ = tuple((n, ctypes.c_void_p) for n in ("query", "key", "value", "mask", "output"))


@dataclass(frozen=True)
class Case:
    """One attention: ``outer`` is batch, heads, and heads of queries that share a head of keys.

    ``mask``: none, or the kind; ``whole_mask``: a number for each query too, not only for each key. ``gap``: floats
    between rows.
    """

    outer: tuple[int, int, int]
    queries: int
    keys: int
    size: int
    value_size: int
    mask: MaskKind | None = None
    type: MaskType = "f32"
    whole_mask: bool = False
    hidden: int = 0
    """Of the first keys, that a mask of kind "chosen" takes none of."""
    fill: float = -1e9
    past: int = 0
    safe: bool = False
    gap: int = 0
    spread: float = 1.0
    """Of the scores."""
    seed: int = 0


def _rows(shape: tuple[int, ...], gap: int, values: Any) -> tuple[Any, Any, _Rows]:
    """(buffer, view [batch, heads, shared, row, number] of it, strides): as [batch, row, heads, shared, number]."""
    batch, heads, shared, rows, size = shape
    width = heads * shared * size + gap
    buffer = np.full(batch * rows * width + 32, GUARD, np.float32)
    inner = buffer[16:-16].reshape(batch, rows, width)[..., : width - gap].reshape(batch, rows, heads, shared, size)
    view = np.moveaxis(inner, 1, 3)
    view[...] = values
    return buffer, view, _Rows(16, _Outer(rows * width, shared * size, size), width)


@dataclass
class Result:
    """What the kernel gave, and what float64 gives; ``magnitude``: the weighted mean of the values' magnitudes."""

    ours: Any
    expected: Any
    magnitude: Any


def attend(kernels: Kernels, case: Case, table: str, threads: int = 1) -> Result:
    """Run the kernel, and check that nothing but the answers was written."""
    random = np.random.default_rng(case.seed)
    normal = lambda *shape: random.standard_normal(shape, dtype=np.float32)  # noqa: E731
    batch, heads, shared = case.outer
    k, v = normal(batch, heads, 1, case.keys, case.size), normal(batch, heads, 1, case.keys, case.value_size)
    q = normal(batch, heads, shared, case.queries, case.size) * np.float32(case.spread)
    query_buffer, _, query = _rows(q.shape, case.gap, q)
    key_buffer, _, key = _rows(k.shape, case.gap, k)
    value_buffer, _, value = _rows(v.shape, case.gap, v)
    key.outer[2] = value.outer[2] = 0
    shape = (*q.shape[:4], case.value_size)
    output_buffer, output_view, output = _rows(shape, case.gap, GUARD)
    scale = np.float32(1 / np.sqrt(case.size))
    a = _Attention(_Outer(*case.outer), case.queries, case.keys, case.size, case.value_size, query, key, value, output)
    a.scale, a.mask, a.mask_type, a.past = scale, KINDS[case.mask], TYPES[case.type], case.past
    a.safe = case.safe
    scores = np.einsum("bhgqi,bhgki->bhgqk", q.astype(np.float64), np.broadcast_to(k, (*q.shape[:3], *k.shape[3:])))
    scores *= np.float64(scale)
    elements = np.zeros(1, np.float32)
    if case.mask in ("added", "chosen"):
        elements, scores = _masked(case, a, random, scores)
    elif case.mask == "causal":
        a.fill = -np.inf
        seen = np.arange(case.keys) <= np.arange(case.queries)[:, None] + case.past
        scores = np.where(seen, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
    addresses = [x.ctypes.data for x in (query_buffer, key_buffer, value_buffer, elements, output_buffer)]
    context = kernels.context(table, threads)
    kernels.library.cf_test_attention(ctypes.c_void_p(context), ctypes.byref(a), ctypes.byref(_Data(*addresses)))
    ours = output_view.copy()
    output_view[...] = GUARD
    assert (output_buffer == GUARD).all()
    return Result(ours, weights @ v.astype(np.float64), weights @ np.abs(v.astype(np.float64)))


def _masked(case: Case, a: _Attention, random: np.random.Generator, scores: Any) -> tuple[Any, Any]:
    """(the mask's elements, the scores in float64 with it); the structure's fields of it."""
    queries = case.queries if case.whole_mask else 1
    shape = (case.outer[0], queries, case.keys)
    types = {"f32": np.float32, "s32": np.int32, "set": np.int32, "u8": np.uint8}
    elements = random.integers(0, 2, shape).astype(types[case.type])
    elements[..., : case.hidden] = 0
    if case.type == "set":
        elements *= random.integers(-5, 5, shape).astype(np.int32)
    if case.type == "f32" and case.mask == "added":
        elements = random.standard_normal(shape, dtype=np.float32) * np.float32(3)
    numbers = (elements != 0 if case.type in ("set", "u8") else elements).astype(np.float64)
    a.mask_strides[:] = (queries * case.keys, 0, 0, case.keys if case.whole_mask else 0, 1)
    a.mask_scale, a.mask_shift, a.fill = 1.0, 0.0, case.fill
    numbers = numbers[:, None, None]
    if case.mask == "chosen":
        return elements, np.where(numbers != 0, scores, case.fill)
    if case.type != "f32":
        a.mask_scale, a.mask_shift = 1e4, -1e4
        numbers = numbers * 1e4 - 1e4
    # As float32 adds them: what is left of a score beside a large number is coarse, for the scores of XLA as well.
    return elements, (scores.astype(np.float32) + numbers.astype(np.float32)).astype(np.float64)
