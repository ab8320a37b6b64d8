"""The report: a row for each file, as a table to read and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """What of a file was run. ``missed``: lines never run; ``partial``: lines with a branch never taken."""

    file: str
    lines: int
    lines_run: int
    branches: int
    branches_run: int
    missed: tuple[int, ...] = ()
    partial: tuple[int, ...] = ()


def total(rows: Sequence[Row]) -> Row:
    sums = [sum(getattr(row, key) for row in rows) for key in ("lines", "lines_run", "branches", "branches_run")]
    return Row("all", *sums)


def share(part: int, whole: int) -> str:
    """``part`` of ``whole`` in percent, rounded down: 100 % is all of it."""
    return f"{int(1000 * part / whole) / 10:.1f} %" if whole else "–"


def table(title: str, rows: Sequence[Row]) -> str:
    """Markdown."""
    text = [
        f"| {title} | lines | run | branches | taken | never run | with a branch never taken |",
        "|---|---|---|---|---|---|---|",
    ]
    text += [
        f"| {row.file} | {row.lines} | {share(row.lines_run, row.lines)} "
        f"| {row.branches} | {share(row.branches_run, row.branches)} | {ranges(row.missed)} | {ranges(row.partial)} |"
        for row in [total(rows), *sorted(rows, key=lambda row: row.branches_run - row.branches)]
    ]
    return "\n".join(text) + "\n"


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in rising order as ``3–5, 9``."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ", ".join(str(group[0]) if len(group) == 1 else f"{group[0]}–{group[-1]}" for group in found)


def to_dict(rows: Sequence[Row]) -> dict[str, Any]:
    return {"total": asdict(total(rows)), "files": [asdict(row) for row in rows]}
