"""What feature extractors of transformers compute from samples of sound, as modules of PyTorch.

The extractors are programs of NumPy, which no library can hold. A build compares its library with their own numbers.
"""

from __future__ import annotations

from typing import Any

import torch

FRAME, HOP = 400, 160
"""The samples of a frame of ASTFeatureExtractor, and from one to the next."""

_FLOOR = 1.192092955078125e-07
_PREEMPHASIS = 0.97


class Standardised(torch.nn.Module):  # type: ignore[misc]
    """The steps of Wav2Vec2FeatureExtractor."""

    def forward(self, samples: Any) -> Any:
        """Return samples [batch, length] with mean 0 and variance 1."""
        deviation = samples - samples.mean(1, keepdim=True)
        return deviation / torch.sqrt(deviation.square().mean(1, keepdim=True) + 1e-7)


class _MelPowers(torch.nn.Module):  # type: ignore[misc]
    """The power of windowed frames [..., size] in each of the bands that the ``extractor`` has filters for."""

    def __init__(self, extractor: Any, window: Any) -> None:
        super().__init__()
        self.register_buffer("window", torch.as_tensor(window, dtype=torch.float32))
        self.register_buffer("filters", torch.as_tensor(extractor.mel_filters, dtype=torch.float32))

    def forward(self, frames: Any) -> Any:
        spectrum = torch.fft.rfft(frames * self.window, 2 * (len(self.filters) - 1))
        return (spectrum.real.square() + spectrum.imag.square()) @ self.filters


class WhisperFeatures(torch.nn.Module):  # type: ignore[misc]
    """The steps of WhisperFeatureExtractor."""

    def __init__(self, extractor: Any) -> None:
        super().__init__()
        self.size, self.hop = extractor.n_fft, extractor.hop_length
        self.powers = _MelPowers(extractor, torch.hann_window(self.size))

    def forward(self, samples: Any) -> Any:
        """Return logarithms of mel powers [batch, bands, frames]."""
        sides = self.size // 2, self.size // 2
        around = torch.nn.functional.pad(samples[:, None], sides, mode="reflect")[:, 0]
        frames = around.unfold(1, self.size, self.hop)[:, :-1]
        logarithms = self.powers(frames).transpose(1, 2).clamp(min=1e-10).log10()
        return (torch.maximum(logarithms, logarithms.amax((1, 2), keepdim=True) - 8) + 4) / 4


class SpectrogramFeatures(torch.nn.Module):  # type: ignore[misc]
    """The steps of ASTFeatureExtractor.

    It gives zeros for frames behind a recording's end. Here a recording ends with its last sample that is not 0.
    """

    def __init__(self, extractor: Any) -> None:
        super().__init__()
        self.powers = _MelPowers(extractor, extractor.window)
        self.mean: float = extractor.mean if extractor.do_normalize else 0.0
        self.deviation: float = 2 * extractor.std if extractor.do_normalize else 1.0

    def forward(self, samples: Any) -> Any:
        """Return logarithms of mel powers [batch, frames, bands]."""
        frames = samples.unfold(1, FRAME, HOP)
        frames = frames - frames.mean(-1, keepdim=True)
        frames = frames - _PREEMPHASIS * torch.cat([frames[..., :1], frames[..., :-1]], -1)
        logarithms = self.powers(frames).clamp(min=_FLOOR).log()
        places = torch.arange(1, samples.shape[1] + 1, dtype=torch.int32)
        length = torch.where(samples != 0, places, 0).amax(1)[:, None]
        ends = torch.arange(logarithms.shape[1], dtype=torch.int32) * HOP + FRAME
        return (torch.where((ends <= length)[:, :, None], logarithms, 0) - self.mean) / self.deviation
