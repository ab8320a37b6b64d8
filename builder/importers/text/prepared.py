"""The contents of ``model.text`` before it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PreparedTokenizer:
    """Data of a tokenizer for the module ``kind`` of handler/text; ``pad``: the id that fills up texts.

    ``added``: the number of special tokens around each text.
    """

    kind: str
    options: Mapping[str, Any]
    data: bytes
    pad: int
    added: int
