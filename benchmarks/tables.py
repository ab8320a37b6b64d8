"""Tables of Markdown, and how times and ratios are written in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

NONE = "–"


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table that also reads well as it is."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

    def line(cells: Sequence[str]) -> str:
        padded = [c.rjust(widths[i]) if i else c.ljust(widths[i]) for i, c in enumerate(cells)]
        return "| " + " | ".join(padded) + " |"

    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"
    return "\n".join([line(rows[0]), rule, *(line(row) for row in rows[1:])])


def ms(value: float | None, digits: int | None = None) -> str:
    """Milliseconds with three or four figures, or with so many ``digits`` behind the point."""
    if value is None:
        return NONE
    if digits is not None:
        return f"{value:.{digits}f}"
    places = 4 if value < 0.1 else 3 if value < 1 else 2 if value < 10 else 1
    return f"{value:.{places}f}"


def bold(ratio: float) -> str:
    """A ratio, in bold where we are ahead."""
    figure = f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
    return f"**{figure}**" if ratio >= 1 else figure


def ratio(found: dict[str, Any]) -> str:
    """``compare``'s ratio of ``benchmarks.latency``, with its spread over the rounds where that is known."""
    if not found.get("ratio"):
        return NONE
    spread = f" ({found['ratio_p10']:.2f}–{found['ratio_p90']:.2f})" if "ratio_p10" in found else ""
    return f"{bold(found['ratio'])}{spread}"


def settings(networks: dict[str, Any]) -> list[str]:
    """The numbers of threads that were measured, those limited to AVX2 last."""
    found = {key for network in networks.values() for key in network["latency"]}
    return sorted(found, key=lambda key: ("avx2" in key, key))


def title(key: str) -> str:
    """A setting in words."""
    threads, _, limit = key.partition("-")
    return f"{threads} thread{'s' if threads != '1' else ''}{', AVX2 only' if limit else ''}"
