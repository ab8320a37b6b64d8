"""A JAX model: a StableHLO program inside a SavedModel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from builder import preflight
from builder.importers.tf import tensorflow
from builder.preflight import render
from tests.conftest import ROOT
from tests.support.models import freeze, run_graph

pytestmark = pytest.mark.integration

CALLING_CONVENTION = 10


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The SavedModel that jax2tf makes of the program: its one op, with the weights inside."""
    tf = tensorflow()
    from tensorflow.compiler.tf2xla.python.xla import call_module

    module = (ROOT / "tests" / "data" / "dense.stablehlo").read_bytes()

    @tf.function(input_signature=[tf.TensorSpec((1, 16), tf.float32, "x")])  # type: ignore[untyped-decorator]
    def serve(x: object) -> object:
        (y,) = call_module(
            [x], version=CALLING_CONVENTION, module=module, Tout=[tf.float32], Sout=[(1, 5)], platforms=["CPU"]
        )
        return {"y": y}

    tf.saved_model.save(tf.Module(), str(tmp_path / "jax"), signatures={"serving_default": serve})
    return tmp_path / "jax"


def test_the_forecast_counts_the_weights_inside_the_program(saved: Path, tmp_path: Path) -> None:
    graph = freeze(saved, tmp_path)
    found = preflight.check(graph)
    assert found.ok
    assert 2_016 <= found.weights <= 2_500
    assert "Forecast: 2." in render(found)


def test_the_frozen_graph_answers_as_the_program_does(saved: Path, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    first, second = (generator.standard_normal(shape, np.float32) for shape in ((16, 24), (24, 5)))
    x = generator.standard_normal((1, 16), np.float32)
    expected = np.exp(np.maximum(x @ first, 0) @ second)
    (answer,) = run_graph(freeze(saved, tmp_path), {"x": x}).values()
    np.testing.assert_allclose(answer, expected / expected.sum(), rtol=1e-5)
