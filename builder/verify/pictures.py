"""A user's pictures, perhaps in a folder for each label, as the function decodes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.errors import UsageError
from builder.spec import ImageInput, ModelSpec, OutputSpec

Array = NDArray[Any]

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp"}


def labelled_pictures(
    folder: Path, spec: ModelSpec, most: int | None = None
) -> tuple[Array, NDArray[np.int64] | None, str]:
    """The pictures in ``folder``, or in its folders, whose names are labels: uint8 [n, height, width, channels].

    With the class of each and the output that has these labels, where there are such. ``most``: how many at most,
    evenly from all. Raises UsageError where there are none, and where a folder's name is no label.
    """
    assert spec.image is not None
    files, labels, output = _files(folder, spec)
    if most is not None and len(files) > most:
        chosen = [int(i) for i in np.linspace(0, len(files) - 1, most)]
        files, labels = [files[i] for i in chosen], None if labels is None else labels[chosen]
    return np.stack([_decoded(file, spec.image) for file in files]), labels, output


def _files(folder: Path, spec: ModelSpec) -> tuple[list[Path], NDArray[np.int64] | None, str]:
    """Files in a folder and no labels, or in its folders and the classes that their names stand for."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder.")
    if loose := _listed(folder):
        return loose, None, ""
    found = [(file, inner.name) for inner in sorted(folder.iterdir()) if inner.is_dir() for file in _listed(inner)]
    if not found:
        raise UsageError(f"{folder} has no pictures ({', '.join(sorted(SUFFIXES))}), and neither have its folders.")
    output = output_of(spec, {name for _, name in found})
    classes = [_class(name, output, folder) for _, name in found]
    return [file for file, _ in found], np.array(classes, np.int64), output.name


def _listed(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())


def output_of(spec: ModelSpec, names: set[str] | None = None) -> OutputSpec:
    """The classification that labels are of: of several the first that knows them."""
    outputs = [output for output in spec.outputs if output.kind == "classification"]
    if not outputs:
        raise UsageError(
            f"{spec.name} has no classification, so there is nothing to compare labels with: give pictures without "
            "labels."
        )
    return next((o for o in outputs if names and names <= set(o.labels)), outputs[0])


def _class(name: str, output: OutputSpec, folder: Path) -> int:
    if name in output.labels:
        return output.labels.index(name)
    if not output.labels and name.isdecimal():
        return int(name)
    known = ", ".join(output.labels) or "the numbers of its classes"
    raise UsageError(f"{folder / name} is not a label of the output {output.name}; its labels are {known}.")


def _decoded(path: Path, image: ImageInput) -> Array:
    """The picture at ``path`` as the function decodes it: uint8 [height, width, channels]."""
    from handler.budget import Limits
    from handler.description import ImageInput as Target
    from handler.errors import HandlerError
    from handler.image import pixels

    target = Target(
        feed=image.feed or "",
        width=image.width,
        height=image.height,
        mode=image.mode,
        fit=image.fit,
        resize=image.resize,
        antialias=image.antialias,
        padding=image.padding,
        background=image.background,
        decode=image.decode,
    )
    try:
        data = pixels(path.read_bytes(), str(path), target, Limits())
    except HandlerError as error:
        raise UsageError(f"{error.message}.") from error
    return np.frombuffer(data, np.uint8).reshape(image.height, image.width, image.channels)
