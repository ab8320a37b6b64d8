"""The largest size of a sparse tensor that the data decides, read off the ops that made it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from builder.importers.rewrites.constant_nodes import Constants, constant_of


@dataclass(frozen=True)
class RowLimit:
    """``most``: each number is below it. ``all_there``: each of them occurs, and they are in order."""

    most: int
    all_there: bool = False


def find_row_limit(numbers: Any, constants: Constants) -> RowLimit | None:
    """Of a vector of row numbers, or of places [values, axes] whose first column they are. None if nothing tells.

    ``constants``: of the arguments of the function whose graph it is in.
    """
    operation = numbers.op
    match operation.type:
        case "Cast" | "Identity":
            return find_row_limit(operation.inputs[0], constants)
        case "StridedSlice" if numbers.shape.rank == 1 and _is_first_column(operation, constants):
            return find_row_limit(operation.inputs[0], constants)
        case "Where" if (size := operation.inputs[0].shape[:1]).is_fully_defined() and size.rank == 1:
            return RowLimit(int(size[0]))
        case "GatherV2" if _is_zero(operation.inputs[2], constants):
            found = find_row_limit(operation.inputs[0], constants)
            return found and RowLimit(found.most)
        case "SparseFillEmptyRows" if (shape := constant_of(operation.inputs[2], constants)) is not None:
            return RowLimit(int(shape[0]), all_there=True)
        case "SparseReorder" if (shape := constant_of(operation.inputs[2], constants)) is not None:
            return RowLimit(int(shape[0]))
        case "SparseReshape" if (shape := constant_of(operation.outputs[1], constants)) is not None:
            return RowLimit(int(shape[0]))
    return None


def find_size_limits(shape: Any) -> tuple[tuple[int, ...], frozenset[int]] | None:
    """The most of each axis of a shape that a graph computes, and the axes that the data decides. None if nothing
    tells.
    """
    operation = shape.op
    if operation.type in ("Cast", "Identity"):
        return find_size_limits(operation.inputs[0])
    if operation.type == "CTCGreedyDecoder" and operation.inputs[0].shape.is_fully_defined():
        steps, batch, _ = operation.inputs[0].shape
        return (batch, steps), frozenset({1})
    return None


def _is_first_column(operation: Any, constants: Constants) -> bool:
    """Tell whether a StridedSlice of a matrix is ``[:, 0]``."""
    begin, end = (constant_of(operation.inputs[number], constants) for number in (1, 2))
    masks = [operation.get_attr(f"{name}_mask") for name in ("begin", "end", "shrink_axis", "ellipsis", "new_axis")]
    if begin is None or end is None or operation.inputs[0].shape.rank != 2:
        return False
    return masks[2:] == [2, 0, 0] and masks[0] & masks[1] & 1 == 1 and begin[1] == 0


def _is_zero(tensor: Any, constants: Constants) -> bool:
    value = constant_of(tensor, constants)
    return value is not None and int(value) == 0
