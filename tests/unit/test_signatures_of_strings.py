"""Whether a SavedModel's signatures have strings, told from its bytes alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.importers.signatures import has_strings

FLOAT, STRING = 1, 7


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def saved_model(dtype: int, side: int = 1) -> bytes:
    """With one signature, whose one input (1) or output (2) is of that type."""
    info = field(1, b"x:0") + field(2, dtype)
    signature = field(side, field(1, b"x") + field(2, info)) + field(3, b"tensorflow/serving/predict")
    meta = field(2, field(1, b"graph")) + field(5, field(1, b"serving_default") + field(2, signature))
    return field(1, 1) + field(2, meta)


def says(folder: Path, data: bytes) -> bool:
    (folder / "saved_model.pb").write_bytes(data)
    return has_strings(folder)


@pytest.mark.parametrize("side", [1, 2])
def test_inputs_and_outputs(tmp_path: Path, side: int) -> None:
    assert says(tmp_path, saved_model(STRING, side))
    assert not says(tmp_path, saved_model(FLOAT, side))


def test_no_saved_model(tmp_path: Path) -> None:
    assert not has_strings(tmp_path)


@given(st.binary(max_size=80) | st.builds(lambda n: saved_model(STRING)[:n], st.integers(0, 60)))
def test_whatever_the_bytes_are(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    assert says(tmp_path_factory.mktemp("saved"), data) in (True, False)
