"""Recordings for the tests: WAV files of every kind, and what is in the FLAC and MP3 files of tests/data."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

DATA = Path(__file__).parents[1] / "data"
FLAC = {"mono16.flac": (1200, 1, 16, 8_000), "stereo24.flac": (900, 2, 24, 44_100)}
"""Frames, channels, bits and rate of each file, whose samples are ``tune``."""
MP3 = {"mono8.mp3": 8_000, "stereo44.mp3": 44_100}
"""The rate of each file."""
KINDS = {"u8": (1, 8), "s16": (1, 16), "s24": (1, 24), "s32": (1, 32), "f32": (3, 32), "f64": (3, 64)}
"""WAV's number of a format, and its bits."""


def tune(frames: int, channels: int, bits: int) -> NDArray[np.int64]:
    """Integers [frames, channels] of so many bits: a sine for each channel and some noise."""
    at, channel = np.arange(frames)[:, None], np.arange(channels)[None]
    noise = np.random.default_rng(1).integers(-4, 5, (frames, channels))
    return np.round(np.sin(at * (0.04 + 0.01 * channel)) * 0.6 * 2 ** (bits - 1)).astype(np.int64) + noise


def samples(kind: str, values: Array) -> bytes:
    """``values`` [frames, channels], -1 to 1, as WAV has them."""
    if kind in ("f32", "f64"):
        return values.astype("<f4" if kind == "f32" else "<f8").tobytes()
    bits = KINDS[kind][1]
    whole = np.round(values * 2 ** (bits - 1)).clip(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1).astype("<i8")
    if kind == "u8":
        return (whole + 128).astype(np.uint8).tobytes()
    return np.ascontiguousarray(whole.reshape(-1, 1).view(np.uint8)[:, : bits // 8]).tobytes()


def wav(kind: str, values: Array, rate: int, *, extensible: bool = False, size: int | None = None) -> bytes:
    """A file of ``values`` [frames, channels]. ``size``: what it says its samples have, in bytes."""
    tag, bits = KINDS[kind]
    data, channels = samples(kind, values), values.shape[1]
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", 0xFFFE if extensible else tag, channels, rate, rate * block, block, bits)
    if extensible:
        form += struct.pack("<HHIH", 22, bits, 0, tag) + bytes.fromhex("000000001000800000aa00389b71")
    said = len(data) if size is None else size
    body = b"WAVE" + b"fmt " + struct.pack("<I", len(form)) + form + b"LIST" + struct.pack("<I", 3) + b"abc\0"
    body += b"data" + struct.pack("<I", said) + data + b"\0" * (len(data) % 2)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def flac(name: str) -> tuple[bytes, NDArray[np.float32], int]:
    """A file of tests/data, its samples as one channel, -1 to 1, and its rate."""
    frames, channels, bits, rate = FLAC[name]
    values = tune(frames, channels, bits) / 2 ** (bits - 1)
    return (DATA / name).read_bytes(), values.mean(axis=1).astype(np.float32), rate


def mp3(name: str) -> tuple[bytes, NDArray[np.float32], int]:
    """A file of tests/data, its samples as one channel, as libsndfile decodes them, and its rate."""
    return (DATA / name).read_bytes(), np.fromfile(DATA / f"{name}.f32", "<f4"), MP3[name]


def resampled(values: Array, rate: int, to: int) -> Array:
    """What ``scipy.signal.resample_poly`` is defined as: zeros put between, one filter, some of its results left."""
    common = int(np.gcd(rate, to))
    up, down = to // common, rate // common
    half = 10 * max(up, down)
    taps = np.sinc(np.arange(-half, half + 1) / max(up, down)) * np.kaiser(2 * half + 1, 5.0)
    results = np.arange(-(-len(values) * up // down))[:, None] * down
    places = results - np.arange(len(values)) * up + half
    met = (places >= 0) & (places <= 2 * half)
    return np.where(met, taps[places.clip(0, 2 * half)], 0) @ values * up / taps.sum()
