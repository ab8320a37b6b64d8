"""Answers of a run, one row for each line of its lists, in their order and in one pass; and answers to be reused.

A part belongs to one batch, and a batch is a piece of a list. So inputs and answers are matched without sorting: memory
holds a few batches and their parts, however many rows there are.
"""

from __future__ import annotations

import heapq
import json
import re
import sqlite3
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import IO, Any, TypeVar

from builder.base.errors import BatchError
from builder.release.batch.batch_items import Item
from builder.release.batch.batch_manifest import read_batches
from builder.release.batch.batch_run import BatchAttempt, BatchRun
from builder.release.batch.s3_location import open_object, read_object

NOT_ANSWERED = "not_answered"
"""Code of an item whose batch has no part: the batch failed for good, or has not run yet."""

MAY_SUCCEED = frozenset((NOT_ANSWERED, "out_of_time", "storage_unavailable", "internal"))
"""Codes of items that are worth another attempt as they are."""

_AHEAD = 8
T = TypeVar("T")
R = TypeVar("R")
AnswerStore = sqlite3.Connection

_OF_BYTES = re.compile(r"[0-9a-f]{32}(-[0-9]+)?")
"""Form of an ETag that S3 makes: the MD5 of the bytes or of an upload's parts, or one that no other object has.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html
"""


@dataclass(frozen=True)
class ResultRow:
    """Result of an item. ``number``: its row; ``predictions``: None with an error ``code``; ``layer``: its digest."""

    number: int
    item: Item
    etag: str | None
    predictions: list[Any] | None
    code: str | None = None
    message: str | None = None
    model: str | None = None
    version: str | None = None
    layer: str | None = None


def read_rows(run: BatchRun, s3: Any) -> Iterator[ResultRow]:
    """Yield the rows of ``run``: the last of several answers, or the last error that says something.

    Raises BatchError where S3 does not answer or a list is damaged.
    """
    streams = [_read_reused(run, s3)] if run.reused else []
    streams += [_read_attempt(run, attempt, s3) for attempt in run.attempts]
    for _, duplicates in groupby(heapq.merge(*streams, key=lambda row: row.number), key=lambda row: row.number):
        yield choose_best_row(duplicates)


def choose_best_row(same: Iterable[ResultRow]) -> ResultRow:
    """Return the row that counts among the rows of one item, of which the first attempt's comes first."""
    return max(enumerate(same), key=lambda pair: (_rate_row(pair[1]), pair[0]))[1]


def _rate_row(row: ResultRow) -> int:
    return 2 if row.predictions is not None else 0 if row.code == NOT_ANSWERED else 1


def join_answers(items: Iterable[Item], part: bytes | None) -> Iterator[ResultRow]:
    """Yield one row for each of ``items``, a batch, from its ``part``, which may be damaged or missing."""
    head, lines = _parse_part(part)
    model = _object_or_empty(head.get("model"))
    about = {"model": model.get("name"), "version": model.get("version"), "layer": head.get("layer")}
    for item in items:
        line = lines.get(item["Row"])
        etag = item.get("ETag")
        if line is None:
            yield ResultRow(item["Row"], item, etag, None, NOT_ANSWERED, "its batch has no answer")
            continue
        etag = line.get("ETag") or etag
        if isinstance(line.get("predictions"), list):
            yield ResultRow(item["Row"], item, etag, line["predictions"], **about)
        else:
            error = _object_or_empty(line.get("error"))
            code, message = str(error.get("code", "internal")), str(error.get("message", ""))
            yield ResultRow(item["Row"], item, etag, None, code, message, **about)


def _object_or_empty(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _parse_part(part: bytes | None) -> tuple[dict[str, Any], dict[int, dict[str, Any]]]:
    """Return the head of a part, and its lines by row; both are empty where the part is damaged."""
    try:
        head, *lines = [json.loads(line) for line in (part or b"").splitlines()]
        return dict(head), {line["Row"]: line for line in lines}
    except (ValueError, LookupError, TypeError):
        return {}, {}


def _read_attempt(run: BatchRun, attempt: BatchAttempt, s3: Any) -> Iterator[ResultRow]:
    def fetched(batch: tuple[int, list[Item]]) -> list[ResultRow]:
        number, items = batch
        return list(join_answers(items, read_object(run.place.join_key(attempt.make_part_name(number)), s3)))

    for batch_items in _map_ahead(fetched, read_batches(_read_lines(run, attempt.list, s3))):
        yield from batch_items


def _map_ahead(work: Callable[[T], R], arguments: Iterable[T]) -> Iterator[R]:
    """Yield the result of ``work`` for each of ``arguments``, in their order; a few are worked on at once."""
    with ThreadPoolExecutor(_AHEAD) as pool:
        waiting: deque[Future[R]] = deque()
        for argument in arguments:
            waiting.append(pool.submit(work, argument))
            if len(waiting) > _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _read_reused(run: BatchRun, s3: Any) -> Iterator[ResultRow]:
    try:
        for line in _read_lines(run, "reused.jsonl", s3):
            yield ResultRow(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise BatchError(f"{run.place.join_key('reused.jsonl')} is damaged: {error}") from error


def _read_lines(run: BatchRun, name: str, s3: Any) -> Iterator[bytes]:
    """Yield the lines of an object of the run while it is read. Raises BatchError."""
    with open_object(run.place.join_key(name), s3) as body:
        for line in body.iter_lines(chunk_size=1 << 20):
            if line:
                yield line


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

    The end of the key counts too, because it decides how a text is read: handler/background.py.
    """
    if _OF_BYTES.fullmatch(etag):
        return json.dumps([etag, item["Key"].endswith(".json")])
    return json.dumps([etag, item["Bucket"], item["Key"]])
