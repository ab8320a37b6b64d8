"""The tensors in an export's weights.safetensors, to the last bit, by the format's own rules."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np

from builder.release.export import DTYPES, save_tensors


def test_every_dtype_and_order_of_memory_is_saved(tmp_path: Path) -> None:
    bits = np.random.default_rng(1).integers(0, 256, 6 * 8, np.uint8)
    tensors = {
        name: (bits & 1 if name == "bool" else bits).view(getattr(ml_dtypes, name, name))[:6].reshape(2, 3)
        for name in sorted(DTYPES)
    }
    tensors |= {
        "turned": tensors["float32"].T,
        "one": np.array(1.5),
        "none": np.zeros((0, 3)),
        "big": np.arange(2, dtype=">i4"),
    }
    first, second = tmp_path / "first", tmp_path / "second"
    save_tensors(tensors, first)
    save_tensors(dict(reversed(tensors.items())), second)
    data = first.read_bytes()
    assert data == second.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    assert header.pop("__metadata__") == {"format": "tf"}
    assert header.keys() == tensors.keys()
    for name, tensor in tensors.items():
        begin, end = header[name]["data_offsets"]
        assert tuple(header[name]["shape"]) == tensor.shape
        assert data[8 + size + begin : 8 + size + end] == tensor.astype(tensor.dtype.newbyteorder("<")).tobytes()
    assert {name: header[name]["dtype"] for name in ("bfloat16", "bool", "uint16")} == {
        "bfloat16": "BF16", "bool": "BOOL", "uint16": "U16",
    }  # fmt: skip
