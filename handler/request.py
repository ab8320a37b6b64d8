"""The one kind of request inside, whatever event or protocol it came by, and what it becomes."""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from dataclasses import dataclass

from .description import Description, Port
from .errors import NotBase64Error, TooLargeError, WrongTypeError
from .image import Limits, pixels


@dataclass(frozen=True)
class Picture:
    """An encoded image file. ``where`` names it in messages, such as ``"images"[2]``."""

    data: bytes
    where: str


@dataclass(frozen=True)
class Request:
    """Pictures for the model's image feed, or none; raw little-endian bytes for each other feed, by name.

    ``inputs`` hold the compiled batch, or, for a model that is ``batched``, the same number of items each.
    ``model`` names one of the bundle's models; None is its first.
    """

    pictures: tuple[Picture, ...]
    inputs: dict[str, bytes]
    model: str | None = None


def picture(value: object, where: str, limits: Limits) -> Picture:
    """The file in ``value``: base64 text, or a ``data:`` URL of it. Raises HandlerError."""
    if not isinstance(value, str):
        raise WrongTypeError(f"{where} must be a string of base64, not {_kind(value)}")
    if value[:5].lower() == "data:":
        head, comma, value = value.partition(",")
        if not comma or not head.lower().endswith(";base64"):
            raise NotBase64Error(f'{where} is a data: URL without ";base64,"')
    # Checked before decoding; whitespace (base64 tools wrap lines) may make this refuse a little early.
    if len(value) > limits.encoded * 3 // 2:
        raise TooLargeError(f"{where} is larger than {limits.encoded:,} bytes")
    try:
        # One line is the usual case; joining copies only when there are more.
        data = binascii.a2b_base64("".join(value.split()), strict_mode=True)
    except ValueError:  # binascii.Error, or letters outside ASCII
        raise NotBase64Error(f"{where} is not base64") from None
    if not data:
        raise NotBase64Error(f"{where} is empty")
    return Picture(data, where)


def decoded(request: Request, description: Description, limits: Limits) -> list[bytes]:
    """The pixels of each picture. Raises HandlerError, which names the picture."""
    image = description.image
    return [pixels(p.data, p.where, image, limits) for p in request.pictures] if image else []


def items(request: Request, description: Description) -> int:
    """How many answers the request asks for."""
    if request.pictures or not description.feeds:
        return len(request.pictures)
    first = description.feeds[0]
    return len(request.inputs[first.name]) * description.batch // first.size if first.size else description.batch


def runs(
    pictures: list[bytes], inputs: dict[str, bytes], description: Description
) -> Iterator[tuple[list[bytes], int]]:
    """The feeds of each inference, and how many items of its batch are asked for.

    Items fill batch after batch in order; the last one is filled up with zeros.
    """
    image, batch = description.image, description.batch
    count = len(pictures) or items(Request((), inputs), description)

    def part(port: Port, start: int) -> bytes:
        if pictures and image and port.name == image.feed:
            data = pictures[start] if batch == 1 else b"".join(pictures[start : start + batch])
        elif len(data := inputs[port.name]) != port.size:
            each = port.size // batch
            data = data[start * each : (start + batch) * each]
        return data.ljust(port.size, b"\0")

    for start in range(0, count, batch):
        yield [part(port, start) for port in description.feeds], min(batch, count - start)


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
