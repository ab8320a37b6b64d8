"""Sound to spectrograms and cepstra (AudioSpectrogram, Mfcc), and classes over time to symbols (CTC)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from builder.base.tf import tf
from builder.importers.rewrites.op import Op, rewrites

_FLOOR = 1e-12
"""The least that a logarithm is taken of."""


@rewrites("AudioSpectrogram")
def rewrite_spectrogram(op: Op, samples: Any) -> Any:
    """Apply Hann's window and a Fourier transform of the next power of two.

    Off by a few units in the last place of the peak: TensorFlow computes it in float64.
    """
    size, stride = op.get_attribute("window_size"), op.get_attribute("stride")
    length = 1 << (size - 1).bit_length()
    window = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(size) / size)
    frames = tf.signal.frame(tf.transpose(samples), size, stride) * window.astype(np.float32)
    waves = tf.signal.rfft(frames, [length])
    powers = tf.math.real(waves) ** 2 + tf.math.imag(waves) ** 2
    return powers if op.get_attribute("magnitude_squared") else tf.sqrt(powers)


@rewrites("Mfcc")
def rewrite_mfcc(op: Op, spectrogram: Any, sample_rate: Any) -> Any:
    """Multiply with mel filters, take the logarithm, and multiply with cosines.

    The sample rate has to be a constant. Off by a few units in the last place of the largest coefficient.
    """
    bands, wanted = op.get_attribute("filterbank_channel_count"), op.get_attribute("dct_coefficient_count")
    limits = op.get_attribute("lower_frequency_limit"), op.get_attribute("upper_frequency_limit")
    filters = _make_filterbank(spectrogram.shape[2], int(op.get_constant(1)), bands, *limits)
    logs = tf.math.log(tf.maximum(tf.tensordot(tf.sqrt(spectrogram), filters, 1), _FLOOR))
    angles = np.pi / bands * np.outer(np.arange(bands) + 0.5, np.arange(wanted))
    return tf.tensordot(logs, (np.sqrt(2.0 / bands) * np.cos(angles)).astype(np.float32), 1)


def _make_filterbank(bins: int, rate: int, bands: int, lowest: float, highest: float) -> npt.NDArray[np.float32]:
    """Return overlapping triangles [bins, bands], even on the mel scale.

    They are those of TensorFlow's mfcc_mel_filterbank.cc.
    """
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


@rewrites("CTCGreedyDecoder")
def rewrite_ctc_greedy_decoder(op: Op, scores: Any, lengths: Any) -> Any:
    """Take the best class of each step, without blanks and, if asked, repetitions.

    The same symbols; the scores are off by the order of the sums.
    """
    steps, batch, classes = scores.shape
    blank = op.get_attribute("blank_index")
    blank = blank + classes if blank < 0 else blank
    there = tf.range(steps)[None, :] < lengths[:, None]
    symbols = tf.transpose(tf.argmax(scores, axis=2))
    best = tf.transpose(tf.reduce_max(scores, axis=2))
    said = there & tf.not_equal(symbols, blank)
    if op.get_attribute("merge_repeated"):
        before = tf.concat([tf.fill([batch, 1], tf.constant(-1, symbols.dtype)), symbols[:, :-1]], axis=1)
        said &= tf.not_equal(symbols, before)
    position = tf.cumsum(tf.cast(said, tf.int64), axis=1)
    places = tf.where(said)
    number = tf.gather_nd(position, places) - 1
    longest = tf.reduce_max(position[:, -1]) if steps else tf.constant(0, tf.int64)
    total = tf.reduce_sum(tf.where(there, -best, tf.cast(0, best.dtype)), axis=1, keepdims=True)
    return (
        tf.stack([places[:, 0], number], axis=1),
        tf.gather_nd(symbols, places),
        tf.stack([tf.constant(batch, tf.int64), longest]),
        total,
    )
