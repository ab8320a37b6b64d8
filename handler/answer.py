"""The model's bytes become what a caller reads: labels with probabilities, numbers, or nested lists."""

from __future__ import annotations

from math import isfinite
from typing import Any

from .description import Description, Output, Port

Number = float | int | bool | None


def predictions(description: Description, fetches: list[memoryview], count: int) -> list[dict[str, Any]]:
    """One answer per item for the first ``count`` of the batch, by output name.

    A fetch whose first dimension is the batch is cut into its items; any other belongs to every item whole.
    """
    ports = {port.name: (port, data) for port, data in zip(description.fetches, fetches, strict=True)}
    answers: list[dict[str, Any]] = [{} for _ in range(count)]
    for output in description.outputs:
        port, data = ports[output.fetch]
        for index, answer in enumerate(answers):
            numbers, shape = _item(port, data, index, description.batch)
            answer[output.name] = _answer(output, numbers, shape)
    return answers


def _item(port: Port, data: memoryview, index: int, batch: int) -> tuple[list[Number], tuple[int, ...]]:
    if not port.shape or port.shape[0] != batch:
        return _numbers(port, data), port.shape
    length = port.elements // batch
    return _numbers(port, data[index * length : (index + 1) * length]), port.shape[1:]


def _numbers(port: Port, data: memoryview) -> list[Number]:
    values: list[Number] = list(data)
    if not port.dtype.startswith("float"):
        return values
    digits = ".9g" if port.dtype == "float32" else ".17g"
    # Nine digits are all a float32 has, and half the payload. JSON has no word for infinity or NaN.
    return [float(format(v, digits)) if v is not None and isfinite(v) else None for v in values]


def _answer(output: Output, numbers: list[Number], shape: tuple[int, ...]) -> Any:
    if output.kind == "classification":
        return _classes(output, numbers)
    if output.kind == "regression":
        return numbers
    return _nested(numbers, shape)


def _classes(output: Output, numbers: list[Number]) -> list[dict[str, Any]]:
    """The best first; equal ones in the model's order. An undefined probability (null) comes last."""
    order = sorted(range(len(numbers)), key=lambda i: (numbers[i] is None, -(numbers[i] or 0), i))
    labels = output.labels
    return [
        {"label": labels[i] if i < len(labels) else str(i), "probability": numbers[i]} for i in order[: output.top_k]
    ]


def _nested(numbers: list[Number], shape: tuple[int, ...]) -> Any:
    """``numbers`` as lists within lists of ``shape``; of shape () a single number."""
    if not shape:
        return numbers[0]
    nested: list[Any] = numbers
    for size in reversed(shape[1:]):
        nested = [nested[start : start + size] for start in range(0, len(nested), size)] if size else [[]] * shape[0]
    return nested
