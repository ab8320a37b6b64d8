"""The class of each pixel of the image that was sent, however ``fit`` changed it: as a PNG, or as run lengths."""

from __future__ import annotations

import binascii
import io
import math
import re

from ..answer import ANSWER_LIMIT, ItemOutputs
from ..crop import Frame, make_frame
from ..description import Output
from ..errors import AnswerTooLargeError
from ..typed import TYPE_CHECKING, Any

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
    class_map = restore_class_map(bytes(data), (width, height), make_frame(item.description, item.size))
    area = class_map.width * class_map.height
    present = sorted(((count, number) for number, count in enumerate(class_map.histogram()) if count), reverse=True)
    classes: list[dict[str, Any]] = [
        {"class": number, "label": _name_class(output, number), "share": round(count / area, 6)}
        for count, number in present
    ]
    answer: dict[str, Any] = {"width": class_map.width, "height": class_map.height, "classes": classes}
    if output.format == "rle":
        runs = run_lengths(class_map)
        for row in classes:
            row["rle"] = {"size": [class_map.height, class_map.width], "counts": runs[row["class"]]}
        return answer
    return answer | {"png": _encode_png(class_map)}


def restore_class_map(data: bytes, size: tuple[int, int], frame: Frame) -> Image:
    """Resize the class map ``data`` of ``size`` (width, height) to the image, each pixel of the nearest class."""
    from PIL import Image

    (left, right, *columns), (top, bottom, *rows) = (_find_seen_range(frame, axis, size[axis]) for axis in (0, 1))
    extent = columns[0], rows[0], columns[1], rows[1]
    seen = Image.frombytes("L", size, data)
    seen = seen.transform((right - left, bottom - top), Image.Transform.EXTENT, extent, Image.Resampling.NEAREST)
    if seen.size == frame.size:
        return seen
    whole = Image.new("L", frame.size, UNSEEN)
    whole.paste(seen, (left, top))
    return whole


def _find_seen_range(frame: Frame, axis: int, length: int) -> tuple[int, int, float, float]:
    """Return the first pixel along an axis whose middle the model sees and the end of them, and both edges in a map.

    The edges are positions in a class map of ``length`` along that axis.
    """
    fit = frame.fit
    part, begin = fit.find_visible_part(frame.shown), fit.box[axis]
    scale = fit.size[axis] / (fit.box[axis + 2] - begin)
    shown = begin + part[axis] / scale, begin + part[axis + 2] / scale
    first, end = math.ceil(shown[0] - 0.5 + _ROUNDING), math.ceil(shown[1] - 0.5 - _ROUNDING)
    narrow = first >= end  # less than a pixel: the pixel that it is part of
    if narrow:
        first = min(int(sum(shown) / 2), frame.size[axis] - 1)
        end = first + 1
    finer = length / frame.shown[axis]
    start, stop = (((edge - begin) * scale + fit.offset[axis]) * finer for edge in (first, end))
    return (first, end, max(start, 0.0), min(stop, length)) if narrow else (first, end, start, stop)


def run_lengths(class_map: Image) -> dict[int, list[int]]:
    """Return COCO's counts for each class that occurs. Raises AnswerTooLargeError."""
    from PIL import Image

    data = class_map.transpose(Image.Transpose.TRANSPOSE).tobytes()  # column by column
    counts: dict[int, list[int]] = {}
    ends: dict[int, int] = {}
    # A pattern for each class matches a whole run; a pattern for any class would match each byte.
    present = (number for number, count in enumerate(class_map.histogram()) if count)
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


def _encode_png(class_map: Image) -> str:
    from PIL import PngImagePlugin  # noqa: F401 - the function's decoders are imported one by one, and so are encoders

    class_map.putpalette(_make_palette())
    buffer = io.BytesIO()
    class_map.save(buffer, "PNG", compress_level=1)
    return binascii.b2a_base64(buffer.getvalue(), newline=False).decode()


def _make_palette() -> bytes:
    """Return the colours of PASCAL VOC, which tell each class from its neighbours."""
    colours = bytearray()
    for number in range(256):
        for channel in range(3):
            bits = (number >> (3 * place + channel) & 1 for place in range(3))
            colours.append(sum(bit << 7 - place for place, bit in enumerate(bits)))
    return bytes(colours)


def _name_class(output: Output, number: int) -> str:
    return "" if number == UNSEEN >= len(output.labels) else output.get_label(number)
