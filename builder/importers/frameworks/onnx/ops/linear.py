"""Linear maps: products of matrices, rotations by position, Fourier transforms."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.graph_values import Value, read_int, spread_channels
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()
OPS.enter_all(
    {
        "Det": jnp.linalg.det,
        "Einsum": lambda *inputs, equation: jnp.einsum(equation.replace(" ", ""), *inputs),
        "MatMul": jnp.matmul,
    }
)


def scale_by(x: Value, factor: float) -> Value:
    """Return ``x`` times a number."""
    return x if factor == 1 else x * np.asarray(factor, x.dtype)


@OPS.define("Gemm")
def multiply_and_add(
    a: Value, b: Value, c: Value = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0
) -> Value:
    """Return alpha a b + beta c, with matrices that may be transposed."""
    product = scale_by(jnp.matmul(jnp.transpose(a) if transA else a, jnp.transpose(b) if transB else b), alpha)
    return product if c is None else product + scale_by(c, beta)


def subtract_zero_point(x: Value, zero: Value, axis: int) -> Value:
    """Return 8-bit integers less their zero points, one for all or one for each index of ``axis``, as int32."""
    x, zero = jnp.asarray(x).astype(np.int32), jnp.asarray(0 if zero is None else zero).astype(np.int32)
    if zero.size == 1:
        return x - zero.reshape(())
    return x - (spread_channels(zero, x.ndim, axis) if zero.ndim == 1 else zero)


@OPS.define("MatMulInteger")
def multiply_integers(a: Value, b: Value, a_zero: Value = None, b_zero: Value = None) -> Value:
    """Return the product of matrices of 8-bit integers less their zero points, as int32."""
    return jnp.matmul(subtract_zero_point(a, a_zero, -2), subtract_zero_point(b, b_zero, -1))


def split_heads(x: Value, heads: int) -> Value:
    """Return [n, heads, t, d] of [n, t, heads × d]."""
    return jnp.reshape(x, (*np.shape(x)[:2], heads, -1)).transpose(0, 2, 1, 3)


@OPS.define("RotaryEmbedding")
def rotate_positions(x: Value, cosines: Value, sines: Value, positions: Value = None, **keys: Any) -> Value:
    """Return heads [n, heads, t, d] or [n, t, heads × d] with pairs of elements rotated by position."""
    shape, interleaved = np.shape(x), keys.get("interleaved")
    heads = x if len(shape) == 4 else split_heads(x, keys.get("num_heads", 0))
    size = keys.get("rotary_embedding_dim") or heads.shape[-1]
    rotated, rest = heads[..., :size], heads[..., size:]
    if positions is not None:
        cosines, sines = (jnp.take(table, positions, 0, mode="clip") for table in (cosines, sines))
    cosines, sines = (jnp.expand_dims(table[..., : size // 2], 1) for table in (cosines, sines))
    real, imaginary = (rotated[..., 0::2], rotated[..., 1::2]) if interleaved else jnp.split(rotated, 2, -1)
    turned = (cosines * real - sines * imaginary, sines * real + cosines * imaginary)
    pairs: Any = jnp.stack(turned, -1).reshape(rotated.shape) if interleaved else jnp.concatenate(turned, -1)
    result = jnp.concatenate([pairs, rest], -1)
    return result if len(shape) == 4 else result.transpose(0, 2, 1, 3).reshape(shape)


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
