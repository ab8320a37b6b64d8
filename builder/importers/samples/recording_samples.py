"""A user's recordings, perhaps in a folder for each label, as the windows that the function makes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from builder.base.arrays import Array
from builder.base.errors import UsageError
from builder.config import AudioSpec, ModelSpec
from builder.importers.samples.labelled_folder import list_labelled_files

SUFFIXES = {".wav"}

_TYPES = {0: "u1", 1: "<i2", 3: "<i4", 4: "<f4", 5: "<f8"}
"""NumPy's names of ``cf_pcm`` in runtime/audio/audio.h, but for 24 bits, of which it has none."""
_S24 = 2


def read_labelled_recordings(folder: Path, spec: ModelSpec) -> tuple[Array, NDArray[np.int64] | None, str]:
    """The windows of the WAV files in ``folder``, or in its folders, whose names are labels: float32 [n, length].

    With the class of each and the output that has these labels, where there are such. The files have the model's own
    rate: what resamples is in the library, which is not made yet. Raises UsageError for what else they are, where there
    are none, and where a folder's name is no label.
    """
    assert spec.audio is not None
    files, classes, output = list_labelled_files(folder, spec, SUFFIXES, "WAV files")
    found = [_read_windows(file, spec.audio) for file in files]
    labels = None if classes is None else np.repeat(classes, [len(windows) for windows in found])
    return np.concatenate(found), labels, output


def _read_windows(path: Path, audio: AudioSpec) -> Array:
    """float32 [count, length]; the last one filled up with zeros."""
    from handler.audio import count_windows
    from handler.description import AudioInput as Target

    samples = _read_mono(path, audio.rate)
    target = Target(audio.feed or "", audio.rate, audio.length, audio.step)
    count = count_windows(len(samples), target)
    padded = np.pad(samples, (0, audio.length))
    return np.stack([padded[at : at + audio.length] for at in range(0, count * audio.step, audio.step)])


def _read_mono(path: Path, rate: int) -> NDArray[np.float32]:
    """The mean of all channels, -1 to 1."""
    from handler.errors import HandlerError
    from handler.recording import read_audio_header

    try:
        found = read_audio_header(path.read_bytes())
    except HandlerError as error:
        raise UsageError(f"{path} {error.message}.") from error
    if found.kind is None or found.rate != rate or not found.frames:
        raise UsageError(
            f"{path} is a {found.format} file of {found.frames:,} samples at {found.rate:,} Hz; samples must be WAV "
            f"files at the model's own rate, {rate:,} Hz: convert it, as with `ffmpeg -i IN -ar {rate} OUT.wav`."
        )
    if found.kind == _S24:
        wide = np.zeros((found.frames * found.channels, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(found.samples, np.uint8).reshape(-1, 3)
        values = wide.view("<i4") / 2.0**31
    else:
        values = np.frombuffer(found.samples, _TYPES[found.kind])
        if values.dtype.kind == "u":
            values = values.astype(np.float64) / 128 - 1
        elif values.dtype.kind == "i":
            values = values / 2.0 ** (8 * values.dtype.itemsize - 1)
    return np.asarray(values.reshape(-1, found.channels).mean(axis=1, dtype=np.float64).astype(np.float32))
