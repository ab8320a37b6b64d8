"""Prints tables as plain text whose columns line up in any terminal and log."""

from __future__ import annotations

from collections.abc import Sequence

from builder.base.escape import escape_invisible

RULE = None
"""A row of ``format_table`` that is a horizontal line."""


def format_table(
    headers: Sequence[str], rows: Sequence[Sequence[str] | None], *, right: Sequence[int] = (), indent: int = 2
) -> str:
    """Return columns two spaces apart, those numbered in ``right`` aligned right; ``RULE`` draws a line.

    A row may be shorter than the headers. No line ends in a space.
    """
    width = len(headers)
    cells = [None if row is None else [*map(escape_invisible, row), *[""] * (width - len(row))] for row in rows]
    sizes = [max(len(row[i]) for row in [list(headers), *(c for c in cells if c)]) for i in range(width)]

    def line(row: Sequence[str]) -> str:
        parts = [
            cell.rjust(n) if i in right else cell.ljust(n) for i, (cell, n) in enumerate(zip(row, sizes, strict=True))
        ]
        return (" " * indent + "  ".join(parts)).rstrip()

    across = line(["─" * size for size in sizes])
    return "\n".join([line(headers), across, *(across if row is None else line(row) for row in cells)])
