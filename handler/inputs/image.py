"""Image files, in base64 or stored elsewhere: one or several in a request, or in place of the image feed's tensor."""

from __future__ import annotations

from collections.abc import Sequence

from ..deadline import seconds_left
from ..errors import TooManyImagesError, WrongFieldError, WrongTypeError
from ..image import detect_format, read_image
from ..request import File, Request, encoded_file, read_source
from ..typed import TYPE_CHECKING, Any
from . import InputKind, require_files

if TYPE_CHECKING:
    from ..budget import RequestLimits
    from ..description import Description
    from ..server import Invocation, Server


class ImageKind(InputKind):
    """Images as ``{"image": …}`` and ``{"images": […]}``; in other protocols ``{"b64": …}`` and BYTES."""

    example = '{"image": "<base64>"}'

    def list_keys(self, description: Description) -> tuple[str, ...]:
        return ("image", "images")

    def make_schema(self, limits: RequestLimits) -> dict[str, Any]:
        return super().make_schema(limits) | {"format": "image-base64"}

    def list_media_types(self, description: Description) -> tuple[str, ...]:
        return ("image/", "application/octet-stream", "multipart/form-data")

    def recognises_file(self, data: bytes) -> bool:
        return detect_format(data) is not None

    def read_files(self, files: Sequence[File], description: Description, limits: RequestLimits) -> dict[str, Any]:
        require_files(files, "picture")
        _require_count(len(files), "the form", limits)
        if not self.stands_alone(description):
            raise WrongFieldError("this model takes tensors beside the picture; send JSON with both")
        return {"pictures": tuple(files)}

    def list_inputs(self, description: Description) -> tuple[str, ...]:
        return (self.element_input(description),)

    def read_event(self, event: dict[str, Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
        values = _list_files(event, description, limits)
        return {"pictures": tuple(read_source(value, where, limits.encoded) for where, value in values)}

    def element_input(self, description: Description) -> str:
        return description.image.feed if description.image else ""

    def most_elements(self, limits: RequestLimits) -> int:
        return limits.images

    def is_element(self, value: object) -> bool:
        return isinstance(value, dict) and set(value) == {"b64"}

    def read_elements(self, values: Sequence[Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
        where = f'"{self.element_input(description)}"'
        if len(values) > limits.images:
            raise TooManyImagesError(
                f"{where} has {len(values)} pictures; at most {limits.images} are allowed at a time"
            )
        files = [(value, f"{where}[{index}]") for index, value in enumerate(values)]
        return {"pictures": tuple(_read_file(value, place, limits) for value, place in files)}

    def fill_inputs(self, part: Request, server: Server, call: Invocation) -> Request:
        """Decode the files, which have all been fetched by now."""
        image, files = server.describe_request(part).image, [file for file in part.pictures if isinstance(file, File)]
        if image is None or not files:
            return part
        limits, left = server.limits, call.remaining_ms
        items = [read_image(file.data, file.where, image, limits, seconds_left(left())) for file in files]
        pixels = b"".join([item.data for item in items])
        return part._replace(inputs=part.inputs | {image.feed: pixels}, image_sizes=tuple(item.size for item in items))


def _read_file(value: object, where: str, limits: RequestLimits) -> File:
    return File(value, where) if isinstance(value, bytes) else encoded_file(value, where, limits.encoded)


def _require_count(count: int, where: str, limits: RequestLimits) -> None:
    """Raise TooManyImagesError for more files than one request may hold."""
    if count > limits.images:
        raise TooManyImagesError(f"{where} has {count}; at most {limits.images} are allowed at a time")


def _list_files(event: dict[str, Any], description: Description, limits: RequestLimits) -> list[tuple[str, object]]:
    """Return the files, each with its name in messages."""
    if "image" in event:
        return [('"image"', event["image"])]
    images = event["images"]
    if not isinstance(images, list):
        raise WrongTypeError('"images" must be a list of base64 strings; a single picture goes into "image"')
    if not images:
        raise WrongFieldError('"images" is empty')
    _require_count(len(images), '"images"', limits)
    if len(description.feeds) > 1 and len(images) > description.batch:
        raise TooManyImagesError(
            f'"images" has {len(images)}; with "inputs" beside them at most {description.batch} are allowed'
        )
    return [(f'"images"[{index}]', value) for index, value in enumerate(images)]


KIND = ImageKind()
