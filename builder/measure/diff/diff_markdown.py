"""A difference as Markdown: for a terminal, a log and the comment of a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from builder.base.escape import markdown
from builder.measure.diff.bundle_difference import Difference, Figure
from builder.measure.diff.compare_speed import Speed


@dataclass(frozen=True)
class Table:
    """A part of the difference; the columns numbered in ``right`` are figures."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[int, ...] = ()


def tables(found: Difference) -> Iterator[Table]:
    """Every part that has something to say, what matters most first."""
    if found.sizes:
        rows = tuple(_figure(f) for f in found.sizes if f.changed) or (_figure(found.sizes[0]),)
        yield Table("Size", ("bytes", "before", "after", "change"), rows, (1, 2, 3))
    if found.speed:
        yield _speed(found.speed)
    if found.errors:
        rows = tuple(_figure(f) for f in found.errors)
        yield Table("Error against TensorFlow", ("output", "before", "after", "change"), rows, (1, 2, 3))
    for title, head, changes in (
        ("Model and tools", "", found.interface),
        ("Steps", "layer", found.steps),
        ("Packages", "package", found.packages),
    ):
        if changes:
            rows = tuple((change.what, _short(change.before), _short(change.after)) for change in changes)
            yield Table(title, (head, "before", "after"), rows)


def summary(found: Difference) -> str:
    """One line: whether there is a difference, and of what kind."""
    if found.same_library:
        return "libmodel.so is the same, byte for byte."
    counts = [
        f"{sum(c.before is None for c in found.steps)} added",
        f"{sum(c.after is None for c in found.steps)} removed",
        f"{sum(c.before is not None and c.after is not None for c in found.steps)} changed",
        f"{found.same_steps} the same",
    ]
    return f"libmodel.so differs. Fused steps: {', '.join(counts)}."


def render(found: Difference) -> str:
    """The whole text. Names from models are text in it, and nothing else."""
    lines = [f"### {markdown(found.before)} → {markdown(found.after)}", "", summary(found)]
    for table in tables(found):
        lines += ["", f"**{table.title}**", "", *_table(table)]
    if found.speed is None:
        lines += ["", "Speed was not measured; `coldforge diff --time` does."]
    return "\n".join(lines)


def _table(table: Table) -> Iterator[str]:
    cells = [[markdown(cell) for cell in row] for row in (table.headers, *table.rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(table.headers))]

    def line(row: Sequence[str]) -> str:
        padded = [
            c.rjust(w) if i in table.right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    yield line(cells[0])
    yield "|" + "|".join(f"{'-' * (w + 1)}:" if i in table.right else "-" * (w + 2) for i, w in enumerate(widths)) + "|"
    yield from map(line, cells[1:])


def _figure(figure: Figure) -> tuple[str, ...]:
    before, after = figure.before, figure.after
    return figure.what, _number(figure, before), _number(figure, after), _changed(figure)


def _number(figure: Figure, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if figure.unit == "bytes" or isinstance(value, int) else f"{value:.2g}"


def _changed(figure: Figure) -> str:
    if figure.before is None or figure.after is None:
        return ""
    step = figure.after - figure.before
    if not step:
        return "same"
    share = f" ({100 * step / figure.before:+.1f} %)" if figure.before else ""
    return f"{step:+,}{share}" if isinstance(step, int) else f"{step:+.2g}{share}"


def _short(value: str | None) -> str:
    """Of a SHA-256, as much as tells it from another."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1…", value) if value else "–"


def _speed(speed: Speed) -> Table:
    threads = "1 thread" if speed.threads == 1 else f"{speed.threads} threads"
    title = f"Speed on {speed.cpu}, {threads}, over {speed.before.runs:,} rounds that took turns"
    rows = [
        (name, f"{before:.4g}", f"{after:.4g}", f"{100 * (after / before - 1):+.1f} %")
        for name, before, after in (
            ("p50", speed.before.p50, speed.after.p50),
            ("p90", speed.before.p90, speed.after.p90),
            ("p99", speed.before.p99, speed.after.p99),
        )
    ]
    spread = f"{100 * (speed.low - 1):+.1f} to {100 * (speed.high - 1):+.1f} %"
    rows.append(("round by round", "", "", f"{100 * (speed.ratio - 1):+.1f} % (80 % of them {spread})"))
    return Table(title, ("ms", "before", "after", "change"), tuple(rows), (1, 2, 3))
