"""What a request may ask of its answer, where the model's own way is not wanted: in the query, or beside the input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .description import Description, Output
from .errors import WrongFieldError

COUNTS = ("top_k", "dimensions")
NAMES = (*COUNTS, "format")


class Options(NamedTuple):
    """Zero, empty: the model's own. ``top_k``: how many classes; ``dimensions``: numbers of an embedding, its first."""

    top_k: int = 0
    dimensions: int = 0
    format: str = ""

    def over(self, others: Options) -> Options:
        """These, and those of ``others`` where these say nothing."""
        return Options(self.top_k or others.top_k, self.dimensions or others.dimensions, self.format or others.format)


def options(given: Mapping[str, Any]) -> Options:
    """The options among the keys of a query or a request. Raises WrongFieldError."""
    if given.keys().isdisjoint(NAMES):
        return Options()
    counts = {name: _count(name, given[name]) for name in COUNTS if name in given}
    written = given.get("format", "")
    if not isinstance(written, str):
        raise WrongFieldError("format must be a string")
    return Options(**counts, format=written)


def _count(name: str, value: object) -> int:
    text = value if isinstance(value, str) else str(value) if type(value) is int else ""
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text)):
        raise WrongFieldError(f"{name} must be a whole number, 1 or more")
    return int(text)


def chosen(description: Description, wanted: Options) -> Description:
    """``description`` with outputs as ``wanted``. Raises WrongFieldError for what none of them can be."""
    if wanted == Options():
        return description
    if wanted.dimensions or wanted.format:
        _require_possible(description, wanted)
    return description._replace(outputs=tuple(_chosen(output, wanted) for output in description.outputs))


def _chosen(output: Output, wanted: Options) -> Output:
    if output.kind == "classification":
        return output._replace(top_k=wanted.top_k or output.top_k)
    if output.kind == "embedding":
        return output._replace(dimensions=wanted.dimensions or None, format=wanted.format or output.format)
    return output


def _require_possible(description: Description, wanted: Options) -> None:
    from .answers.embedding import FORMATS

    sizes = {port.name: port.shape[-1] for port in description.fetches if port.shape}
    embeddings = [sizes[output.fetch] for output in description.outputs if output.kind == "embedding"]
    if not embeddings:
        raise WrongFieldError("this model answers no embedding, which dimensions and format are for")
    if wanted.dimensions > min(embeddings):
        raise WrongFieldError(f"dimensions must be at most {min(embeddings)}, of which the embedding is")
    if wanted.format and wanted.format not in FORMATS:
        raise WrongFieldError(f"format must be one of {', '.join(FORMATS)}")
