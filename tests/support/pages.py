"""The commands of README and the pages in docs/: each stands in a block of ``console`` after ``$``.

A block of ``sh`` is for what needs the reader's own account or files; nothing runs it.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SERVED = "docs/protocols.md"
"""The page whose commands need a function that is served meanwhile: tests/integration/test_clients.py runs them."""


def commands(page: Path) -> list[str]:
    """The commands of ``page``, in their order. Other lines of a block are what a command prints."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [command for block in blocks for command in re.findall(r"^\$ (.+)$", block, re.MULTILINE)]


def all_commands() -> dict[str, list[str]]:
    """Every command once, README's first, to the pages that have it."""
    found: dict[str, list[str]] = {}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        name = page.relative_to(ROOT).as_posix()
        for command in commands(page) if name != SERVED else []:
            found.setdefault(command, []).append(name)
    return found
