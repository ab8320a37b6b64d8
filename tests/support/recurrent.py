"""The kernel of recurrent layers as a function of NumPy arrays, with guard values around everything it may write."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from builder.lower.packing import pack_layer, pack_units, pad_channels
from builder.lower.program import Recurrence
from tests.support.fused import GUARD, Kernels, Layer, Pair, View

KINDS: dict[str, int] = {kind: number for number, kind in enumerate(get_args(Recurrence))}
"""In the order of cf_recurrence."""


class _Recurrent(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int),
        *((n, ctypes.c_int64) for n in ("steps", "batch", "units", "output_step")),
        ("backwards", ctypes.c_int32),
        ("by_units", ctypes.c_int32),
        ("product", Layer),
    )


class _Data(ctypes.Structure):
    _fields_ = tuple(
        (n, ctypes.c_void_p)
        for n in ("input", "weights", "bias", "weight_scale", "hidden", "cell", "output", "scratch")
    )


@dataclass(frozen=True)
class Case:
    """``output``: whether the states are stored, of "all" steps or the "last" one only."""

    kind: Recurrence
    steps: int
    batch: int
    units: int
    backwards: bool = False
    output: str = "all"
    by_units: bool = False
    seed: int = 0


@dataclass
class Result:
    """What the kernel left, or float64: the state [batch, units] and the output [steps or 1, batch, units]."""

    hidden: Any
    cell: Any
    output: Any


def recur(kernels: Kernels, case: Case, table: str, threads: int = 1) -> tuple[Result, Result]:
    """(the kernel's, float64's). Checks that nothing but these was written."""
    random = np.random.default_rng(case.seed)
    gates = 4 if case.kind == "lstm" else 3
    size, columns = (case.batch, case.units), gates * case.units

    def normal(*shape: int) -> Any:
        return random.standard_normal(shape, dtype=np.float32)

    x, h, c = normal(case.steps, case.batch, columns), normal(*size), normal(*size)
    weights, bias = normal(case.units, columns) / np.float32(np.sqrt(case.units)), normal(columns)
    shaped = weights.reshape(case.units, gates, case.units)
    packed = pack_units(shaped) if case.by_units else pack_layer(weights[None, None], "direct")
    rows = case.steps if case.output == "all" else 1
    buffers = {
        "input": _guarded(x),
        "weights": np.frombuffer(packed, np.float32),
        "bias": np.frombuffer(pad_channels(bias), np.float32),
        "hidden": _guarded(h),
        "cell": _guarded(c),
        "output": _guarded(np.zeros((rows, *size), np.float32)),
        "scratch": _guarded(np.zeros((case.batch, columns), np.float32)),
    }
    product = Layer(batch=1, groups=1, in_channels=case.units, out_channels=columns, low=-np.inf, high=np.inf)
    product.out, product.kernel, product.stride, product.dilation = (
        Pair(*pair) for pair in ((1, case.batch), (1, 1), (1, 1), (1, 1))
    )
    product.input, product.output = (View(0, case.batch * n, case.batch * n, n) for n in (case.units, columns))
    stride = case.batch * case.units if case.output == "all" else 0
    flags = (int(case.backwards), int(case.by_units))
    recurrent = _Recurrent(KINDS[case.kind], case.steps, case.batch, case.units, stride, *flags, product)
    wanted = {name: buffer for name, buffer in buffers.items() if name != "output" or case.output != "none"}
    data = _Data(**{name: buffer.ctypes.data + 64 * _is_guarded(name) for name, buffer in wanted.items()})
    kernels.library.cf_test_recurrent(
        ctypes.c_void_p(kernels.context(table, threads)), ctypes.byref(recurrent), ctypes.byref(data)
    )
    for name, buffer in buffers.items():
        if _is_guarded(name):
            assert (buffer[:16] == GUARD).all()
            assert (buffer[-16:] == GUARD).all()
    ours = [buffers[name][16:-16].reshape(-1, *size) for name in ("hidden", "cell", "output")]
    ours_result = Result(ours[0][0], ours[1][0] if gates == 4 else None, ours[2] if case.output != "none" else None)
    return ours_result, _reference(case, x, h, c, weights, bias)


def _is_guarded(name: str) -> bool:
    return name not in ("weights", "bias")


def _guarded(values: Any) -> Any:
    buffer = np.full(values.size + 32, GUARD, np.float32)
    buffer[16:-16] = values.ravel()
    return buffer


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _reference(case: Case, x: Any, h: Any, c: Any, weights: Any, bias: Any) -> Result:
    h, c, weights = h.astype(np.float64), c.astype(np.float64), weights.astype(np.float64)
    found = []
    for step in range(case.steps):
        given = np.split(
            x[case.steps - 1 - step if case.backwards else step].astype(np.float64), x.shape[2] // case.units, -1
        )
        sums = np.split(h @ weights + bias, len(given), -1)
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
