"""Read JSON that somebody else may have written."""

from __future__ import annotations

import json
from typing import Any

_DEEPEST = 100
"""Levels of lists and objects. What coldforge writes has less than twenty; Python's readers and writers recurse, and
end at about a thousand."""


def parse_json(text: str | bytes) -> Any:
    """Parse a text of JSON. Raises ValueError for what is not JSON, and for lists and objects nested too deep."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("its lists and objects are nested too deep") from error
    level = [value]
    for _ in range(_DEEPEST + 1):
        inner = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = [child for children in inner for child in children]
        if not level:
            return value
    raise ValueError(f"its lists and objects are nested more than {_DEEPEST} levels deep")
