"""The caps on a request: counts, bytes, pixels, samples and, of the function's own memory, a share.

A small file may ask for much: a thousand empty scans of a JPEG, a picture of one row that is resized. So what a file
would take is told from its header, and a body from its counts, and what is over a cap is refused before anything is
decoded or allocated. Within the caps the work is in proportion to the pixels or samples, and these to the function's
memory, as its share of a processor is: a file at the cap takes some ``FILE_SECONDS`` on a function of any size.
"""

from __future__ import annotations

from collections.abc import Sequence

from .errors import OutOfTimeError, OverBudgetError, StartupError, TextTooLongError
from .tuples import NamedTuple

MAX_PIXELS = 50_000_000
MAX_SIDE = 32_768
"""Pixels of a side, as an image is sent and once all of it is resized."""
PIXELS_PER_MB = 25_000
"""At DECODE_BYTES each they are MEMORY_SHARE, too."""
DECODE_BYTES = 25
"""Bytes of memory for each pixel, at most: of a rotated WebP with alpha."""
RESIZE_BYTES = 15
"""Bytes for each pixel while a picture is resized: itself, and a band of it as floats."""
BETWEEN_BYTES = 24
"""Bytes for each value between the two passes of a resize: a float, its part of a sum, and what these were made of."""
SAMPLES_PER_MB = 35_000
"""Samples of a recording, of all channels: at one whole processor an hour of 16,000 a second."""
MAX_SAMPLES = 62_000_000
MAX_TAPS = 1_000_000
"""Numbers of a filter between two rates, computed for them: rates up to 48,000 Hz have fewer, whatever they are."""
CROSSINGS = 10
"""Of the filter's sinc, on either side: as in builder/runtime/audio/resample.c."""
FILE_SECONDS = 5.0
"""What a file at the cap takes of the function's time; another takes as much less as it has fewer pixels or samples."""
RECORDING_PER_MB = 100_000
"""Bytes of a recording's file for each MB of the function's memory."""
CHARACTERS_PER_MB = 1_000
"""Characters of a text for each MB of the function's memory."""
TEXTS_TOGETHER = 4
"""Of the characters that one text may have, how many times as many all of a request's may have."""
LOCATED_TOKEN = 700
"""Bytes of memory for each token whose place is asked for: the place, and a word in the answer."""
TRACED_CHARACTER = 160
"""Bytes of memory for each character of the longest text in which words are looked for that a model's steps make."""
MOST_COMPARISONS = 1_000_000_000
"""Comparisons of a character with one of a pattern in one step over texts: they take some seconds."""
MEMORY_SHARE = 0.6
"""Of the function's memory for one request; the rest is the interpreter's, the model's and the event's."""
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
"""All that are known here; COLDFORGE_FORMATS may leave some out."""

JSON_VALUE = 72
"""Bytes of a value of JSON once it is parsed: an empty list or object, and the reference to it."""
ANSWER_CHARACTER = 24
"""Bytes for each character of an answer's shortest text: numbers as objects, in lists, and written out."""


class FileCost(NamedTuple):
    """What a file would take: ``bytes`` of memory, and as a ``share`` of the most pixels or samples its work."""

    bytes: float
    share: float


class RequestLimits(NamedTuple):
    """What one request may ask for. Of an animation only the first frame is read, however many there are."""

    encoded: int = 10_000_000  # bytes of one image file; Lambda's own limit on a request is about 4.5 MB of image
    pixels: int = MAX_PIXELS
    images: int = 64
    recording: int = 100_000_000  # bytes of one recording's file
    recorded_seconds: int = 3_600  # of one recording
    characters: int = 1_000_000  # of one text
    items: int = 4096  # of tensors, in as many runs as the compiled batch makes of them
    formats: tuple[str, ...] = FORMATS
    memory: int = int(10_240 * 2**20 * MEMORY_SHARE)  # bytes; of the largest function
    samples: int = MAX_SAMPLES  # of one recording

    @classmethod
    def for_memory(cls, megabytes: int, formats: str = "") -> RequestLimits:
        """The usual limits, with only as many pixels, samples and bytes as a function of this memory has.

        ``formats``: the ones to take, as in "JPEG, PNG"; empty is all. Raises StartupError.
        """
        named = tuple(name.strip().upper() for name in formats.split(",") if name.strip())
        if unknown := [name for name in named if name not in FORMATS]:
            raise StartupError(
                f"COLDFORGE_FORMATS has {unknown[0]}, which is not one of {', '.join(FORMATS)}: correct it."
            )
        return cls(
            pixels=min(MAX_PIXELS, megabytes * PIXELS_PER_MB),
            recording=min(cls._field_defaults["recording"], megabytes * RECORDING_PER_MB),
            characters=min(cls._field_defaults["characters"], megabytes * CHARACTERS_PER_MB),
            formats=named or FORMATS,
            memory=int(megabytes * 2**20 * MEMORY_SHARE),
            samples=min(MAX_SAMPLES, megabytes * SAMPLES_PER_MB),
        )

    def require_cost(self, cost: FileCost, seconds: float) -> None:
        """Raises OverBudgetError for a file that costs too much, OutOfTimeError where only ``seconds`` are left."""
        if cost.bytes > self.memory or cost.share > 1:
            raise OverBudgetError(
                f"would take about {cost.bytes / 1e6:,.0f} MB and {cost.share:.1f} times the time that one file may; "
                f"at most {self.memory / 1e6:,.0f} MB are allowed"
            )
        if cost.share * FILE_SECONDS > seconds:
            raise OutOfTimeError("would take longer than the time that the function has left")

    def require_memory(self, bytes_needed: int) -> None:
        """Raises OverBudgetError for a request that would take more memory than it is given."""
        if bytes_needed > self.memory:
            raise OverBudgetError(
                f"the request would take {bytes_needed / 1e6:,.0f} MB of memory; one may take at most "
                f"{self.memory / 1e6:,.0f} MB. Send fewer items at a time, or give the function more memory"
            )


LARGEST = RequestLimits()
"""The limits of the largest function."""


def require_comparisons(texts: Sequence[bytes | str], cost: int, slope: int, what: str) -> None:
    """Raises TextTooLongError where ``what``, a pattern, takes too long for ``texts``.

    For one of n characters it compares at most cost·n + slope·n² times, as the builder has found.
    """
    if sum(len(text) * (cost + slope * len(text)) for text in texts) > MOST_COMPARISONS:
        size = sum(map(len, texts))
        raise TextTooLongError(
            f"the text has {size:,} characters, for which {what} would take too long; send a shorter one"
        )


def image_cost(size: tuple[int, int], target: tuple[int, int], limits: RequestLimits) -> FileCost:
    """Return what an image of ``size`` takes that is decoded, and resized to ``target``, by whatever method."""
    (width, height), (to_width, to_height) = size, target
    between = max(max(width, to_width) * to_height, to_width * max(height, to_height))
    pixels = width * height
    return FileCost(max(DECODE_BYTES * pixels, RESIZE_BYTES * pixels + BETWEEN_BYTES * between), pixels / limits.pixels)


def recording_cost(
    frames: int, channels: int, samples: int, ratio: tuple[int, int], windowed: int, limits: RequestLimits
) -> FileCost:
    """Return what a recording of ``frames`` takes that becomes ``samples`` of one channel.

    ``ratio``: the new rate to the old one in lowest terms; zeros where they are the same. ``windowed``: the samples of
    all windows, with what overlaps.
    """
    up, down = ratio
    taps, resampled = (2 * CROSSINGS * max(up, down) + up, samples) if up else (0, 0)
    share = max((frames * channels + resampled) / limits.samples, taps / MAX_TAPS)
    return FileCost(4 * (frames + resampled) + 8 * windowed + 8 * taps, share)
