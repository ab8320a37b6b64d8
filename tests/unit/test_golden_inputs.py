"""The golden inputs: what they cover, and that they are the same on every machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builder.config import FeedSpec, TextSpec
from builder.config.tensor import IndexRange, TensorSpec
from builder.importers.graph import FrozenGraph, GraphPort
from builder.importers.samples.golden_inputs import (
    RANDOM_CASES,
    list_drawn_feeds,
    make_cases,
    make_extremes,
    make_random_values,
)
from tests.support.hand_model import model_spec

FLOATS, INDICES = ("float32", "float64"), ("int16", "uint16", "int32", "uint32", "int64", "uint64")


def feed(dtype: str, shape: tuple[int, ...] = (40, 50), name: str = "x") -> TensorSpec:
    return TensorSpec(name, dtype, shape)


@pytest.mark.parametrize(
    ("dtype", "ends"),
    [("uint8", {0, 255}), ("int8", {-128, 127}), ("bool", {False, True}), *((d, {-1, 1}) for d in FLOATS),
     *((d, {0, 1}) for d in INDICES)],
)  # fmt: skip
def test_extremes_alternate_between_both_ends(dtype: str, ends: set[float]) -> None:
    values = make_extremes(feed(dtype, (3, 2)))
    assert (values.shape, values.dtype) == ((3, 2), np.dtype(dtype))
    assert values.ravel()[:4].tolist() == [max(ends), min(ends), max(ends), min(ends)]


@pytest.mark.parametrize("dtype", FLOATS)
def test_random_floats_are_normal(dtype: str) -> None:
    values = make_random_values(feed(dtype), 0)
    assert (values.shape, values.dtype) == ((40, 50), np.dtype(dtype))
    assert abs(values.mean()) < 0.1
    assert abs(values.std() - 1) < 0.1


@pytest.mark.parametrize(("dtype", "low", "high"), [("uint8", 0, 255), ("int8", -128, 127)])
def test_random_bytes_are_any(dtype: str, low: int, high: int) -> None:
    values = make_random_values(feed(dtype, (100, 100)), 0)
    assert values.dtype == np.dtype(dtype)
    assert set(values.ravel().tolist()) == set(range(low, high + 1))


@pytest.mark.parametrize("dtype", ["bool", *INDICES])
def test_random_integers_may_be_indices(dtype: str) -> None:
    """A table of two rows is the smallest that anybody has; a bool stays one."""
    assert set(make_random_values(feed(dtype), 0).ravel().tolist()) == {0, 1}
    wide = set(make_random_values(feed(dtype), 3, 100).ravel().tolist())
    assert wide == ({0, 1} if dtype == "bool" else set(range(100)))


def test_seeds_and_names_give_other_values_and_the_same_ones_again() -> None:
    first = make_random_values(feed("float32"), 0)
    np.testing.assert_array_equal(first, make_random_values(feed("float32"), 0))
    assert not np.array_equal(first, make_random_values(feed("float32"), 1))
    assert not np.array_equal(first, make_random_values(feed("float32", name="y"), 0))
    # On any machine, with any later NumPy: PCG64 and the ziggurat are fixed.
    np.testing.assert_allclose(first.ravel()[:3], [-0.6485389, 1.081716, 0.9966934], rtol=1e-6)


@pytest.mark.parametrize(("dtype", "wide"), [("float32", False), ("uint8", False), ("int8", False), ("int64", True)])
def test_the_cases_of_a_model_without_images(dtype: str, wide: bool, tmp_path: Path) -> None:
    found = dict(make_cases(model_spec(()), [feed("float32"), feed(dtype, name="other")]))
    assert RANDOM_CASES == 3
    assert list(found) == ["zeros", "extremes", "random-0", "random-1", "random-2", *(["wide", "ends"] if wide else [])]
    assert not found["zeros"]["x"].any()
    for case in found.values():
        assert set(case) == {"x", "other"}
    if wide:
        assert 90 < found["wide"]["other"].max() < 100


@pytest.mark.parametrize("dtype", ["uint8", "int8", *INDICES, *FLOATS])
def test_indices_are_whole_numbers_in_their_range(dtype: str) -> None:
    """And reach both ends of it; other elements are as ever."""
    low = 0 if dtype.startswith("u") else -3
    ranges = (IndexRange(0, 1, 4, 0, 6), IndexRange(2, 2, 4, low, 2), IndexRange(1, 1, 4, 0, 2**31 - 1))
    ranges = ranges if dtype not in ("uint8", "int8", "int16", "uint16") else ranges[:2]
    spec = TensorSpec("x", dtype, (50, 4), ranges=ranges)
    found = [values["x"] for _, values in make_cases(replace(model_spec(), image=None), [spec])]
    assert len(found) > 4
    for values in found:
        assert (values.dtype, values.shape) == (np.dtype(dtype), (50, 4))
        for one in ranges:
            indices = values[:, one.first : one.first + one.count]
            assert (indices == np.rint(indices)).all()
            assert ((indices >= one.minimum) & (indices <= one.maximum)).all()
    ends = np.stack(found)
    assert set(ends[..., 0].ravel().tolist()) >= {0, 6}
    assert set(ends[..., 2:].ravel().tolist()) >= {low, 2}
    assert found[0].any() == 0


@pytest.mark.parametrize("symbols", [2, 7, 257])
def test_numbers_of_a_one_hot_encoding_are_drawn_from_all_of_them(symbols: int) -> None:
    port = GraphPort(TensorSpec("ids", "int32", (50, 100)), "feed/ids:0", symbols)
    graph, spec = FrozenGraph(Path("graph"), (port,), ()), replace(model_spec(), image=None)
    found = dict(make_cases(spec, list_drawn_feeds(spec, graph)))
    assert set(found["random-0"]["ids"].ravel().tolist()) == set(range(min(symbols, 256)))
    assert list_drawn_feeds(spec, replace(graph, feeds=(replace(port, symbols=0),))) == [port.spec]
    assert list_drawn_feeds(replace(spec, text=TextSpec(Path("tokenizer.json"))), graph) == [port.spec]


def test_the_last_random_case_has_zeros_of_both_signs_among_its_floats() -> None:
    found = dict(make_cases(model_spec(()), [feed("float32"), feed("float64", (), "one"), feed("uint8", name="other")]))
    signs = np.signbit(found["random-2"]["x"][found["random-2"]["x"] == 0])
    assert signs.any()
    assert not signs.all()
    assert 0.3 < signs.size / found["random-2"]["x"].size < 0.35
    np.testing.assert_array_equal(found["random-2"]["one"], make_random_values(feed("float64", (), "one"), 2))
    np.testing.assert_array_equal(found["random-2"]["other"], make_random_values(feed("uint8", name="other"), 2))


@pytest.mark.parametrize("dtype", INDICES)
def test_wide_integers_have_a_case_at_the_ends_of_their_type(dtype: str) -> None:
    values = set(dict(make_cases(model_spec(()), [feed(dtype)]))["ends"]["x"].ravel().tolist())
    info = np.iinfo(dtype)
    assert values == {0, 1, info.min, info.max}


@pytest.mark.parametrize("shape", [(40, 50), (1,), (), (0, 3)])
def test_inputs_that_take_nan_have_cases_of_it_and_of_infinities(shape: tuple[int, ...]) -> None:
    spec = replace(model_spec(()), feeds=(FeedSpec("x", nan=True), FeedSpec("y")))
    found = dict(make_cases(spec, [feed("float32", shape), feed("float32", name="y")]))
    assert {"missing", "infinite"} <= set(found)
    for name, arrays in found.items():
        finite = np.isfinite(arrays["x"])
        assert np.isfinite(arrays["y"]).all()
        assert finite.all() == (name not in ("missing", "infinite") or not finite.size), name
    assert np.isnan(found["missing"]["x"]).any() == bool(np.size(found["missing"]["x"]))
    if shape == (40, 50):
        assert set(found["infinite"]["x"][~np.isfinite(found["infinite"]["x"])].tolist()) == {np.inf, -np.inf}
        assert np.isfinite(found["missing"]["x"]).any()
