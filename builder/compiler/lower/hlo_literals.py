"""Bytes of an HLO constant, as XLA lays them out in its buffer."""

from __future__ import annotations

from typing import Any

import numpy as np

from builder.base.errors import LowerError
from builder.compiler.lower.hlo_shapes import get_dtype

# LiteralProto keeps these dtypes in a repeated field of the wide type named here.
_REPEATED = {
    "bool": ("preds", np.bool_),
    "int32": ("s32s", np.int32),
    "int64": ("s64s", np.int64),
    "uint32": ("u32s", np.uint32),
    "uint64": ("u64s", np.uint64),
    "float32": ("f32s", np.float32),
    "float64": ("f64s", np.float64),
    "complex64": ("c64s", np.float32),
    "complex128": ("c128s", np.float64),
}
# LiteralProto keeps these dtypes as little-endian bytes.
_RAW = {
    "int8": "s8s",
    "uint8": "u8s",
    "int16": "s16s",
    "uint16": "u16s",
    "float16": "f16s",
    "bfloat16": "bf16s",
}


def encode_literal(literal: Any, size: int, name: str) -> bytes:
    """Encode a LiteralProto as little-endian bytes in its own layout, which is the buffer's.

    Raises LowerError, naming the constant, if they are not the ``size`` bytes that its buffer holds.
    """
    kind = get_dtype(literal.shape)
    if kind in _RAW:
        data = bytes(getattr(literal, _RAW[kind]))
    else:
        field, wide = _REPEATED[kind]
        data = np.fromiter(getattr(literal, field), dtype=wide).tobytes()
    if len(data) != size:
        raise LowerError(f"constant {name} holds {len(data)} bytes of {kind}, its buffer {size}.")
    return data
