"""Photographs that tell how far the pixels by a section [image] are from those of a published image processor."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.config import ImageSpec
from builder.importers.ports import ImageFacts
from builder.importers.samples.golden_inputs import PHOTOGRAPHS
from builder.importers.samples.labelled_samples import decode_image
from handler import description as _description  # noqa: F401 - ``decode_image`` needs both, and a job in the sandbox
from handler import image as _image  # noqa: F401 - may not read the function's folder later.

_FAR = 3.0
"""Levels by which photographs are off on average if they are placed wrongly; right ones are off by less than 1."""

_SIZES = ((450, 300), (512, 500), (300, 450), (97, 130))
"""Widths and heights of the photographs that tell placements apart; the first is 3 : 2."""


def make_photographs() -> Iterator[Any]:
    """Yield photographs of several sizes, as Pillow's RGB images."""
    for path, size in zip([*sorted(PHOTOGRAPHS.glob("*.jpg"))] * 2, _SIZES, strict=False):
        with Image.open(path) as opened:
            yield opened.convert("RGB").resize(size)


def measure_placement(image: ImageSpec, photographs: Sequence[Any], levels: Sequence[Array]) -> ImageFacts:
    """Return how far the function's pixels are from the published ones, ``levels`` [height, width, channels]."""
    errors = []
    for photograph, wanted in zip(photographs, levels, strict=True):
        file = io.BytesIO()
        photograph.save(file, "PNG")
        errors.append(np.abs(decode_image(file.getvalue(), image) - wanted))
    return ImageFacts(image, float(np.mean(errors)), float(np.max(errors)))


def require_near(facts: ImageFacts, who: str) -> ImageFacts:
    """Return ``facts``. Raises ImportModelError, about the processor ``who``, if it places photographs elsewhere."""
    if facts.mean > _FAR:
        raise ImportModelError(
            f"{who} places images as no section [image] can: photographs are off by {facts.mean:.0f} of 255 levels, on "
            "average."
        )
    return facts


def round_numbers(values: Array) -> tuple[float, ...]:
    """Return ``values`` as ``round_number`` does; one alone if all are the same."""
    rounded = tuple(map(round_number, values))
    return rounded[:1] if len(set(rounded)) == 1 else rounded


def round_number(value: float) -> float:
    """Return ``value`` with as many digits as float32 has."""
    return float(f"{value:.7g}") + 0.0  # Not -0.
