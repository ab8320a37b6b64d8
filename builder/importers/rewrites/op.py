"""An op that is to be rewritten, and the registry of the functions that rewrite ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from builder.importers.rewrites.constant_nodes import (
    Constants,
    RowLimit,
    SizeLimits,
    constant_of,
    find_row_limit,
    find_size_limits,
)

Rewrite = Callable[..., Any]
"""``rewrite(op, *inputs)``, which returns in other ops what TensorFlow's ``op`` returns.

``inputs`` are symbolic tensors of static shape; where the op is in ``ANY_ROWS``, the data may decide their first size.
The answer is a tensor, or a sequence of them, in the order, of the dtypes and of the shapes of ``op.outputs``; or None,
to leave the op as it is. Raises NotRewritten. The docstring is the op's row in docs/ops.md.
"""

REWRITES: dict[str, Rewrite] = {}
"""The rewrite of each op, by the op's name."""

TYPES: dict[str, Mapping[str, tuple[str, ...]]] = {}
"""For ops that are rewritten for some types alone: the types that each attribute may have."""

ANY_ROWS: set[str] = set()
"""Ops that are rewritten where the data decides the first size of an input, too."""

FLOATS = ("bfloat16", "float16", "float32", "float64")
WHOLE = ("int8", "int16", "int32", "int64")


def rewrites(
    *ops: str, any_rows: bool = False, types: Mapping[str, tuple[str, ...]] | None = None
) -> Callable[[Rewrite], Rewrite]:
    """Register the decorated function as the rewrite of ``ops``, as REWRITES, ANY_ROWS and TYPES describe it."""

    def register(rewrite: Rewrite) -> Rewrite:
        REWRITES.update(dict.fromkeys(ops, rewrite))
        TYPES.update(dict.fromkeys(ops, types or {}))
        ANY_ROWS.update(ops if any_rows else ())
        return rewrite

    return register


class NotRewritten(Exception):
    """The reason why an op cannot be rewritten here, in words for the model's author."""


@dataclass(frozen=True)
class Op:
    """A node to rewrite: its ``operation`` in a graph, and the ``constants`` of the function that the graph is of."""

    operation: Any
    constants: Constants

    @property
    def type(self) -> str:
        """The name of the op."""
        return str(self.operation.type)

    @property
    def outputs(self) -> list[Any]:
        """The node's own results, with the shapes that TensorFlow infers."""
        return list(self.operation.outputs)

    def get_attribute(self, name: str) -> Any:
        """Return the attribute's value: a number, a bool, a str, a DType, or a list of them."""
        value = self.operation.get_attr(name)
        return list(map(_decode_text, value)) if isinstance(value, list) else _decode_text(value)

    def get_constant(self, number: int) -> NDArray[Any]:
        """Return the value of an input that no feed decides, or raise NotRewritten where a feed does."""
        value = self.find_constant(number)
        if value is None:
            raise NotRewritten(f"its input {number} is not a constant")
        return value

    def find_constant(self, number: int) -> NDArray[Any] | None:
        """Return the value of an input that no feed decides, or None where a feed does."""
        return constant_of(self.operation.inputs[number], self.constants)

    def get_row_limit(self, number: int) -> RowLimit:
        """Return how many rows an input of row numbers can name. Raises NotRewritten where the graph does not tell."""
        if (limit := find_row_limit(self.operation.inputs[number], self.constants)) is None:
            raise _explain_unbounded(number)
        return limit

    def get_size_limits(self, number: int) -> SizeLimits:
        """Return the limits of an input that is a shape. Raises NotRewritten where the graph does not tell."""
        if (limits := find_size_limits(self.operation.inputs[number])) is None:
            raise _explain_unbounded(number)
        return limits


def _decode_text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _explain_unbounded(number: int) -> NotRewritten:
    return NotRewritten(f"its input {number} is not a constant, and nothing in the graph says how large it can be")
