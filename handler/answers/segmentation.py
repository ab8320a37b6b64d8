"""The class of each pixel of the image that was sent, however ``fit`` changed it: as a PNG, or as run lengths."""

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
"""The class of the pixels that ``cover`` cuts off, which the model does not see."""
_ROUNDING = 1e-9  # of a pixel
_MOST_RUNS = ANSWER_LIMIT // len("0, 0, ")


def format_answer(output: Output, item: ItemOutputs) -> dict[str, Any]:
    """Return the image's size, and its classes with each one's share of pixels, the largest first.

    png: the class map, in base64. rle: COCO's run lengths for each class, column by column, other classes' pixels
    first. Raises AnswerTooLargeError.
    """
    data, (height, width) = item.get_values(output.fetch)
    class_map = restore_class_map(bytes(data), (width, height), make_frame(item))
    area = class_map.width * class_map.height
    present = sorted(((count, number) for number, count in enumerate(class_map.histogram()) if count), reverse=True)
    classes: list[dict[str, Any]] = [
        {"class": number, "label": _label(output, number), "share": round(count / area, 6)} for count, number in present
    ]
    answer: dict[str, Any] = {"width": class_map.width, "height": class_map.height, "classes": classes}
    if output.format == "rle":
        runs = run_lengths(class_map)
        for row in classes:
            row["rle"] = {"size": [class_map.height, class_map.width], "counts": runs[row["class"]]}
        return answer
    return answer | {"png": _encode_png(class_map)}


def compute_min_length(output: Output, ports: Mapping[str, Port]) -> int:
    """Return the least characters that ``format_answer`` gives."""
    return len('{"width": 1, "height": 1, "classes": []}')


def restore_class_map(data: bytes, size: tuple[int, int], place: Frame) -> Image:
    """Resize the class map ``data`` of ``size`` (width, height) to the image, each pixel of the nearest class."""
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
    """Return the first pixel along an axis whose middle the model sees and the end of them, and both edges in a map.

    The edges are positions in a class map of ``length`` along that axis.
    """
    fit = place.fit
    part, begin = fit.find_visible_part(place.shown), fit.box[axis]
    scale = fit.size[axis] / (fit.box[axis + 2] - begin)
    shown = begin + part[axis] / scale, begin + part[axis + 2] / scale
    first, end = math.ceil(shown[0] - 0.5 + _ROUNDING), math.ceil(shown[1] - 0.5 - _ROUNDING)
    narrow = first >= end  # less than a pixel: the pixel that it is part of
    if narrow:
        first = min(int(sum(shown) / 2), place.size[axis] - 1)
        end = first + 1
    finer = length / place.shown[axis]
    start, stop = (((edge - begin) * scale + fit.offset[axis]) * finer for edge in (first, end))
    return (first, end, max(start, 0.0), min(stop, length)) if narrow else (first, end, start, stop)


def run_lengths(found: Image) -> dict[int, list[int]]:
    """Return COCO's counts for each class that occurs. Raises AnswerTooLargeError."""
    from PIL import Image

    data = found.transpose(Image.Transpose.TRANSPOSE).tobytes()  # column by column
    counts: dict[int, list[int]] = {}
    ends: dict[int, int] = {}
    # A pattern for each class matches a whole run; a pattern for any class would match each byte.
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
    """Return the colours of PASCAL VOC, which tell each class from its neighbours."""
    colours = bytearray()
    for number in range(256):
        for channel in range(3):
            bits = (number >> (3 * place + channel) & 1 for place in range(3))
            colours.append(sum(bit << 7 - place for place, bit in enumerate(bits)))
    return bytes(colours)


def _label(output: Output, number: int) -> str:
    return output.labels[number] if number < len(output.labels) else "" if number == UNSEEN else str(number)
