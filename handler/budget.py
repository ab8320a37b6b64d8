"""What one request may take: counts, bytes, pixels, seconds, and, of the function's own memory and time, a share.

A small file may ask for much: a thousand empty scans of a JPEG, a picture of one row that is resized. So the cost of a
picture is estimated from its header, and of a body from its counts, and what is over budget is refused before anything
is decoded or allocated. Rates are nanoseconds of one whole processor, measured by ``python -m benchmarks.pictures``
(Pillow 13.0 with libjpeg-turbo on a Xeon of 3 GHz, 24 million pixels) and rounded up; bytes are peaks of memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .errors import OutOfTimeError, OverBudgetError, StartupError, TextTooLongError
from .tuples import NamedTuple

MAX_PIXELS = 50_000_000
MAX_SIDE = 32_768
DECODE_BYTES = 25
"""Bytes of memory for each pixel, at most: of a rotated WebP with alpha."""
PIXELS_PER_MB = 25_000
"""At DECODE_BYTES each they are MEMORY_SHARE, too."""
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
PICTURE_SECONDS = 5.0
"""Of the function's time, at its own speed, for one file."""
WHOLE_PROCESSOR_MB = 1769
"""Lambda's share of a processor grows with memory, and is one whole processor from here on (AWS's documentation)."""
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
"""All that are known here; COLDFORGE_FORMATS may leave some out."""

DECODE_PIXEL = {"Jpeg": 18.0, "Png": 36.0, "WebP": 26.0, "Gif": 24.0, "Bmp": 16.0}
"""A pixel decoded, in the model's colours and upright. By Pillow's plugin."""
DECODE_BYTE = {"Jpeg": 60.0, "Png": 25.0, "WebP": 100.0, "Gif": 6.0, "Bmp": 3.0}
"""A byte of the file; of a JPEG, where it is progressive and so visits every block again."""
SCAN_PIXEL = 0.5
"""A pixel of a JPEG in each further scan, of four components and without any data."""
STEP = 10_000.0
"""A piece of the file that Pillow looks at in Python: a segment, chunk or block before the picture."""
FILTER_TAP = 1.5
"""A tap of Pillow's filters along a row: a pixel of bytes, or a float of one band."""
FILTER_TAP_DOWN = 6.0
"""The same along a column, where each tap lies in another row of memory."""
BAND_PIXEL = 3.0
"""A pixel of a band, cut out of the picture and made a float."""
READ_PIXEL = 2.0
"""A pixel of a picture whose rows or columns are picked."""
PICKED_PIXEL = 14.0
"""A pixel of those that are, put together and transposed."""
SUM_TAP = 16.0
"""A float that is weighted and added, where Pillow has no filter; three passes over memory."""
SUM_BYTES = 24
"""Of each such float: itself, its part, and what these were made of."""
SUM_CALL = 100_000.0
"""Such a sum over a whole picture, however small."""
LINE = 3_000.0
"""A row or column whose place and weight are looked up in Python."""

AUDIO_SAMPLE = {"WAV": 15.0, "FLAC": 60.0}
"""A sample of each channel decoded, and put into windows."""
RESAMPLE_TAP = 4.0
"""A sample times one number of a filter."""
MADE_TAP = 150.0
"""One number of a filter, computed for two rates."""
CROSSINGS = 10
"""Of the filter's sinc, on either side: as in builder/runtime/audio/resample.c."""

FILL_BYTE = 3.0
"""A byte of an input that is filled up, along each axis in which it is smaller."""
FILL_ROW = 400.0
"""A row of it, in Python."""

JSON_VALUE = 72
"""Bytes of a value of JSON once it is parsed: an empty list or object, and the reference to it."""
ANSWER_CHARACTER = 24
"""Bytes for each character of an answer's shortest text: numbers as objects, in lists, and written out."""


class Cost(NamedTuple):
    """``bytes``: of memory, at once. ``nanoseconds``: of a whole processor."""

    bytes: float
    nanoseconds: float


class Limits(NamedTuple):
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
    seconds: float = PICTURE_SECONDS  # for one file
    speed: float = 1.0  # the part of a processor that the function has, for one thread

    @classmethod
    def for_memory(cls, megabytes: int, formats: str = "") -> Limits:
        """The usual limits, with only as many pixels, bytes and calculations as a function of this memory has.

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
            speed=min(1.0, megabytes / WHOLE_PROCESSOR_MB),
        )

    def require(self, cost: Cost, seconds: float) -> None:
        """Raises OverBudgetError for a file that costs too much, OutOfTimeError where only ``seconds`` are left."""
        needed = cost.nanoseconds / 1e9 / self.speed
        if cost.bytes > self.memory or needed > self.seconds:
            raise OverBudgetError(
                f"would take about {needed:.1f} s and {cost.bytes / 1e6:,.0f} MB to decode; "
                f"one file may take at most {self.seconds:g} s and {self.memory / 1e6:,.0f} MB"
            )
        if needed > seconds:
            raise OutOfTimeError("would take longer than the time that the function has left")

    def require_memory(self, bytes_needed: int) -> None:
        """Raises OverBudgetError for a request that would take more memory than it is given."""
        if bytes_needed > self.memory:
            raise OverBudgetError(
                f"the request would take {bytes_needed / 1e6:,.0f} MB of memory; one may take at most "
                f"{self.memory / 1e6:,.0f} MB. Send fewer items at a time, or give the function more memory"
            )


LARGEST = Limits()
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


def decoding(plugin: str, size: tuple[int, int], file_bytes: int, scans: int = 1, steps: int = 0) -> Cost:
    """A file of ``size`` pixels, decoded by Pillow's ``plugin``."""
    pixels = size[0] * size[1]
    time = pixels * DECODE_PIXEL[plugin] + file_bytes * DECODE_BYTE[plugin] + pixels * max(scans - 1, 0) * SCAN_PIXEL
    return Cost(pixels * DECODE_BYTES, time + steps * STEP)


def recorded(format_: str, frames: int, channels: int, samples: int, ratio: tuple[int, int], windowed: int) -> Cost:
    """A recording of ``frames``, decoded and resampled to ``samples`` of one channel, ``windowed`` with what overlaps.

    ``ratio``: the new rate to the old one in lowest terms; zeros where they are the same.
    """
    up, down = ratio
    taps = 2 * CROSSINGS * max(up, down) + up
    time = frames * channels * AUDIO_SAMPLE[format_] + windowed * AUDIO_SAMPLE["WAV"]
    if up:
        time += MADE_TAP * taps + RESAMPLE_TAP * samples * taps / up
    return Cost(4 * (frames + (samples if up else 0)) + 8 * windowed + 8 * (taps if up else 0), time)


def resizing(size: tuple[float, float], target: tuple[int, int], method: str, antialias: bool, channels: int) -> Cost:
    """A picture of ``size``, or that part of one, resized to ``target`` as ``resize`` does it, the picture with it.

    ``channels``: 1 or 3.
    """
    (width, height), (to_width, to_height) = size, target
    stored = 4 if channels == 3 else 1  # bytes of a pixel in Pillow
    if method in ("nearest", "area") or not antialias:
        across, down = _taps(method, width, to_width), _taps(method, height, to_height)
        columns, rows = min(width, across * to_width), min(height, down * to_height)
        gathered = width * height * stored + width * rows * (3 * stored + channels)
        looked_at = (
            READ_PIXEL * width * height + PICKED_PIXEL * width * rows + LINE * (width + height + to_width + to_height)
        )
        if method == "nearest":
            return Cost(gathered, looked_at)
        floats = down * columns * to_height + across * to_width * to_height
        held = width * height * stored + width * rows * (stored + channels)
        return Cost(
            max(gathered, held + SUM_BYTES * max(columns, to_width) * to_height),
            looked_at + channels * (SUM_TAP * floats + SUM_CALL * (across + down)),
        )
    between, filtering = _filtered((width, height), target, method)
    if method == "bilinear":
        return Cost(stored * (2 * width * height + between), filtering)
    bytes_needed = (2 * stored + channels + 4) * width * height + 4 * between + 4 * channels * to_width * to_height
    return Cost(bytes_needed, channels * (filtering + BAND_PIXEL * width * height))


def _filtered(size: tuple[float, float], target: tuple[int, int], method: str) -> tuple[float, float]:
    """Pixels between the two passes of Pillow's filter, which begins with the axis that makes fewer taps; and time."""
    (width, height), (to_width, to_height) = size, target
    across, down = (_support(method, *axis) for axis in ((width, to_width), (height, to_height)))
    rows_first = to_width * height * across, to_width * to_height * down
    columns_first = to_width * to_height * across, width * to_height * down
    rows_come_first = sum(rows_first) <= sum(columns_first)
    along_rows, along_columns = rows_first if rows_come_first else columns_first
    between = to_width * height if rows_come_first else width * to_height
    return between, FILTER_TAP * along_rows + FILTER_TAP_DOWN * along_columns


def _support(method: str, source: float, target: int) -> int:
    """How many pixels Pillow's filter looks at for one."""
    radius = {"bilinear": 1, "bicubic": 2, "lanczos": 3}[method]
    return min(math.ceil(source), 2 * math.ceil(radius * max(source / target, 1)) + 1)


def _taps(method: str, source: float, target: int) -> int:
    """How many pixels are weighted for one without antialiasing, or for area."""
    if method == "area":
        return math.ceil(source / target) + 1
    return {"nearest": 1, "bilinear": 2, "bicubic": 4, "lanczos": 6}[method]
