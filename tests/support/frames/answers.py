"""What jobs of the tests hand over: the columns of each way of running, sorted by path, in one file of NumPy's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def write(path: str, ways: Mapping[str, list[dict[str, Any]]]) -> None:
    """``ways``: the rows of each, which have a ``path``. Where there is no number, it is NaN, as pandas has it."""
    columns = {}
    for way, rows in ways.items():
        rows = sorted(rows, key=lambda row: Path(row["path"]).name)
        columns[f"{way} path"] = np.array([Path(row["path"]).name for row in rows])
        for name in sorted(set(rows[0]) - {"path"}):
            columns[f"{way} {name}"] = np.array([np.nan if row[name] is None else row[name] for row in rows])
    np.savez(path, **columns)
