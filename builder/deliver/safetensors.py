"""Write safetensors files (https://huggingface.co/docs/safetensors): a JSON header, then the tensors' bytes.

The format is small enough that a writer of our own is less than the package would be in every build; the tests
read with the package what this writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from builder.arrays import Array

DTYPES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32",
    "uint64": "U64", "int64": "I64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
}  # fmt: skip
"""NumPy's dtype names, and that of ml_dtypes' bfloat16, to the format's."""

ALIGNMENT = 8
"""The header is padded to it, and wider elements come first: every tensor is aligned for its own type."""

METADATA = "__metadata__"
"""The one name in the header that is no tensor."""


def write(path: Path, tensors: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> None:
    """Write ``tensors``, row-major and little-endian; the same bytes for the same tensors, whatever their order.

    Raises ValueError for a name the format keeps for itself, or a dtype that it has not.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header: dict[str, Any] = {METADATA: dict(sorted(metadata.items()))} if metadata else {}
    offset = 0
    for name in order:
        tensor = tensors[name]
        if name == METADATA:
            raise ValueError(f"{METADATA} cannot be the name of a tensor")
        if tensor.dtype.name not in DTYPES:
            raise ValueError(f"{name} is {tensor.dtype.name}, which safetensors does not have")
        end = offset + tensor.nbytes
        header[name] = {"dtype": DTYPES[tensor.dtype.name], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in order:
            file.write(little_endian(tensors[name]).tobytes())


def little_endian(array: Array) -> Array:
    """``array`` with its bytes in the format's order, whatever this machine's is."""
    return array.astype(array.dtype.newbyteorder("<"), copy=False) if array.dtype.kind in "iufb" else np.asarray(array)
