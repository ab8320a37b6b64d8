"""A tokenizer that the ``tokenizers`` package itself runs in the function: see handler/text/subwords.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from builder.importers.text.patterns import measure
from builder.importers.text.prepared import Prepared

KIND = "subwords"


def prepared(data: Mapping[str, Any], pad: int) -> Prepared:
    """``data``: of a tokenizer.json; how far texts are cut and filled up, the function knows."""
    kept = {**data, "truncation": None, "padding": None}
    text = json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
    limits = measure(data.get("normalizer"), data.get("pre_tokenizer"))
    return Prepared(KIND, limits, text.encode(), pad, _added(data.get("post_processor")))


def _added(processor: Any) -> int:
    """How many special tokens are put around a text."""
    if not processor:
        return 0
    if processor["type"] == "Sequence":
        return sum(map(_added, processor["processors"]))
    if processor["type"] == "TemplateProcessing":
        return sum("SpecialToken" in part for part in processor["single"])
    return 2 if processor["type"] in ("BertProcessing", "RobertaProcessing") else 0
