"""Rows of numbers that texts become: their order, the model's size for them, and the feeds of a run, by raw bytes.

A run has rows of like length, so that few are filled up, and the answers get the request's order back.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from ..typed import TYPE_CHECKING

if TYPE_CHECKING:
    from ..description import Description, Port
    from ..request import Request

Row = Mapping[str, bytes]


def pack_tokens(
    ids: Sequence[Sequence[int]], description: Description, types: Sequence[Sequence[int]] = ()
) -> tuple[Row, ...]:
    """Return a row for the token ids of each item: these, a mask of 1, and ``types`` or 0, where the model has them."""
    text = description.text
    assert text is not None
    formats = {port.name: port.format for port in description.feeds}

    def pack_row(row: Sequence[int], own: Sequence[int]) -> Row:
        values = {text.ids: row, text.mask: [1] * len(row), text.types: own or [0] * len(row)}
        return {feed: struct.pack(f"<{len(row)}{formats[feed]}", *values[feed]) for feed in text.feeds}

    return tuple(map(pack_row, ids, types or [()] * len(ids)))


def list_size_ports(description: Description) -> list[dict[str, Port]]:
    """Return the model's feeds by name, in each of its sizes."""
    return [{port.name: port for port in sized.feeds} for sized in description.size_variants]


def choose_row_size(rows: Sequence[Row], sizes: Sequence[Mapping[str, Port]]) -> int:
    """Return the number of the smallest of ``sizes`` that holds all ``rows``."""
    longest = {feed: max(len(row[feed]) for row in rows) for feed in rows[0]}
    fitting = [
        (sum(ports[feed].size for feed in longest), number)
        for number, ports in enumerate(sizes)
        if all(size <= _count_item_bytes(ports[feed]) for feed, size in longest.items())
    ]
    return min(fitting)[1]


def fill_feeds(rows: Sequence[Row], pads: Mapping[str, float], ports: Mapping[str, Port]) -> dict[str, bytes]:
    """Return the raw bytes of each feed for ``rows``. ``pads``: the number that fills up short rows of a feed."""
    feeds: dict[str, bytes] = {}
    for feed in rows[0]:
        values = [row[feed] for row in rows]
        if feed in pads:
            element, size = struct.pack(f"<{ports[feed].format}", pads[feed]), _count_item_bytes(ports[feed])
            values = [value + element * ((size - len(value)) // len(element)) for value in values]
        feeds[feed] = b"".join(values)
    return feeds


def _count_item_bytes(port: Port) -> int:
    return port.size // port.shape[0]


def sort_by_length(lengths: Sequence[int], description: Description) -> list[int]:
    """Return the indices of ``lengths``, the shortest first; an empty list if the order makes no difference."""
    several = description.has_fixed_outputs and description.batched and description.sizes
    if not several or len(lengths) <= description.batches[0]:
        return []
    return sorted(range(len(lengths)), key=lengths.__getitem__)


def reorder_items(request: Request, places: Sequence[int], description: Description) -> Request:
    """Return ``request`` with its items in the order of ``places``, and not partial: its answer would have gaps."""
    inputs = {}
    for port in description.feeds:
        if (data := request.inputs.get(port.name)) is not None:
            each = port.size // description.batch
            inputs[port.name] = b"".join(data[place * each : (place + 1) * each] for place in places)
    rows = tuple(request.rows[place] for place in places)
    return request._replace(rows=rows, inputs=inputs, partial=False)


def restore_order(
    batches: Sequence[tuple[list[memoryview], int]], places: Sequence[int], description: Description
) -> tuple[list[memoryview], int]:
    """Join the answers of ``batches`` as if of one run, in the original order of the items at ``places``."""
    rank = sorted(range(len(places)), key=places.__getitem__)  # the row of each item
    restored = []
    for at, port in enumerate(description.fetches):
        each = port.elements // description.batch
        rows = [fetches[at][n * each : (n + 1) * each] for fetches, count in batches for n in range(count)]
        restored.append(memoryview(b"".join(rows[number] for number in rank)).cast(port.format))
    return restored, len(places)
