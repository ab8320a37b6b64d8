"""The answers of a run, one row for each line of its lists, in their order and in one pass.

A part belongs to one batch, and a batch is a piece of a list. So what was asked and what was answered meet without
sorting: in memory are a few batches and their parts, however many rows there are.
"""

from __future__ import annotations

import heapq
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

from builder.base.errors import BatchError
from builder.release.batch.batch_items import Item
from builder.release.batch.batch_manifest import read
from builder.release.batch.batch_run import Attempt, Run
from builder.release.batch.s3_location import open_object, read_object

NOT_ANSWERED = "not_answered"
"""The code of an item whose batch has no part: it failed for good, or has not run yet."""

MAY_SUCCEED = frozenset((NOT_ANSWERED, "out_of_time", "storage_unavailable", "internal"))
"""Codes of items that are worth another attempt as they are."""

_AHEAD = 8
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Row:
    """``number``: the item's row. ``predictions`` is None where ``code`` says why. ``layer``: its digest."""

    number: int
    item: Item
    etag: str | None
    predictions: list[Any] | None
    code: str | None = None
    message: str | None = None
    model: str | None = None
    version: str | None = None
    layer: str | None = None


def rows(run: Run, s3: Any) -> Iterator[Row]:
    """Yield the rows of ``run``: of several answers the last, and of errors the last that says something.

    Raises BatchError where S3 does not answer or a list is damaged.
    """
    streams = [_reused(run, s3)] if run.reused else []
    streams += [_of_attempt(run, attempt, s3) for attempt in run.attempts]
    for _, same in groupby(heapq.merge(*streams, key=lambda row: row.number), key=lambda row: row.number):
        yield best(same)


def best(same: Iterable[Row]) -> Row:
    """Choose the row that counts among the rows of one item, of which the first attempt's comes first."""
    return max(enumerate(same), key=lambda pair: (_worth(pair[1]), pair[0]))[1]


def _worth(row: Row) -> int:
    return 2 if row.predictions is not None else 0 if row.code == NOT_ANSWERED else 1


def joined(items: Iterable[Item], part: bytes | None) -> Iterator[Row]:
    """Yield one row for each of ``items``, a batch, from its ``part``, whatever that has; None: there is none."""
    head, found = _parsed(part)
    model = _object(head.get("model"))
    about = {"model": model.get("name"), "version": model.get("version"), "layer": head.get("layer")}
    for item in items:
        line = found.get(item["Row"])
        etag = item.get("ETag")
        if line is None:
            yield Row(item["Row"], item, etag, None, NOT_ANSWERED, "its batch has no answer")
        elif isinstance(line.get("predictions"), list):
            yield Row(item["Row"], item, line.get("ETag") or etag, line["predictions"], **about)
        else:
            error = _object(line.get("error"))
            code, message = str(error.get("code", "internal")), str(error.get("message", ""))
            yield Row(item["Row"], item, line.get("ETag") or etag, None, code, message, **about)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _parsed(part: bytes | None) -> tuple[dict[str, Any], dict[int, dict[str, Any]]]:
    """Return the head of a part, and its lines by row; nothing where it is damaged."""
    try:
        head, *lines = [json.loads(line) for line in (part or b"").splitlines()]
        return dict(head), {line["Row"]: line for line in lines}
    except (ValueError, LookupError, TypeError):
        return {}, {}


def _of_attempt(run: Run, attempt: Attempt, s3: Any) -> Iterator[Row]:
    def fetched(batch: tuple[int, list[Item]]) -> list[Row]:
        number, items = batch
        return list(joined(items, read_object(run.place.below(attempt.part(number)), s3)))

    for found in ahead(fetched, read(lines(run, attempt.list, s3))):
        yield from found


def ahead(work: Callable[[T], R], given: Iterable[T]) -> Iterator[R]:
    """Yield the result of ``work`` for each of ``given``, in their order; a few are worked on at once."""
    with ThreadPoolExecutor(_AHEAD) as pool:
        waiting: deque[Future[R]] = deque()
        for one in given:
            waiting.append(pool.submit(work, one))
            if len(waiting) > _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _reused(run: Run, s3: Any) -> Iterator[Row]:
    try:
        for line in lines(run, "reused.jsonl", s3):
            yield Row(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise BatchError(f"{run.place.below('reused.jsonl')} is damaged: {error}") from error


def lines(run: Run, name: str, s3: Any) -> Iterator[bytes]:
    """Yield the lines of an object of the run as they come. Raises BatchError."""
    with open_object(run.place.below(name), s3) as body:
        for line in body.iter_lines(chunk_size=1 << 20):
            if line:
                yield line
