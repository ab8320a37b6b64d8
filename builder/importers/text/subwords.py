"""Tokenizers that the ``tokenizers`` package runs in the function: see handler/text/subwords.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from builder.importers.text.patterns import measure_limits
from builder.importers.text.prepared import PreparedTokenizer

KIND = "subwords"


def prepare_subwords(data: Mapping[str, Any], pad: int) -> PreparedTokenizer:
    """Return the data of a tokenizer.json without truncation and padding, which the function does itself."""
    unpadded = {**data, "truncation": None, "padding": None}
    text = json.dumps(unpadded, ensure_ascii=False, separators=(",", ":"))
    limits = measure_limits(data.get("normalizer"), data.get("pre_tokenizer"))
    return PreparedTokenizer(KIND, limits, text.encode(), pad, _count_special_tokens(data.get("post_processor")))


def _count_special_tokens(processor: Any) -> int:
    """Return the number of special tokens that are added to a text."""
    if not processor:
        return 0
    if processor["type"] == "Sequence":
        return sum(map(_count_special_tokens, processor["processors"]))
    if processor["type"] == "TemplateProcessing":
        return sum("SpecialToken" in part for part in processor["single"])
    return 2 if processor["type"] in ("BertProcessing", "RobertaProcessing") else 0
