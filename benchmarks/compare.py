"""``python -m benchmarks.compare OLD.json NEW.json``: whether coldforge lost ground against the best peer.

Exits with 1, and says where, when a ratio fell by more than noise. Rounds are paired: in each, all engines had a turn
in the same second, and the round's ratio is the best peer's time over ours. A run's spread is half of what lies between
the tenth and the ninetieth percentile of those ratios, as a logarithm: 1.28 standard deviations of a round. A ratio has
fallen when it is lower by more than both runs' spreads together (the root of the sum of their squares), and by more
than FLOOR. The spread is not divided by the root of the number of rounds, because rounds of a run are no independent
samples: they share where memory lies and what the neighbours do, and two runs of the same code differ by as much.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import identity
from benchmarks.tables import NONE, table

Results = dict[str, Any]

FLOOR = 0.02
"""Share of a ratio by which two quiet runs differ, however steady each one is."""


LEAST_ROUNDS = 8
"""Fewer have no tenth and ninetieth percentile to speak of."""


class NotComparable(Exception):
    """The two results say nothing about each other."""


class RatiosFell(Exception):
    """Some ratios fell by more than noise; the message has the table."""


@dataclass(frozen=True)
class Change:
    """One ratio, before and after. ``least``: the lowest that is no fall. ``new``: None where there is none now."""

    network: str
    setting: str
    old: float
    least: float
    new: float | None
    peers: tuple[str, str | None]

    @property
    def fell(self) -> bool:
        return self.new is None or self.new < self.least


def load(path: Path) -> Results:
    """Raises NotComparable for a file that is no result of ``benchmarks.run``."""
    try:
        found: Results = json.loads(path.read_text(encoding="utf-8"))
        identity(found["machine"])
        return found
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise NotComparable(f"{path} has no results of a benchmark ({error})") from error


def require_alike(old: Results, here: Results) -> None:
    """Raises NotComparable. ``here``: of what is measured now, at least ``machine`` and ``rounds``."""
    before, now = (identity(results["machine"]) for results in (old, here))
    if before != now:
        raise NotComparable(f"ratios of two processors: {before}, and {now}")
    rounds = min(results.get("rounds", 0) for results in (old, here))
    if rounds < LEAST_ROUNDS:
        raise NotComparable(f"{rounds} rounds show no noise; {LEAST_ROUNDS} are the least")


def check(old: Results, new: Results) -> str:
    """The table of what both measured, when no ratio fell. Raises RatiosFell, or NotComparable."""
    require_alike(old, new)
    found = list(changes(old, new))
    if not found:
        raise NotComparable("the two have no network with the same batch and number of threads in common")
    shown = table(_rows(found))
    fallen = sorted({change.network for change in found if change.fell})
    if fallen:
        raise RatiosFell(f"{shown}\n\nfallen by more than noise: {', '.join(fallen)}")
    return shown


def changes(old: Results, new: Results) -> Iterator[Change]:
    """Every ratio of ``old`` that ``new`` measured again, or had to: an engine of ours that failed has none."""
    for name, before in old["networks"].items():
        after = new["networks"].get(name)
        if after is None or _batch(old, before) != _batch(new, after):
            continue
        for setting, one in before["latency"].items():
            other = after["latency"].get(setting)
            if other is None:
                continue
            if one["ratio"]:
                yield _change(name, setting, one, other)
            if one.get("int8", {}).get("ratio") and "int8" in other:
                yield _change(name, f"{setting}, int8", one["int8"], other["int8"])


def _change(name: str, setting: str, one: dict[str, Any], other: dict[str, Any]) -> Change:
    noise = max(math.hypot(_spread(one), _spread(other)), -math.log1p(-FLOOR))
    least = one["ratio"] * math.exp(-noise)
    return Change(name, setting, one["ratio"], least, other["ratio"], (one["best_peer"], other["best_peer"]))


def _spread(found: dict[str, Any]) -> float:
    low, high = found.get("ratio_p10"), found.get("ratio_p90")
    return math.log(high / low) / 2 if low and high else 0.0


def _batch(results: Results, network: dict[str, Any]) -> int:
    return int(network.get("batch", results.get("batch", 1)))


def _rows(found: list[Change]) -> list[list[str]]:
    rows = [["", "threads", "before", "now", "at least", "best peer", ""]]
    for change in found:
        now = NONE if change.new is None else f"{change.new:.2f}"
        before, after = change.peers
        peer = before if before == after else f"{before}, now {after or 'none'}"
        said = "FELL" if change.fell else ""
        rows.append([change.network, change.setting, f"{change.old:.2f}", now, f"{change.least:.2f}", peer, said])
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", type=Path, metavar="OLD.json")
    parser.add_argument("new", type=Path, metavar="NEW.json")
    options = parser.parse_args(arguments)
    try:
        print(check(load(options.old), load(options.new)))
    except RatiosFell as error:
        sys.exit(str(error))
    except NotComparable as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
