"""What our writer writes, as the safetensors package and the format's rules read it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from builder.deliver.safetensors import DTYPES, METADATA, write

Tensors = Mapping[str, Any]


def written(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "w.safetensors")
        write(path, tensors, metadata)
        return path.read_bytes()


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Any bits, of any dtype and shape: scalars, empty ones, views that are not row-major."""
    name = draw(st.sampled_from(sorted(DTYPES)))
    dtype = np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8)
    array = (raw & 1 if name == "bool" else raw).view(dtype).reshape(shape)
    return array.transpose() if draw(st.booleans()) else array


names = st.text(max_size=20).filter(lambda n: n != METADATA and "\0" not in n and n.isprintable())
models = st.dictionaries(names, arrays(), max_size=6)


@given(models, st.dictionaries(names, names, max_size=3))
def test_the_package_reads_what_was_written(tensors: Tensors, metadata: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "w.safetensors")
        write(path, tensors, metadata)
        with safetensors.safe_open(path, "np") as file:
            assert (file.metadata() or {}) == metadata
        found = safetensors.numpy.load_file(path)
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        assert found[name].tobytes() == tensor.tobytes()  # to the last bit, NaN's too


@given(models)
def test_the_file_keeps_the_formats_rules(tensors: Tensors) -> None:
    """Aligned data without holes or overlaps, to the last byte; the order of the dictionary does not matter."""
    data = written(tensors)
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0
    header = json.loads(data[8 : 8 + length])
    end = 0
    for entry in header.values():  # in the order they were written
        begin, after = entry["data_offsets"]
        assert begin == end
        assert after - begin == int(np.prod(entry["shape"])) * ITEM[entry["dtype"]]
        assert begin % ITEM[entry["dtype"]] == 0
        end = after
    assert len(data) == 8 + length + end
    assert written(dict(reversed(tensors.items()))) == data


ITEM = {short: 2 if name == "bfloat16" else np.dtype(name).itemsize for name, short in DTYPES.items()}


def test_what_the_format_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="z is complex64"):
        written({"z": np.zeros(2, np.complex64)})
    with pytest.raises(ValueError, match=METADATA):
        written({METADATA: np.zeros(2)})
