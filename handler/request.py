"""The one kind of request inside, whatever event or protocol it came by, and what it becomes."""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from dataclasses import dataclass

from .description import Description
from .errors import NotBase64Error, TooLargeError, WrongTypeError
from .image import Limits, pixels


@dataclass(frozen=True)
class Picture:
    """An encoded image file. ``where`` names it in messages, such as ``"images"[2]``."""

    data: bytes
    where: str


@dataclass(frozen=True)
class Reference:
    """An image file that is elsewhere. ``kind``: "s3" or "url"; ``address`` is unchecked, and may be a secret."""

    kind: str
    address: str
    where: str


@dataclass(frozen=True)
class Request:
    """Pictures for the model's image feed, or none; raw little-endian bytes for each other feed, by name.

    ``model`` names one of the bundle's models; None is its first.
    """

    pictures: tuple[Picture | Reference, ...]
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


def source(value: object, where: str, limits: Limits) -> Picture | Reference:
    """As ``picture``, and for {"s3": …} and {"url": …} where the file is. Raises HandlerError."""
    if not isinstance(value, dict):
        return picture(value, where, limits)
    kind, address = next(iter(value.items())) if len(value) == 1 else (None, None)
    if kind not in ("s3", "url") or not isinstance(address, str):
        raise WrongTypeError(f'{where} must be base64, {{"s3": "s3://bucket/key"}} or {{"url": "https://…"}}')
    return Reference(str(kind), address, where)


def decoded(request: Request, description: Description, limits: Limits) -> list[bytes]:
    """The pixels of each picture; all of them are here by now. Raises HandlerError, which names the picture."""
    image = description.image
    pictures = [p for p in request.pictures if isinstance(p, Picture)]
    return [pixels(p.data, p.where, image, limits) for p in pictures] if image else []


def runs(
    pictures: list[bytes], inputs: dict[str, bytes], description: Description
) -> Iterator[tuple[list[bytes], int]]:
    """The feeds of each inference, and how many items of its batch are asked for.

    Pictures fill batch after batch in order; the last one is filled up with zeros.
    """
    image = description.image
    if not pictures or image is None:
        yield [inputs[port.name] for port in description.feeds], description.batch
        return
    for start in range(0, len(pictures), description.batch):
        part = pictures[start : start + description.batch]
        filled = part[0] if description.batch == 1 else b"".join(part).ljust(image.size * description.batch, b"\0")
        yield [filled if port.name == image.feed else inputs[port.name] for port in description.feeds], len(part)


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
