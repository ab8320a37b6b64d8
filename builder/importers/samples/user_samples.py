"""Inputs from a user: an ``.npz`` file of arrays, or files that the function decodes to tensors."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from builder.base.arrays import Array
from builder.base.errors import UsageError
from builder.base.escape import describe_error
from builder.config import ModelSpec
from builder.config.tensor import TensorSpec
from builder.importers.samples.golden_inputs import make_random_values
from builder.importers.samples.labelled_samples import (
    find_labelled_output,
    read_labelled_images,
    read_labelled_recordings,
    read_labelled_texts,
)

Feeds = dict[str, Array]

_IMAGES, _LABELS, _CASE = "images", "labels", "sample-"

LARGEST = 4_000_000_000
"""The largest size of all arrays in bytes, unpacked."""
MOST = 1000
"""The largest number of arrays in a file."""


@dataclass(frozen=True)
class Inputs:
    """The feeds of each run, by name (``runs``); the first ``items`` count, and the rest fills the last batch.

    ``labels``: the class of every item, if known. ``output``: the name of the output with these labels.
    """

    source: str
    runs: tuple[Feeds, ...]
    items: int
    labels: NDArray[np.int64] | None = None
    output: str = ""


def read_samples(path: Path, spec: ModelSpec, feeds: Sequence[TensorSpec], most: int | None = None) -> Inputs:
    """Read an ``.npz`` file, a file of texts, or a folder of images, recordings or texts, perhaps in folders by label.

    The ``.npz`` file has an array for each of ``feeds``, by name: [n, ...] items, of which each run takes a batch, or
    whole inputs, [n, *the feed's shape]. The input of images, uint8 [n, height, width, channels], may be called
    ``images``; other inputs may then be left out and are random. ``labels``, integers [n], are the classes of items.
    ``most``: the largest number of runs, evenly from all. Raises UsageError if the values do not fit the model.
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
        why = "the model takes no images, sound or text; its model.toml has no [image], [audio] or [text]"
        raise UsageError(f"{path}: {why}.")
    else:
        images, labels, output = read_labelled_images(path, spec, most and most * spec.batch)
        arrays = {_IMAGES: images}
    kind = "images" if spec.image and _IMAGES in arrays else "inputs"
    if kind == "images":
        arrays = _name_images(arrays, spec, feeds)
    runs, items = _split_runs(path, arrays, spec.batch, feeds)
    classes = None if labels is None else _check_classes(path, labels, items)
    if most is not None and len(runs) > most:
        selected = tuple(runs[int(i)] for i in np.linspace(0, len(runs) - 1, most))
        return Inputs(f"{most} of {path.name}", selected, most * spec.batch)
    return Inputs(f"{items:,} {kind} of {path.name}", runs, items, classes, output)


def _name_images(arrays: Mapping[str, Array], spec: ModelSpec, feeds: Sequence[TensorSpec]) -> dict[str, Array]:
    """Return ``arrays`` with the images under their input's name, and random numbers for missing inputs."""
    assert spec.image is not None
    feed = spec.image.feed or feeds[0].name
    renamed = {feed if name == _IMAGES else name: array for name, array in arrays.items()}
    runs = -(-sum(renamed[feed].shape[:1]) // spec.batch)
    missing = (port for port in feeds if port.name not in renamed)
    return renamed | {port.name: np.repeat(make_random_values(port, 0)[None], runs, axis=0) for port in missing}


def _split_runs(
    path: Path, arrays: Mapping[str, Array], batch: int, feeds: Sequence[TensorSpec]
) -> tuple[tuple[Feeds, ...], int]:
    """Return the feeds of each run, and the number of items."""
    takes = "; the model takes " + ", ".join(f"{f.name}: {f.dtype}{list(f.shape)}" for f in feeds)
    if odd := sorted(arrays.keys() - {f.name for f in feeds}):
        raise UsageError(f"{path}: {', '.join(odd)} is no input{takes}.")
    if missing := [f.name for f in feeds if f.name not in arrays]:
        raise UsageError(f"{path}: {', '.join(missing)} is missing{takes}.")
    calls, counts = {}, set()
    for feed in feeds:
        array = _convert_dtype(arrays[feed.name], feed.dtype)
        if array is None or not (array.ndim and len(array)):
            samples = arrays[feed.name]
            raise UsageError(f"{path}: {feed.name} is {samples.dtype}{list(samples.shape)}{takes}, any number of them.")
        if array.shape[1:] == feed.shape:
            calls[feed.name] = array
        elif feed.shape[:1] == (batch,) and array.shape[1:] == feed.shape[1:]:
            counts.add(len(array))
            missing_items = np.repeat(array[-1:], -len(array) % batch, axis=0)  # The last item fills a batch.
            calls[feed.name] = np.concatenate([array, missing_items]).reshape(-1, *feed.shape)
        else:
            raise UsageError(f"{path}: {feed.name} is {array.dtype}{list(array.shape)}{takes}, any number of them.")
    lengths = {len(array) for array in calls.values()}
    if len(lengths) > 1 or len(counts) > 1:
        numbers = ", ".join(f"{name}: {len(arrays[name]):,}" for name in calls)
        raise UsageError(f"{path}: the inputs are not equally many ({numbers}).")
    (length,) = lengths
    runs = tuple({name: np.asarray(array[i], order="C") for name, array in calls.items()} for i in range(length))
    return runs, counts.pop() if counts else length * batch


def _convert_dtype(array: Array, dtype: str) -> Array | None:
    """Return ``array`` as ``dtype``, or None if that would change more than the precision of fractions."""
    if array.dtype.name == dtype:
        return array
    if array.dtype.kind not in "iuf" or not dtype.startswith(("int", "uint", "float")):
        return None
    if dtype.startswith("float"):
        with np.errstate(over="ignore"):
            return array.astype(dtype)
    ends = np.iinfo(dtype)
    fits = array.dtype.kind in "iu" and array.size and ends.min <= int(array.min()) and int(array.max()) <= ends.max
    return array.astype(dtype) if fits else None


def _check_classes(path: Path, labels: Array, items: int) -> NDArray[np.int64]:
    if labels.shape != (items,) or labels.dtype.kind not in "iu":
        what = f"{labels.dtype}{list(labels.shape)}"
        raise UsageError(f"{path}: labels is {what}; it must have an integer for each of {items:,} items.")
    return labels.astype(np.int64)


def read_golden_samples(spec: ModelSpec, feeds: Sequence[TensorSpec], most: int) -> Iterator[tuple[str, Feeds]]:
    """Yield at most ``most`` runs of ``[golden] samples`` as cases. Raises UsageError as ``read_samples`` does."""
    if spec.samples is not None:
        for number, run in enumerate(read_samples(spec.samples, spec, feeds, most).runs):
            yield f"{_CASE}{number}", run


def is_sample(case: str) -> bool:
    """Return whether a golden case is from ``read_golden_samples``."""
    return case.startswith(_CASE)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of numbers at ``path``, by name. Raises UsageError if the file is invalid or too large."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > MOST or (size := sum(member.file_size for member in members)) > LARGEST:
                what = f"{len(members):,} arrays" if len(members) > MOST else f"{size:,} bytes of arrays"
                raise UsageError(f"{path} has {what}; at most {MOST:,}, and {LARGEST:,} bytes, are read: take a part.")
            return {member.filename.removesuffix(".npy"): _read_member(archive, member) for member in members}
    except (OSError, ValueError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        reason = describe_error(error)
        raise UsageError(f"{path} cannot be read as an .npz file of arrays: {reason}") from error


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Return the array of a member. Raises ValueError."""
    with archive.open(member) as file:
        shape, dtype = _read_header(file)
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"{member.filename} has no shape")
    if dtype.kind not in "biuf":
        raise ValueError(f"{member.filename} is of {dtype}, not of numbers")
    if math.prod(shape) * dtype.itemsize > member.file_size:
        raise ValueError(f"{member.filename} declares {list(shape)}, which is more than it has")
    with archive.open(member) as file:
        return np.asarray(npy.read_array(file, allow_pickle=False))


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = npy.read_magic(file)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"its format {version} is not known")
    try:
        shape, _, dtype = readers[version](file)
    except Exception as error:  # NumPy parses Python, and passes on all its errors.
        raise ValueError(f"its header is damaged: {error}") from error
    return shape, dtype
