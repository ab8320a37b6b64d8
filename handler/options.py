"""Options by which a request changes the model's usual answer, in the query or beside the input."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module

from .description import Description, Output
from .errors import UnknownPromptError, WrongFieldError
from .named_tuples import NamedTuple
from .typed import Any

NAMES = ("top_k", "dimensions", "format", "threshold", "prompt")
_FOR = {"dimensions": ("embedding",), "format": ("embedding", "segmentation"), "threshold": ("detection",)}
"""The kinds of outputs that an option applies to. ``top_k`` applies to any model."""


class AnswerOptions(NamedTuple):
    """Options of an answer; None means the model's own value. ``top_k``: the number of classes or objects.

    ``dimensions``: the number of first values of an embedding. ``threshold``: the least score of an object. ``prompt``:
    the name of the prompt that goes in front of the texts.
    """

    top_k: int | None = None
    dimensions: int | None = None
    format: str | None = None
    threshold: float | None = None
    prompt: str | None = None

    def with_defaults(self, others: AnswerOptions) -> AnswerOptions:
        """Return these options, with those of ``others`` where these are None."""
        return self._replace(**{name: value for name, value in others._asdict().items() if getattr(self, name) is None})


def parse_options(given: Mapping[str, Any]) -> AnswerOptions:
    """Return the options among the keys of a query or a request. Raises WrongFieldError."""
    if given.keys().isdisjoint(NAMES):
        return AnswerOptions()
    counts = {name: _parse_count(name, given[name]) for name in ("top_k", "dimensions") if name in given}
    threshold = _parse_number("threshold", given["threshold"]) if "threshold" in given else None
    format_, prompt = (_parse_name(name, given.get(name)) for name in ("format", "prompt"))
    return AnswerOptions(**counts, format=format_, threshold=threshold, prompt=prompt)


def _parse_count(name: str, value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON Schema counts 3.0 as an integer
    text = value if isinstance(value, str) else str(value) if type(value) is int else ""
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text)):
        raise WrongFieldError(f"{name} must be a whole number, 1 or more")
    return int(text)


def _parse_name(name: str, value: object) -> str | None:
    if not isinstance(value, str | None):
        raise WrongFieldError(f"{name} must be a string")
    return value


def _parse_number(name: str, value: object) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise WrongFieldError(f"{name} must be a number")
    return number


def apply_options(description: Description, wanted: AnswerOptions) -> Description:
    """Apply ``wanted`` to the outputs of ``description``.

    Raises WrongFieldError for an option that fits no output, and UnknownPromptError.
    """
    if wanted == AnswerOptions():
        return description
    kinds = {output.kind for output in description.outputs}
    for name, applicable in _FOR.items():
        if getattr(wanted, name) is not None and kinds.isdisjoint(applicable):
            raise WrongFieldError(f"{name} is for outputs of kind {' or '.join(applicable)}, and this model has none")
    if wanted.format is not None:
        formats = [name for kind in _FOR["format"] if kind in kinds for name in list_formats(kind)]
        if wanted.format not in formats:
            raise WrongFieldError(f"format must be one of {', '.join(formats)}")
    if wanted.prompt is not None:
        prompts = description.text.prompts if description.text else {}
        if wanted.prompt not in prompts:
            listed = (
                "one of " + ", ".join(f'"{name}"' for name in prompts)
                if prompts
                else "left out, as this model has none"
            )
            raise UnknownPromptError(f"prompt must be {listed}")
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
    """Return the formats in which an answer of ``kind`` can be written."""
    formats: tuple[str, ...] = import_module(f".answers.{kind}", __package__).FORMATS
    return formats


def _require_possible(description: Description, wanted: AnswerOptions) -> None:
    sizes = {port.name: port.shape[-1] for port in description.fetches if port.shape}
    most = min(sizes[output.fetch] for output in description.outputs if output.kind == "embedding")
    if wanted.dimensions is not None and wanted.dimensions > most:
        raise WrongFieldError(f"dimensions must be at most {most}, of which the embedding is")
