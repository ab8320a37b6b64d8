"""Sound to spectrograms and cepstra, as TensorFlow's speech examples do it: AudioSpectrogram and Mfcc."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from builder.base.tf import tf
from builder.importers.rewrites.op import Op, Rewrite

_FLOOR = 1e-12
"""The least that a logarithm is taken of."""


def rewrite_spectrogram(op: Op, samples: Any) -> Any:
    """Hann's window and a Fourier transform of the next power of two. Off by a few units in the last place of the peak:
    TensorFlow computes it in float64.
    """
    size, stride = op.get_attribute("window_size"), op.get_attribute("stride")
    length = 1 << (size - 1).bit_length()
    window = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(size) / size)
    frames = tf.signal.frame(tf.transpose(samples), size, stride) * window.astype(np.float32)
    waves = tf.signal.rfft(frames, [length])
    powers = tf.math.real(waves) ** 2 + tf.math.imag(waves) ** 2
    return powers if op.get_attribute("magnitude_squared") else tf.sqrt(powers)


def rewrite_mfcc(op: Op, spectrogram: Any, sample_rate: Any) -> Any:
    """With a constant sample rate: a product with mel filters, a logarithm, a product with cosines. Off by a few units
    in the last place of the largest coefficient.
    """
    bands, wanted = op.get_attribute("filterbank_channel_count"), op.get_attribute("dct_coefficient_count")
    limits = op.get_attribute("lower_frequency_limit"), op.get_attribute("upper_frequency_limit")
    filters = _make_filterbank(spectrogram.shape[2], int(op.get_constant(1)), bands, *limits)
    logs = tf.math.log(tf.maximum(tf.tensordot(tf.sqrt(spectrogram), filters, 1), _FLOOR))
    angles = np.pi / bands * np.outer(np.arange(bands) + 0.5, np.arange(wanted))
    return tf.tensordot(logs, (np.sqrt(2.0 / bands) * np.cos(angles)).astype(np.float32), 1)


def _make_filterbank(bins: int, rate: int, bands: int, lowest: float, highest: float) -> npt.NDArray[np.float32]:
    """[bins, bands]: triangles that overlap, even on the mel scale, as TensorFlow's mfcc_mel_filterbank.cc has them."""
    width = 0.5 * rate / (bins - 1)
    centres = np.linspace(_to_mel(lowest), _to_mel(highest), bands + 2)[1:]
    edges = np.concatenate([[_to_mel(lowest)], centres])
    weights = np.zeros((bins, bands + 2))
    for number in range(int(1.5 + lowest / width), min(int(highest / width), bins - 1) + 1):
        at = _to_mel(number * width)
        band = min(int(np.searchsorted(centres, at)), bands)  # the first centre that is not below
        share = (edges[band + 1] - at) / (edges[band + 1] - edges[band])
        weights[number, band] = share
        weights[number, band + 1] = 1.0 - share
    return weights[:, 1:-1].astype(np.float32)


def _to_mel(frequency: float) -> float:
    return float(1127.0 * np.log1p(frequency / 700.0))


REWRITES: Mapping[str, Rewrite] = {"AudioSpectrogram": rewrite_spectrogram, "Mfcc": rewrite_mfcc}
