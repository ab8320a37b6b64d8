"""The class of each pixel of the picture that was sent, whatever ``fit`` made of it: as a PNG, or in run lengths."""

from __future__ import annotations

import binascii
import io
import math
import re
from collections.abc import Mapping

from ..answer import ANSWER_LIMIT, ItemOutputs
from ..description import Output, Port
from ..errors import AnswerTooLargeError
from ..typed import TYPE_CHECKING, Any
from .frame import Frame, make_frame

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("png", "rle")
UNSEEN = 255
"""The class of pixels that the model was not shown: what ``cover`` cuts off."""
_ROUNDING = 1e-9  # of a pixel
_MOST_RUNS = ANSWER_LIMIT // len("0, 0, ")


def format_answer(output: Output, item: ItemOutputs) -> dict[str, Any]:
    """The picture's size, and its classes with the share of pixels that each has, the largest first.

    png: the class map, in base64. rle: for each class COCO's run lengths, column by column, first of other classes.
    Raises AnswerTooLargeError.
    """
    data, (height, width) = item.get_values(output.fetch)
    found = restore_class_map(bytes(data), (width, height), make_frame(item))
    area = found.width * found.height
    present = sorted(((count, number) for number, count in enumerate(found.histogram()) if count), reverse=True)
    classes: list[dict[str, Any]] = [
        {"class": number, "label": _label(output, number), "share": round(count / area, 6)} for count, number in present
    ]
    told: dict[str, Any] = {"width": found.width, "height": found.height, "classes": classes}
    if output.format == "rle":
        runs = run_lengths(found)
        for one in classes:
            one["rle"] = {"size": [found.height, found.width], "counts": runs[one["class"]]}
        return told
    return told | {"png": _encode_png(found)}


def compute_min_length(output: Output, ports: Mapping[str, Port]) -> int:
    """Characters that ``format_answer`` has at least."""
    return len('{"width": 1, "height": 1, "classes": []}')


def restore_class_map(data: bytes, size: tuple[int, int], place: Frame) -> Image:
    """The class map ``data`` of ``size`` (width, height) as one of the picture, each pixel of the nearest class."""
    from PIL import Image

    (left, right, *columns), (top, bottom, *rows) = (_find_seen_range(place, axis, size[axis]) for axis in (0, 1))
    extent = columns[0], rows[0], columns[1], rows[1]
    seen = Image.frombytes("L", size, data)
    seen = seen.transform((right - left, bottom - top), Image.Transform.EXTENT, extent, Image.Resampling.NEAREST)
    if seen.size == place.size:
        return seen
    whole = Image.new("L", place.size, UNSEEN)
    whole.paste(seen, (left, top))
    return whole


def _find_seen_range(place: Frame, axis: int, length: int) -> tuple[int, int, float, float]:
    """Along an axis, the first pixel of the picture whose middle the model was shown and the end of them; and where
    they begin and end in a map of that ``length``.
    """
    fit = place.fit
    part, begin = fit.find_visible_part(place.shown), fit.box[axis]
    scale = fit.size[axis] / (fit.box[axis + 2] - begin)
    shown = begin + part[axis] / scale, begin + part[axis + 2] / scale
    first, end = math.ceil(shown[0] - 0.5 + _ROUNDING), math.ceil(shown[1] - 0.5 - _ROUNDING)
    narrow = first >= end  # less than a pixel: the one that it is of
    if narrow:
        first = min(int(sum(shown) / 2), place.size[axis] - 1)
        end = first + 1
    finer = length / place.shown[axis]
    start, stop = (((edge - begin) * scale + fit.offset[axis]) * finer for edge in (first, end))
    return (first, end, max(start, 0.0), min(stop, length)) if narrow else (first, end, start, stop)


def run_lengths(found: Image) -> dict[int, list[int]]:
    """COCO's counts for each class that is there. Raises AnswerTooLargeError."""
    from PIL import Image

    data = found.transpose(Image.Transpose.TRANSPOSE).tobytes()  # column by column
    counts: dict[int, list[int]] = {}
    ends: dict[int, int] = {}
    # A pattern for each class takes a run at a time; one for any of them would take a byte at a time.
    present = (number for number, count in enumerate(found.histogram()) if count)
    run_of = re.compile(b"|".join(re.escape(bytes([number])) + b"+" for number in present), re.DOTALL)
    for number, run in enumerate(run_of.finditer(data)):
        if number > _MOST_RUNS:
            raise AnswerTooLargeError("the class map has too many runs for an answer; ask for a PNG")
        start, end = run.span()
        own = counts.setdefault(data[start], [])
        own += [start - ends.get(data[start], 0), end - start]
        ends[data[start]] = end
    for number, end in ends.items():
        if end < len(data):
            counts[number].append(len(data) - end)
    return counts


def _encode_png(found: Image) -> str:
    from PIL import PngImagePlugin  # noqa: F401 - the function's decoders are imported one by one, and so are encoders

    found.putpalette(_make_palette())
    buffer = io.BytesIO()
    found.save(buffer, "PNG", compress_level=1)
    return binascii.b2a_base64(buffer.getvalue(), newline=False).decode()


def _make_palette() -> bytes:
    """The colours of PASCAL VOC, in which each class differs from its neighbours."""
    colours = bytearray()
    for number in range(256):
        for channel in range(3):
            bits = (number >> (3 * place + channel) & 1 for place in range(3))
            colours.append(sum(bit << 7 - place for place, bit in enumerate(bits)))
    return bytes(colours)


def _label(output: Output, number: int) -> str:
    return output.labels[number] if number < len(output.labels) else "" if number == UNSEEN else str(number)
