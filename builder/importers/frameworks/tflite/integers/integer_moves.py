"""Operators that move or choose integers: they compute on these as they are if all tensors have one scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from builder.importers.frameworks.tflite.integers.integer_values import IntegerTable, Value
from builder.importers.frameworks.tflite.ops.arrangement import pad_around
from builder.importers.frameworks.tflite.tflite_tensors import Tensor

OPS = IntegerTable()
MOVES = frozenset({
    "ARG_MAX", "ARG_MIN", "BATCH_TO_SPACE_ND", "BROADCAST_TO", "CONCATENATION", "DEPTH_TO_SPACE",
    "DYNAMIC_UPDATE_SLICE", "EMBEDDING_LOOKUP", "EXPAND_DIMS", "FILL", "GATHER", "GATHER_ND", "MAXIMUM", "MINIMUM",
    "MIRROR_PAD", "PACK", "PADV2", "REDUCE_MAX", "REDUCE_MIN", "RESHAPE", "RESIZE_NEAREST_NEIGHBOR", "REVERSE_V2",
    "SELECT", "SELECT_V2", "SLICE", "SPACE_TO_DEPTH", "SPLIT", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE", "TILE",
    "TOPK_V2", "TRANSPOSE", "UNPACK",
})  # fmt: skip


def has_one_grid(tensors: Sequence[Tensor | None]) -> bool:
    """Say whether all quantised tensors among ``tensors`` have one scale and zero point."""
    grids = {(float(item.step), item.zero) for item in tensors if item is not None and item.is_quantised}
    return len(grids) <= 1


@OPS.define("PAD")
def _pad_with_zero_point(_: Any, __: Any, output: Tensor, x: Value, pads: Value) -> Value:
    return pad_around(x, pads, np.asarray(output.zero, output.dtype))
