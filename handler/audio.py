"""Conversion of a recording to the windows of samples that a model takes.

bytes → header and budget → decode → one channel → the model's rate → windows. The C code that decodes and resamples is
in the model's own library: see builder/runtime/audio/audio.h.
"""

from __future__ import annotations

import math

from ._audio import ffi
from .budget import FILE_SECONDS, RequestLimits, recording_cost
from .errors import (
    DamagedAudioError,
    HandlerError,
    RecordingTooLongError,
    StartupError,
    TooLargeError,
    TruncatedAudioError,
)
from .recording import Recording, read_audio_header
from .tuples import NamedTuple
from .typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .description import AudioInput


_CUT_SHORT = "ends too early, or is damaged"


class Windows(NamedTuple):
    """Windows of a recording. ``samples``: float32 [count, length] as bytes; ``spans``: start and end in seconds."""

    samples: bytes
    spans: tuple[tuple[float, float], ...]


def open_decoders(path: str) -> Any:
    """Load the decoders in the library at ``path``. Raises StartupError."""
    try:
        return ffi.dlopen(path)
    except (OSError, ffi.error) as error:
        raise StartupError(f"{path} cannot be loaded ({error}).") from error


def read_windows(
    data: bytes, where: str, target: AudioInput, limits: RequestLimits, library: Any, seconds: float = math.inf
) -> Windows:
    """Return the windows of the recording ``data``, WAV, FLAC or MP3. Raises HandlerError.

    ``where`` names it in messages. ``library``: from ``open_decoders``. ``seconds``: the time left for it.
    """
    try:
        if len(data) > limits.recording:
            raise TooLargeError(f"has {len(data):,} bytes; at most {limits.recording:,} are allowed")
        recording = read_audio_header(data)
        _require_allowed(recording, target, limits, seconds)
        if not recording.frames:
            recording = _count_frames(recording, limits, library, seconds)
            _require_allowed(recording, target, limits, seconds)
        samples = _resample_mono(_decode_mono(recording, library), recording.rate, target.rate, library)
        return _cut_windows(samples, target)
    except HandlerError as error:
        raise type(error)(f"{where} {error.message}") from error.__cause__


def count_resampled(frames: int, rate: int, to: int) -> int:
    """Return the number of samples at the rate ``to`` that ``frames`` at ``rate`` become."""
    return -(-frames * to // rate)


def count_windows(samples: int, target: AudioInput) -> int:
    """Return the number of windows that cover all ``samples``; the last is filled up with zeros."""
    return 1 + max(0, -(-(samples - target.length) // target.hop))


def _require_allowed(found: Recording, target: AudioInput, limits: RequestLimits, seconds: float) -> None:
    """Raise RecordingTooLongError, OverBudgetError or OutOfTimeError before anything is decoded."""
    if found.frames > limits.recorded_seconds * found.rate:
        length = found.frames / found.rate
        raise RecordingTooLongError(f"is {length:,.0f} s long; at most {limits.recorded_seconds:,} s are allowed")
    samples = count_resampled(found.frames, found.rate, target.rate)
    count = count_windows(samples, target)
    if count > limits.items:
        raise RecordingTooLongError(f"has {count:,} windows; at most {limits.items:,} are allowed at a time")
    common = math.gcd(found.rate, target.rate)
    ratio = 0, 0
    if found.rate != target.rate:
        ratio = target.rate // common, found.rate // common
    cost = recording_cost(found.frames, found.channels, samples, ratio, count * target.length, limits)
    limits.require_cost(cost, seconds)


def _count_frames(found: Recording, limits: RequestLimits, library: Any, seconds: float) -> Recording:
    """Return ``found`` with its number of frames, for a file that does not say it."""
    frames = 0
    if found.kind is None:
        affordable = limits.samples * min(1, seconds / FILE_SECONDS) / found.channels
        most = min(limits.recorded_seconds * found.rate, int(affordable)) + 1
        frames = _decode_frames(found, most, ffi.NULL, library)
    if frames < 0:
        raise TruncatedAudioError(_CUT_SHORT)
    if frames == 0:
        raise DamagedAudioError("is a recording without samples")
    return found._replace(frames=frames)


def _decode_mono(found: Recording, library: Any) -> Any:
    mono = _floats(found.frames)
    if found.kind is None:
        if _decode_frames(found, found.frames, mono, library) != found.frames:
            raise TruncatedAudioError(_CUT_SHORT)
    elif library.cf_mono(ffi.from_buffer(found.samples), found.kind, found.channels, found.frames, mono):
        raise DamagedAudioError("has samples that are no finite numbers")
    return mono


def _decode_frames(found: Recording, frames: int, mono: Any, library: Any) -> int:
    """Decode the first ``frames`` into ``mono``, or count them where it is NULL, and return their number."""
    read = library.cf_mp3_read if found.format == "MP3" else library.cf_flac_read
    return int(read(ffi.from_buffer(found.samples), len(found.samples), frames, mono))


def _resample_mono(mono: Any, rate: int, to: int, library: Any) -> Any:
    if rate == to:
        return mono
    resampled = _floats(count_resampled(len(mono), rate, to))
    if library.cf_resample(mono, len(mono), rate, to, resampled):
        raise MemoryError
    return resampled


def _cut_windows(samples: Any, target: AudioInput) -> Windows:
    """Cut ``samples`` into windows."""
    length, hop, data = target.length, target.hop, memoryview(ffi.buffer(samples))
    starts = [number * hop for number in range(count_windows(len(samples), target))]
    each = [bytes(data[4 * start : 4 * (start + length)]).ljust(4 * length, b"\0") for start in starts]
    ends = [min(start + length, len(samples)) for start in starts]
    spans = [(round(s / target.rate, 6), round(e / target.rate, 6)) for s, e in zip(starts, ends, strict=True)]
    return Windows(b"".join(each), tuple(spans))


def _floats(count: int) -> Any:
    return ffi.new("float[]", count)
