"""The answers of an engine, and how far they are from TensorFlow's."""

from __future__ import annotations

import math
import operator
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """float32 numbers of one output, item after item; ``width``: how many are one row, the last dimension."""

    values: array[float]
    width: int


class WrongSize(Exception):
    """There are more numbers, or fewer, than the outputs have."""


def read(paths: Sequence[Path], shapes: Sequence[Sequence[int]]) -> list[Answer]:
    """One output from each file. Raises WrongSize."""
    return of_bytes([path.read_bytes() for path in paths], shapes)


def read_joined(path: Path, shapes: Sequence[Sequence[int]]) -> list[Answer]:
    """All outputs from one file, one after the other. Raises WrongSize."""
    data, parts, place = path.read_bytes(), [], 0
    for shape in shapes:
        parts.append(data[place : place + 4 * math.prod(shape)])
        place += 4 * math.prod(shape)
    return of_bytes([*parts[:-1], parts[-1] + data[place:]], shapes)


def of_bytes(parts: Sequence[bytes], shapes: Sequence[Sequence[int]]) -> list[Answer]:
    """Raises WrongSize."""
    found = [array("f", part) for part in parts]
    if [len(values) for values in found] != [math.prod(shape) for shape in shapes]:
        raise WrongSize(f"answers of {[len(values) for values in found]} values, not of shapes {list(shapes)}")
    return [Answer(values, shapes[number][-1] if shapes[number] else 1) for number, values in enumerate(found)]


def difference(ours: Answer, right: Answer) -> float:
    """The largest difference, as a share of the largest right value; infinite where there is a NaN."""
    far = list(map(abs, map(operator.sub, ours.values, right.values)))
    if any(one != one for one in far):
        return math.inf
    return max(far) / max(map(abs, right.values))


def judge(theirs: Sequence[Sequence[Answer]], right: Sequence[Sequence[Answer]]) -> dict[str, Any]:
    """``error`` and ``same_class`` of the answers to many inputs, of each input a list of outputs.

    ``error``: the root mean square of the differences, as a share of the deviation of ``right`` from its mean over the
    inputs. ``same_class``: the share of rows whose largest value is where that of ``right`` is. Both are the worst of
    the outputs; ``same_class`` is None where each row is one number. NaN counts as infinite.
    """
    errors, classes = [], []
    for number in range(len(right[0])):
        ours, answers = [one[number] for one in theirs], [one[number] for one in right]
        errors.append(_error(ours, answers))
        if answers[0].width > 1:
            found = list(map(operator.eq, _highest(ours), _highest(answers)))
            classes.append(sum(found) / len(found))
    return {"error": max(errors), "same_class": min(classes, default=None)}


def _error(ours: Sequence[Answer], right: Sequence[Answer]) -> float:
    squares = deviations = 0.0
    for place in range(len(right[0].values)):
        column = [answer.values[place] for answer in right]
        mean = math.fsum(column) / len(column)
        deviations += math.fsum((value - mean) ** 2 for value in column)
        squares += sum((answer.values[place] - column[number]) ** 2 for number, answer in enumerate(ours))
    error = math.sqrt(squares / deviations) if deviations else math.sqrt(squares)
    return error if error == error else math.inf


def _highest(answers: Sequence[Answer]) -> list[int]:
    """Of each row, where its largest value stands."""
    found = []
    for values, width in answers:
        for start in range(0, len(values), width):
            row = values[start : start + width]
            found.append(row.index(max(row)) if all(value == value for value in row) else -1)
    return found
