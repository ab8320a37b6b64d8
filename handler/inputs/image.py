"""Image files, in base64 or elsewhere: one or several in a request, or in the place of the tensor of the image feed."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import TooManyImagesError, WrongFieldError, WrongTypeError
from ..request import File, encoded_file, source
from ..typed import TYPE_CHECKING, Any
from . import Kind

if TYPE_CHECKING:
    from ..budget import Limits
    from ..description import Description


class ImageKind(Kind):
    """``{"image": …}`` and ``{"images": […]}``; elsewhere ``{"b64": …}`` and BYTES."""

    def keys(self, description: Description) -> tuple[str, ...]:
        return ("image", "images")

    def names(self, description: Description) -> tuple[str, ...]:
        return (self.element_input(description),)

    def read(self, event: dict[str, Any], description: Description, limits: Limits) -> dict[str, Any]:
        return {
            "pictures": tuple(
                source(value, where, limits.encoded) for where, value in _listed(event, description, limits)
            )
        }

    def element_input(self, description: Description) -> str:
        return description.image.feed if description.image else ""

    def most_elements(self, limits: Limits) -> int:
        return limits.images

    def is_element(self, value: object) -> bool:
        return isinstance(value, dict) and set(value) == {"b64"}

    def read_elements(
        self, values: Sequence[Any], where: str, description: Description, limits: Limits
    ) -> dict[str, Any]:
        if len(values) > limits.images:
            raise TooManyImagesError(
                f"{where} has {len(values)} pictures; at most {limits.images} are allowed at a time"
            )
        places = [(value, f"{where}[{index}]") for index, value in enumerate(values)]
        return {
            "pictures": tuple(
                File(value, place) if isinstance(value, bytes) else encoded_file(value, place, limits.encoded)
                for value, place in places
            )
        }


def require_count(count: int, where: str, limits: Limits) -> None:
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
    require_count(len(images), '"images"', limits)
    if len(description.feeds) > 1 and len(images) > description.batch:
        raise TooManyImagesError(
            f'"images" has {len(images)}; with "inputs" beside them at most {description.batch} are allowed'
        )
    return [(f'"images"[{index}]', value) for index, value in enumerate(images)]


KIND = ImageKind()
