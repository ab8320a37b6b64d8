"""What gcc's counters say of builder/runtime: lines and branches, over every object that was run."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from builder.base.project import RUNTIME
from tests.coverage.table import Row

FLAGS = ("-O0", "-g", "--coverage", "-fprofile-update=atomic", "-Dalways_inline=noinline", "-Wno-attributes")
"""Of gcc. Without optimisation every branch is one of the source's."""

SHARED = ("-std=c11", "-march=x86-64-v3", "-fPIC", "-shared", *FLAGS)


def read(folders: Iterable[Path]) -> list[Row]:
    """Of each file of the runtime that was compiled, from the ``.gcno`` and ``.gcda`` files below ``folders``.

    A header that several objects have counts once: a line or branch is covered that any of them has run.
    """
    lines: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    branches: dict[str, dict[tuple[int, int, int], int]] = defaultdict(lambda: defaultdict(int))
    for path in sorted(path for folder in folders for path in folder.rglob("*.gcno")):
        command = ["gcov", "--json-format", "--stdout", "--branch-probabilities", path.name]
        done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=True)
        for text in done.stdout.splitlines():
            report: dict[str, Any] = json.loads(text)
            for file in report["files"]:
                name = _of_runtime(Path(report["current_working_directory"], file["file"]))
                for line in file["lines"] if name else ():
                    number, counts = line["line_number"], [branch["count"] for branch in line["branches"]]
                    lines[name][number] += line["count"]
                    for i, count in enumerate(counts):
                        branches[name][number, len(counts), i] += count
    return [_row(name, lines[name], branches[name]) for name in sorted(lines)]


def _of_runtime(path: Path) -> str:
    path = path.resolve()
    return path.relative_to(RUNTIME).as_posix() if path.is_relative_to(RUNTIME) else ""


def _row(name: str, lines: dict[int, int], branches: dict[tuple[int, int, int], int]) -> Row:
    missed = {number for number, count in lines.items() if not count}
    partial = {number for (number, *_), count in branches.items() if not count} - missed
    return Row(
        file=name,
        lines=len(lines),
        lines_run=len(lines) - len(missed),
        branches=len(branches),
        branches_run=sum(count > 0 for count in branches.values()),
        missed=tuple(sorted(missed)),
        partial=tuple(sorted(partial)),
    )


def unmeasured(rows: Iterable[Row]) -> list[str]:
    """Files of the runtime that no test compiles with gcc for this processor."""
    measured = {row.file for row in rows}
    found = (path.relative_to(RUNTIME).as_posix() for path in RUNTIME.rglob("*") if path.suffix in (".c", ".h", ".inc"))
    return sorted(set(found) - measured)
