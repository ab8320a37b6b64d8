"""The caps on a request: counts, bytes, pixels, samples and a share of the function's memory.

A small file may ask for much, such as a JPEG of a thousand empty scans, or a resized image of one row. So a file's cost
is estimated from its header, a body's from its counts, and anything over a cap is refused before it is decoded or
allocated. Within the caps, the work is proportional to the pixels or samples, and these caps to the function's
memory, as is its share of a processor: a file at the cap takes about ``FILE_SECONDS`` on a function of any size.
"""

from __future__ import annotations

from collections.abc import Sequence

from .errors import OutOfTimeError, OverBudgetError, StartupError, TextTooLongError
from .named_tuples import NamedTuple

MAX_PIXELS = 50_000_000
MAX_SIDE = 32_768
"""Pixels of a side, both as an image is sent and after all of it is resized."""
PIXELS_PER_MB = 25_000
"""Pixels for each MB of the function's memory; at DECODE_BYTES each they take MEMORY_SHARE of it."""
DECODE_BYTES = 25
"""Bytes of memory at most for each pixel, which a rotated WebP with alpha takes."""
RESIZE_BYTES = 15
"""Bytes for each pixel while an image is resized: the image itself, and a band of it as floats."""
BETWEEN_BYTES = 24
"""Bytes for each value between the two passes of a resize: a float, its part of a sum, and their operands."""
SAMPLES_PER_MB = 35_000
"""Samples of a recording, of all channels, for each MB: at one whole processor an hour at 16,000 Hz."""
MAX_SAMPLES = 62_000_000
MAX_TAPS = 1_000_000
"""Values of a filter between two sample rates; any rates up to 48,000 Hz need fewer."""
CROSSINGS = 10
"""Zero crossings of the filter's sinc on either side, as in builder/runtime/audio/resample.c."""
FILE_SECONDS = 5.0
"""Seconds for a file at the cap; one with fewer pixels or samples takes proportionally less."""
RECORDING_PER_MB = 100_000
"""Bytes of a recording's file for each MB of the function's memory."""
CHARACTERS_PER_MB = 1_000
"""Characters of a text for each MB of the function's memory."""
TEXTS_TOGETHER = 4
"""The characters of all texts of a request at most, in multiples of those of one text."""
LOCATED_TOKEN = 700
"""Bytes of memory for each token whose place is wanted: the place, and a word in the answer."""
TRACED_CHARACTER = 160
"""Bytes of memory for each character of the longest text in which the words of a model's own steps are located."""
MOST_COMPARISONS = 1_000_000_000
"""Comparisons of a character with one of a pattern in one step over texts, which take some seconds."""
MEMORY_SHARE = 0.6
"""The share of the function's memory for one request; the interpreter, the model and the event take the rest."""
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
"""All supported formats; COLDFORGE_FORMATS may leave some out."""

JSON_VALUE = 72
"""Bytes of a parsed JSON value: an empty list or object, and the reference to it."""
ANSWER_CHARACTER = 24
"""Bytes for each character of an answer's shortest text: numbers as objects, in lists, and as text."""


class FileCost(NamedTuple):
    """The cost of a file: ``bytes`` of memory, and its work as a ``share`` of the most pixels or samples."""

    bytes: float
    share: float


class RequestLimits(NamedTuple):
    """The limits of one request. Only the first frame of an animation is read, so its other frames do not count."""

    encoded: int = 10_000_000  # bytes of one image file; Lambda's own limit on a request is about 4.5 MB of image
    pixels: int = MAX_PIXELS
    images: int = 64
    recording: int = 100_000_000  # bytes of one recording's file
    recorded_seconds: int = 3_600  # of one recording
    characters: int = 1_000_000  # of one text
    items: int = 4096  # of tensors, in as many runs as the compiled batch needs for them
    formats: tuple[str, ...] = FORMATS
    memory: int = int(10_240 * 2**20 * MEMORY_SHARE)  # bytes; of the largest function
    samples: int = MAX_SAMPLES  # of one recording

    @classmethod
    def for_memory(cls, megabytes: int, formats: str = "") -> RequestLimits:
        """Return the usual limits, with pixels, samples and bytes scaled to a function of this memory.

        ``formats``: the accepted ones, as in "JPEG, PNG"; empty means all. Raises StartupError.
        """
        accepted = tuple(name.strip().upper() for name in formats.split(",") if name.strip())
        if unknown := [name for name in accepted if name not in FORMATS]:
            raise StartupError(
                f"COLDFORGE_FORMATS has {unknown[0]}, which is not one of {', '.join(FORMATS)}: correct it."
            )
        return cls(
            pixels=min(MAX_PIXELS, megabytes * PIXELS_PER_MB),
            recording=min(cls._field_defaults["recording"], megabytes * RECORDING_PER_MB),
            characters=min(cls._field_defaults["characters"], megabytes * CHARACTERS_PER_MB),
            formats=accepted or FORMATS,
            memory=int(megabytes * 2**20 * MEMORY_SHARE),
            samples=min(MAX_SAMPLES, megabytes * SAMPLES_PER_MB),
        )

    def require_cost(self, cost: FileCost, seconds: float) -> None:
        """Raise OverBudgetError for a file that costs too much, OutOfTimeError where only ``seconds`` are left."""
        if cost.bytes > self.memory or cost.share > 1:
            raise OverBudgetError(
                f"would take about {cost.bytes / 1e6:,.0f} MB and {cost.share:.1f} times the time that one file may; "
                f"at most {self.memory / 1e6:,.0f} MB are allowed"
            )
        if cost.share * FILE_SECONDS > seconds:
            raise OutOfTimeError("would take longer than the time that the function has left")

    def require_memory(self, bytes_needed: int) -> None:
        """Raise OverBudgetError for a request that would take more memory than one may."""
        if bytes_needed > self.memory:
            raise OverBudgetError(
                f"the request would take {bytes_needed / 1e6:,.0f} MB of memory; one may take at most "
                f"{self.memory / 1e6:,.0f} MB. Send fewer items at a time, or give the function more memory"
            )


LARGEST = RequestLimits()
"""The limits of the largest function."""


def require_comparisons(texts: Sequence[bytes | str], cost: int, slope: int, what: str) -> None:
    """Raise TextTooLongError where ``what``, a pattern, takes too long for ``texts``.

    For a text of n characters it makes at most cost·n + slope·n² comparisons, as the builder determined.
    """
    if sum(len(text) * (cost + slope * len(text)) for text in texts) > MOST_COMPARISONS:
        size = sum(map(len, texts))
        raise TextTooLongError(
            f"the text has {size:,} characters, for which {what} would take too long; send a shorter one"
        )


def image_cost(size: tuple[int, int], target: tuple[int, int], limits: RequestLimits) -> FileCost:
    """Return the cost of decoding an image of ``size`` and resizing it to ``target``, by any method."""
    (width, height), (to_width, to_height) = size, target
    between = max(max(width, to_width) * to_height, to_width * max(height, to_height))
    pixels = width * height
    return FileCost(max(DECODE_BYTES * pixels, RESIZE_BYTES * pixels + BETWEEN_BYTES * between), pixels / limits.pixels)


def recording_cost(
    frames: int, channels: int, samples: int, ratio: tuple[int, int], windowed: int, limits: RequestLimits
) -> FileCost:
    """Return the cost of a recording of ``frames`` that becomes ``samples`` of one channel.

    ``ratio``: the new rate to the old one in lowest terms; zeros where they are equal. ``windowed``: the samples of
    all windows, counting overlaps.
    """
    up, down = ratio
    taps, resampled = (2 * CROSSINGS * max(up, down) + up, samples) if up else (0, 0)
    share = max((frames * channels + resampled) / limits.samples, taps / MAX_TAPS)
    return FileCost(4 * (frames + resampled) + 8 * windowed + 8 * taps, share)
