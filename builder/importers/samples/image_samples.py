"""A user's images, perhaps in a folder for each label, as the function decodes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from builder.base.arrays import Array
from builder.base.errors import UsageError
from builder.config import ImageSpec, ModelSpec
from builder.importers.samples.labelled_folder import list_labelled_files

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp"}


def read_labelled_images(
    folder: Path, spec: ModelSpec, most: int | None = None
) -> tuple[Array, NDArray[np.int64] | None, str]:
    """Return the images in ``folder``, or in its folders, whose names are labels: uint8 [n, height, width, channels].

    The classes and the name of the output with these labels follow, if there are labels. ``most``: the largest number,
    evenly from all. Raises UsageError if there are no images, or if a folder's name is not a label.
    """
    assert spec.image is not None
    files, labels, output = list_labelled_files(folder, spec, SUFFIXES, "pictures")
    if most is not None and len(files) > most:
        indices = [int(i) for i in np.linspace(0, len(files) - 1, most)]
        files, labels = [files[i] for i in indices], None if labels is None else labels[indices]
    return np.stack([decode_image(file.read_bytes(), spec.image, str(file)) for file in files]), labels, output


def decode_image(data: bytes, image: ImageSpec, where: str = "a picture") -> Array:
    """Decode the image file ``data`` as the function does: uint8 [height, width, channels]; ``where`` names it.

    Raises UsageError if it cannot be decoded.
    """
    from handler.budget import RequestLimits
    from handler.description import ImageInput as Target
    from handler.errors import HandlerError
    from handler.image import read_pixels

    target = Target(**{name: getattr(image, name) for name in Target._fields})._replace(feed=image.feed or "")
    try:
        pixels = read_pixels(data, where, target, RequestLimits())
    except HandlerError as error:
        raise UsageError(f"{error.message}.") from error
    return np.frombuffer(pixels, np.uint8).reshape(image.height, image.width, image.channels)
