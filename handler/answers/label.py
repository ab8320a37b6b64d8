"""Labels of the classes that a model gives as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..answer import ItemOutputs, Number, convert_numbers, nest_values
from ..description import Output, Port
from ..typed import Any

_SHORTEST = len('"", ')


def format_answer(output: Output, item: ItemOutputs) -> Any:
    """Return the labels, nested like the numbers."""
    port, _ = item.fetches[output.fetch]
    data, shape = item.get_values(output.fetch)
    return nest_values(find_labels(output, convert_numbers(port.dtype, data)), shape)


def find_labels(output: Output, classes: Sequence[Number]) -> list[str]:
    """Return the label of each of ``classes``, or its number if it has none."""
    labels = output.labels
    return [labels[n] if isinstance(n, int) and 0 <= n < len(labels) else str(n) for n in classes]


def compute_min_length(output: Output, ports: Mapping[str, Port]) -> int:
    """Return the least characters that ``format_answer`` gives."""
    port = ports[output.fetch]
    return 0 if 0 in port.least else _SHORTEST * max(port.elements // max(port.shape[0] if port.shape else 1, 1), 1)
