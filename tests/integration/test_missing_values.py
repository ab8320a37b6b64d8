"""NaN where a model takes it for a missing number: what a graph tells of it, and the golden inputs that it gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.errors import VerifyError
from builder.base.tf import import_tensorflow
from builder.config import FeedSpec
from builder.importers.graph import FrozenGraph
from builder.importers.model_description import find_missing_values
from builder.verify.compare_answers import verify_library
from builder.verify.golden import GoldenFile
from builder.verify.reference_answers import make_golden_file
from builder.verify.verification import require_passed
from tests.support.build import build_library
from tests.support.models import save_graph, spec_for

pytestmark = pytest.mark.integration

tf = import_tensorflow()

LOOKS: dict[str, Any] = {
    "imputed": lambda x: tf.where(tf.math.is_nan(x), tf.zeros_like(x), x),
    "finite": lambda x: tf.cast(tf.math.is_finite(tf.reshape(x, [2, 2])), "float32"),
    "compared": lambda x: tf.where(tf.not_equal(x, x), tf.ones_like(x), x),
    "bucket": lambda x: tf.raw_ops.Bucketize(input=x, boundaries=[0.0, 1.0]),
    "column": lambda x: tf.cast(tf.math.is_nan((x[0, 1:3] - 0.5) / 2.0), "float32"),
    "plain": lambda x: tf.nn.relu(x),
    "of_its_sum": lambda x: tf.where(tf.math.is_nan(tf.exp(tf.reduce_max(x))), 0.0, 1.0),
    "of_another": lambda x: tf.where(tf.equal(x, 0.0), tf.zeros_like(x), x),
}


def test_the_inputs_in_which_a_graph_looks_for_nan(tmp_path: Path) -> None:
    feeds: dict[str, Any] = dict.fromkeys(LOOKS, ("float32", (1, 4)))

    def outputs(*inputs: Any) -> dict[str, Any]:
        return {f"of_{name}": look(x) for (name, look), x in zip(LOOKS.items(), inputs, strict=True)}

    graph = save_graph(outputs, feeds, tmp_path)
    assert find_missing_values(graph.read_reference(), graph.feeds) == (
        "imputed",
        "finite",
        "compared",
        "bucket",
        "column",
    )


def test_golden_inputs_have_nan_and_infinities_where_they_are_taken(tmp_path: Path) -> None:
    feeds: dict[str, Any] = {"x": ("float32", (6,)), "plain": ("float32", (6,))}
    graph = save_graph(lambda x, plain: tf.where(tf.math.is_nan(x), plain, tf.nn.relu(x)), feeds, tmp_path)
    make_golden_file(spec_for(graph.graph_path, feeds=(FeedSpec("x", nan=True),)), graph)
    with GoldenFile.open(graph.golden_path) as golden:
        assert golden.undecided == {}
        assert {"missing", "infinite"} <= set(golden.cases)
        missing, infinite = (golden.read_feed(case, "x") for case in ("missing", "infinite"))
        assert 0 < np.isnan(missing).sum() < 6
        assert set(infinite[~np.isfinite(infinite)].tolist()) == {np.inf, -np.inf}
        assert np.isinf(golden.read_fetch("infinite", "y")).any()
        assert all(np.isfinite(golden.read_feed(case, "plain")).all() for case in golden.cases)


@pytest.mark.parametrize(
    ("function", "decided"),
    [
        (lambda x: x + 1, True),
        (lambda x: tf.gather(tf.range(7), x * 2), False),  # TensorFlow raises
        (lambda x: tf.cast(tf.cast(x, "float32") * 0.5, "int32"), False),
        (lambda x: tf.while_loop(lambda i, y: i < x[0], lambda i, y: (i + 1, y * 3), (0, x))[1], False),
    ],
    ids=["sum", "gather", "cast", "loop"],
)
def test_the_ends_of_integers_are_golden_where_they_decide(function: Any, decided: bool, tmp_path: Path) -> None:
    graph = save_graph(function, {"x": ("int32", (6,))}, tmp_path)
    make_golden_file(spec_for(graph.graph_path), graph)
    with GoldenFile.open(graph.golden_path) as golden:
        assert ("ends" in golden.cases) == decided
        if decided:
            assert {np.iinfo(np.int32).min, np.iinfo(np.int32).max} <= set(golden.read_feed("ends", "x").tolist())


def test_a_build_names_the_ops_that_nan_reaches_and_that_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # building the library leaves the current folder

    def outputs(x: Any) -> dict[str, Any]:
        known = tf.where(tf.math.is_nan(x), tf.zeros_like(x), x)
        ranked = {"y": tf.math.top_k(x, 3, name="ranked"), "z": tf.math.top_k(known, 3, name="imputed")}
        return {name: one.values * 2 for name, one in ranked.items()}

    graph = save_graph(outputs, {"x": ("float32", (4, 6))}, tmp_path)
    spec = spec_for(graph.graph_path, feeds=(FeedSpec("x", nan=True),))
    make_golden_file(spec, graph)
    graph = FrozenGraph.load(tmp_path)
    verification = verify_library(build_library(graph, spec, tmp_path).path, graph, spec)
    with pytest.raises(VerifyError, match=r"ranked \(TopKV2\)") as caught:
        require_passed(verification)
    for text in (str(caught.value), *graph.warnings):
        assert "ranked (TopKV2)" in text
        assert "imputed" not in text


def test_ties_of_zeros_decide_what_sorts(tmp_path: Path) -> None:
    """One unit in the last place leaves them ties, so that no case is put aside for them."""
    graph = save_graph(lambda x: tf.math.top_k(x, 8).indices, {"x": ("float32", (8,))}, tmp_path)
    make_golden_file(spec_for(graph.graph_path), graph)
    with GoldenFile.open(graph.golden_path) as golden:
        values = golden.read_feed("random-2", "x")[golden.read_fetch("random-2", "y")]
        signs = np.signbit(values[values == 0])
        assert signs.tolist() != sorted(signs.tolist())  # -0.0 is not below 0.0
