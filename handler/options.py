"""What a request may ask of its answer, where the model's own way is not wanted: in the query, or beside the input."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module

from .description import Description, Output
from .errors import WrongFieldError
from .tuples import NamedTuple
from .typed import Any

NAMES = ("top_k", "dimensions", "format", "threshold")
_FOR = {"dimensions": ("embedding",), "format": ("embedding", "segmentation"), "threshold": ("detection",)}
"""The kinds of outputs that an option is for. ``top_k`` may be asked of any model."""


class AnswerOptions(NamedTuple):
    """None: the model's own. ``top_k``: how many classes or objects; ``dimensions``: of an embedding the first so many;
    ``threshold``: the score that an object must have.
    """

    top_k: int | None = None
    dimensions: int | None = None
    format: str | None = None
    threshold: float | None = None

    def with_defaults(self, others: AnswerOptions) -> AnswerOptions:
        """These, and those of ``others`` where these say nothing."""
        return self._replace(**{name: value for name, value in others._asdict().items() if getattr(self, name) is None})


def parse_options(given: Mapping[str, Any]) -> AnswerOptions:
    """The options among the keys of a query or a request. Raises WrongFieldError."""
    if given.keys().isdisjoint(NAMES):
        return AnswerOptions()
    counts = {name: _parse_count(name, given[name]) for name in ("top_k", "dimensions") if name in given}
    threshold = _parse_number("threshold", given["threshold"]) if "threshold" in given else None
    written = given.get("format")
    if not isinstance(written, str | None):
        raise WrongFieldError("format must be a string")
    return AnswerOptions(**counts, format=written, threshold=threshold)


def _parse_count(name: str, value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON Schema counts 3.0 among the integers
    text = value if isinstance(value, str) else str(value) if type(value) is int else ""
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text)):
        raise WrongFieldError(f"{name} must be a whole number, 1 or more")
    return int(text)


def _parse_number(name: str, value: object) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise WrongFieldError(f"{name} must be a number")
    return number


def apply_options(description: Description, wanted: AnswerOptions) -> Description:
    """``description`` with outputs as ``wanted``. Raises WrongFieldError for what none of them can be."""
    if wanted == AnswerOptions():
        return description
    kinds = {output.kind for output in description.outputs}
    for name, whose in _FOR.items():
        if getattr(wanted, name) is not None and kinds.isdisjoint(whose):
            raise WrongFieldError(f"{name} is for outputs of kind {' or '.join(whose)}, and this model has none")
    if wanted.format is not None:
        formats = [name for kind in _FOR["format"] if kind in kinds for name in list_formats(kind)]
        if wanted.format not in formats:
            raise WrongFieldError(f"format must be one of {', '.join(formats)}")
    if "embedding" in kinds:
        _require_possible(description, wanted)
    return description._replace(outputs=tuple(_apply_to_output(output, wanted) for output in description.outputs))


def _apply_to_output(output: Output, wanted: AnswerOptions) -> Output:
    if output.kind in ("classification", "detection"):
        output = output._replace(top_k=wanted.top_k or output.top_k)
    if output.detection and wanted.threshold is not None:
        return output._replace(detection=output.detection._replace(threshold=wanted.threshold))
    if output.kind == "embedding":
        output = output._replace(dimensions=wanted.dimensions)
    if output.kind in _FOR["format"] and wanted.format in list_formats(output.kind):
        return output._replace(format=wanted.format)
    return output


def list_formats(kind: str) -> tuple[str, ...]:
    """How an answer of ``kind`` can be written."""
    formats: tuple[str, ...] = import_module(f".answers.{kind}", __package__).FORMATS
    return formats


def _require_possible(description: Description, wanted: AnswerOptions) -> None:
    sizes = {port.name: port.shape[-1] for port in description.fetches if port.shape}
    most = min(sizes[output.fetch] for output in description.outputs if output.kind == "embedding")
    if wanted.dimensions is not None and wanted.dimensions > most:
        raise WrongFieldError(f"dimensions must be at most {most}, of which the embedding is")
