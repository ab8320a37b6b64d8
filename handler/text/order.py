"""The order of a request's texts by length, so that a run has texts of like length, and the way back to theirs."""

from __future__ import annotations

from collections.abc import Sequence

from ..typed import TYPE_CHECKING

if TYPE_CHECKING:
    from ..description import Description
    from ..request import Request


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
    ids = tuple(request.ids[place] for place in places) if request.ids else ()
    rows = tuple(request.rows[place] for place in places) if request.rows else ()
    return request._replace(ids=ids, rows=rows, inputs=inputs, partial=False)


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
