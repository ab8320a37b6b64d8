"""The lock files of the repository, as `make lock` writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tests.conftest import ROOT

LOCKS = sorted(
    path
    for pattern in (
        "requirements/*.txt",
        "builder/measure/local/requirements.txt",
        "layers/dependencies/requirements.txt",
    )
    for path in ROOT.glob(pattern)
    if "overrides" not in path.name
)

_PIN = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)==(?P<rest>[^\\\n]*)\\?\n(?P<hashes>(?: +--hash=[^\n]*\n)+)", re.MULTILINE
)


def pins(lock: Path) -> list[tuple[str, str, frozenset[str]]]:
    """Every pin of ``lock``: its name, the requirement with its marker, and the SHA-256 of the files it may be."""
    return [
        (
            found["name"],
            f"{found['name']}=={found['rest'].strip()}",
            frozenset(re.findall(r"sha256:([0-9a-f]{64})", found["hashes"])),
        )
        for found in _PIN.finditer(lock.read_text())
    ]


def together(locks: Sequence[Path]) -> list[list[str]]:
    """The requirements of all ``locks``, each once, in lists of which none has two versions of one package."""
    lists: list[dict[str, list[str]]] = []
    for lock in locks:
        by_name: dict[str, list[str]] = {}
        for name, requirement, _ in pins(lock):
            by_name.setdefault(name, []).append(requirement)
        for name, wanted in by_name.items():
            place = next((one for one in lists if one.get(name, wanted) == wanted), None)
            if place is None:
                lists.append(place := {})
            place[name] = wanted
    return [[requirement for wanted in one.values() for requirement in wanted] for one in lists]
