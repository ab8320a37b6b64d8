"""Image files, in base64 or elsewhere: one or several in a request, or in the place of the tensor of the image feed."""

from __future__ import annotations

from collections.abc import Sequence

from ..deadline import seconds_left
from ..errors import TooManyImagesError, WrongFieldError, WrongTypeError
from ..image import format_of, read
from ..request import File, Request, encoded_file, source
from ..typed import TYPE_CHECKING, Any
from . import Kind, require_files

if TYPE_CHECKING:
    from ..budget import Limits
    from ..description import Description
    from ..server import Call, Server


class ImageKind(Kind):
    """``{"image": …}`` and ``{"images": […]}``; elsewhere ``{"b64": …}`` and BYTES."""

    example = '{"image": "<base64>"}'

    def keys(self, description: Description) -> tuple[str, ...]:
        return ("image", "images")

    def schema(self, limits: Limits) -> dict[str, Any]:
        return super().schema(limits) | {"format": "image-base64"}

    def media(self, description: Description) -> tuple[str, ...]:
        return ("image/", "application/octet-stream", "multipart/form-data")

    def recognises(self, data: bytes) -> bool:
        return format_of(data) is not None

    def read_files(self, files: Sequence[File], description: Description, limits: Limits) -> dict[str, Any]:
        require_files(files, "picture")
        _require_count(len(files), "the form", limits)
        if not self.stands_alone(description):
            raise WrongFieldError("this model takes tensors beside the picture; send JSON with both")
        return {"pictures": tuple(files)}

    def names(self, description: Description) -> tuple[str, ...]:
        return (self.element_input(description),)

    def read(self, event: dict[str, Any], description: Description, limits: Limits) -> dict[str, Any]:
        listed = _listed(event, description, limits)
        return {"pictures": tuple(source(value, where, limits.encoded) for where, value in listed)}

    def element_input(self, description: Description) -> str:
        return description.image.feed if description.image else ""

    def most_elements(self, limits: Limits) -> int:
        return limits.images

    def is_element(self, value: object) -> bool:
        return isinstance(value, dict) and set(value) == {"b64"}

    def read_elements(self, values: Sequence[Any], description: Description, limits: Limits) -> dict[str, Any]:
        where = f'"{self.element_input(description)}"'
        if len(values) > limits.images:
            raise TooManyImagesError(
                f"{where} has {len(values)} pictures; at most {limits.images} are allowed at a time"
            )
        files = [(value, f"{where}[{index}]") for index, value in enumerate(values)]
        return {"pictures": tuple(_file(value, place, limits) for value, place in files)}

    def fill(self, part: Request, server: Server, call: Call) -> Request:
        """Decode the files, all of which are here by now."""
        image, files = server.described(part).image, [file for file in part.pictures if isinstance(file, File)]
        if image is None or not files:
            return part
        limits, left = server.limits, call.remaining_ms
        found = [read(file.data, file.where, image, limits, seconds_left(left())) for file in files]
        pixels = b"".join([one.data for one in found])
        return part._replace(inputs=part.inputs | {image.feed: pixels}, image_sizes=tuple(one.size for one in found))


def _file(value: object, where: str, limits: Limits) -> File:
    return File(value, where) if isinstance(value, bytes) else encoded_file(value, where, limits.encoded)


def _require_count(count: int, where: str, limits: Limits) -> None:
    """Raises TooManyImagesError for more files than one request may hold."""
    if count > limits.images:
        raise TooManyImagesError(f"{where} has {count}; at most {limits.images} are allowed at a time")


def _listed(event: dict[str, Any], description: Description, limits: Limits) -> list[tuple[str, object]]:
    """The files, and how messages name each."""
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
