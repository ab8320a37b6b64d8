"""The kernel of recurrent layers as a function of NumPy arrays, with guard values around everything it may write."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from builder.compiler.lower.compress import quantise_weights
from builder.compiler.lower.geometry import Geometry
from builder.compiler.lower.packing import (
    compute_recurrent_scratch,
    compute_scratch_size,
    pack_layer,
    pack_scale,
    pack_sums,
    pack_units,
    pad_channels,
)
from builder.compiler.lower.steps.quantisation import STATE_ROUNDING
from builder.compiler.lower.steps.recurrent_step import Recurrence
from tests.support.fused import ALGORITHMS, GUARD, WEIGHT_TYPES, Kernels, Layer, Pair, View

KINDS: dict[str, int] = {kind: number for number, kind in enumerate(get_args(Recurrence))}
"""In the order of cf_recurrence."""


class _Recurrent(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int),
        *((n, ctypes.c_int64) for n in ("steps", "batch", "units", "output_step")),
        ("backwards", ctypes.c_int32),
        ("by_units", ctypes.c_int32),
        ("product", Layer),
        ("product_scratch", ctypes.c_int64),
    )


class _Data(ctypes.Structure):
    _fields_ = tuple(
        (n, ctypes.c_void_p)
        for n in (
            "input", "weights", "bias", "weight_scale", "weight_sums", "hidden", "cell", "output", "scratch",
        )
    )  # fmt: skip


@dataclass(frozen=True)
class Case:
    """``output``: whether the states are stored, of "all" steps or the "last" one only. ``rounded``: the state is
    rounded to bytes before it is multiplied, with weights of int8; then ``by_units`` is not to be had."""

    kind: Recurrence
    steps: int
    batch: int
    units: int
    backwards: bool = False
    output: str = "all"
    by_units: bool = False
    seed: int = 0
    rounded: bool = False


@dataclass
class Result:
    """What the kernel left, or float64: the state [batch, units] and the output [steps or 1, batch, units]."""

    hidden: Any
    cell: Any
    output: Any


@dataclass
class Prepared:
    """The kernel's arguments, and the numbers that they were made of."""

    case: Case
    recurrent: Any
    data: Any
    buffers: dict[str, Any]
    x: Any
    hidden: Any
    cell: Any
    weights: Any
    bias: Any


def recur(kernels: Kernels, case: Case, table: str, threads: int = 1) -> tuple[Result, Result]:
    """(the kernel's, float64's). Checks that nothing but these was written.

    Where the state is rounded, each step of float64's begins with the kernel's own state, and so ``output`` is "all".
    """
    prepared = prepare(case)
    ours = run(kernels, prepared, table, threads)
    return ours, _reference(prepared, ours.output)


def run(kernels: Kernels, prepared: Prepared, table: str, threads: int = 1) -> Result:
    """What the kernel left. Checks that nothing but that was written."""
    case, buffers = prepared.case, prepared.buffers
    kernels.library.cf_test_recurrent(
        ctypes.c_void_p(kernels.context(table, threads)), ctypes.byref(prepared.recurrent), ctypes.byref(prepared.data)
    )
    for name, buffer in buffers.items():
        if _is_guarded(name):
            assert (buffer[:16] == GUARD).all()
            assert (buffer[-16:] == GUARD).all()
    ours = [buffers[name][16:-16].reshape(-1, case.batch, case.units) for name in ("hidden", "cell", "output")]
    cell = ours[1][0] if case.kind == "lstm" else None
    return Result(ours[0][0], cell, ours[2] if case.output != "none" else None)


def prepare(case: Case) -> Prepared:
    """Random numbers, and buffers of them with guard values around those that may be written."""
    random = np.random.default_rng(case.seed)
    gates = 4 if case.kind == "lstm" else 3
    size, columns = (case.batch, case.units), gates * case.units

    def normal(*shape: int) -> Any:
        return random.standard_normal(shape, dtype=np.float32)

    x, h, c = normal(case.steps, case.batch, columns), normal(*size), normal(*size)
    if case.rounded:
        h = np.tanh(h)
    weights, bias = normal(case.units, columns) / np.float32(np.sqrt(case.units)), normal(columns)
    shaped = weights.reshape(case.units, gates, case.units)
    rows = case.steps if case.output == "all" else 1
    buffers = {}
    if case.rounded:
        stored = quantise_weights(weights[None, None], "int8")
        assert stored.scale is not None
        weights, packed = stored.restored[0, 0], pack_layer(stored.numbers, "integer", kind="int8")
        buffers["weight_scale"] = np.frombuffer(pack_scale(stored.scale), np.float32)
        buffers["weight_sums"] = np.frombuffer(pack_sums(stored.numbers), np.int32)
    else:
        packed = pack_units(shaped) if case.by_units else pack_layer(weights[None, None], "direct")
    scratch = compute_recurrent_scratch(case.batch, case.units, columns, case.rounded)
    buffers |= {
        "input": _guarded(x),
        "weights": np.frombuffer(packed, np.uint8),
        "bias": np.frombuffer(pad_channels(bias), np.float32),
        "hidden": _guarded(h),
        "cell": _guarded(c),
        "output": _guarded(np.zeros((rows, *size), np.float32)),
        "scratch": _guarded(np.zeros(scratch // 4, np.float32)),
    }
    product = Layer(batch=1, groups=1, in_channels=case.units, out_channels=columns, low=-np.inf, high=np.inf)
    product.out, product.kernel, product.stride, product.dilation = (
        Pair(*pair) for pair in ((1, case.batch), (1, 1), (1, 1), (1, 1))
    )
    product.input, product.output = (View(0, case.batch * n, case.batch * n, n) for n in (case.units, columns))
    if case.rounded:
        product.algorithm, product.weight_type = ALGORITHMS.index("integer"), WEIGHT_TYPES.index("int8")
        product.input_scale, product.input_zero = STATE_ROUNDING.scale, STATE_ROUNDING.zero
    stride = case.batch * case.units if case.output == "all" else 0
    flags = (int(case.backwards), int(case.by_units))
    recurrent = _Recurrent(KINDS[case.kind], case.steps, case.batch, case.units, stride, *flags, product)
    recurrent.product_scratch = compute_scratch_size(Geometry(1, case.units, (1, case.batch), columns), "integer") // 4
    wanted = {name: buffer for name, buffer in buffers.items() if name != "output" or case.output != "none"}
    data = _Data(**{name: buffer.ctypes.data + 64 * _is_guarded(name) for name, buffer in wanted.items()})
    return Prepared(case, recurrent, data, buffers, x, h, c, weights, bias)


def _is_guarded(name: str) -> bool:
    return not name.startswith(("weight", "bias"))


def _guarded(values: Any) -> Any:
    buffer = np.full(values.size + 32, GUARD, np.float32)
    buffer[16:-16] = values.ravel()
    return buffer


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _as_bytes(state: Any) -> Any:
    """What ``state``, float32, is rounded to, as float64."""
    scale, zero = np.float32(STATE_ROUNDING.scale), STATE_ROUNDING.zero
    steps = np.clip(np.rint(state.astype(np.float32) * (np.float32(1) / scale)), -zero, 255 - zero)
    return steps.astype(np.float64) * np.float64(scale)


def _reference(prepared: Prepared, states: Any) -> Result:
    """``states``: the kernel's, of every step, for cases that are ``rounded``."""
    p, case, x = prepared, prepared.case, prepared.x
    h, c, weights, bias = (a.astype(np.float64) for a in (p.hidden, p.cell, p.weights, p.bias))
    found = []
    for step in range(case.steps):
        given = np.split(
            x[case.steps - 1 - step if case.backwards else step].astype(np.float64), x.shape[2] // case.units, -1
        )
        before = h
        if case.rounded:
            before = p.hidden if step == 0 else states[step - 1]
            h = before.astype(np.float64)
        multiplied = _as_bytes(before) if case.rounded else before
        sums = np.split(multiplied @ weights + bias, len(given), -1)
        if case.kind == "lstm":
            i, f, g, o = (a + b for a, b in zip(given, sums, strict=True))
            c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
            h = _sigmoid(o) * np.tanh(c)
        else:
            z, r = (_sigmoid(a + b) for a, b in zip(given[:2], sums[:2], strict=True))
            h = z * h + (1 - z) * np.tanh(given[2] + r * sums[2])
        found.append(h)
    output = {"all": np.stack(found), "last": found[-1][None], "none": None}[case.output]
    return Result(h, c if case.kind == "lstm" else None, output)
