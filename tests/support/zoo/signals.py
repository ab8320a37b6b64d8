"""Fourier transforms, and what is made of them: spectra of sound, and sound of spectra."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .case import Function, case, f32


def parts(x: Any) -> Any:
    """A complex tensor as a real one."""
    return tf.stack([tf.math.real(x), tf.math.imag(x)], -1)


@case(f32("x", 2, 1103), f32("y", 2, 3, 14, 10), covers=("Fft",))
def transforms() -> Function:
    """Of one and more dimensions, of even, odd and prime lengths, of many lines and of few."""

    def build(x: Any, y: Any) -> Any:
        both = tf.complex(y, tf.reverse(y, [-1]))
        return (
            parts(tf.signal.rfft(x)),
            parts(tf.signal.rfft(x[:, :480], [512])),
            tf.signal.irfft(tf.complex(x[:, :129], x[:, 200:329])),
            tf.signal.irfft(tf.complex(x[:, :129], x[:, 200:329]), [255]),
            parts(tf.signal.ifft(tf.signal.fft(both) * both)),
            parts(tf.signal.fft2d(both)),
            parts(tf.signal.ifft3d(tf.transpose(both, [0, 2, 3, 1]))),
            parts(tf.signal.rfft3d(y)),
            tf.signal.irfft2d(tf.signal.rfft2d(y) / 2.0),
            tf.map_fn(lambda row: tf.abs(tf.signal.rfft(row)), y[0, 0]),
        )

    return build


@case(f32("sound", 2, 2000), covers=("Fft",))
def speech() -> Function:
    """A spectrogram on the mel scale, its cepstrum, and back to sound."""

    def build(sound: Any) -> Any:
        spectrum = tf.signal.stft(sound, 400, 160, 512)
        mel = tf.abs(spectrum) @ tf.signal.linear_to_mel_weight_matrix(40, 257, 16000, 20.0, 7600.0)
        cepstrum = tf.signal.mfccs_from_log_mel_spectrograms(tf.math.log(mel + 1e-3))[..., :13]
        # More bands than the transform resolves: what is left of some filters is the last bit of two logarithms.
        narrow = tf.abs(tf.signal.stft(sound, 48, 16)) @ tf.signal.linear_to_mel_weight_matrix(
            128, 33, 16000, 20.0, 8000.0
        )
        window = tf.signal.inverse_stft_window_fn(160)
        return cepstrum, narrow, tf.signal.inverse_stft(spectrum, 400, 160, 512, window), tf.signal.idct(cepstrum)

    return build
