"""Image files, in base64 or stored elsewhere: one or several in a request, or in place of the image feed's tensor."""

from __future__ import annotations

from collections.abc import Sequence

from ..budget import RequestLimits
from ..description import Description
from ..errors import TooManyImagesError, WrongFieldError, WrongTypeError
from ..image import detect_format, read_image
from ..request import File, Request, encoded_file, read_source
from ..typed import Any
from . import InputKind, RunContext, require_files


def make_kind(description: Description) -> InputKind:
    """Return the kind of ``{"image": …}`` and ``{"images": […]}``; in other protocols ``{"b64": …}`` and BYTES."""
    assert description.image is not None
    return InputKind(
        example='{"image": "<base64>"}',
        keys=("image", "images"),
        replaces=(description.image.feed,),
        element_input=description.image.feed,
        media_types=("image/", "application/octet-stream", "multipart/form-data"),
        stands_alone=len(description.feeds) == 1,
        make_schema=lambda limits: {"type": "string", "contentEncoding": "base64", "format": "image-base64"},
        most_elements=lambda limits: limits.images,
        is_file=lambda data: detect_format(data) is not None,
        is_element=lambda value: isinstance(value, dict) and set(value) == {"b64"},
        read_event=_read_event,
        read_files=_read_files,
        read_elements=_read_elements,
        fill_inputs=_fill_inputs,
    )


def _read_files(files: Sequence[File], description: Description, limits: RequestLimits) -> dict[str, Any]:
    _require_count(len(files), "the form", limits)
    require_files(files, description, "image")
    return {"images": tuple(files)}


def _read_event(event: dict[str, Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
    if "image" in event:
        return {"images": (read_source(event["image"], '"image"', limits.encoded),)}
    images = event["images"]
    if not isinstance(images, list):
        raise WrongTypeError('"images" must be a list of base64 strings; a single image goes into "image"')
    if not images:
        raise WrongFieldError('"images" is empty')
    _require_count(len(images), '"images"', limits)
    if len(description.feeds) > 1 and len(images) > description.batch:
        raise TooManyImagesError(
            f'"images" has {len(images)}; with "inputs" beside them at most {description.batch} are allowed'
        )
    files = [read_source(value, f'"images"[{index}]', limits.encoded) for index, value in enumerate(images)]
    return {"images": tuple(files)}


def _read_elements(values: Sequence[Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
    assert description.image is not None
    where = f'"{description.image.feed}"'
    _require_count(len(values), where, limits, " images")
    return {"images": tuple(_read_file(value, f"{where}[{at}]", limits) for at, value in enumerate(values))}


def _read_file(value: object, where: str, limits: RequestLimits) -> File:
    return File(value, where) if isinstance(value, bytes) else encoded_file(value, where, limits.encoded)


def _require_count(count: int, where: str, limits: RequestLimits, unit: str = "") -> None:
    """Raise TooManyImagesError for more files than one request may hold."""
    if count > limits.images:
        raise TooManyImagesError(f"{where} has {count}{unit}; at most {limits.images} are allowed at a time")


def _fill_inputs(part: Request, context: RunContext) -> Request:
    """Decode the files, which have all been fetched by now."""
    image, files = context.describe_request(part).image, [file for file in part.images if isinstance(file, File)]
    if image is None or not files:
        return part
    items = [read_image(file.data, file.where, image, context.limits, context.count_seconds_left()) for file in files]
    pixels = b"".join([item.data for item in items])
    return part._replace(inputs=part.inputs | {image.feed: pixels}, image_sizes=tuple(item.size for item in items))
