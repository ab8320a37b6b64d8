"""Headers of WAV, FLAC and MP3 files, and the conversion of recordings to the windows of samples that a model takes.

bytes → header and budget → decode → one channel → the model's rate → windows. The C code that decodes and resamples is
in the model's own library: see builder/runtime/audio/audio.h.
"""

from __future__ import annotations

import math
import struct

from ._audio import ffi
from .budget import FILE_SECONDS, RequestLimits, recording_cost
from .description import AudioInput
from .errors import (
    DamagedAudioError,
    HandlerError,
    NotAudioError,
    RecordingTooLongError,
    StartupError,
    TooLargeError,
    TruncatedAudioError,
    UnsupportedAudioError,
)
from .named_tuples import NamedTuple
from .typed import Any

_CUT_SHORT = "ends too early, or is damaged"
MOST_CHUNKS = 1_024
"""Chunks of a WAV file."""
MOST_CHANNELS = 8
RATES = (1_000, 384_000)
"""The least and the greatest sample rate, in Hz."""

_OPEN_END = 0x7FFFF000
"""The least length of a WAV that is written to a pipe, whose samples go on to the file's end."""
_EXTENSIBLE = 0xFFFE
_GUID = bytes.fromhex("000000001000800000aa00389b71")  # follows a format's number
_KINDS = {(1, 1): 0, (1, 2): 1, (1, 3): 2, (1, 4): 3, (3, 4): 4, (3, 8): 5}
"""The sample type of ``cf_pcm`` for WAV's number of a format and the bytes of a sample."""


class Recording(NamedTuple):
    """A recording's header. ``frames``: the number of samples of each channel; 0 where the file does not say it.

    ``samples``: those of a WAV file, of the type ``kind`` of ``cf_pcm``; for other formats all data to decode.
    """

    format: str  # "WAV", "FLAC" or "MP3"
    rate: int  # Hz
    channels: int
    frames: int
    samples: memoryview
    kind: int | None = None


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


def _require_allowed(recording: Recording, target: AudioInput, limits: RequestLimits, seconds: float) -> None:
    """Raise RecordingTooLongError, OverBudgetError or OutOfTimeError before anything is decoded."""
    if recording.frames > limits.recorded_seconds * recording.rate:
        length = recording.frames / recording.rate
        raise RecordingTooLongError(f"is {length:,.0f} s long; at most {limits.recorded_seconds:,} s are allowed")
    samples = count_resampled(recording.frames, recording.rate, target.rate)
    count = count_windows(samples, target)
    if count > limits.items:
        raise RecordingTooLongError(f"has {count:,} windows; at most {limits.items:,} are allowed at a time")
    common = math.gcd(recording.rate, target.rate)
    ratio = 0, 0
    if recording.rate != target.rate:
        ratio = target.rate // common, recording.rate // common
    cost = recording_cost(recording.frames, recording.channels, samples, ratio, count * target.length, limits)
    limits.require_cost(cost, seconds)


def _count_frames(recording: Recording, limits: RequestLimits, library: Any, seconds: float) -> Recording:
    """Return ``recording`` with its number of frames, for a file that does not say it."""
    frames = 0
    if recording.kind is None:
        affordable = limits.samples * min(1, seconds / FILE_SECONDS) / recording.channels
        most = min(limits.recorded_seconds * recording.rate, int(affordable)) + 1
        frames = _decode_frames(recording, most, ffi.NULL, library)
    if frames < 0:
        raise TruncatedAudioError(_CUT_SHORT)
    if frames == 0:
        raise DamagedAudioError("is a recording without samples")
    return recording._replace(frames=frames)


def _decode_mono(recording: Recording, library: Any) -> Any:
    frames, kind = recording.frames, recording.kind
    mono = _floats(frames)
    if kind is None:
        if _decode_frames(recording, frames, mono, library) != frames:
            raise TruncatedAudioError(_CUT_SHORT)
    elif library.cf_mono(ffi.from_buffer(recording.samples), kind, recording.channels, frames, mono):
        raise DamagedAudioError("has samples that are no finite numbers")
    return mono


def _decode_frames(recording: Recording, frames: int, mono: Any, library: Any) -> int:
    """Decode the first ``frames`` into ``mono``, or count them where it is NULL, and return their number."""
    read = library.cf_mp3_read if recording.format == "MP3" else library.cf_flac_read
    return int(read(ffi.from_buffer(recording.samples), len(recording.samples), frames, mono))


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


def is_recording(data: bytes) -> bool:
    """Return whether the first bytes are those of a file that ``read_audio_header`` reads."""
    return data[:4] in (b"RIFF", b"fLaC") or data[:3] == b"ID3" or _is_mp3_frame(data)


def read_audio_header(data: bytes) -> Recording:
    """Read the header. Raises NotAudioError, UnsupportedAudioError, TruncatedAudioError, DamagedAudioError."""
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        audio = _read_wav(data)
    elif bytes((sound := _skip_id3(data))[:4]) == b"fLaC":
        audio = _read_flac(sound)
    elif _is_mp3_frame(sound):
        audio = _read_mp3(sound)
    else:
        raise NotAudioError("is not a recording in an accepted format; send WAV, FLAC or MP3")
    if not 1 <= audio.channels <= MOST_CHANNELS:
        raise UnsupportedAudioError(f"has {audio.channels} channels; 1 to {MOST_CHANNELS} are allowed")
    if not RATES[0] <= audio.rate <= RATES[1]:
        raise UnsupportedAudioError(f"has {audio.rate:,} samples a second; {RATES[0]:,} to {RATES[1]:,} are allowed")
    return audio


def _read_wav(data: bytes) -> Recording:
    at, form = 12, b""
    for _ in range(MOST_CHUNKS):
        if at + 8 > len(data):
            raise TruncatedAudioError("is a WAV file that ends before its samples")
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        at += 8
        if name == b"data":
            return _read_wav_samples(data, at, size, form)
        if name == b"fmt ":
            form = data[at : at + min(size, 40)]
        at += size + size % 2
    raise UnsupportedAudioError(f"is a WAV file with more than {MOST_CHUNKS:,} pieces before its samples")


def _read_wav_samples(data: bytes, at: int, size: int, form: bytes) -> Recording:
    if len(form) < 16:
        raise DamagedAudioError("is a WAV file that does not say what its samples are")
    tag, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", form)
    if tag == _EXTENSIBLE and len(form) == 40 and form[26:] == _GUID:
        tag = int.from_bytes(form[24:26], "little")
    width = (bits + 7) // 8
    kind = _KINDS.get((tag, width))
    if kind is None:
        raise UnsupportedAudioError("is a WAV file of an unsupported kind; save it as PCM or float")
    if block != channels * width:
        raise DamagedAudioError("is a WAV file whose samples have another size than it says")
    samples = memoryview(data)[at:]
    if size > len(samples) and size < _OPEN_END:
        raise TruncatedAudioError("is a WAV file that ends too early")
    frames = min(size, len(samples)) // block if block else 0
    return Recording("WAV", rate, channels, frames, samples[: frames * block], kind)


def _read_flac(data: memoryview) -> Recording:
    """Read the block STREAMINFO, which comes first: RFC 9639, section 8.2."""
    if len(data) < 42:
        raise TruncatedAudioError("is a FLAC file that ends too early")
    if data[4] & 0x7F or bytes(data[5:8]) != b"\0\0\x22":
        raise DamagedAudioError("is a FLAC file that cannot be decoded")
    stream = int.from_bytes(data[18:26], "big")
    return Recording("FLAC", stream >> 44, (stream >> 41 & 7) + 1, stream & (1 << 36) - 1, data)


def _skip_id3(data: bytes) -> memoryview:
    """Return the data after the tags that an MP3 or FLAC file may begin with: https://id3.org/id3v2.4.0-structure."""
    at = 0
    for _ in range(MOST_CHUNKS):
        if data[at : at + 3] != b"ID3" or len(data) < at + 10:
            break
        size = sum((data[at + 6 + place] & 0x7F) << 7 * (3 - place) for place in range(4))
        at += 10 + size + (data[at + 5] & 0x10 and 10)
    return memoryview(data)[at:]


def _is_mp3_frame(data: bytes | memoryview) -> bool:
    """Return whether ``data`` begins with the header of a frame of MPEG audio, layer III, of a known bit rate."""
    if len(data) < 4 or data[0] != 0xFF or data[1] & 0xE6 != 0xE2 or data[1] & 0x18 == 0x08:
        return False
    return data[2] & 0xF0 not in (0, 0xF0) and data[2] & 0x0C != 0x0C


def _read_mp3(sound: memoryview) -> Recording:
    halvings = {0x18: 0, 0x10: 1, 0: 2}[sound[1] & 0x18]  # MPEG 1, 2 and 2.5
    rate = (44_100, 48_000, 32_000)[sound[2] >> 2 & 3] >> halvings
    return Recording("MP3", rate, 1 if sound[3] >> 6 == 3 else 2, 0, sound)
