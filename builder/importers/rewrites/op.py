"""An op that is to be rewritten, as the module that rewrites it sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from builder.importers.rewrites.input_limits import RowLimit

Rewrite = Callable[..., Any]
"""``rewrite(op, *inputs)``: the same as TensorFlow's ``op`` gives, in other ops.

``inputs`` are symbolic tensors of static shape; where the op is in ``OPEN``, the data may decide their first size. The
answer is a tensor, or a sequence of them, in the order, of the dtypes and of the shapes of ``op.outputs``; or None, to
leave the op as it is. Raises NotRewritten.
"""


Only = Mapping[str, Mapping[str, tuple[str, ...]]]
"""By op: attributes, and the types that they have where the op is rewritten."""

FLOATS = ("bfloat16", "float16", "float32", "float64")
WHOLE = ("int8", "int16", "int32", "int64")


class NotRewritten(Exception):
    """Why an op cannot be rewritten here, in words for the model's author."""


@dataclass(frozen=True)
class OpOutput:
    """``dtype``: TensorFlow's own; ``shape``: as far as TensorFlow infers it, None where it knows no rank."""

    dtype: Any
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class Op:
    """One node: ``type`` is its op, and ``outputs`` what it gives."""

    type: str
    outputs: tuple[OpOutput, ...]
    _attributes: Mapping[str, Any]
    _constants: Sequence[Callable[[], NDArray[Any] | None]]
    _rows: Sequence[Callable[[], RowLimit | None]]
    _sizes: Sequence[Callable[[], tuple[tuple[int, ...], frozenset[int]] | None]]

    def get_attribute(self, name: str) -> Any:
        """The attribute's value: a number, a bool, a str, a DType, or a list of them."""
        value = self._attributes[name]
        return [_text(one) for one in value] if isinstance(value, list) else _text(value)

    def get_constant(self, number: int) -> NDArray[Any]:
        """The value of an input that no feed decides. Raises NotRewritten where a feed does."""
        value = self._constants[number]()
        if value is None:
            raise NotRewritten(f"its input {number} is not a constant")
        return value

    def find_constant(self, number: int) -> NDArray[Any] | None:
        """The value of an input that no feed decides, None where a feed does."""
        return self._constants[number]()

    def get_row_limit(self, number: int) -> RowLimit:
        """Return how many rows an input of row numbers can name. Raises NotRewritten where the graph does not tell."""
        if (found := self._rows[number]()) is None:
            raise NotRewritten(
                f"its input {number} is not a constant, and nothing in the graph says how large it can be"
            )
        return found

    def get_size_limits(self, number: int) -> tuple[tuple[int, ...], frozenset[int]]:
        """Of an input that is a shape: the most of each axis, and those that the data decides. Raises NotRewritten."""
        if (found := self._sizes[number]()) is None:
            raise NotRewritten(
                f"its input {number} is not a constant, and nothing in the graph says how large it can be"
            )
        return found


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
