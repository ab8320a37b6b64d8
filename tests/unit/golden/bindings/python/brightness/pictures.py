"""Files of pictures as the pixels that the model takes, by the code of the function. Needs Pillow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import ModelError
from .columns import Array
from .function.budget import RequestLimits
from .function.description import ImageInput
from .function.errors import HandlerError
from .function.image import load_decoders, read_pixels


def decoded(files: Sequence[bytes], target: ImageInput) -> tuple[Array, list[HandlerError | None]]:
    """The files as uint8 [files, bytes of a picture], and what is wrong with each; zeros where something is.

    Raises ModelError without Pillow.
    """
    try:
        load_decoders()
    except ImportError as error:
        raise ModelError("install Pillow: it decodes the files of pictures") from error
    found = np.zeros((len(files), target.size), np.uint8)
    errors: list[HandlerError | None] = [None] * len(files)
    limits = RequestLimits()
    for row, data in enumerate(files):
        try:
            found[row] = np.frombuffer(read_pixels(data, "the picture", target, limits), np.uint8)
        except HandlerError as error:
            errors[row] = error
    return found, errors
