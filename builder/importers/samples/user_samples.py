"""Inputs that a user gives: an ``.npz`` file of arrays, or what the function makes tensors of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from builder.base.arrays import Array
from builder.base.errors import UsageError
from builder.config import ModelSpec
from builder.config.tensor import TensorSpec
from builder.importers.samples.golden_inputs import make_random_values
from builder.importers.samples.image_samples import read_labelled_images
from builder.importers.samples.labelled_folder import find_labelled_output
from builder.importers.samples.npz_file import read_arrays
from builder.importers.samples.recording_samples import read_labelled_recordings
from builder.importers.samples.text_samples import read_labelled_texts

Feeds = dict[str, Array]

_IMAGES, _LABELS, _CASE = "images", "labels", "sample-"


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


def read_samples(path: Path, spec: ModelSpec, feeds: Sequence[TensorSpec], most: int | None = None) -> Inputs:
    """What is at ``path``: an ``.npz`` file, a folder of pictures, recordings or texts, or one of such folders, one for
    each label; or a file with a text in each line.

    The file has an array for each of ``feeds``, by name: [n, ...] items, of which each run takes a batch, or whole
    inputs, [n, *the feed's shape]. The input of pictures, uint8 [n, height, width, channels], may be called
    ``images``; other inputs beside it may be left out and are random then. ``labels``, integers [n], are the classes
    of items. ``most``: how many runs at most, evenly from all. Raises UsageError for what does not fit the model.
    """
    labels: Array | None
    if path.suffix == ".npz":
        arrays = read_arrays(path)
        labels = arrays.pop(_LABELS, None) if all(feed.name != _LABELS for feed in feeds) else None
        output = "" if labels is None else find_labelled_output(spec).name
    elif spec.audio:
        windows, labels, output = read_labelled_recordings(path, spec)
        arrays = {spec.audio.feed or feeds[0].name: windows}
    elif spec.text:
        arrays, labels, output = read_labelled_texts(path, spec, feeds)
    elif spec.image is None:
        why = "the model takes no pictures, sound or text; its model.toml has no [image], [audio] or [text]"
        raise UsageError(f"{path}: {why}.")
    else:
        images, labels, output = read_labelled_images(path, spec, most and most * spec.batch)
        arrays = {_IMAGES: images}
    kind = "pictures" if spec.image and _IMAGES in arrays else "inputs"
    if kind == "pictures":
        arrays = _name_images(arrays, spec, feeds)
    runs, items = _split_runs(path, arrays, spec.batch, feeds)
    classes = None if labels is None else _check_classes(path, labels, items)
    if most is not None and len(runs) > most:
        chosen = tuple(runs[int(i)] for i in np.linspace(0, len(runs) - 1, most))
        return Inputs(f"{most} of {path.name}", chosen, most * spec.batch)
    return Inputs(f"{items:,} {kind} of {path.name}", runs, items, classes, output)


def _name_images(arrays: Mapping[str, Array], spec: ModelSpec, feeds: Sequence[TensorSpec]) -> dict[str, Array]:
    """``arrays`` with the pictures under their input's name, and random numbers for inputs that are not there."""
    assert spec.image is not None
    feed = spec.image.feed or feeds[0].name
    named = {feed if name == _IMAGES else name: array for name, array in arrays.items()}
    runs = -(-sum(named[feed].shape[:1]) // spec.batch)
    missing = (one for one in feeds if one.name not in named)
    return named | {one.name: np.repeat(make_random_values(one, 0)[None], runs, axis=0) for one in missing}


def _split_runs(
    path: Path, arrays: Mapping[str, Array], batch: int, feeds: Sequence[TensorSpec]
) -> tuple[tuple[Feeds, ...], int]:
    """The feeds of each run, and how many items they are."""
    takes = "; the model takes " + ", ".join(f"{f.name}: {f.dtype}{list(f.shape)}" for f in feeds)
    if odd := sorted(arrays.keys() - {f.name for f in feeds}):
        raise UsageError(f"{path}: {', '.join(odd)} is no input{takes}.")
    if missing := [f.name for f in feeds if f.name not in arrays]:
        raise UsageError(f"{path}: {', '.join(missing)} is missing{takes}.")
    calls, counts = {}, set()
    for feed in feeds:
        array = _convert_dtype(arrays[feed.name], feed.dtype)
        if array is None or not (array.ndim and len(array)):
            given = arrays[feed.name]
            raise UsageError(f"{path}: {feed.name} is {given.dtype}{list(given.shape)}{takes}, any number of them.")
        if array.shape[1:] == feed.shape:
            calls[feed.name] = array
        elif feed.shape[:1] == (batch,) and array.shape[1:] == feed.shape[1:]:
            counts.add(len(array))
            calls[feed.name] = _fill_batch(array, batch).reshape(-1, *feed.shape)
        else:
            raise UsageError(f"{path}: {feed.name} is {array.dtype}{list(array.shape)}{takes}, any number of them.")
    lengths = {len(array) for array in calls.values()}
    if len(lengths) > 1 or len(counts) > 1:
        said = ", ".join(f"{name}: {len(arrays[name]):,}" for name in calls)
        raise UsageError(f"{path}: the inputs are not equally many ({said}).")
    (length,) = lengths
    runs = tuple({name: np.asarray(array[i], order="C") for name, array in calls.items()} for i in range(length))
    return runs, counts.pop() if counts else length * batch


def _fill_batch(array: Array, batch: int) -> Array:
    """``array`` with its last item again and again until it fills a batch."""
    return np.concatenate([array, np.repeat(array[-1:], -len(array) % batch, axis=0)])


def _convert_dtype(array: Array, dtype: str) -> Array | None:
    """``array`` as ``dtype``; None where that would change more than how finely a fraction is told."""
    if array.dtype.name == dtype:
        return array
    if array.dtype.kind not in "iuf" or not dtype.startswith(("int", "uint", "float")):
        return None
    if dtype.startswith("float"):
        with np.errstate(over="ignore"):
            return array.astype(dtype)
    ends = np.iinfo(dtype)
    whole = array.dtype.kind in "iu" and array.size and ends.min <= int(array.min()) and int(array.max()) <= ends.max
    return array.astype(dtype) if whole else None


def _check_classes(path: Path, labels: Array, items: int) -> NDArray[np.int64]:
    if labels.shape != (items,) or labels.dtype.kind not in "iu":
        what = f"{labels.dtype}{list(labels.shape)}"
        raise UsageError(f"{path}: labels is {what}; it must have an integer for each of {items:,} items.")
    return labels.astype(np.int64)


def read_golden_samples(spec: ModelSpec, feeds: Sequence[TensorSpec], most: int) -> Iterator[tuple[str, Feeds]]:
    """At most so many runs of ``[golden] samples``, as golden cases. Raises UsageError as ``read_samples`` does."""
    if spec.samples is not None:
        for number, run in enumerate(read_samples(spec.samples, spec, feeds, most).runs):
            yield f"{_CASE}{number}", run


def is_sample(case: str) -> bool:
    """Whether a golden case is one of ``read_golden_samples``."""
    return case.startswith(_CASE)
