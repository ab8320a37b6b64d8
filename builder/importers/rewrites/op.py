"""An op that is to be rewritten, as the module that rewrites it sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

Rewrite = Callable[..., Any]
"""``rewrite(op, *inputs)``: the same as TensorFlow's ``op`` gives, in other ops.

``inputs`` are symbolic tensors of static shape. The answer is a tensor, or a sequence of them, in the order, of the
dtypes and of the shapes of ``op.outputs``; or None, to leave the op as it is. Raises NotRewritten.
"""


class NotRewritten(Exception):
    """Why an op cannot be rewritten here, in words for the model's author."""


@dataclass(frozen=True)
class Output:
    """``dtype``: TensorFlow's own; ``shape``: as far as TensorFlow infers it, None where it knows no rank."""

    dtype: Any
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class Op:
    """One node: ``type`` is its op, and ``outputs`` what it gives."""

    type: str
    outputs: tuple[Output, ...]
    _attributes: Mapping[str, Any]
    _constants: Sequence[Callable[[], NDArray[Any] | None]]

    def attr(self, name: str) -> Any:
        """The attribute's value: a number, a bool, a str, a DType, or a list of them."""
        value = self._attributes[name]
        return [_text(one) for one in value] if isinstance(value, list) else _text(value)

    def constant(self, number: int) -> NDArray[Any]:
        """The value of an input that no feed decides. Raises NotRewritten where a feed does."""
        value = self._constants[number]()
        if value is None:
            raise NotRewritten(f"its input {number} is not a constant")
        return value


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
