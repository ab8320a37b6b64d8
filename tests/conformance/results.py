"""What came of every case so far: docs/conformance.json and special-values.json, and the page that is made of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, replace

from builder.cli.ops_page import SPECIAL_VALUES
from tests.conformance import page
from tests.conformance.cases import GROUPS
from tests.conformance.run import Result
from tests.conformance.special import Row
from tests.conftest import ROOT

FILE, PAGE = (ROOT / "docs" / f"conformance.{suffix}" for suffix in ("json", "md"))

Results = dict[tuple[str, str], Result]
"""By list and name, in the order of the lists."""


def read() -> Results:
    found = [Result(**row) for row in json.loads(FILE.read_text(encoding="utf-8"))]
    return {(result.group, result.name): result for result in found}


def add(result: Result) -> None:
    """Put ``result`` in the place of an earlier one of its case."""
    short = replace(result, seconds=round(result.seconds, 1), error=float(f"{result.error:.2g}"))
    found = read() | {(result.group, result.name): short}
    order = list(GROUPS)
    rows = [json.dumps(asdict(found[key])) for key in sorted(found, key=lambda key: (order.index(key[0]), key[1]))]
    FILE.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")


def read_special() -> list[Row]:
    """Read what came of ops with special values."""
    return [Row(**row) for row in json.loads(SPECIAL_VALUES.read_text(encoding="utf-8"))]


def write_special(rows: Iterable[Row]) -> None:
    """Replace all results of special values by ``rows``."""
    SPECIAL_VALUES.write_text("[\n" + ",\n".join(json.dumps(asdict(row)) for row in rows) + "\n]\n", encoding="utf-8")


def text() -> str:
    """The page."""
    lists = page.text(list(read().values()), {name: len(cases()) for name, cases in GROUPS.items()})
    return lists + page.special_values(read_special())
