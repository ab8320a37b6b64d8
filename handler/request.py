"""One kind of request inside: feeds, run by run. Event shapes are turned into it; only the direct one so far."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from .description import Description, Port
from .errors import HandlerError, TooManyImagesError, WrongFieldError, WrongShapeError, WrongTypeError
from .image import Limits, pixels


@dataclass(frozen=True)
class Request:
    """Pictures, decoded, or tensors; ``inputs`` holds raw bytes by feed name."""

    pictures: tuple[bytes, ...] | None
    inputs: dict[str, bytes]


def parse(event: object, description: Description, limits: Limits) -> Request:
    """``{"image": …}``, ``{"images": […]}`` or ``{"inputs": {…}}``. Raises HandlerError."""
    if not isinstance(event, dict):
        raise WrongTypeError('the request must be an object like {"image": "<base64>"}')
    image = description.image
    known = ("image", "images", "inputs") if image else ("inputs",)
    unknown = [key for key in event if key not in known]
    if unknown or not event:
        expected = 'send "image" or "images"' if image else 'this model takes no image; send "inputs"'
        found = f"{_shortened(unknown)} not known here; " if unknown else "the request is empty; "
        raise WrongFieldError(found + expected)
    if "image" in event and "images" in event:
        raise WrongFieldError('"image" and "images" exclude each other; send one of them')
    pictures = None
    if image and ("image" in event or "images" in event):
        pictures = tuple(pixels(value, where, image, limits) for where, value in _pictures(event, description, limits))
    wanted = [port for port in description.feeds if not (pictures is not None and image and port.name == image.feed)]
    return Request(pictures, _inputs(event.get("inputs", {}), wanted))


def runs(request: Request, description: Description) -> Iterator[tuple[list[bytes], int]]:
    """The feeds of each inference, and how many items of its batch are asked for.

    Pictures fill batch after batch in order; the last one is filled up with zeros.
    """
    image = description.image
    if request.pictures is None or image is None:
        yield [request.inputs[port.name] for port in description.feeds], description.batch
        return
    for start in range(0, len(request.pictures), description.batch):
        part = request.pictures[start : start + description.batch]
        filled = part[0] if description.batch == 1 else b"".join(part).ljust(image.size * description.batch, b"\0")
        yield (
            [filled if port.name == image.feed else request.inputs[port.name] for port in description.feeds],
            len(part),
        )


def _pictures(event: dict[str, object], description: Description, limits: Limits) -> list[tuple[str, object]]:
    if "image" in event:
        return [('"image"', event["image"])]
    images = event["images"]
    if not isinstance(images, list):
        raise WrongTypeError('"images" must be a list of base64 strings; a single picture goes into "image"')
    if not images:
        raise WrongFieldError('"images" is empty')
    if len(images) > limits.images:
        raise TooManyImagesError(f'"images" has {len(images)}; at most {limits.images} are taken at a time')
    if len(description.feeds) > 1 and len(images) > description.batch:
        raise TooManyImagesError(
            f'"images" has {len(images)}; with "inputs" beside them at most {description.batch} are taken'
        )
    return [(f'"images"[{index}]', value) for index, value in enumerate(images)]


def _inputs(value: object, wanted: list[Port]) -> dict[str, bytes]:
    if not isinstance(value, dict):
        raise WrongTypeError('"inputs" must be an object of tensors by name')
    names = {port.name for port in wanted}
    unknown = [name for name in value if name not in names]
    missing = [port.name for port in wanted if port.name not in value]
    if unknown or missing:
        need = ", ".join(f'"{port.name}" ({port.dtype} {list(port.shape)})' for port in wanted) or "nothing"
        found = f"{_shortened(unknown)} not known" if unknown else f'"{missing[0]}" is missing'
        raise WrongFieldError(f'{found} in "inputs"; needed: {need}')
    return {port.name: tensor(value[port.name], port) for port in wanted}


def tensor(value: object, port: Port) -> bytes:
    """Nested lists of ``port.shape``, or one flat list of all elements, as raw bytes. Raises HandlerError."""
    where = f'"inputs"."{port.name}"'
    if isinstance(value, list) and len(value) == port.elements and not any(isinstance(v, list) for v in value):
        flat: list[object] = value
    else:
        flat = []
        _flatten(value, port.shape, port, flat)
    kind = port.dtype
    for number in flat:
        if kind == "bool":
            right = isinstance(number, bool) or number in (0, 1)
        elif kind.startswith("float"):
            right = isinstance(number, int | float) and not isinstance(number, bool)
        else:
            right = isinstance(number, int) and not isinstance(number, bool)
        if not right:
            raise WrongTypeError(f"{where} must hold {kind} only")
    try:
        return struct.pack(f"={len(flat)}{port.format}", *flat)
    except (struct.error, OverflowError):
        raise WrongTypeError(f"{where} holds a number that {kind} cannot") from None


def _flatten(value: object, shape: tuple[int, ...], port: Port, flat: list[object]) -> None:
    if not shape:
        if isinstance(value, list):
            raise _wrong_shape(port)
        flat.append(value)
        return
    if not isinstance(value, list) or len(value) != shape[0]:
        raise _wrong_shape(port)
    for item in value:
        _flatten(item, shape[1:], port, flat)


def _wrong_shape(port: Port) -> HandlerError:
    return WrongShapeError(
        f'"inputs"."{port.name}" must have the shape {list(port.shape)}, or be one list of {port.elements} numbers'
    )


def _shortened(names: list[str]) -> str:
    shown = ", ".join(f'"{name[:40]}"' for name in names[:3])
    return f"{shown}{', …' if len(names) > 3 else ''} {'is' if len(names) == 1 else 'are'}"
