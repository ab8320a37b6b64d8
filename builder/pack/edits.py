"""Another text made from template.yaml by edits that each have to find their place."""

from __future__ import annotations

import re
from collections.abc import Mapping


def edited(template: str, edits: Mapping[str, str]) -> str:
    """``template`` with what each pattern matches, in exactly one place, replaced. Raises ValueError for another count.

    Patterns are regular expressions, in which ^ is where a line begins; replacements are as in ``re.sub``.
    """
    for pattern, replacement in edits.items():
        template, count = re.subn(pattern, replacement, template, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"template.yaml has {count} places like {pattern!r}")
    return template
