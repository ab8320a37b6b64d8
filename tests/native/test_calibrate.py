"""Ranges of layers' inputs, and what reads them out of a running program; properties of both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.base.errors import SpecError, VerifyError
from builder.compiler.lower.geometry import Geometry
from builder.compiler.lower.steps.base import Buffer, View
from builder.compiler.lower.steps.layer_step import Epilogue, LayerStep
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.compiler.lower.steps.recurrent_step import RecurrentStep
from builder.config import Activations, LayerSpec
from builder.importers.graph import FrozenGraph
from builder.verify.quantise.calibrate import (
    Extent,
    Histogram,
    best_range,
    choose_input_type,
    explain_kept,
    make_quantisation,
    require_known,
)
from builder.verify.step_probes import build_observable, observe_steps, view_image
from tests.native.test_profile import PROGRAM, SPEC, compiled, graph
from tests.support.quantise import from_bytes, to_bytes
from tests.support.runtime import CACHE

__all__ = ["compiled", "graph"]

ends = st.floats(0, 1e6).map(np.float32).map(float)


@given(ends, ends, st.data())
def test_what_is_inside_is_off_by_half_a_step_and_zero_is_exact(low: float, high: float, data: st.DataObject) -> None:
    if low + high < 1e-30:
        return
    by = make_quantisation(-low, high)
    assert 0 <= by.zero <= 255
    assert from_bytes(np.array([by.zero], np.uint8), by)[0] == 0
    assert to_bytes(np.zeros(1, np.float32), by)[0] == by.zero
    values = np.array(data.draw(st.lists(st.floats(-low, high), max_size=50)), np.float32)
    error = np.abs(from_bytes(to_bytes(values, by), by).astype(np.float64) - values)
    assert (error <= by.scale * 0.50001 + 1e-6 * (low + high)).all()


@given(st.floats(1e-3, 1e3), st.integers(0, 255), st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_what_is_outside_becomes_the_nearest_end(scale: float, zero: int, numbers: list[float]) -> None:
    by = Quantisation(float(np.float32(scale)), zero)
    values = np.array(numbers, np.float32)
    found = from_bytes(to_bytes(values, by), by)
    low, high = -zero * by.scale, (255 - zero) * by.scale
    np.testing.assert_allclose(found, np.clip(values, low, high), atol=by.scale * 0.501, rtol=1e-5)


def test_halves_go_to_the_even_step() -> None:
    by = Quantisation(1.0, 10)
    assert to_bytes(np.array([0.5, 1.5, -0.5, -1.5, 2.5], np.float32), by).tolist() == [10, 12, 10, 8, 12]


def best_of(values: np.ndarray) -> tuple[float, float]:
    extent = Extent()
    extent.add(values)
    histogram = Histogram(extent)
    for part in np.array_split(values, 3):
        histogram.add(part)
    return best_range(histogram)


def error_of(values: np.ndarray, low: float, high: float) -> float:
    by = make_quantisation(low, high)
    return float(np.mean((from_bytes(to_bytes(values, by), by).astype(np.float64) - values) ** 2))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["normal", "relu", "laplace", "uniform", "pixels", "outlier"]))
def test_the_range_is_no_worse_than_that_of_all_numbers(seed: int, kind: str) -> None:
    random = np.random.default_rng(seed)
    values: np.ndarray = {
        "normal": lambda: random.normal(size=20_000),
        "relu": lambda: np.maximum(random.normal(size=20_000), 0),
        "laplace": lambda: random.laplace(size=20_000),
        "uniform": lambda: random.uniform(-1, 3, 20_000),
        "pixels": lambda: random.integers(0, 256, 20_000) / 255,
        "outlier": lambda: np.append(random.normal(size=500_000), 100),
    }[kind]().astype(np.float32)
    low, high = best_of(values)
    assert values.min(initial=0) - 1e-6 <= low <= 0 <= high <= values.max() + 1e-6
    assert error_of(values, low, high) <= 1.05 * error_of(values, min(0, values.min()), values.max()) + 1e-12
    if kind in ("relu", "pixels"):
        assert low == 0
    if kind == "outlier":  # is cut off
        assert high < 90
        assert error_of(values, low, high) < 0.95 * error_of(values, values.min(), values.max())
    if kind in ("uniform", "pixels"):
        assert high == pytest.approx(values.max(), rel=0.02)


def test_numbers_that_are_not_finite_are_noticed() -> None:
    for wrong in (np.nan, np.inf, -np.inf):
        extent = Extent()
        extent.add(np.array([1, wrong, -2], np.float32))
        assert not extent.finite
    assert Extent() == Extent(0.0, 0.0, True)


def layer(**changes: Any) -> LayerStep:
    arena = View(Buffer("arena", 0, 4), 0, 1, 1, 1)
    epilogue = Epilogue(Buffer("weights", 64, 128))
    step = LayerStep(
        name="conv", layer="model/conv", algorithm="direct", weight_type="int8", epilogue=epilogue, scratch=None,
        input=arena, output=arena, weights=Buffer("weights", 0, 64),
        geometry=Geometry(1, 8, (1, 1), 8), in_size=(1, 1),
    )  # fmt: skip
    return replace(step, **changes)


ASKED = replace(SPEC, activations=Activations("int8"))


@pytest.mark.parametrize(
    ("changes", "straight", "why"),
    [
        ({}, True, ""),
        ({"weight_type": "float32"}, True, "its weights are float32"),
        ({"geometry": Geometry(1, 8, (1, 1), 8, groups=4)}, True, "its channels are in groups"),
        ({"geometry": Geometry(1, 70_000, (1, 1), 8)}, True, "it adds up more products than int32 holds"),
        ({}, False, "the model has loops or branches"),
        ({"input": View(Buffer("weights", 0, 4), 0, 1, 1, 1)}, True, "its input is a constant"),
    ],
)
def test_why_a_layer_keeps_its_input(changes: dict[str, Any], straight: bool, why: str) -> None:
    lowered: Any = SimpleNamespace(straight=straight, program=SimpleNamespace(steps=()))
    assert explain_kept(ASKED, layer(**changes), lowered) == why
    assert explain_kept(SPEC, layer(**changes), lowered) == ""


def recurrent(**changes: Any) -> RecurrentStep:
    arena, weights = Buffer("arena", 64, 4), Buffer("weights", 0, 64)
    step = RecurrentStep(
        "while", "lstm", steps=3, batch=1, units=64, input=arena, weights=weights, bias=weights, hidden=arena,
        cell=arena, output=None, output_stride=0, backwards=False, scratch=arena, bounded=True, weight_type="int8",
        layer="model/lstm",
    )  # fmt: skip
    return replace(step, **changes)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"weight_type": "float32"}, "its weights are float32"),
        ({"bounded": False}, "its first state may be beyond 1"),
        ({"units": 63}, "floats are as fast with fewer than 16,384 weights"),
        ({"units": 70_000}, "it adds up more products than int32 holds"),
        ({"layer": "model/conv"}, "another layer has its name"),
    ],
)
def test_why_a_recurrent_layer_keeps_its_state(changes: dict[str, Any], why: str) -> None:
    step = recurrent(**changes)
    lowered: Any = SimpleNamespace(straight=False, program=SimpleNamespace(steps=(layer(), step)))
    assert explain_kept(ASKED, step, lowered) == why
    assert explain_kept(SPEC, step, lowered) == ""


def test_what_a_recurrent_layer_reads_is_rounded_before_its_loop() -> None:
    step = layer(output=View(Buffer("arena", 64, 4), 0, 1, 1, 1))
    lowered: Any = SimpleNamespace(straight=False, program=SimpleNamespace(steps=(step, recurrent())))
    assert explain_kept(ASKED, step, lowered) == ""


def test_the_last_exception_that_fits_decides() -> None:
    layers = (
        LayerSpec("model/*", activations="float32"),
        LayerSpec("*/conv", activations="int8"),
        LayerSpec("*", weights="int8"),
    )
    spec = replace(SPEC, layers=layers, activations=Activations("int8"))
    assert [choose_input_type(spec, name) for name in ("model/conv", "model/dense", "other")] == [
        "int8",
        "float32",
        "int8",
    ]
    require_known(spec, ["model/conv", "other"])
    with pytest.raises(SpecError, match=r'"model/\*" matches no layer.*: other/conv'):
        require_known(spec, ["other/conv"])


def test_a_running_program_is_seen_before_each_of_its_steps(
    tmp_path: Path, compiled: Any, graph: FrozenGraph, capfd: pytest.CaptureFixture[str]
) -> None:
    library = build_observable(PROGRAM, SPEC, compiled, tmp_path, CACHE)
    seen: list[tuple[int, float]] = []

    def look(number: int, arena: np.ndarray) -> None:
        assert arena.nbytes == PROGRAM.arena_size
        view = View(Buffer("arena", 4096, 4096), 1, 512, 256, 2)
        seen.append((number, float(view_image(view, (2, 2, 4, 2), arena)[1, 0, 3, 1])))

    runs = [{"x": np.full(1024, value, np.float32)} for value in (1, 2)]
    observe_steps(library, PROGRAM, graph, runs, look)
    numbers = [number for number, _ in seen]
    once = [0, 1, *[2, 3, 4] * 7, 5, 6]
    assert numbers[: len(numbers) // 2] == numbers[len(numbers) // 2 :]
    assert sorted(set(numbers)) == sorted(set(once))
    assert numbers[0] == 0
    assert seen[-1] == (max(numbers), 2.0)

    def broken(_number: int, _arena: np.ndarray) -> None:
        raise ValueError("what look raises")

    with pytest.raises(ValueError, match="what look raises"):
        observe_steps(library, PROGRAM, graph, runs, broken)
    assert "Traceback" not in capfd.readouterr().err


def test_what_is_no_library_is_an_error(tmp_path: Path, graph: FrozenGraph) -> None:
    (tmp_path / "libmodel.so").write_bytes(b"\x7fELF of another machine")
    with pytest.raises(VerifyError, match="cannot be loaded"):
        observe_steps(tmp_path / "libmodel.so", PROGRAM, graph, [], lambda *_: None)
