"""A batch of a Distributed Map over a list (docs/batch.md), whose answers become one object in S3.

    {"Batch": 17, "Items": [{"Row": 1700, "Bucket": …, "Key": …, "ETag": …}, {"Row": 1701, <request>}, …],
     "BatchInput": {"Results": "s3://bucket/prefix/parts/0/", "Together": 4}, "Attempt": 0}

    →  {"batch": 17, "items": 100, "failed": 2, "part": "s3://bucket/prefix/parts/0/00000017.jsonl"}

The object has a line of JSON for the batch, with the model and the SHA-256 of its layer's manifest, and one for each
item: ``{"Row", "ETag", "predictions"}`` or ``{"Row", "ETag", "error"}``. Its name is the batch's number, so a repeated
invocation overwrites it. The answer has counts alone, because Step Functions passes on at most 256 KB.

An error of an item becomes the item's line. Where S3 did not deliver an object, the invocation fails and Step Functions
repeats it; from the third attempt on (``Attempt``, counted from 0) that, too, becomes a line, so that one object never
loses the others. So does an item that there was no time for: the same batch would run out of time again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from . import storage
from .background import answer_file, read_limit
from .deadline import Deadline
from .errors import OutOfTimeError, RetryLater, SourceNotAllowedError, WrongTypeError
from .model import DEFAULT_LIBRARY
from .named_tuples import NamedTuple
from .protocols import predict
from .request import File, join_requests
from .server import Invocation, Server
from .storage import S3Object
from .typed import Any

LAST_ATTEMPT = 2
READ_AHEAD = 8
"""Objects to read at once while another is answered: S3 takes tens of milliseconds for each."""
ROWS_TOGETHER = 64
"""The least number of a table's rows to answer at a time, where there are so many."""
READ_SHARE = 0.25
"""The share of a request's memory for objects that are read ahead."""
TEXT_SHARE = 0.25
"""The share of a request's memory for lines until they are written."""


class BatchItem(NamedTuple):
    """An item of the list. ``source``: its object, or None for a request, which is ``value``. ``etag``: as listed."""

    row: int
    source: S3Object | None
    value: object
    etag: str | None


class ReadItem(NamedTuple):
    """An item with its object's bytes and ETag, or with the error that prevented reading them."""

    item: BatchItem
    data: bytes = b""
    etag: str | None = None
    error: Exception | None = None


def answer_batch(event: dict[str, Any], server: Server, call: Invocation) -> dict[str, Any]:
    """Answer a batch. Raises RetryLater, and HandlerError for an event that is not such a batch."""
    target, number = _parse_target(event)
    items = [_parse_item(row) for row in event["Items"]]
    attempt = event.get("Attempt")
    together = event["BatchInput"].get("Together")
    lines = _ResultLines(server.limits.memory * TEXT_SHARE, last=isinstance(attempt, int) and attempt >= LAST_ATTEMPT)
    answer = _ItemAnswers(server, call, together if isinstance(together, int) else 1)
    for read, outcome in answer.answer_items(_read_items(items, server, call)):
        lines.add_line(read, outcome, call)
    head = {"batch": number, "items": len(items), "model": answer.model, "layer": read_layer_digest()}
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in (head, *lines.rows))
    storage.write_object(target, text, call.count_seconds_left())
    return {"batch": number, "items": len(items), "failed": lines.failed, "part": str(target)}


def read_layer_digest() -> str | None:
    """Return the SHA-256 of the layer's manifest, which lists that of each of its files; None without a manifest."""
    library = os.environ.get("COLDFORGE_LIBRARY") or DEFAULT_LIBRARY
    path = f"{os.path.dirname(os.path.dirname(library))}/model/manifest.json"  # noqa: PTH120  # as in handler/model.py
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None


def _parse_target(event: dict[str, Any]) -> tuple[S3Object, int]:
    """Return the object for the answers, and the batch's number. Raises WrongTypeError, SourceNotAllowedError."""
    number, place = event.get("Batch"), event["BatchInput"]["Results"]
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 10**8:
        raise WrongTypeError('"Batch" must be a number from 0')
    if not isinstance(place, str):
        raise WrongTypeError('"Results" must be a place in S3, as in "s3://bucket/prefix/"')
    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    target = S3Object(bucket, f"{prefix}{number:08}.jsonl")
    if not storage.is_result(target):
        raise SourceNotAllowedError("this function writes results elsewhere: see ResultsBucket and ResultsPrefix")
    return target, number


def _parse_item(row: object) -> BatchItem:
    """Parse an item. Raises WrongTypeError for one that no list has; errors in a request are left to its answer."""
    if not isinstance(row, dict) or not isinstance(row.get("Row"), int):
        raise WrongTypeError('an item of a batch needs its "Row"')
    if "Key" not in row:
        return BatchItem(row["Row"], None, {name: value for name, value in row.items() if name != "Row"}, None)
    fields = [row.get(name) for name in ("Bucket", "Key", "VersionId", "ETag")]
    if not all(isinstance(value, str) for value in fields[:2]):
        raise WrongTypeError('an item with a "Key" needs a "Bucket"; both are strings')
    version, etag = (value if isinstance(value, str) else None for value in fields[2:])
    return BatchItem(row["Row"], S3Object(str(fields[0]), str(fields[1]), version, etag), None, etag)


def _read_items(items: list[BatchItem], server: Server, call: Invocation) -> Iterator[ReadItem]:
    """Yield the items in order, reading a few objects ahead."""
    most = read_limit(server)
    ahead = max(1, min(READ_AHEAD, int(server.limits.memory * READ_SHARE / most)))

    def read(item: BatchItem) -> ReadItem:
        if item.source is None:
            return ReadItem(item)
        try:
            data, etag = storage.read_object(item.source, most, call.count_seconds_left())
            return ReadItem(item, data, etag)
        except Exception as error:
            return ReadItem(item, etag=item.etag, error=error)

    with ThreadPoolExecutor(ahead) as pool:
        waiting: deque[Future[ReadItem]] = deque()
        for item in items:
            waiting.append(pool.submit(read, item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class _ItemAnswers:
    """The model's answers to items. ``together``: the images for one run, if the model was built for several.

    Rows of a table are answered many at a time in any case.
    """

    def __init__(self, server: Server, call: Invocation, together: int) -> None:
        description = server.find_description(None)
        self.model = {"name": description.name, "version": description.version}
        self._server, self._call = server, call
        self._deadline = Deadline(call.remaining_ms)
        alone = description.image is None or len(description.feeds) > 1
        self._together = 1 if alone else max(1, min(together, server.limits.images))
        self._has_rows = description.table is not None and description.batched
        if self._has_rows:
            self._together = max(ROWS_TOGETHER, *description.batches)

    def answer_items(self, reads: Iterable[ReadItem]) -> Iterator[tuple[ReadItem, list[Any] | Exception]]:
        """Yield each item with its predictions, or with the error."""
        group: list[ReadItem] = []
        for read in reads:
            alone = not self._may_join(read)
            if not alone:
                group.append(read)
            if alone or len(group) == self._together:
                yield from self._answer_group(group)
                group = []
            if alone:
                yield read, read.error or self._try_answer(self._answer_one, read)
        yield from self._answer_group(group)

    def _may_join(self, read: ReadItem) -> bool:
        """Return whether the item may be answered with others: an image, or for a model of a table a row."""
        if read.error is not None or read.item.source is not None:
            return read.error is None and not self._has_rows
        value = read.item.value
        return self._has_rows and isinstance(value, dict) and value.keys() <= {"inputs", "row"}

    def _answer_group(self, group: list[ReadItem]) -> Iterator[tuple[ReadItem, list[Any] | Exception]]:
        if len(group) > 1:
            outcome = self._try_answer(self._answer_together, group)
            if not isinstance(outcome, Exception) and len(outcome) == len(group):
                yield from ((read, [prediction]) for read, prediction in zip(group, outcome, strict=True))
                return
        for read in group:  # one of several may be wrong, so each is answered on its own
            yield read, self._try_answer(self._answer_one, read)

    def _try_answer(self, answer: Callable[[Any], list[Any]], items: Any) -> list[Any] | Exception:
        try:
            if not self._deadline.allows_another():
                raise OutOfTimeError("the function ran out of time before this item")
            return answer(items)
        except Exception as error:
            return error

    def _answer_together(self, group: list[ReadItem]) -> list[Any]:
        description, limits = self._server.find_description(None), self._server.limits
        if self._has_rows:
            request = join_requests([predict.parse_event(read.item.value, description, limits) for read in group])
        else:
            files = [File(read.data, str(read.item.source)) for read in group]
            request = predict.make_file_request(files, description, limits)
        return list(predict.answer_request(request, self._server, self._call, None)["predictions"])

    def _answer_one(self, read: ReadItem) -> list[Any]:
        if read.item.source is None:
            answer = predict.answer_event(read.item.value, self._server, self._call, partial=False, limit=None)
        else:
            answer = answer_file(read.data, read.item.source, self._server, self._call)
        return list(answer["predictions"])


class _ResultLines:
    """The lines of the object that is written. ``last``: whether nothing will be retried."""

    def __init__(self, characters: float, *, last: bool) -> None:
        self.rows: list[dict[str, Any]] = []
        self.failed = 0
        self._left, self._last = characters, last

    def add_line(self, read: ReadItem, outcome: list[Any] | Exception, call: Invocation) -> None:
        """Add the item's line. Raises RetryLater where the item may succeed when the whole batch is retried."""
        row: dict[str, Any] = {"Row": read.item.row, "ETag": read.etag or read.item.etag}
        if not isinstance(outcome, Exception):  # predictions are kept until all are written
            self._left -= len(json.dumps(outcome))
            if self._left < 0:
                outcome = OutOfTimeError("the answers of this batch are too large together; take fewer at a time")
        if isinstance(outcome, Exception):
            refusal = call.refuse(outcome)
            if refusal.code == "storage_unavailable" and not self._last:
                raise RetryLater(f"S3 did not deliver all objects; see request {call.request_id}")
            self.failed += 1
            row |= predict.format_error(refusal)
        else:
            row["predictions"] = outcome
        self.rows.append(row)
