"""How many instructions one run of a library takes: no clock, so the same on a busy machine as on an idle one.

Valgrind's callgrind counts them. It knows no AVX-512, so the kernels of x86-64-v3 are counted on every machine. What
the C library does (copies, zeros) is left out, because each version has its own way.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from tests.support import needs

COUNTS = Path(__file__).resolve().parents[1] / "data" / "instructions.json"
"""``allowed``: by what share a count may differ; ``counts``: instructions of one run, by name."""

PROGRAM = Path(__file__).with_name("counted.c")
RECORD = "RECORD_INSTRUCTIONS"
"""Set to 1, counts are written into COUNTS in place of being held against it: ``make instructions``."""


def load() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(COUNTS.read_text(encoding="utf-8"))
    return found


def count(library: Path, port: dict[str, Any], answer_bytes: int, folder: Path) -> int:
    """Of the first run on one thread, within ``library`` itself.

    ``port``: its one feed, as the library describes it. Its values are whole numbers from 0 to 6.
    """
    program, measured = folder / "counted", folder / "callgrind.out"
    if not program.exists():
        subprocess.run([needs.gcc(), "-std=c11", "-O1", "-Wall", "-Wextra", PROGRAM, "-o", program, "-ldl"], check=True)
    values = (np.arange(np.prod(port["shape"], dtype=int)) % 7).astype(port["dtype"])
    values.tofile(folder / "input")
    command = [
        needs.needs("valgrind"), "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=cf_run",
        "--compress-strings=no", f"--callgrind-out-file={measured}",
        program, library, folder / "input", str(answer_bytes),
    ]  # fmt: skip
    environment = {"PATH": os.environ["PATH"], "COLDFORGE_CPU": "x86-64-v3"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return within(library, measured.read_text(encoding="utf-8"))


def within(library: Path, measured: str) -> int:
    """The instructions of the functions of one object, out of callgrind's file: what they call is counted there."""
    total, here, lines = 0, False, iter(measured.splitlines())
    for line in lines:
        if line.startswith("ob="):
            here = line == f"ob={library}"
        elif line.startswith("calls="):
            next(lines)  # what the callee took
        elif here and line[:1] in "+-*0123456789" and line:
            total += int(line.split()[1])
    return total


def verdict(name: str, found: int, known: dict[str, Any]) -> str | None:
    """What is wrong, and what to do about it; None where the count is as it was."""
    if name not in known["counts"]:
        return f"{name} has no count in {COUNTS.name} yet: `make instructions` writes it."
    before = known["counts"][name]
    if abs(found - before) <= known["allowed"] * before:
        return None
    change = found / before - 1
    said = f"A run of {name} takes {found:,} instructions, where it took {before:,}: {change:+.1%}."
    if change < 0:
        return f"{said} `make instructions` writes the new count, so that it is not lost again."
    return (
        f"{said} {known['allowed']:.0%} are allowed. If this is meant (fewer bytes, shorter waits, a fix), "
        "`make instructions` writes the new count, and the commit says why and what became of the time. If not, "
        "`coldforge explain` before and after the change shows which step it is."
    )


def hold(name: str, found: int) -> None:
    """Fail with a verdict, or write the count where that is asked for."""
    known = load()
    if os.environ.get(RECORD) == "1":
        known["counts"] = dict(sorted({**known["counts"], name: found}.items()))
        COUNTS.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        return
    problem = verdict(name, found, known)
    assert problem is None, problem
