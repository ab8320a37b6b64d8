"""The list that the map reads: a line of JSON for each batch, with its number and its items.

Batches are made here and not by Step Functions (ItemBatcher), so that a batch's number is known before anything runs:
its answers are one object of that number, which a retry overwrites, and a missing part is seen in a listing. Each item
has its ``Row``, the number of its line in the resulting table.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any

from builder.base.errors import BatchError
from builder.release.batch.batch_items import Item
from builder.release.batch.batch_plan import INPUT_BYTES


@dataclass(frozen=True)
class Listing:
    """Items on disk, one per line, because there may be ten million.

    ``bytes``: the size of all lines. ``objects``: the number of items that are objects in S3.
    """

    file: IO[str]
    items: int
    bytes: int
    objects: int

    def __iter__(self) -> Iterator[Item]:
        self.file.seek(0)
        return map(json.loads, self.file)

    def close(self) -> None:
        """Delete the file."""
        self.file.close()


def write_listing(items: Iterable[Item], limit: int | None = None, *, numbered: bool = False) -> Listing:
    """Write ``items``, or the first ``limit`` of them, to disk, each with its row.

    ``numbered``: whether they have a row already. Raises BatchError for an item that no event can hold.
    """
    file = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  # the listing closes it
    count = size = objects = 0
    for row, item in enumerate(islice(items, limit)):
        line = json.dumps(item if numbered else {"Row": row, **item}, separators=(",", ":"), default=_refuse_value)
        if len(line) > INPUT_BYTES:
            raise BatchError(
                f"item {row + 1:,} has {len(line):,} bytes, and an event of Step Functions holds {INPUT_BYTES:,}: "
                "put such requests into S3, and list their keys."
            )
        file.write(line + "\n")
        count, size, objects = count + 1, size + len(line) + 1, objects + ("Key" in item)
    return Listing(file, count, size, objects)


def _refuse_value(value: Any) -> Any:
    """Raise BatchError for a value of Parquet that JSON has no form for."""
    raise BatchError(f"a value of type {type(value).__name__} cannot be sent; take numbers, text or lists.")


def group_items(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """Group ``items`` in their order: at most ``most`` in a group, and no more than an event holds."""
    batch: list[Item] = []
    size = 0
    for item in items:
        length = len(json.dumps(item, separators=(",", ":"))) + 1
        if batch and (len(batch) == most or size + length > INPUT_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += length
    if batch:
        yield batch


def write_batches(items: Iterable[Item], most: int, file: IO[str]) -> int:
    """Write the list of ``items`` into ``file``, and return the number of batches."""
    number = 0
    for number, batch in enumerate(group_items(items, most), 1):
        file.write(json.dumps({"Batch": number - 1, "Items": batch}, separators=(",", ":")) + "\n")
    return number


def read_batches(file: Iterable[bytes | str]) -> Iterator[tuple[int, list[Item]]]:
    """Yield the number and the items of each batch of a list. Raises BatchError."""
    try:
        for line in file:
            row = json.loads(line)
            yield int(row["Batch"]), row["Items"]
    except (ValueError, LookupError, TypeError) as error:
        raise BatchError(f"the list of inputs is damaged: {error}") from error
