"""Fourier transforms and what goes with them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from onnx import helper

from builder.importers.frameworks.graph_values import Value, read_array, read_int
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


@OPS.define("DFT")
def fourier_transform(
    x: Value,
    length: Value = None,
    axis_input: Value = None,
    *,
    axis: int | None = None,
    inverse: int = 0,
    onesided: int = 0,
    opset: int = 20,
) -> Value:
    """Return the discrete Fourier transform along an axis; the last dimension is 1 (real) or 2 (complex)."""
    where = read_int(axis_input) if axis_input is not None else axis if axis is not None else (1 if opset < 20 else -2)
    where = where % np.ndim(x)
    x = jnp.asarray(x)
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
    return fourier_transform(pieces, axis=2, onesided=onesided)


@OPS.define("MelWeightMatrix")
def make_mel_weights(
    bands: Value, length: Value, rate: Value, low: Value, high: Value, *, output_datatype: int = 1
) -> Value:
    """Return the matrix [length / 2 + 1, bands] of triangles on the mel scale."""
    count, size, sampling = read_int(bands), read_int(length), read_int(rate)
    edges = [2595 * np.log10(1 + float(read_array(value)) / 700) for value in (low, high)]
    mels = edges[0] + np.arange(count + 2) * (edges[1] - edges[0]) / (count + 2)
    bins = np.floor((size + 1) * (700 * (10 ** (mels / 2595) - 1)) / sampling).astype(int)
    result = np.zeros((size // 2 + 1, count))
    for band in range(count):
        lower, centre, upper = bins[band : band + 3]
        if centre == lower:
            result[centre, band] = 1
        else:
            result[lower : centre + 1, band] = (np.arange(lower, centre + 1) - lower) / (centre - lower)
        if upper > centre:
            result[centre:upper, band] = (upper - np.arange(centre, upper)) / (upper - centre)
    return result.astype(helper.tensor_dtype_to_np_dtype(output_datatype))
