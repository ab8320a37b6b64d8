"""The answers of an engine, and how far they are from TensorFlow's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Answer = NDArray[np.float32]
"""One output of one run, as float32 whatever its type is."""


class Output(NamedTuple):
    """What a network gives: ``dtype`` by its name in NumPy."""

    dtype: str
    shape: Sequence[int]


class WrongSize(Exception):
    """The error of an answer with more numbers, or fewer, than the outputs have."""


def read_answers(data: bytes, outputs: Sequence[Output]) -> list[Answer]:
    """Return the ``outputs`` that follow one another in ``data``. Raises WrongSize."""
    answers, place = [], 0
    sizes = [math.prod(shape) * np.dtype(dtype).itemsize for dtype, shape in outputs]
    if len(data) != sum(sizes):
        raise WrongSize(f"answers of {len(data)} bytes, not of {[tuple(output) for output in outputs]}")
    for (dtype, shape), size in zip(outputs, sizes, strict=True):
        answers.append(np.frombuffer(data[place : place + size], dtype).reshape(shape).astype(np.float32))
        place += size
    return answers


def difference(ours: Answer, right: Answer) -> float:
    """Return the largest difference, as a share of the largest right value; infinite if there is a NaN."""
    worst = float(np.abs(np.subtract(ours, right, dtype=np.float64)).max() / (np.abs(right).max() or 1))
    return math.inf if math.isnan(worst) else worst


def judge(theirs: Sequence[Sequence[Answer]], right: Sequence[Sequence[Answer]]) -> dict[str, Any]:
    """Return ``error`` and ``same_class`` of the answers to many inputs, of each input a list of outputs.

    ``error``: the root mean square of the differences, as a share of the deviation of ``right`` from its mean over the
    inputs. ``same_class``: the share of rows whose largest value is where that of ``right`` is. Both are the worst of
    the outputs; ``same_class`` is None where each row is one number. NaN counts as infinite.
    """
    errors, classes = [], []
    for number in range(len(right[0])):
        ours, expected = (np.stack([run[number] for run in runs]).astype(np.float64) for runs in (theirs, right))
        deviation = np.square(expected - expected.mean(axis=0)).sum() or 1.0
        error = math.sqrt(np.square(ours - expected).sum() / deviation)
        errors.append(math.inf if math.isnan(error) else error)
        if expected.ndim > 1 and expected.shape[-1] > 1:
            same = (ours.argmax(-1) == expected.argmax(-1)) & ~np.isnan(ours).any(-1)
            classes.append(float(same.mean()))
    return {"error": max(errors), "same_class": min(classes, default=None)}
