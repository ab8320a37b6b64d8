"""Fourier transforms and what goes with them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.graph_values import Value, read_int
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


@OPS.define("DFT")
def fourier_transform(x: Value, length: Value = None, axis: Value = None, *, opset: int = 20, **keys: Any) -> Value:
    """Return the discrete Fourier transform along an axis; the last dimension is 1 (real) or 2 (complex)."""
    where = (keys.get("axis", 1 if opset < 20 else -2) if axis is None else read_int(axis)) % np.ndim(x)
    inverse, onesided, x = keys.get("inverse"), keys.get("onesided"), jnp.asarray(x)
    halved = bool(inverse and onesided)
    size = (2 * (x.shape[where] - 1) if halved else x.shape[where]) if length is None else read_int(length)
    if halved:
        return jnp.fft.irfft(x[..., 0] + 1j * x[..., 1], size, where)[..., None].astype(x.dtype)
    if onesided:
        result = jnp.fft.rfft(x[..., 0], size, where)
    else:
        values = x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]
        result = jnp.fft.ifft(values, size, where) if inverse else jnp.fft.fft(values, size, where)
    return jnp.stack([result.real, result.imag], -1).astype(x.dtype)


@OPS.define("STFT")
def short_time_transform(
    x: Value, step: Value, window: Value = None, frame_length: Value = None, *, onesided: int = 1
) -> Value:
    """Return the Fourier transforms [n, frames, bins, 2] of windows of signals [n, t, 1 or 2]."""
    x = jnp.asarray(x) if np.ndim(x) == 3 else jnp.asarray(x)[..., None]
    size = read_int(frame_length) if frame_length is not None else np.shape(window)[0]
    hop = read_int(step)
    frames = (x.shape[1] - size) // hop + 1
    places = np.arange(frames)[:, None] * hop + np.arange(size)
    pieces = x[:, places]
    if window is not None:
        pieces = pieces * jnp.asarray(window)[:, None]
    return fourier_transform(pieces, None, 2, onesided=onesided)
