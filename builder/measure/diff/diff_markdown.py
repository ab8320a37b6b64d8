"""A difference as Markdown: for a terminal, a log and the comment of a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from builder.base.escape import escape_markdown
from builder.measure.diff.bundle_difference import BundleDifference, Figure, SpeedComparison


@dataclass(frozen=True)
class DiffTable:
    """A part of the difference; the columns numbered in ``right`` are figures."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[int, ...] = ()


def make_tables(difference: BundleDifference) -> Iterator[DiffTable]:
    """Yield every part of the difference that is not empty, the most important first."""
    if difference.sizes:
        rows = tuple(_format_figure(f) for f in difference.sizes if f.before != f.after) or (
            _format_figure(difference.sizes[0]),
        )
        yield DiffTable("Size", ("bytes", "before", "after", "change"), rows, (1, 2, 3))
    if difference.speed:
        yield _make_speed_table(difference.speed)
    if difference.errors:
        rows = tuple(_format_figure(f) for f in difference.errors)
        yield DiffTable("Error against the model's own", ("output", "before", "after", "change"), rows, (1, 2, 3))
    for title, head, changes in (
        ("Model and tools", "", difference.interface),
        ("Steps", "layer", difference.steps),
        ("Packages", "package", difference.packages),
    ):
        if changes:
            rows = tuple((c.what, _shorten_digests(c.before), _shorten_digests(c.after)) for c in changes)
            yield DiffTable(title, (head, "before", "after"), rows)


def format_summary(difference: BundleDifference) -> str:
    """Return one line that says whether there is a difference, and of which kind."""
    if difference.same_library:
        return "libmodel.so is the same, byte for byte."
    steps = difference.steps
    added, removed = sum(c.before is None for c in steps), sum(c.after is None for c in steps)
    counts = (
        f"{added} added, {removed} removed, {len(steps) - added - removed} changed, {difference.same_steps} the same"
    )
    return f"libmodel.so differs. Fused steps: {counts}."


def format_difference(difference: BundleDifference) -> str:
    """Return the whole text. Names from models are plain text in it."""
    lines = [
        f"### {escape_markdown(difference.before)} → {escape_markdown(difference.after)}",
        "",
        format_summary(difference),
    ]
    for table in make_tables(difference):
        lines += ["", f"**{table.title}**", "", *_format_table(table)]
    if difference.speed is None:
        lines += ["", "Speed was not measured; `coldforge diff --time` does."]
    return "\n".join(lines)


def _format_table(table: DiffTable) -> Iterator[str]:
    cells = [[escape_markdown(cell) for cell in row] for row in (table.headers, *table.rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(table.headers))]

    def line(row: Sequence[str]) -> str:
        padded = [
            c.rjust(w) if i in table.right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    yield line(cells[0])
    yield "|" + "|".join(f"{'-' * (w + 1)}:" if i in table.right else "-" * (w + 2) for i, w in enumerate(widths)) + "|"
    yield from map(line, cells[1:])


def _format_figure(figure: Figure) -> tuple[str, ...]:
    numbers = (_format_number(figure, value) for value in (figure.before, figure.after))
    return figure.what, *numbers, _format_change(figure)


def _format_number(figure: Figure, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if figure.unit == "bytes" or isinstance(value, int) else f"{value:.2g}"


def _format_change(figure: Figure) -> str:
    if figure.before is None or figure.after is None:
        return ""
    step = figure.after - figure.before
    if not step:
        return "same"
    share = f" ({100 * step / figure.before:+.1f} %)" if figure.before else ""
    return f"{step:+,}{share}" if isinstance(step, int) else f"{step:+.2g}{share}"


def _shorten_digests(value: str | None) -> str:
    """Shorten a SHA-256 to enough digits to tell it from another."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1…", value) if value else "–"


def _make_speed_table(speed: SpeedComparison) -> DiffTable:
    threads = "1 thread" if speed.threads == 1 else f"{speed.threads} threads"
    title = f"Speed on {speed.cpu}, {threads}, over {speed.before.runs:,} rounds that took turns"
    pairs = [(name, getattr(speed.before, name), getattr(speed.after, name)) for name in ("p50", "p90", "p99")]
    rows = [
        (name, f"{before:.4g}", f"{after:.4g}", f"{100 * (after / before - 1):+.1f} %") for name, before, after in pairs
    ]
    spread = f"{100 * (speed.low - 1):+.1f} to {100 * (speed.high - 1):+.1f} %"
    rows.append(("round by round", "", "", f"{100 * (speed.ratio - 1):+.1f} % (80 % of them {spread})"))
    return DiffTable(title, ("ms", "before", "after", "change"), tuple(rows), (1, 2, 3))
