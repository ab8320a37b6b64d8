"""What ``model.text`` holds, before it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PreparedTokenizer:
    """``kind``: the module of handler/text that reads it, with ``options`` and ``data``. ``pad``: the id behind the end
    of a text; ``added``: how many special tokens are put around each.
    """

    kind: str
    options: Mapping[str, Any]
    data: bytes
    pad: int
    added: int
