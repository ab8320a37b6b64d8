"""budget.toml has a maximum for each package, and lines are counted once."""

from __future__ import annotations

import tomllib

from tests.conftest import ROOT
from tests.line_budget import count_lines

LINES: dict[str, int] = tomllib.loads((ROOT / "budget.toml").read_text(encoding="utf-8"))["lines"]


def test_each_package_has_a_budget() -> None:
    packages = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "builder").glob("*/__init__.py")}
    assert packages | {"builder/runtime", "handler", "tests"} <= set(LINES)
    assert all((ROOT / name).exists() for name in LINES)


def test_lines_are_counted_as_they_are_in_files() -> None:
    files = sorted((ROOT / "builder" / "config").glob("*.py"))
    counted = count_lines(["builder/config", "Makefile"])
    assert counted["builder/config"] == sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    assert counted["Makefile"] == len((ROOT / "Makefile").read_text(encoding="utf-8").splitlines())
