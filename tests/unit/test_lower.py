"""XLA's shapes and constants, as the lowering reads them."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.base.errors import LowerError
from builder.compiler.lower import hlo_proto
from builder.compiler.lower.hlo_proto import encode_literal


def shape(dims: list[int], minor_to_major: list[int] | None = None, element_type: int = 11) -> SimpleNamespace:
    """A stand-in for xla.ShapeProto with the fields the lowering reads."""
    order = list(reversed(range(len(dims)))) if minor_to_major is None else minor_to_major
    return SimpleNamespace(dimensions=dims, element_type=element_type, layout=SimpleNamespace(minor_to_major=order))


@st.composite
def dense_shapes(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    dims = draw(st.lists(st.integers(1, 4), max_size=5))
    return dims, draw(st.permutations(range(len(dims))))


@given(dense_shapes())
def test_strides_are_numpys_for_any_layout(case: tuple[list[int], list[int]]) -> None:
    dims, minor_to_major = case
    order = list(reversed(minor_to_major))
    memory = np.arange(math.prod(dims), dtype=np.int64).reshape([dims[d] for d in order])
    logical = memory.transpose(np.argsort(order)) if dims else memory
    ours = hlo_proto.compute_shape_strides(shape(dims, minor_to_major))
    for index in np.ndindex(*dims):
        assert logical[index] == sum(i * s for i, s in zip(index, ours, strict=True))
    contiguous = bool(np.array_equal(logical.reshape(-1), np.arange(math.prod(dims))))
    assert hlo_proto.is_row_major(shape(dims, minor_to_major)) == contiguous


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_merging_all_row_major_dimensions_has_stride_one(dims: list[int]) -> None:
    total, stride = hlo_proto.merge_dimensions(shape(dims), list(range(len(dims))), "x")
    assert total == math.prod(dims)
    assert stride == (1 if any(d > 1 for d in dims) else 0)


def test_merging_dimensions_apart_is_refused_by_name() -> None:
    with pytest.raises(LowerError, match=r"my_dot.*\[0, 2\] of \[2, 3, 4\]"):
        hlo_proto.merge_dimensions(shape([2, 3, 4]), [0, 2], "my_dot")


def test_unknown_element_types_are_refused() -> None:
    with pytest.raises(LowerError, match="element type 21"):
        hlo_proto.get_dtype(shape([1], element_type=21))


@pytest.mark.parametrize(
    ("element_type", "field", "values", "dtype"),
    [
        (1, "preds", [True, False, True], np.bool_),
        (4, "s32s", [-1, 2, 2**31 - 1], np.int32),
        (5, "s64s", [-(2**63), 7, 0], np.int64),
        (11, "f32s", [0.1, math.inf, -0.0], np.float32),
        (12, "f64s", [0.1, -math.inf, 1e300], np.float64),
        (6, "u8s", b"\x00\xff\x07", np.uint8),
        (10, "f16s", np.array([1, 2, 3], np.float16).tobytes(), np.float16),
    ],
)
def test_literals_are_little_endian_bytes(element_type: int, field: str, values: object, dtype: type) -> None:
    literal = SimpleNamespace(shape=shape([3], element_type=element_type), **{field: values})
    raw = values if isinstance(values, bytes) else np.array(values, dtype).tobytes()
    assert encode_literal(literal, len(raw), "c") == raw
    with pytest.raises(LowerError, match="constant c holds"):
        encode_literal(literal, len(raw) + 1, "c")
