"""The inputs that answers are compared on: the golden ones, or a user's pictures, labelled by folder."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.errors import UsageError
from builder.importers.graph import FrozenGraph
from builder.spec import ImageInput, ModelSpec, OutputSpec
from builder.verify.golden import Golden
from builder.verify.inputs import random_values

Array = NDArray[Any]
Feeds = dict[str, Array]

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp"}


@dataclass(frozen=True)
class Inputs:
    """``runs``: the feeds of each run, by name; ``items`` of theirs together count, the rest fills the last batch.

    ``labels``: the class of every item, where it is known; ``output``: the name of the output they are labels of.
    """

    source: str
    runs: tuple[Feeds, ...]
    items: int
    labels: NDArray[np.int64] | None = None
    output: str = ""


def golden_inputs(spec: ModelSpec, graph: FrozenGraph) -> Inputs:
    """Those that a library is verified with."""
    names = [port.spec.name for port in graph.feeds]
    with Golden.open(graph.golden_path) as golden:
        runs = tuple({name: golden.feed(case, name) for name in names} for case in golden.cases)
    return Inputs("the golden inputs", runs, len(runs) * spec.batch)


def pictures(path: Path, spec: ModelSpec, graph: FrozenGraph) -> Inputs:
    """The pictures in a folder, or in one folder per label, as the function decodes them; or an ``.npz`` file.

    The file has ``images``, uint8 [n, height, width, channels], and may have ``labels``, integers [n]. Raises
    UsageError where there are none, where a folder's name is no label, and where the model takes no pictures.
    """
    if spec.image is None:
        raise UsageError(f"{path}: the model takes no pictures; its model.toml has no [image].")
    if path.suffix == ".npz":
        images, classes = _arrays(path, spec.image)
        labels, output = classes, _output(spec).name if classes is not None else ""
    else:
        files, labels, output = _files(path, spec)
        images = np.stack([_decoded(file, spec.image) for file in files])
    name = f"{len(images):,} pictures of {path.name}"
    return Inputs(name, tuple(_batches(images, spec, graph)), len(images), labels, output)


def _arrays(path: Path, image: ImageInput) -> tuple[Array, NDArray[np.int64] | None]:
    shape = (image.height, image.width, image.channels)
    try:
        with np.load(path, allow_pickle=False) as file:
            images = np.asarray(file["images"])
            labels = file["labels"].astype(np.int64) if "labels" in file.files else None
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path}: cannot be read as an .npz file with `images`: {error}") from error
    if images.dtype != np.uint8 or images.shape[1:] != shape or not len(images):
        raise UsageError(f"{path}: images is {images.dtype}{list(images.shape)}; the model takes uint8[n, {shape}].")
    if labels is not None and labels.shape != images.shape[:1]:
        raise UsageError(f"{path}: labels is {list(labels.shape)}; it must have one for each of {len(images)} images.")
    return images, labels


def _files(folder: Path, spec: ModelSpec) -> tuple[list[Path], NDArray[np.int64] | None, str]:
    """Files in a folder and no labels, or in its folders and the classes that their names stand for."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder.")
    if loose := _listed(folder):
        return loose, None, ""
    found = [(file, inner.name) for inner in sorted(folder.iterdir()) if inner.is_dir() for file in _listed(inner)]
    if not found:
        raise UsageError(f"{folder} has no pictures ({', '.join(sorted(SUFFIXES))}), and neither have its folders.")
    output = _output(spec, {name for _, name in found})
    classes = [_class(name, output, folder) for _, name in found]
    return [file for file, _ in found], np.array(classes, np.int64), output.name


def _listed(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())


def _output(spec: ModelSpec, names: set[str] | None = None) -> OutputSpec:
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


def _batches(images: Array, spec: ModelSpec, graph: FrozenGraph) -> Iterator[Feeds]:
    assert spec.image is not None
    feeds = {port.spec.name: port.spec for port in graph.feeds}
    name = spec.image.feed or next(iter(feeds))
    others = {feed.name: random_values(feed, 0) for feed in feeds.values() if feed.name != name}
    for at in range(0, len(images), spec.batch):
        part = images[at : at + spec.batch]
        part = np.concatenate([part, np.repeat(part[-1:], spec.batch - len(part), axis=0)])
        yield {**others, name: np.ascontiguousarray(part.reshape(feeds[name].shape))}
