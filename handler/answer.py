"""Conversion of the model's bytes to answers; ``answers`` holds the kinds of outputs that only some models have."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from math import isfinite, prod

from .budget import ANSWER_CHARACTER, RequestLimits
from .description import Description, Output, Port
from .errors import AnswerTooLargeError
from .named_tuples import NamedTuple
from .typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .text import LocatedText

ANSWER_LIMIT = 6_291_456
"""Bytes of JSON that Lambda takes from a function (6 MB). A longer answer is lost without telling the caller why."""
LOAD_BALANCER_LIMIT = 1_048_576
"""Bytes of JSON that a load balancer takes from its target (1 MB)."""
_AROUND = 4_096  # bytes at most of the status, headers and timings around the answer
_LEAF = 64  # bytes that a number, or half a class with its label, rarely exceeds
_ESCAPED = 12  # characters of JSON at most for a character outside ASCII
_SHORTEST = {"bool": len("true, "), "float32": len("0.0, "), "float64": len("0.0, ")}
_SHORTEST_INTEGER = len("0, ")
_SHORTEST_CLASS = len('{"label": "", "probability": 0.0}, ')
_SHORTEST_LABEL = len('"", ')
_EMPTY = {"detection": "[]", "segmentation": '{"width": 1, "height": 1, "classes": []}', "tokens": "[]"}
"""The shortest answer of each kind whose length the data decides."""

_PLAIN = ("classification", "label", "regression", "raw")
"""Kinds of outputs that are answered here; the module of ``answers`` with its name answers any other kind."""

Number = float | int | bool | None


class OutputTensor(NamedTuple):
    """A fetch over all runs, without padding. ``data``: flat and row-major, of type ``dtype``."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: memoryview

    def to_numbers(self, *, strict: bool = True) -> list[Number]:
        """Return all values as a flat list; infinity and NaN become None unless ``strict`` is off."""
        return convert_numbers(self.dtype, self.data, strict)


class ItemOutputs(NamedTuple):
    """The outputs of a run for one item of its batch: each fetch with its port and data, by name."""

    description: Description
    fetches: Mapping[str, tuple[Port, memoryview]]
    number: int
    size: tuple[int, int] | None = None  # the size of its image as it was sent, upright
    text: LocatedText | None = None  # the text with the places of its tokens, where an output is about them

    def get_values(self, fetch: str) -> tuple[memoryview, tuple[int, ...]]:
        """Return the item's own part of ``fetch``, flat, and its shape; a fetch without the batch is returned whole."""
        port, data = self.fetches[fetch]
        batch = self.description.batch
        if not port.begins_with_batch(batch):
            return data, port.shape
        length = port.elements // batch
        return data[self.number * length : (self.number + 1) * length], port.shape[1:]


def collect_tensors(description: Description, batches: Sequence[tuple[list[memoryview], int]]) -> list[OutputTensor]:
    """Return every answer, in the description's order. Joining several runs requires a ``batched`` model."""
    runs = [_pair_answers(description, fetches) for fetches, _ in batches]
    counts = [count for _, count in batches]
    return [_join_runs(description.batch, parts, counts) for parts in zip(*runs, strict=True)]


def _pair_answers(description: Description, fetches: list[memoryview]) -> list[tuple[Port, memoryview]]:
    """Return every answer of a run with its actual shape and its data."""
    values = {port.name: data for port, data in zip(description.fetches, fetches, strict=True)}
    return [_trim_dynamic(port, values) for port in description.answers]


def _trim_dynamic(port: Port, values: Mapping[str, memoryview]) -> tuple[Port, memoryview]:
    data = values[port.name]
    if not port.dynamic:
        return port, data
    shape = tuple(values[port.shape_fetch])
    return port._replace(shape=shape, size=prod(shape) * data.itemsize), data[: prod(shape)]


def _join_runs(batch: int, runs: Sequence[tuple[Port, memoryview]], counts: Sequence[int]) -> OutputTensor:
    """Join one answer of all runs, taking ``counts`` items from each."""
    port, first = runs[0]
    if not port.size or not port.begins_with_batch(batch):
        return OutputTensor(port.name, port.dtype, port.shape, first)
    length = port.elements // batch
    parts = [data[: count * length] for (_, data), count in zip(runs, counts, strict=True)]
    data = parts[0] if len(parts) == 1 else memoryview(b"".join(parts)).cast(port.format)
    return OutputTensor(port.name, port.dtype, (sum(counts), *port.shape[1:]), data)


def make_predictions(
    description: Description,
    fetches: list[memoryview],
    count: int,
    sizes: Sequence[tuple[int, int]] = (),
    texts: Sequence[LocatedText] = (),
) -> list[dict[str, Any]]:
    """Return an answer by output name for each of the first ``count`` items. ``sizes``, ``texts``: see ``Result``.

    A fetch whose first dimension is the batch is cut into its items; every item gets the whole of any other fetch.
    """
    ports = {port.name: (port, data) for port, data in _pair_answers(description, fetches)}
    answers: list[dict[str, Any]] = [{} for _ in range(count)]
    for output in description.outputs:
        format_answer: Callable[[Output, ItemOutputs], Any] = _format_answer
        if output.kind not in _PLAIN:
            format_answer = import_module(f".answers.{output.kind}", __package__).format_answer
        for index, answer in enumerate(answers):
            size, text = sizes[index] if sizes else None, texts[index] if texts else None
            answer[output.name] = format_answer(output, ItemOutputs(description, ports, index, size, text))
    return answers


def require_room(*answers: dict[str, Any]) -> None:
    """Raise AnswerTooLargeError for answers that together are too large for the function to return."""
    # Writing them out only to learn their length can take as long as answering the request.
    if sum(map(_count_leaves, answers)) * _LEAF > ANSWER_LIMIT - _AROUND:
        require_size(len(json.dumps(answers)), ANSWER_LIMIT)


def compute_min_length(dtype: str, elements: int) -> int:
    """Return the least number of characters of JSON for ``elements`` values, whatever they are."""
    return elements * _SHORTEST.get(dtype, _SHORTEST_INTEGER)


def compute_min_nested_length(dtype: str, shape: Sequence[int]) -> int:
    """Return the same for lists within lists of ``shape``, each of which adds its brackets."""
    lists = sum(prod(shape[:depth]) for depth in range(1, len(shape)))
    return compute_min_length(dtype, prod(shape)) + len("[]") * lists


def compute_min_predictions_length(description: Description, count: int) -> int:
    """Return the least number of characters that ``make_predictions`` gives for ``count`` items."""
    ports = {port.name: port for port in description.fetches}
    return count * sum(
        _compute_min_item_length(output, ports[output.fetch], description.batch) for output in description.outputs
    )


def _compute_min_item_length(output: Output, port: Port, batch: int) -> int:
    shape = port.least[1:] if port.begins_with_batch(batch) else port.least
    elements = prod(shape)
    match output.kind:
        case "classification":
            return _SHORTEST_CLASS * min(elements, output.top_k or elements)
        case "label":
            return _SHORTEST_LABEL * elements
        case "raw":
            return compute_min_nested_length(port.dtype, shape)
        case "embedding":
            count = output.dimensions or port.shape[-1]
            if output.format == "base64":
                return (4 * count + 2) // 3 * 4
            return compute_min_length("int8" if output.format == "int8" else "float32", count)
        case "regression":
            return compute_min_length(port.dtype, elements)
    return len(_EMPTY[output.kind])


def compute_min_answer_length(answer: dict[str, Any]) -> int:
    """Return the least number of characters of ``answer``, without writing it out."""
    return _count_leaves(answer) * _SHORTEST_INTEGER


def require_possible(characters: int, limit: int | None, limits: RequestLimits) -> None:
    """Require, before the work is done, that an answer of at least ``characters`` fits ``limit`` and the memory.

    Raises AnswerTooLargeError or OverBudgetError.
    """
    if limit is not None:
        require_size(characters, limit)
    limits.require_memory(characters * ANSWER_CHARACTER)


def require_size(size: int, limit: int) -> None:
    """Raise AnswerTooLargeError for an answer of ``size`` bytes that is over ``limit``."""
    if size > limit - _AROUND:
        raise AnswerTooLargeError(
            f"the answer has {size:,} bytes; at most {limit:,} are allowed. Ask for fewer items at a time"
        )


def _count_leaves(value: object) -> int:
    """Count the numbers and pieces of text in ``value``, taking the items of a list to be like its first one."""
    if isinstance(value, dict):
        return sum(map(_count_leaves, value.values()))
    if isinstance(value, list):
        first = value[0] if value and isinstance(value[0], dict) else {}
        if "word" in first or any(isinstance(v, list | dict) for v in first.values()):  # words are of any length
            return sum(map(_count_leaves, value))
        return len(value) * _count_leaves(value[0]) if value else 0
    if isinstance(value, str):
        return 1 + len(value) * (1 if value.isascii() else _ESCAPED) // _LEAF
    return 1


def convert_numbers(dtype: str, data: memoryview, strict: bool = True) -> list[Number]:
    """Return the values of ``data`` as a list; infinity and NaN become None unless ``strict`` is off."""
    values: list[Any] = list(data)
    if dtype == "float32":  # nine digits are its full precision, in half the payload
        values = [float(format(v, ".9g")) for v in values]
    if not dtype.startswith("float") or not strict:
        return values
    # JSON has no word for infinity or NaN.
    return [v if isfinite(v) else None for v in values]


def _format_answer(output: Output, item: ItemOutputs) -> Any:
    port, _ = item.fetches[output.fetch]
    data, shape = item.get_values(output.fetch)
    values = convert_numbers(port.dtype, data)
    if output.kind == "classification":
        if not port.dynamic:
            return _rank_classes(output, values)
        rows = [_rank_classes(output, values[at : at + shape[-1]]) for at in range(0, len(values), shape[-1])]
        return nest_values(rows, shape[:-1])
    if output.kind == "regression":
        return values
    return nest_values(find_labels(output, values) if output.kind == "label" else values, shape)


def find_labels(output: Output, classes: Sequence[Number]) -> list[str]:
    """Return the label of each of ``classes``, or its number if it has none."""
    return [output.get_label(number) if isinstance(number, int) else str(number) for number in classes]


def _rank_classes(output: Output, numbers: list[Number]) -> list[dict[str, Any]]:
    """Return the best classes first, equal ones in the model's order and undefined probabilities (null) last."""
    order = sorted(range(len(numbers)), key=lambda i: (numbers[i] is None, -(numbers[i] or 0), i))
    return [{"label": output.get_label(i), "probability": numbers[i]} for i in order[: output.top_k]]


def nest_values(numbers: list[Any], shape: tuple[int, ...]) -> Any:
    """Return ``numbers``, or any other values, as lists within lists of ``shape``; a single value for shape ()."""
    if not shape:
        return numbers[0]
    nested: list[Any] = numbers
    for size in reversed(shape[1:]):
        nested = [nested[start : start + size] for start in range(0, len(nested), size)] if size else [[]] * shape[0]
    return nested
