"""Texts of a request by their length, so that those of a run need the same, and their answers in order again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..description import Description


def by_length(ids: Sequence[Sequence[int]], description: Description) -> list[int]:
    """The places of ``ids``, the shortest first; none where the order makes no difference to the model."""
    if not (description.alike and description.sizes and description.text_alone) or len(ids) <= description.batches[0]:
        return []
    return sorted(range(len(ids)), key=lambda place: len(ids[place]))


def restored(
    batches: Sequence[tuple[list[memoryview], int]], places: Sequence[int], description: Description
) -> tuple[list[memoryview], int]:
    """The answers of all ``batches``, whose items came as ``places`` has them, as those of one run in order."""
    came = sorted(range(len(places)), key=places.__getitem__)  # when each item came
    found = []
    for at, port in enumerate(description.fetches):
        each = port.elements // description.batch
        rows = [fetches[at][n * each : (n + 1) * each] for fetches, count in batches for n in range(count)]
        found.append(memoryview(b"".join(rows[number] for number in came)).cast(port.format))
    return found, len(places)
