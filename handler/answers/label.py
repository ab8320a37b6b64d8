"""Labels of classes that the model gives by their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..answer import Item, Number, nested, numbers
from ..description import Output, Port
from ..typed import Any

_SHORTEST = len('"", ')


def answer(output: Output, item: Item) -> Any:
    """The labels, nested as the numbers are."""
    port, _ = item.fetches[output.fetch]
    data, shape = item.part(output.fetch)
    return nested(labelled(output, numbers(port.dtype, data)), shape)


def labelled(output: Output, classes: Sequence[Number]) -> list[str]:
    """The label of each of ``classes``; the number itself where there is none."""
    labels = output.labels
    return [labels[n] if isinstance(n, int) and 0 <= n < len(labels) else str(n) for n in classes]


def shortest(output: Output, ports: Mapping[str, Port]) -> int:
    """Characters that ``answer`` has at least."""
    port = ports[output.fetch]
    return 0 if 0 in port.least else _SHORTEST * max(port.elements // max(port.shape[0] if port.shape else 1, 1), 1)
