"""Items that an earlier run has answered already: the same bytes, under any name, by the same layer."""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO

from builder.release.batch.answer_rows import ResultRow
from builder.release.batch.batch_items import Item

AnswerStore = sqlite3.Connection

_OF_BYTES = re.compile(r"[0-9a-f]{32}(-[0-9]+)?")
"""Form of an ETag that S3 makes: the MD5 of the bytes or of an upload's parts, or one that no other object has.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html
"""


@contextmanager
def store_answers(rows: Iterable[ResultRow], layer: str) -> Iterator[AnswerStore]:
    """Store the answers of ``rows`` by ``layer`` on disk, by their objects' bytes, as there may be ten million."""
    with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(Path(folder) / "answered")) as known:
        known.execute("PRAGMA synchronous = OFF")
        known.execute("CREATE TABLE answered (bytes TEXT PRIMARY KEY, row TEXT) WITHOUT ROWID")
        known.executemany(
            "INSERT OR REPLACE INTO answered VALUES (?, ?)",
            (
                (_identify_content(row.item, row.etag), json.dumps(asdict(row)))
                for row in rows
                if row.predictions is not None and row.layer == layer and row.etag and "Key" in row.item
            ),
        )
        yield known


def select_new_items(items: Iterable[Item], known: AnswerStore, reused: IO[str]) -> Iterator[Item]:
    """Yield the items that are still to be answered, with their rows. The rows of the others go to ``reused``."""
    for number, item in enumerate(items):
        item = {"Row": number, **item}
        etag = item.get("ETag")
        name = _identify_content(item, etag) if etag and "Key" in item else ""
        answered = known.execute("SELECT row FROM answered WHERE bytes = ?", (name,)).fetchone() if name else None
        if answered is None:
            yield item
        else:
            row = replace(ResultRow(**json.loads(answered[0])), number=number, item=item)
            reused.write(json.dumps(asdict(row), separators=(",", ":")) + "\n")


def _identify_content(item: Item, etag: str) -> str:
    """Return a name for the bytes that are answered: their ETag, and the object's name where the store is not S3.

    The end of the key counts too, because it decides how a text is read: handler/work.py.
    """
    if _OF_BYTES.fullmatch(etag):
        return json.dumps([etag, item["Key"].endswith(".json")])
    return json.dumps([etag, item["Bucket"], item["Key"]])
