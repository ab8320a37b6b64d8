"""The kernel of norms and softmax as a function of NumPy arrays, with guard values around everything it may write."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from builder.compiler.lower.packing import pad_channels
from tests.support.fused import Halo, Kernels, Pair, Picture, View


class _Norm(ctypes.Structure):
    _fields_ = (
        ("batch", ctypes.c_int64),
        ("size", Pair),
        ("channels", ctypes.c_int64),
        ("input", View),
        ("output", View),
        ("halo", Halo),
        ("epsilon", ctypes.c_float),
        ("centred", ctypes.c_int32),
        ("softmax", ctypes.c_int32),
    )


class _Data(ctypes.Structure):
    _fields_ = tuple((n, ctypes.c_void_p) for n in ("input", "gamma", "beta", "output"))


@dataclass(frozen=True)
class Case:
    """``shape``: batch, rows, columns, channels. ``gaps``: floats after each pixel of input and output."""

    shape: tuple[int, int, int, int]
    centred: bool = True
    epsilon: float = 1e-5
    gaps: tuple[int, int] = (0, 0)
    halo: tuple[int, int, int, int] = (0, 0, 0, 0)
    mean: float = 0.0
    spread: float = 1.0
    seed: int = 0
    softmax: bool = False


def normalise(kernels: Kernels, case: Case, table: str, threads: int = 1, values: Any = None) -> tuple[Any, Any, Any]:
    """What the kernel gives, float64, and of what: of ``values``, or random numbers.

    Checks that nothing but the output and its halo was written.
    """
    random = np.random.default_rng(case.seed)
    channels = case.shape[3]
    x = (random.standard_normal(case.shape) * case.spread + case.mean).astype(np.float32)
    x = x if values is None else values
    gamma, beta = (random.standard_normal(channels).astype(np.float32) for _ in range(2))
    roomy: Any = tuple(side + 1 for side in case.halo)
    source, target = Picture(case.shape, (0, 1, 0, 0), case.gaps[0]), Picture(case.shape, roomy, case.gaps[1])
    source.inner[...] = x
    padded = [np.frombuffer(pad_channels(vector), np.float32) for vector in (gamma, beta)]
    norm = _Norm(case.shape[0], Pair(*case.shape[1:3]), channels, source.view, target.view, Halo(*case.halo))
    norm.epsilon, norm.centred, norm.softmax = case.epsilon, case.centred, case.softmax
    addresses = [array.ctypes.data for array in (source.buffer, *padded, target.buffer)]
    if case.softmax:
        addresses[1:3] = [None, None]
    context = ctypes.c_void_p(kernels.context(table, threads))
    kernels.library.cf_test_norm(context, ctypes.byref(norm), ctypes.byref(_Data(*addresses)))
    target.check_guards(case.halo)
    d = x.astype(np.float64)
    if case.softmax:
        with np.errstate(invalid="ignore"):
            powers = np.exp(d - d.max(-1, keepdims=True))
        return target.inner.copy(), powers / powers.sum(-1, keepdims=True), x
    if case.centred:
        d = d - d.mean(-1, keepdims=True)
    expected = d / np.sqrt((d * d).mean(-1, keepdims=True) + np.float32(case.epsilon)) * gamma + beta
    return target.inner.copy(), expected, x
