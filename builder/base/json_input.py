"""Reads JSON from untrusted sources."""

from __future__ import annotations

import json
from typing import Any

_DEEPEST = 100
"""The largest nesting of lists and objects. coldforge writes less than twenty levels; Python's readers and writers
recurse, and fail at about a thousand."""


def parse_json(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError if the text is invalid, or if lists and objects are nested too deep."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("its lists and objects are nested too deep") from error
    level = [value]
    for _ in range(_DEEPEST + 1):
        inner = (item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list))
        level = [child for children in inner for child in children]
        if not level:
            return value
    raise ValueError(f"its lists and objects are nested more than {_DEEPEST} levels deep")
