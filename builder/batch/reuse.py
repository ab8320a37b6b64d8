"""Items that an earlier run has answered already: the same bytes, by the same layer."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO

from builder.batch.rows import Row
from builder.batch.sources import Item

Answered = sqlite3.Connection


@contextmanager
def answered(rows: Iterable[Row], layer: str) -> Iterator[Answered]:
    """The answers of ``rows`` by ``layer``, on disk by object and ETag: there may be ten million."""
    with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(Path(folder) / "answered")) as known:
        known.execute("PRAGMA synchronous = OFF")
        known.execute("CREATE TABLE answered (object TEXT PRIMARY KEY, row TEXT) WITHOUT ROWID")
        known.executemany(
            "INSERT OR REPLACE INTO answered VALUES (?, ?)",
            (
                (_name(row.item, row.etag), json.dumps(asdict(row)))
                for row in rows
                if row.predictions is not None and row.layer == layer and row.etag and "Key" in row.item
            ),
        )
        yield known


def split(items: Iterable[Item], known: Answered, reused: IO[str]) -> Iterator[Item]:
    """The items with their rows that are still to be answered. The rows of the others go to ``reused``."""
    for number, item in enumerate(items):
        item = {"Row": number, **item}
        etag = item.get("ETag")
        name = _name(item, etag) if etag and "Key" in item else ""
        found = known.execute("SELECT row FROM answered WHERE object = ?", (name,)).fetchone() if name else None
        if found is None:
            yield item
        else:
            row = replace(Row(**json.loads(found[0])), number=number, item=item)
            reused.write(json.dumps(asdict(row), separators=(",", ":")) + "\n")


def _name(item: Item, etag: str | None) -> str:
    return json.dumps([item["Bucket"], item["Key"], etag])
