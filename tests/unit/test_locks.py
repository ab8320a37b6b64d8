"""The lock files hold what pyproject.toml and the requirements ask for, each pin with its hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.locks import LOCKS, pins, together

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BUILD = PROJECT["project"]["dependencies"]
GROUPS = [*PROJECT["dependency-groups"]["test"], *PROJECT["dependency-groups"]["lint"]]
BENCH = [line for line in (ROOT / "requirements" / "bench.in").read_text().splitlines() if not line.startswith("#")]


def names(lock: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, requirement, _ in pins(lock):
        found.setdefault(name, []).append(requirement.partition("==")[2].partition(";")[0].strip())
    return found


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.relative_to(ROOT)))
def test_every_line_is_a_pin_with_hashes(lock: Path) -> None:
    lines = [line for line in lock.read_text().splitlines() if line.strip() and line[0] not in " #"]
    assert len(lines) == len(pins(lock)) > 0
    assert all(hashes for _, _, hashes in pins(lock))


WANTED = {"build": BUILD, "test": GROUPS, "bench": [*BUILD, *BENCH]}


@pytest.mark.parametrize("lock", WANTED)
def test_all_that_is_asked_for_is_locked(lock: str) -> None:
    locked = names(ROOT / "requirements" / f"{lock}.txt")
    for requirement in WANTED[lock]:
        found = re.match(r"([A-Za-z0-9._-]+)(?:\[\w+(?:-\w+)*\])?(?:==([^;\s]+))?", requirement)
        assert found is not None
        assert found[1] in locked, f"{found[1]} is missing: run make lock"
        assert found[2] is None or locked[found[1]] == [found[2]]


def test_together_keeps_versions_of_one_package_apart(tmp_path: Path) -> None:
    pin = "{} \\\n    --hash=sha256:" + "0" * 64 + "\n"
    old = tmp_path / "old.txt"
    old.write_text(pin.format("a==1 ; python_version < '3.12'") + pin.format("a==2 ; python_version >= '3.12'"))
    new = tmp_path / "new.txt"
    new.write_text(pin.format("a==3") + pin.format("b==1"))
    assert together([old, new, old]) == [
        ["a==1 ; python_version < '3.12'", "a==2 ; python_version >= '3.12'", "b==1"],
        ["a==3"],
    ]
