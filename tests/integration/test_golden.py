"""Golden feeds and TensorFlow's answers, for real graphs."""

from __future__ import annotations

import gc
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.errors import VerifyError
from builder.base.tf import import_tensorflow
from builder.config import ImageSpec
from builder.importers.graph import FrozenGraph
from builder.verify.agreement import compare_output
from builder.verify.expected_answers import open_expected
from builder.verify.golden import GoldenFile
from builder.verify.reference_answers import make_golden_file
from tests.support.models import run_graph, save_graph, spec_for

pytestmark = [pytest.mark.integration, pytest.mark.quick]

tf = import_tensorflow()


def golden(graph: FrozenGraph, **options: Any) -> dict[str, np.ndarray]:
    make_golden_file(spec_for(graph.graph_path, **options), graph)
    with np.load(graph.golden_path, allow_pickle=False) as file:
        return dict(file)


def names(arrays: dict[str, np.ndarray]) -> list[str]:
    return list(dict.fromkeys(key.split("/")[1] for key in arrays if key.startswith("feed/")))


def test_every_case_has_tensorflows_answer(tmp_path: Path) -> None:
    feeds: dict[str, Any] = {"a": ("float32", (2, 3)), "i": ("int64", (2,)), "flag": ("bool", ())}
    graph = save_graph(lambda a, i, flag: tf.where(flag, a, tf.gather(a, i)), feeds, tmp_path)
    arrays = golden(graph)
    assert names(arrays) == ["zeros", "extremes", "random-0", "random-1", "random-2", "wide", "ends"]
    for case in names(arrays):
        given = {p.spec.name: arrays[f"feed/{case}/{p.spec.name}"] for p in graph.feeds}
        for port in graph.feeds:
            assert (given[port.spec.name].dtype, given[port.spec.name].shape) == (port.spec.dtype, port.spec.shape)
        np.testing.assert_array_equal(arrays[f"fetch/{case}/y"], run_graph(graph, given)["y"])
    assert not np.array_equal(arrays["fetch/random-0/y"], arrays["fetch/random-1/y"])


def test_no_graph_of_tensorflows_is_left_in_memory(tmp_path: Path) -> None:
    """Each has the weights several times over, and a model of 200 MB took 4.4 GB."""
    graph = save_graph(lambda x: tf.matmul(x, np.ones((3, 3), np.float32)), {"x": ("float32", (2, 3))}, tmp_path)
    gc.collect()
    before = graphs()
    gc.disable()
    try:
        golden(graph)
        assert graphs() == before
    finally:
        gc.enable()


def graphs() -> int:
    return sum(isinstance(one, tf.Graph) for one in gc.get_objects())


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "int32", "uint32", "uint64", "float64"])
def test_every_dtype(tmp_path: Path, dtype: str) -> None:
    arrays = golden(save_graph(lambda x: tf.identity(x), {"x": (dtype, (5,))}, tmp_path))
    assert {value.dtype for key, value in arrays.items() if key.startswith(("feed/", "fetch/"))} == {np.dtype(dtype)}
    extremes = set(arrays["feed/extremes/x"].tolist())
    assert extremes == {"uint8": {0, 255}, "int8": {-128, 127}, "float64": {-1.0, 1.0}}.get(dtype, {0, 1})
    if dtype.endswith(("16", "32", "64")) and "int" in dtype:
        assert arrays["feed/wide/x"].max() > 1


@pytest.mark.parametrize(("mode", "channels"), [("rgb", 3), ("grey", 1)])
def test_an_image_input_gets_photographs(tmp_path: Path, mode: Any, channels: int) -> None:
    shape = (2, 20, 24, channels)
    graph = save_graph(lambda x: tf.reduce_mean(tf.cast(x, "float32"), [1, 2]), {"x": ("uint8", shape)}, tmp_path)
    arrays = golden(graph, batch=2, image=ImageSpec(None, width=24, height=20, mode=mode))
    photos = [name for name in names(arrays) if name.startswith("photo")]
    assert photos == ["photo-astronaut", "photo-coffee", "photo-face"]
    for case in photos:
        picture = arrays[f"feed/{case}/x"]
        assert picture.shape == shape
        assert picture.std() > 20  # a photograph, not a blank
        assert not np.array_equal(picture[0], picture[1])


def test_twice_the_same_bytes(tmp_path: Path) -> None:
    graph = save_graph(lambda x: tf.nn.softmax(x), {"x": ("float32", (4,))}, tmp_path)
    golden(graph)
    first = graph.golden_path.read_bytes()
    golden(graph)
    assert graph.golden_path.read_bytes() == first


def test_how_far_an_ulp_moves_the_answer_is_recorded(tmp_path: Path) -> None:
    """A product is as sure as its numbers; the sine of a thousand times it, a thousand times less so."""

    def both(x: Any) -> Any:
        weights = tf.constant(np.linspace(0.5, 1.5, 64, dtype=np.float32).reshape(8, 8))
        sure = tf.matmul(x, weights)
        return {"sure": sure, "unsure": tf.sin(1000.0 * sure), "class": tf.argmax(sure, -1)}

    graph = save_graph(both, {"x": ("float32", (1, 8))}, tmp_path)
    make_golden_file(spec_for(graph.graph_path), graph)
    with GoldenFile.open(graph.golden_path) as file:
        assert 1e-9 < file.read_sensitivity("sure") < 1e-5
        assert 1e-5 < file.read_sensitivity("unsure") < 1e-1
        assert file.read_sensitivity("class") == 0.0


def test_the_weights_of_loops_and_branches_are_moved_too(tmp_path: Path) -> None:
    def loop(x: Any) -> Any:
        weights = tf.constant(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4))
        return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.matmul(a, weights)), [0, x])[1]

    graph = save_graph(lambda x: loop(tf.cast(x, "float32")), {"x": ("uint8", (1, 4))}, tmp_path)
    make_golden_file(spec_for(graph.graph_path), graph)
    with GoldenFile.open(graph.golden_path) as file:
        assert file.read_sensitivity("y") > 0


@pytest.mark.parametrize("seed", [None, 3])
def test_random_graphs_cannot_be_compared(tmp_path: Path, seed: int | None) -> None:
    """With a seed, TensorFlow's numbers are the same in each process, but they are not XLA's."""

    def loop(x: Any) -> Any:
        return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + tf.random.normal([4], seed=seed)), [0, x])[1]

    graph = save_graph(loop, {"x": ("float32", (4,))}, tmp_path / "random")
    with pytest.raises(VerifyError, match=r"while > .*random_normal.*cannot be compared"):
        golden(graph)
    seeded = save_graph(
        lambda x: x + tf.random.stateless_normal([4], [1, 2]), {"x": ("float32", (4,))}, tmp_path / "seeded"
    )
    golden(seeded)


def test_an_input_that_tensorflow_cannot_run_is_replaced(tmp_path: Path) -> None:
    """But not one of the user's own."""
    graph = save_graph(lambda x: tf.debugging.check_numerics(1 / x, "inf"), {"x": ("float32", (4,))}, tmp_path)
    arrays = golden(graph)
    assert names(arrays) == ["extremes", "random-0", "random-1", "random-3", "random-4"]  # 2 has zeros
    assert str(arrays["undecided/zeros"]).startswith("TensorFlow cannot run the graph on it: ")
    np.savez(tmp_path / "samples.npz", x=np.array([[1, 2, 3, 4], [1, 2, 0, 4]], np.float32))
    with pytest.raises(VerifyError, match=r"cannot run the graph on sample-1: .*inf"):
        golden(graph, samples=tmp_path / "samples.npz")


@pytest.mark.full
def test_a_graph_that_tensorflow_cannot_run(tmp_path: Path) -> None:
    graph = save_graph(lambda x: tf.debugging.check_numerics(0 * x / 0, "0 / 0"), {"x": ("float32", (4,))}, tmp_path)
    with pytest.raises(
        VerifyError, match=r"cannot run the model \(with x \[4\]\) on 12 of 12 golden inputs:\n  zeros: .*0 / 0"
    ):
        golden(graph)


def loudness(x: Any) -> Any:
    """Scaled to its own loudest: of silence that is 0 / 0."""
    return tf.abs(x) / tf.reduce_max(tf.abs(x))


def test_a_case_that_tensorflow_is_undecided_on_is_replaced(tmp_path: Path) -> None:
    arrays = golden(save_graph(loudness, {"x": ("float32", (8,))}, tmp_path))
    assert names(arrays) == ["extremes", "random-0", "random-1", "random-2", "random-3"]
    (key,) = (key for key in arrays if key.startswith("undecided/"))
    assert key == "undecided/zeros"
    assert re.search(r"own y goes from nan to .* when zeros of the input move", str(arrays[key]))


def test_float64_tells_what_no_ulp_does(tmp_path: Path) -> None:
    """Whole numbers as input and no weights: nothing can move. But float32 has no 1 between its large numbers."""
    graph = save_graph(lambda x: (tf.cast(x, "float32") + 1 + 2**24) - 2**24, {"x": ("uint8", (10,))}, tmp_path)
    arrays = golden(graph)
    assert names(arrays) == ["random-0", "random-1", "random-2", "random-3", "random-4"]
    assert str(arrays["undecided/zeros"]) == "TensorFlow's own y goes from 0 to 1 in float64"


def test_transforms_run_in_float64_too(tmp_path: Path) -> None:
    def loudest(x: Any) -> Any:
        return tf.floor(tf.abs(tf.signal.rfft((tf.cast(x, "float32") + 1 + 2**24) - 2**24))[:, :1])

    arrays = golden(save_graph(loudest, {"x": ("uint8", (1, 8))}, tmp_path))
    assert str(arrays["undecided/zeros"]) == "TensorFlow's own y goes from 0 to 8 in float64"


def test_inputs_of_ones_own_are_golden_too(tmp_path: Path) -> None:
    """Also where TensorFlow is undecided on all others."""
    given = np.linspace(0.5, 1.5, 40, dtype=np.float32).reshape(20, 2)
    np.savez(tmp_path / "samples.npz", x=given)
    graph = save_graph(lambda x: tf.where(x > 0.2, x, tf.sin(1e12 * x)), {"x": ("float32", (1, 2))}, tmp_path)
    arrays = golden(graph, samples=tmp_path / "samples.npz")
    samples = [name for name in names(arrays) if name.startswith("sample-")]
    assert len(samples) == 16
    np.testing.assert_array_equal(arrays["feed/sample-0/x"], given[:1])
    np.testing.assert_array_equal(arrays["feed/sample-15/x"], given[-1:])
    np.testing.assert_array_equal(arrays["fetch/sample-15/y"], given[-1:])
    assert "undecided/random-0" in arrays


@pytest.mark.full
def test_a_graph_that_is_always_undecided_is_refused(tmp_path: Path) -> None:
    graph = save_graph(lambda x: tf.sin(1e12 * x), {"x": ("float32", (8,))}, tmp_path)
    said = r"answer jumps .* 13 of 13 golden inputs:\n  zeros: .*\nThat leaves 0 .*\[golden\]"
    with pytest.raises(VerifyError, match=said):
        golden(graph)
    assert not graph.golden_path.exists()


def kept(x: Any, **more: Any) -> Any:
    return {"y": tf.boolean_mask(x, x > 0.5), **more}


def sizes(arrays: dict[str, np.ndarray]) -> set[int]:
    return {len(value) for key, value in arrays.items() if key.startswith("fetch/") and key.endswith("/y")}


def test_inputs_that_give_nothing_some_and_all(tmp_path: Path) -> None:
    arrays = golden(save_graph(kept, {"x": ("float32", (9,))}, tmp_path))
    assert {0, 9} < sizes(arrays)
    assert all(arrays[f"fetch/{c}/y_shape"].tolist() == [len(arrays[f"fetch/{c}/y"])] for c in names(arrays))


def test_inputs_that_give_more_than_is_taken_are_left_out(tmp_path: Path) -> None:
    graph = save_graph(kept, {"x": ("float32", (9,))}, tmp_path)
    y, shape = graph.fetches
    few = replace(graph, fetches=(replace(y, spec=replace(y.spec, shape=(2,))), shape))
    assert max(sizes(golden(few))) <= 2
    always = save_graph(lambda x: tf.concat([kept(x)["y"], x, x], 0), {"x": ("float32", (9,))}, tmp_path)
    y, shape = always.fetches
    none = replace(always, fetches=(replace(y, spec=replace(y.spec, shape=(2,))), shape))
    with pytest.raises(VerifyError, match=r"more than `max_size` in model.toml allows \(y \[<=2\]\)"):
        golden(none)


def test_a_size_that_xla_does_not_see(tmp_path: Path) -> None:
    """Its kernel for UniqueV2 takes an input of an open size for one of the largest."""
    graph = save_graph(lambda x: tf.raw_ops.UniqueV2(x=kept(x)["y"], axis=[0])[1], {"x": ("float32", (9,))}, tmp_path)
    with pytest.raises(VerifyError, match=r"TensorFlow's y has the shape .*XLA compiles it as \[9\]"):
        golden(graph)


def long_mean(x: Any) -> Any:
    """TensorFlow adds up 50,176 floats one after the other, and an ulp of each says nothing of that."""
    return tf.reduce_mean(x + 1.7, [1, 2])


def test_float64_answers_where_float32_is_off(tmp_path: Path) -> None:
    """The mean of equal numbers is that number, TensorFlow's is not; a wrong answer is still one."""
    graph = save_graph(long_mean, {"x": ("float32", (1, 224, 224, 2))}, tmp_path)
    spec = spec_for(graph.graph_path)
    make_golden_file(spec, graph)
    own = run_graph(graph, {"x": np.zeros((1, 224, 224, 2), np.float32)})["y"]
    true = np.full((1, 2), 1.7, np.float32)
    assert abs(own - true).max() > 2e-4
    with open_expected(graph, spec) as expected:
        (output,), wanted = expected.outputs, expected.golden.read_fetch("zeros", "y")
    np.testing.assert_array_equal(wanted, true)

    def passes(answer: np.ndarray) -> bool:
        rows = [("zeros", answer, wanted)]
        return compare_output("y", output.fetch, "raw", output.tolerance, rows, output.sensitivity).passed

    assert passes(true)
    assert passes(own)
    assert not passes(true + np.float32(2e-3))
    assert not passes(true - np.float32(2e-3))


def test_float64_does_not_answer_where_the_graph_would_be_another(tmp_path: Path) -> None:
    """Numbers so large that float32 has no fractions beside them round; float64 does not."""
    graph = save_graph(lambda x: (x + 1.5 * 2**17) - 1.5 * 2**17, {"x": ("float32", (50,))}, tmp_path)
    arrays = golden(graph)
    values = arrays["feed/random-0/x"]
    np.testing.assert_array_equal(arrays["fetch/random-0/y"], np.float32(values + np.float32(196608)) - 196608)
    assert abs(arrays["fetch/random-0/y"] - values).max() > 0.005


def embedded(x: Any, dtype: str = "int32") -> Any:
    table = tf.constant(np.random.default_rng(1).normal(size=(7, 3)).astype("float32"))
    return {"y": tf.gather(table, tf.cast(tf.reshape(x, (2, 6)), dtype)), "there": tf.not_equal(x, 0.0)}


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_float_input_of_whole_numbers_gets_whole_numbers(tmp_path: Path, dtype: str) -> None:
    arrays = golden(save_graph(lambda x: embedded(x, dtype), {"x": ("float32", (12,))}, tmp_path))
    assert names(arrays) == ["zeros", "extremes", "random-0", "random-1", "random-2", "wide"]
    for case in names(arrays):
        values = arrays[f"feed/{case}/x"]
        assert values.dtype == np.float32
        assert set(values) <= set(range(7))
    assert not [key for key in arrays if key.startswith("undecided/")]


def test_a_float_input_that_is_also_computed_with_gets_any_numbers(tmp_path: Path) -> None:
    graph = save_graph(lambda x: x - tf.cast(tf.cast(x, "int32"), "float32"), {"x": ("float32", (9,))}, tmp_path)
    arrays = golden(graph)
    assert abs(arrays["fetch/random-0/y"]).max() > 0.1


@pytest.mark.full
@pytest.mark.parametrize(("dtype", "least", "most"), [("bfloat16", 5e-4, 0.1), ("float16", 5e-5, 0.02)])
def test_mixed_precision_is_as_unsure_as_its_type(tmp_path: Path, dtype: str, least: float, most: float) -> None:
    """Weights that are only stored in half precision make nothing less sure: what computes with them decides."""
    weights = np.random.default_rng(2).normal(size=(8, 16)).astype("float32")
    feeds = {"x": ("float32", (1, 8))}

    def mixed(x: Any) -> Any:
        return tf.cast(tf.matmul(tf.cast(x, dtype), tf.cast(tf.constant(weights), dtype)), "float32")

    def stored(x: Any) -> Any:
        return tf.matmul(x, tf.cast(tf.constant(weights, dtype), "float32"))

    def loop(x: Any) -> Any:
        return tf.while_loop(lambda i, a: i < 1, lambda i, a: (i + 1, mixed(a)[:, :8]), [0, x])[1]

    shares = {}
    for function in (mixed, stored, loop):
        graph = save_graph(function, feeds, tmp_path / function.__name__)
        make_golden_file(spec_for(graph.graph_path), graph)
        with GoldenFile.open(graph.golden_path) as file:
            shares[function.__name__] = file.read_rounding("y")
    assert least < shares["mixed"] <= most
    assert least < shares["loop"] <= most
    assert shares["stored"] == 0.0
