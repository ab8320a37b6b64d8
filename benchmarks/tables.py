"""Tables of Markdown, and the format of their times and ratios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

NONE = "–"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose source reads well, too."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

    def line(cells: Sequence[str]) -> str:
        padded = [c.rjust(widths[i]) if i else c.ljust(widths[i]) for i, c in enumerate(cells)]
        return "| " + " | ".join(padded) + " |"

    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"
    return "\n".join([line(rows[0]), rule, *(line(row) for row in rows[1:])])


def ms(value: float | None, digits: int | None = None) -> str:
    """Format milliseconds with three or four figures, or with ``digits`` after the decimal point."""
    if value is None:
        return NONE
    if digits is not None:
        return f"{value:.{digits}f}"
    places = 4 if value < 0.1 else 3 if value < 1 else 2 if value < 10 else 1
    return f"{value:.{places}f}"


def bold(ratio: float) -> str:
    """Format a ratio, in bold if we are ahead."""
    figure = f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
    return f"**{figure}**" if ratio >= 1 else figure


def ratio(found: dict[str, Any]) -> str:
    """Format the ratio of ``benchmarks.latency.compare``, with its spread over the rounds if that is known."""
    if not found.get("ratio"):
        return NONE
    spread = f" ({found['ratio_p10']:.2f}–{found['ratio_p90']:.2f})" if "ratio_p10" in found else ""
    return f"{bold(found['ratio'])}{spread}"


def settings(networks: dict[str, Any]) -> list[str]:
    """Return the settings that were measured, those limited to AVX2 last."""
    keys = {key for network in networks.values() for key in network["latency"]}
    return sorted(keys, key=lambda key: ("avx2" in key, key))


def title(key: str) -> str:
    """Return a setting in words."""
    threads, _, limit = key.partition("-")
    return f"{threads} thread{'s' if threads != '1' else ''}{', AVX2 only' if limit else ''}"
