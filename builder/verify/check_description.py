"""A check that cf_describe() describes a library's graph."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from builder.config import Variant
from builder.config.tensor import TensorSpec


def description_failures(
    text: str, feeds: tuple[TensorSpec, ...], fetches: tuple[TensorSpec, ...], variant: Variant | None = None
) -> Iterator[str]:
    """Yield the errors of a cf_describe() text that is not JSON or does not describe the graph."""
    try:
        description = json.loads(text)
    except (ValueError, RecursionError):
        yield "cf_describe does not return JSON"
        return
    described: dict[str, Any] = description if isinstance(description, dict) else {}
    if variant:
        if described.get("batch") != variant.batch:
            return  # it only states that further batches exist
        try:
            described = _select_variant(described, variant)
        except (AttributeError, LookupError, TypeError):
            described = {}
    for key, specs in (("feeds", feeds), ("fetches", fetches)):
        ours = described.get(key)
        theirs = [spec.to_dict() for spec in specs]
        if ours != theirs:
            yield f"cf_describe says the {key} are {json.dumps(ours)}, the graph says {json.dumps(theirs)}"


def _select_variant(told: dict[str, Any], variant: Variant) -> dict[str, Any]:
    """Return the description of one variant; it is empty if the variant is missing."""
    if variant.of:
        told = next((entry for entry in told.get("signatures", []) if entry["signature"] == variant.of), {})
    if variant.size:
        told = dict(enumerate(told.get("shapes", []))).get(variant.size, {})
    return told
