"""brightness 7 as a function of batches of rows, for Ray, Spark and whatever else calls one.

    from brightness.predictor import Predictor

    Predictor()({"image": ...})  # a dict of arrays [rows, ...]; or a batch of Arrow, or a data frame

Needs NumPy; Arrow and pandas where they are given; Pillow for files of pictures.
"""

from __future__ import annotations

import importlib
import json
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from . import LIBRARY, Feeds, Fetches, Model, ModelError
from .columns import Array, array, files, like
from .function.description import Description, Port, parse_description, split_runs

INPUTS = tuple(field.name for field in fields(Feeds))
OUTPUTS = tuple(field.name for field in fields(Fetches))
"""The columns that the model takes and gives, in the order of its feeds and fetches."""


class Predictor:
    """The model as a callable that can be pickled. A process opens the library once, with its first batch.

    Any thread may call it. Calls of one process run one after the other: let an engine start a process for each CPU.
    All processes of a machine share one copy of the weights.
    """

    def __init__(
        self,
        library: str | Path = "",
        threads: int = 1,
        *,
        pictures: str = "",
        errors: str = "",
        labels: bool = False,
        keep: Sequence[str] = (),
    ) -> None:
        """``library``: of the same model, in place of the package's. ``threads``: of one run (0: the library chooses).

        ``pictures``: the column of files, such as JPEG and PNG, of which the function's own code makes the pixels that
        the model takes. ``errors``: a column that the answer gets, with the code of what is wrong with a row's file,
        and empty elsewhere; the row's numbers are then NaN or 0. Without it, such a file raises ModelError.

        ``labels``: for each classification, also the likeliest label and its probability, in the columns NAME_label and
        NAME_probability. ``keep``: columns of the batch that the answer has as well.
        """
        self._library, self._threads = str(library), threads
        self._pictures, self._errors = pictures, errors
        self._labels, self._keep = labels, tuple(keep)

    def __call__(self, batch: Any) -> Any:
        """The columns ``OUTPUTS`` for a batch with the columns ``INPUTS``, of any number of rows, in the batch's form.

        ``batch``: a dict of NumPy arrays, a RecordBatch or Table of Arrow, or a DataFrame of pandas. A row has the
        shape and dtype of the model's feed without the batch; it may also be flat, or be bytes, which hold the numbers
        row-major. Rows run in the library's batches, the last one filled up with zeros. Raises ModelError.
        """
        model, description = _PROCESS.model(self._library or str(LIBRARY), self._threads)
        given, wrong = self._pixels(batch, description) if self._pictures else ({}, np.zeros(0, np.str_))
        arrays = [
            given[name] if name in given else array(batch, name, port.dtype)
            for name, port in zip(INPUTS, description.feeds, strict=True)
        ]
        right = wrong == ""
        if right.all():
            outputs = _run(model, description, arrays)
        else:
            outputs = [_spread(found, right) for found in _run(model, description, [a[right] for a in arrays])]
        columns = dict(zip(OUTPUTS, outputs, strict=True))
        if self._labels:
            columns |= _likeliest(outputs, description, right)
        if self._errors:
            columns[self._errors] = wrong
        return like(batch, columns, self._keep)

    def each(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The answer to each of ``batches``: what mapInPandas and mapInArrow of Spark take."""
        return map(self, batches)

    def _pixels(self, batch: Any, description: Description) -> tuple[dict[str, Array], Array]:
        """The feed that is made of files, and for each row what is wrong with its file: a code, or nothing."""
        image = description.image
        if image is None:
            raise ModelError(f"{description.name} takes no pictures")
        feed = next(n for n, port in zip(INPUTS, description.feeds, strict=True) if port.name == image.feed)
        decoding = importlib.import_module(f"{__package__}.pictures")
        pixels, errors = decoding.decoded(files(batch, self._pictures), image)
        for row, error in enumerate(errors):
            if error and not self._errors:
                raise ModelError(f"row {row} of column {self._pictures}: {error.message}")
        return {feed: pixels}, np.array([error.code if error else "" for error in errors], dtype=np.str_)


class _Process:
    """The models of this process, each opened once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: dict[tuple[str, int], tuple[Model, Description]] = {}

    def model(self, library: str, threads: int) -> tuple[Model, Description]:
        """The model in ``library``, opened, and what it says of itself. Raises ModelError."""
        with self._lock:
            if (library, threads) not in self._models:
                model = Model(library, threads)
                self._models[library, threads] = model, _of_rows(parse_description(json.dumps(model.description)))
            return self._models[library, threads]

    def forget(self) -> None:
        """In the child of a fork, where threads that it does not have may hold locks: open anew."""
        for model, _ in self._models.values():
            model.abandon()
        self._lock, self._models = threading.Lock(), {}


_PROCESS = _Process()
os.register_at_fork(after_in_child=_PROCESS.forget)


def _of_rows(description: Description) -> Description:
    """``description``, if it is of a model that takes any number of rows. Raises ModelError."""
    if not description.batched or description.stateful:
        raise ModelError(f"{description.name} does not take any number of rows: call it with Model")
    return description


def _run(model: Model, description: Description, arrays: Sequence[Array]) -> list[Array]:
    """Each fetch for all rows of ``arrays``, the feeds. Raises ModelError."""
    counts = {name: len(values) for name, values in zip(INPUTS, arrays, strict=True)}
    rows = len(arrays[0])
    if any(count != rows for count in counts.values()):
        raise ModelError(f"columns have different numbers of rows: {counts}")
    sized = _sized(arrays, description) if rows else description
    outputs = [np.empty((rows, *port.shape[1:]), port.dtype) for port in sized.fetches]
    start = 0
    for count in split_runs(rows, sized.batches, sized.in_parts):
        batch = min(size for size in sized.batches if size >= count)
        feeds = [values[start : start + count] for values in arrays]
        fetches = [values[start : start + count] for values in outputs]
        if count == batch:
            _run_once(model, feeds, fetches)
        else:
            whole = [np.empty((batch, *values.shape[1:]), values.dtype) for values in fetches]
            _run_once(model, [_filled(values, batch) for values in feeds], whole)
            for values, found in zip(fetches, whole, strict=True):
                values[:] = found[:count]
        start += count
    return outputs


def _sized(arrays: Sequence[Array], description: Description) -> Description:
    """``description`` in the size that the rows of ``arrays`` have. Raises ModelError."""
    sizes = description.size_variants
    for sized in sizes:
        if all(_fits(values, port) for values, port in zip(arrays, sized.feeds, strict=True)):
            return sized
    given = ", ".join(f"{name} {list(a.shape[1:])}" for name, a in zip(INPUTS, arrays, strict=True))
    taken = " or ".join(", ".join(str(list(port.shape[1:])) for port in sized.feeds) for sized in sizes)
    raise ModelError(f"rows have the shapes {given}; the model takes {taken}")


def _fits(values: Array, port: Port) -> bool:
    row = port.shape[1:]
    return values.shape[1:] in (row, (int(np.prod(row, dtype=np.int64)),))


def _run_once(model: Model, feeds: Sequence[Array], fetches: Sequence[Array]) -> None:
    """From the arrays' memory into the arrays' memory."""
    model.run_at([(a.ctypes.data, a.nbytes) for a in feeds], [(a.ctypes.data, a.nbytes) for a in fetches])


def _filled(values: Array, rows: int) -> Array:
    whole = np.zeros((rows, *values.shape[1:]), values.dtype)
    whole[: len(values)] = values
    return whole


def _spread(found: Array, right: Array) -> Array:
    """The rows ``found`` at the places that are ``right``; NaN or 0 at the others."""
    whole = np.full((len(right), *found.shape[1:]), np.nan if found.dtype.kind == "f" else 0, found.dtype)
    whole[right] = found
    return whole


def _likeliest(outputs: Sequence[Array], description: Description, right: Array) -> dict[str, Array]:
    """The likeliest label of each classification, none where a row is not ``right``; and its probability."""
    places = {port.name: number for number, port in enumerate(description.fetches)}
    columns: dict[str, Array] = {}
    for output in description.outputs:
        values = outputs[places[output.fetch]]
        if output.kind == "classification" and values.ndim == 2:
            labels = [*output.labels, *map(str, range(len(output.labels), values.shape[1]))]
            best = values.argmax(1)
            found = np.array(labels, dtype=np.str_)[best]
            columns[f"{output.name}_label"] = np.where(right, found, "") if len(right) else found
            columns[f"{output.name}_probability"] = np.take_along_axis(values, best[:, None], 1)[:, 0]
    return columns
