"""Whether what cf_describe() says of a library is what its graph is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from builder.config import Variant
from builder.config.tensor import TensorSpec


def description_failures(
    text: str, feeds: tuple[TensorSpec, ...], fetches: tuple[TensorSpec, ...], variant: Variant | None = None
) -> Iterator[str]:
    """Where cf_describe() is not JSON, or tells another story than the graph."""
    try:
        description = json.loads(text)
    except (ValueError, RecursionError):
        yield "cf_describe does not return JSON"
        return
    told: dict[str, Any] = description if isinstance(description, dict) else {}
    if variant:
        if told.get("batch") != variant.batch:
            return  # of further batches it only says that they are there
        try:
            told = _select_variant(told, variant)
        except (AttributeError, LookupError, TypeError):
            told = {}
    for key, specs in (("feeds", feeds), ("fetches", fetches)):
        ours = told.get(key)
        theirs = [spec.to_dict() for spec in specs]
        if ours != theirs:
            yield f"cf_describe says the {key} are {json.dumps(ours)}, the graph says {json.dumps(theirs)}"


def _select_variant(told: dict[str, Any], variant: Variant) -> dict[str, Any]:
    """What a description says of one variant; nothing, where it does not have it."""
    if variant.of:
        told = next((one for one in told.get("signatures", []) if one["signature"] == variant.of), {})
    if variant.size:
        told = dict(enumerate(told.get("shapes", []))).get(variant.size, {})
    return told
