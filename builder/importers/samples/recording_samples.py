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
"""NumPy's names of ``cf_pcm`` in runtime/audio/audio.h, except for 24 bits, for which it has no name."""
_S24 = 2


def read_labelled_recordings(folder: Path, spec: ModelSpec) -> tuple[Array, NDArray[np.int64] | None, str]:
    """Return the windows of the WAV files in ``folder``, or in its folders, named by label: float32 [n, length].

    The classes and the name of the output with these labels follow, if there are labels. The files must have the
    model's rate, since the library, which resamples, is not built yet. Raises UsageError for other files, if there are
    none, and if a folder's name is not a label.
    """
    assert spec.audio is not None
    files, classes, output = list_labelled_files(folder, spec, SUFFIXES, "WAV files")
    recordings = [_read_windows(file, spec.audio) for file in files]
    labels = None if classes is None else np.repeat(classes, [len(windows) for windows in recordings])
    return np.concatenate(recordings), labels, output


def _read_windows(path: Path, audio: AudioSpec) -> Array:
    """Return the windows, float32 [count, length]; the last one is filled up with zeros."""
    from handler.audio import count_windows
    from handler.description import AudioInput as Target

    samples = _read_mono(path, audio.rate)
    target = Target(audio.feed or "", audio.rate, audio.length, audio.step)
    count = count_windows(len(samples), target)
    padded = np.pad(samples, (0, audio.length))
    return np.stack([padded[at : at + audio.length] for at in range(0, count * audio.step, audio.step)])


def _read_mono(path: Path, rate: int) -> NDArray[np.float32]:
    """Return the mean of all channels, -1 to 1."""
    from handler.errors import HandlerError
    from handler.recording import read_audio_header

    try:
        header = read_audio_header(path.read_bytes())
    except HandlerError as error:
        raise UsageError(f"{path} {error.message}.") from error
    if header.kind is None or header.rate != rate or not header.frames:
        raise UsageError(
            f"{path} is a {header.format} file of {header.frames:,} samples at {header.rate:,} Hz; samples must be WAV "
            f"files at the model's own rate, {rate:,} Hz: convert it, as with `ffmpeg -i IN -ar {rate} OUT.wav`."
        )
    if header.kind == _S24:
        wide = np.zeros((header.frames * header.channels, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(header.samples, np.uint8).reshape(-1, 3)
        values = wide.view("<i4") / 2.0**31
    else:
        values = np.frombuffer(header.samples, _TYPES[header.kind])
        if values.dtype.kind == "u":
            values = values.astype(np.float64) / 128 - 1
        elif values.dtype.kind == "i":
            values = values / 2.0 ** (8 * values.dtype.itemsize - 1)
    return np.asarray(values.reshape(-1, header.channels).mean(axis=1, dtype=np.float64).astype(np.float32))
