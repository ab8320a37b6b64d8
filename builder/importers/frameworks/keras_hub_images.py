"""What KerasHub's converter of images does, in the words of ``[image]``."""

from __future__ import annotations

from typing import Any

import numpy as np

from builder.base.errors import ImportModelError
from builder.config import ImageSpec
from builder.config.schema import Resize
from builder.importers.frameworks.placed_photographs import (
    make_photographs,
    measure_placement,
    require_near,
    round_numbers,
)
from builder.importers.ports import ImageFacts

HOW_TO_EXPORT = "Load it in Python with KerasHub, write `task.export(folder)`, and name that folder, a SavedModel"

_METHODS: dict[str, Resize] = {
    "nearest": "nearest",
    "bilinear": "bilinear",
    "bicubic": "bicubic",
    "lanczos3": "lanczos",
}


def describe_images(name: str, converter: Any, feed: str, channels: int) -> ImageFacts:
    """Return the section [image] of the input ``feed`` of the preset ``name``.

    Raises ImportModelError if there is none that will do.
    """
    if channels not in (1, 3):
        raise ImportModelError(f"{name} takes images of {channels} channels, not 1 or 3. {HOW_TO_EXPORT}.")
    if converter.image_size is None:
        raise ImportModelError(
            f"{name} takes images of any size, and a function's model has one. Set `task.preprocessor.image_size` in "
            "Python, and save the preset again."
        )
    if converter.interpolation not in _METHODS or converter.pad_to_aspect_ratio:
        how = "pads images and then resizes them" if converter.pad_to_aspect_ratio else "resizes images"
        raise ImportModelError(
            f"{name} {how} by {converter.interpolation}, which the function cannot do. {HOW_TO_EXPORT}."
        )
    scale = np.broadcast_to(np.array(1.0 if converter.scale is None else converter.scale, np.float64), channels)
    offset = np.array(0.0 if converter.offset is None else converter.offset, np.float64)
    height, width = converter.image_size
    image = ImageSpec(
        feed,
        width,
        height,
        mode="grey" if channels == 1 else "rgb",
        scale=round_numbers(scale),
        mean=round_numbers(-offset / scale),
        resize=_METHODS[converter.interpolation],
        antialias=converter.antialias,
        fit="cover" if converter.crop_to_aspect_ratio else "stretch",
    )
    photographs = [photograph.convert("L" if channels == 1 else "RGB") for photograph in make_photographs()]
    levels = [np.asarray(converter(_read_pixels(photograph))) for photograph in photographs]
    facts = measure_placement(image, photographs, [(pixels - offset) / scale for pixels in levels])
    return require_near(facts, f"{name}: its {type(converter).__name__}")


def _read_pixels(photograph: Any) -> Any:
    pixels = np.asarray(photograph)
    return pixels.reshape(*pixels.shape[:2], -1)
