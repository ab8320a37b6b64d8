"""Every format a model comes in, saved for real and read back: the frozen graph answers as the model does."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.base.errors import ImportModelError
from builder.base.tf import import_tensorflow
from builder.cli import main
from builder.config import ChannelOrder, ColorMode, FeedSpec, FetchSpec, ImageSpec, Layout, OutputSpec
from builder.config.tensor import TensorSpec, c_identifier
from builder.importers.graph import FrozenGraph
from builder.importers.loaded import make_names_unique
from builder.importers.model_description import describe_model
from builder.importers.ports import ModelPorts, PortInfo
from builder.importers.shapes import pin_shapes
from builder.importers.spec_steps import image_to_input
from tests.support import keras2, needs
from tests.support.hostile import change_meta_graph
from tests.support.models import freeze, run_graph, save_keras, spec_for
from tests.support.results import printed

pytestmark = [pytest.mark.integration, pytest.mark.quick]

tf = import_tensorflow()
keras: Any = needs.needs_module("keras")
L: Any = keras.layers


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype("float32")


def mlp() -> Any:
    return keras.Sequential([keras.Input((5,), name="x"), L.Dense(4, activation="relu"), L.Dense(3, name="y")])


def cnn(side: int | None = 8, channels: int = 3) -> Any:
    return keras.Sequential(
        [
            keras.Input((side, side, channels), name="picture"),
            L.Conv2D(4, 3, padding="same"),
            L.BatchNormalization(),
            L.ReLU(),
            L.GlobalAveragePooling2D(),
            L.Dense(3, name="scores"),
        ]
    )


def lstm() -> Any:
    return keras.Sequential([keras.Input((6, 3), name="series"), L.LSTM(4), L.Dense(2, name="y")])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder with a small model of each kind."""
    folder = tmp_path_factory.mktemp("models")
    for name, model in (("mlp", mlp()), ("cnn", cnn()), ("lstm", lstm())):
        save_keras(model, folder / f"{name}.keras")
        model.save(folder / f"{name}.h5")
        model.export(folder / name, verbose=False)
    return folder


class TestKeras:
    @pytest.mark.parametrize(("name", "shape"), [("mlp", (2, 5)), ("cnn", (2, 8, 8, 3)), ("lstm", (2, 6, 3))])
    def test_answers_as_the_model_does(self, models: Path, tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
        graph = freeze(models / f"{name}.keras", tmp_path, batch=2)
        (feed,), (fetch,) = graph.feeds, graph.fetches
        assert feed.spec.shape == shape
        x = random(*shape)
        expected = keras.saving.load_model(models / f"{name}.keras").predict(x, verbose=0)
        np.testing.assert_allclose(run_graph(graph, {feed.spec.name: x})[fetch.spec.name], expected, atol=1e-5)
        assert fetch.spec.shape == expected.shape

    def test_h5_needs_trust(self, models: Path, tmp_path: Path) -> None:
        with pytest.raises(ImportModelError, match="trust = true"):
            freeze(models / "mlp.h5", tmp_path)
        with pytest.raises(ImportModelError, match="trust = true"):
            describe_model(spec_for(models / "mlp.h5").source, models / "mlp.h5")
        trusted = freeze(models / "mlp.h5", tmp_path / "h5", trust=True)
        same = freeze(models / "mlp.keras", tmp_path / "keras")
        x = random(1, 5)
        np.testing.assert_array_equal(run_graph(trusted, {"x": x})["y"], run_graph(same, {"x": x})["y"])

    def test_several_inputs_and_outputs_of_several_dtypes(self, tmp_path: Path) -> None:
        words = keras.Input((4,), name="words", dtype="int32")
        extra = keras.Input((2,), name="extra")
        joined = L.Concatenate()([L.Flatten()(L.Embedding(10, 3)(words)), extra])
        model = keras.Model([words, extra], [L.Dense(2, name="a")(joined), L.Dense(1, name="b")(joined)])
        graph = freeze(save_keras(model, tmp_path / "m.keras"), tmp_path)
        assert [(p.spec.name, p.spec.dtype, p.spec.shape) for p in graph.feeds] == [
            ("words", "int32", (1, 4)),
            ("extra", "float32", (1, 2)),
        ]
        feeds = {"words": np.array([[1, 2, 3, 9]], "int32"), "extra": random(1, 2)}
        a, b = model.predict([feeds["words"], feeds["extra"]], verbose=0)
        answers = run_graph(graph, feeds)
        np.testing.assert_allclose(answers["a"], a, atol=1e-5)
        np.testing.assert_allclose(answers["b"], b, atol=1e-5)

    def test_inputs_and_outputs_in_dicts(self, tmp_path: Path) -> None:
        z, a = keras.Input((3,), name="z"), keras.Input((2,), name="a")
        model = keras.Model({"z": z, "a": a}, {"sum": L.Dense(2)(L.Concatenate()([z, a])), "only": L.Dense(1)(z)})
        graph = freeze(save_keras(model, tmp_path / "m.keras"), tmp_path)
        feeds = {"z": random(1, 3), "a": random(1, 2)}
        expected = model.predict(feeds, verbose=0)
        answers = run_graph(graph, feeds)
        assert set(answers) == {"sum", "only"}
        for name, value in answers.items():
            np.testing.assert_allclose(value, expected[name], atol=1e-5)

    def test_a_layer_that_draws_numbers_in_training_alone(self, tmp_path: Path) -> None:
        """It counts the draws in a variable, which no answer depends on."""
        model = keras.Sequential([keras.Input((6, 5, 3), name="x"), L.RandomHue(0.2), L.Rescaling(0.5, name="y")])
        graph = freeze(save_keras(model, tmp_path / "m.keras"), tmp_path)
        assert graph.states == ()
        x = random(1, 6, 5, 3)
        np.testing.assert_allclose(
            run_graph(graph, {graph.feeds[0].spec.name: x})["y"], model(x, training=False), rtol=1e-6
        )

    def test_a_lambda_layer_is_refused_in_safe_mode(self, tmp_path: Path) -> None:
        model = keras.Sequential([keras.Input((2,)), L.Lambda(lambda x: x * 2, output_shape=(2,))])
        model.save(tmp_path / "m.keras")
        with pytest.raises(ImportModelError, match=r"m\.keras holds code .*Lambda.*trust = true"):
            freeze(tmp_path / "m.keras", tmp_path / "out")
        freeze(tmp_path / "m.keras", tmp_path / "out", trust=True)

    def test_a_damaged_file(self, tmp_path: Path) -> None:
        (tmp_path / "m.keras").write_bytes(b"not a zip")
        with pytest.raises(ImportModelError, match=r"m\.keras is damaged or cut off"):
            freeze(tmp_path / "m.keras", tmp_path / "out")
        whole = save_keras(cnn(8), tmp_path / "whole.keras").read_bytes()
        (tmp_path / "half.keras").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ImportModelError, match=r"half\.keras is damaged or cut off"):
            freeze(tmp_path / "half.keras", tmp_path / "out")
        with pytest.raises(ImportModelError, match="There is no model"):
            freeze(tmp_path / "none.keras", tmp_path / "out")

    def test_twice_the_same_bytes(self, models: Path, tmp_path: Path) -> None:
        for source in ("lstm.keras", "lstm", "cnn.keras"):
            first, second = (freeze(models / source, tmp_path / source / n) for n in "ab")
            assert first.graph_path.read_bytes() == second.graph_path.read_bytes()
            assert first.config_path.read_bytes() == second.config_path.read_bytes()


@given(st.lists(st.text("ab:/._A2", min_size=1, max_size=4), max_size=8))
def test_names_are_distinct_as_c_identifiers(names: list[str]) -> None:
    result = make_names_unique(names)
    assert len({c_identifier(name).lower() for name in result}) == len(names)
    assert all(new.startswith(old) for old, new in zip(names, result, strict=True))
    assert all(re.fullmatch(r"[A-Za-z_]\w*", c_identifier(name), re.ASCII) for name in result)
    if len({c_identifier(name).lower() for name in names}) == len(names):
        assert result == names


class TestShapes:
    @given(st.lists(st.one_of(st.none(), st.integers(1, 9)), max_size=4), st.integers(1, 9))
    def test_only_a_leading_dimension_is_the_batch(self, shape: list[int | None], batch: int) -> None:
        ports = ModelPorts((PortInfo("x", "float32", tuple(shape)),), ())
        spec = spec_for(Path("saved_model"), batch=batch)
        if None in shape[1:]:
            with pytest.raises(ImportModelError, match=r"\[\[feeds\]\]\nname = \"x\"\nshape = "):
                pin_shapes(ports, spec)
        else:
            assert pin_shapes(ports, spec)["x"] == tuple(batch if d is None else d for d in shape)

    def test_dynamic_dimensions_are_named_with_the_lines_to_add(self, tmp_path: Path) -> None:
        path = save_keras(cnn(None), tmp_path / "m.keras")
        with pytest.raises(ImportModelError) as error:
            freeze(path, tmp_path / "out")
        assert "'picture' is [?, ?, ?, 3]" in str(error.value)
        assert '[[feeds]]\nname = "picture"\nshape = [1, 16, 16, 3]' in str(error.value)
        graph = freeze(path, tmp_path / "out", feeds=(FeedSpec("picture", (2, 10, 12, 3)),))
        assert graph.feeds[0].spec.shape == (2, 10, 12, 3)
        assert graph.fetches[0].spec.shape == (2, 3)

    def test_all_mistakes_at_once(self, models: Path, tmp_path: Path) -> None:
        with pytest.raises(ImportModelError) as error:
            freeze(models / "mlp.keras", tmp_path, feeds=(FeedSpec("x", (1, 6)), FeedSpec("z", (1,))))
        assert "names 'z', which is not an input; the inputs are x." in str(error.value)
        assert "gives 'x' the shape [1, 6], but the model's is [?, 5]" in str(error.value)

    @pytest.mark.parametrize(
        ("dtype", "why"),
        [
            ("string", "The output 'y' is strings that no number chooses: leave it out"),
            *((dtype, f"'x' is {dtype}.*What to do") for dtype in ("complex64", "complex128")),
        ],
    )
    def test_dtypes_that_cannot_cross_the_abi(self, tmp_path: Path, dtype: str, why: str) -> None:
        with tf.Graph().as_default() as graph:
            x = tf.compat.v1.placeholder(dtype, [1], name="x")
            tf.identity(x, name="y")
            (tmp_path / "g.pb").write_bytes(graph.as_graph_def().SerializeToString())
        with pytest.raises(ImportModelError, match=why):
            freeze(tmp_path / "g.pb", tmp_path / "out", feeds=(FeedSpec("x"),), fetches=(FetchSpec("y"),))

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_half_precision_crosses_the_abi_as_float32(self, tmp_path: Path, dtype: str) -> None:
        with tf.Graph().as_default() as graph:
            x = tf.compat.v1.placeholder(dtype, [4], name="x")
            tf.multiply(x, x, name="y")
            (tmp_path / "g.pb").write_bytes(graph.as_graph_def().SerializeToString())
        frozen = freeze(tmp_path / "g.pb", tmp_path / "out", feeds=(FeedSpec("x"),), fetches=(FetchSpec("y"),))
        assert [port.spec.dtype for port in (*frozen.feeds, *frozen.fetches)] == ["float32", "float32"]
        values = np.array([0.1, -3.3, 70.7, 0], np.float32)
        expected = tf.cast(tf.square(tf.cast(values, dtype)), "float32").numpy()
        np.testing.assert_array_equal(run_graph(frozen, {"x": values})["y"], expected)


class TestImage:
    def test_pixels_go_in_and_the_graph_normalises(self, models: Path, tmp_path: Path) -> None:
        image = ImageSpec(None, 8, 8, channel_order="bgr", mean=(10.0, 20.0, 30.0), scale=(1 / 127.5,))
        graph = freeze(models / "cnn.keras", tmp_path, batch=2, image=image)
        assert graph.feeds[0].spec.dtype == "uint8"
        pixels = np.random.default_rng(2).integers(0, 256, (2, 8, 8, 3), dtype=np.uint8)
        bgr = pixels[..., ::-1].astype("float32")
        expected = keras.saving.load_model(models / "cnn.keras").predict(
            (bgr - np.array([10, 20, 30], "float32")) * np.float32(1 / 127.5), verbose=0
        )
        np.testing.assert_allclose(run_graph(graph, {"picture": pixels})["scores"], expected, rtol=1e-4, atol=1e-5)

    def test_dynamic_height_and_width_come_from_the_image(self, tmp_path: Path) -> None:
        path = save_keras(cnn(None, 1), tmp_path / "m.keras")
        graph = freeze(path, tmp_path / "out", image=ImageSpec("picture", width=12, height=10, mode="grey"))
        assert graph.feeds[0].spec.shape == (1, 10, 12, 1)

    @pytest.mark.parametrize("shape", [(8, 8), (64,), (8, 8, 1)])
    def test_grey_models_may_take_no_channel_or_flat_pixels(self, tmp_path: Path, shape: tuple[int, ...]) -> None:
        model = keras.Sequential([keras.Input(shape, name="x"), L.Flatten(), L.Dense(2, name="y")])
        path = save_keras(model, tmp_path / "m.keras")
        graph = freeze(path, tmp_path / "out", image=ImageSpec(None, 8, 8, mode="grey", scale=(1 / 255,)))
        assert graph.feeds[0].spec.shape == (1, 8, 8, 1)
        pixels = np.arange(64, dtype=np.uint8).reshape(1, 8, 8, 1)
        expected = model.predict(pixels.reshape(1, *shape) / np.float32(255), verbose=0)
        np.testing.assert_allclose(run_graph(graph, {"x": pixels})["y"], expected, atol=1e-5)

    @settings(deadline=None, max_examples=25)
    @given(
        size=st.tuples(*[st.integers(4, 7)] * 3),
        channels=st.sampled_from([1, 3]),
        layout=st.sampled_from(["channels_last", "channels_first"]),
        written=st.booleans(),
        order=st.sampled_from(["rgb", "bgr"]),
    )
    def test_channels_are_where_the_layout_says(
        self, size: tuple[int, int, int], channels: int, layout: Layout, written: bool, order: ChannelOrder
    ) -> None:
        """Without a layout, the model's shape tells it. The values are held against NumPy's."""
        batch, height, width = size
        mean, scale = tuple(range(1, channels + 1)), tuple(1 / n for n in range(2, channels + 2))
        mode: ColorMode = "grey" if channels == 1 else "rgb"
        image = ImageSpec(None, width, height, mode, layout if written else None, order, scale, mean)
        pixels = np.random.default_rng(0).integers(0, 256, (*size, channels), np.uint8)
        expected = (pixels[..., ::-1] if order == "bgr" else pixels) - np.array(mean)
        expected = (expected * scale).transpose((0, 1, 2, 3) if layout == "channels_last" else (0, 3, 1, 2))
        ports = ModelPorts((PortInfo("x", "float32", expected.shape),), ())
        shape = pin_shapes(ports, spec_for(Path("model.onnx"), batch=batch, image=image))["x"]
        assert shape == expected.shape
        actual = image_to_input(tf.constant(pixels), image, tf.float32, shape).numpy()
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)

    def test_integers_are_whole_pixels(self) -> None:
        pixels = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
        image = ImageSpec(None, 16, 16, "grey", mean=(128.0,))
        values = image_to_input(tf.constant(pixels), image, tf.int8, pixels.shape).numpy()
        np.testing.assert_array_equal(values, (pixels.astype(int) - 128).astype(np.int8))
        for wrong in (ImageSpec(None, 16, 16, "grey"), replace(image, mean=(127.5,)), replace(image, scale=(1 / 255,))):
            with pytest.raises(ImportModelError, match="write mean = 128"):
                image_to_input(tf.constant(pixels), wrong, tf.int8, pixels.shape)

    @pytest.mark.parametrize("size", [(3, 3), (5, 3)])
    def test_a_shape_that_may_be_of_either_layout(self, size: tuple[int, int]) -> None:
        height, width = size
        ports = ModelPorts((PortInfo("x", "float32", (1, 3, height, width)),), ())
        with pytest.raises(ImportModelError, match='add `layout = "channels_first"`'):
            pin_shapes(ports, spec_for(Path("model.onnx"), image=ImageSpec(None, width, height)))
        first = ImageSpec(None, width, height, layout="channels_first")
        assert pin_shapes(ports, spec_for(Path("model.onnx"), image=first))["x"] == (1, 3, height, width)

    @pytest.mark.parametrize("source", ["model.onnx", "model.keras"])
    def test_a_shape_with_every_size_open(self, source: str) -> None:
        """TensorFlow's images have their channels last; for others, a person has to say it."""
        ports = ModelPorts((PortInfo("x", "float32", (None,) * 4),), ())
        shapes = {}
        for layout in (None, "channels_last", "channels_first"):
            spec = spec_for(Path(source), image=ImageSpec("x", 20, 10, layout=layout))
            if source == "model.onnx" and layout is None:
                with pytest.raises(ImportModelError, match='add `layout = "channels_first"`'):
                    pin_shapes(ports, spec)
            else:
                shapes[layout] = pin_shapes(ports, spec)["x"]
        last = (1, 10, 20, 3)
        assert shapes.pop(None, last) == last
        assert shapes == {"channels_last": last, "channels_first": (1, 3, 10, 20)}

    def test_a_size_that_is_not_the_models(self, models: Path, tmp_path: Path) -> None:
        with pytest.raises(ImportModelError, match=r"(?s)9 x 8 pixels.*is \[\?, 8, 8, 3\].*width = 8, height = 8"):
            freeze(models / "cnn.keras", tmp_path, image=ImageSpec(None, width=9, height=8))
        with pytest.raises(ImportModelError, match='mode = "rgb"'):
            freeze(models / "cnn.keras", tmp_path, image=ImageSpec(None, 8, 8, mode="grey"))

    def test_activations_are_in_the_graph(self, models: Path, tmp_path: Path) -> None:
        raw = freeze(models / "cnn.keras", tmp_path / "raw")
        x = random(1, 8, 8, 3)
        scores = run_graph(raw, {"picture": x})["scores"]
        for activation, expected in (
            ("softmax", np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)),
            ("sigmoid", 1 / (1 + np.exp(-scores))),
        ):
            outputs = (OutputSpec("it", None, "classification", activation=activation),)
            graph = freeze(models / "cnn.keras", tmp_path / activation, outputs=outputs)
            np.testing.assert_allclose(run_graph(graph, {"picture": x})["scores"], expected, rtol=1e-5)


def save_two_signatures(path: Path) -> None:
    class Two(tf.Module):
        def __init__(self) -> None:
            self.w = tf.Variable(np.arange(6, dtype="float32").reshape(3, 2))

        @tf.function(input_signature=[tf.TensorSpec([None, 3], name="x")])
        def product(self, x: Any) -> Any:
            return {"y": tf.matmul(x, self.w), "z": tf.reduce_sum(x)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="i")])
        def row(self, i: Any) -> Any:
            return {"row": tf.gather(self.w, i)}

    module = Two()
    tf.saved_model.save(module, str(path), {"product": module.product, "row": module.row})


def save_module_around(model: Any, path: Path) -> None:
    """A tf.Module that tracks a Keras model beside a variable of its own."""

    class Around(tf.Module):
        def __init__(self) -> None:
            self.model, self.scale = model, tf.Variable(2.0)

        @tf.function(input_signature=[tf.TensorSpec([None, 5], name="x")])
        def serve(self, x: Any) -> Any:
            return {"y": self.scale * self.model(x, training=False)}

    module = Around()
    tf.saved_model.save(module, str(path), {"serving_default": module.serve})


class TestSavedModel:
    @pytest.mark.parametrize(("name", "shape"), [("mlp", (2, 5)), ("cnn", (2, 8, 8, 3)), ("lstm", (2, 6, 3))])
    def test_answers_as_the_keras_model_does(
        self, models: Path, tmp_path: Path, name: str, shape: tuple[int, ...]
    ) -> None:
        graph = freeze(models / name, tmp_path, batch=2)
        x = random(*shape)
        expected = keras.saving.load_model(models / f"{name}.keras").predict(x, verbose=0)
        (answer,) = run_graph(graph, {graph.feeds[0].spec.name: x}).values()
        np.testing.assert_allclose(answer, expected, atol=1e-5)

    def test_two_signatures(self, tmp_path: Path) -> None:
        save_two_signatures(tmp_path / "m")
        ports = describe_model(spec_for(tmp_path / "m", signature="row").source, tmp_path / "m")
        assert ports.signatures == ("product", "row")
        assert (ports.feeds[0].dtype, ports.feeds[0].shape) == ("int64", (None,))
        with pytest.raises(ImportModelError, match='It has product, row: set `signature = "product"`'):
            freeze(tmp_path / "m", tmp_path / "out")
        row = freeze(tmp_path / "m", tmp_path / "row", signature="row")
        np.testing.assert_array_equal(run_graph(row, {"i": np.array([2])})["row"], [[4, 5]])
        product = freeze(tmp_path / "m", tmp_path / "product", signature="product")
        assert [p.spec.name for p in product.fetches] == ["y", "z"]

    def test_fetches_are_chosen_and_renamed(self, tmp_path: Path) -> None:
        save_two_signatures(tmp_path / "m")
        graph = freeze(tmp_path / "m", tmp_path / "out", signature="product", fetches=(FetchSpec("z", "total"),))
        assert run_graph(graph, {"x": np.ones((1, 3), "float32")}) == {"total": 3.0}
        with pytest.raises(ImportModelError, match="the outputs are y, z"):
            freeze(tmp_path / "m", tmp_path / "out", signature="product", fetches=(FetchSpec("q"),))

    def test_a_broken_object_graph_does_not_matter(self, models: Path, tmp_path: Path) -> None:
        from tensorflow.core.protobuf import saved_model_pb2

        shutil.copytree(models / "lstm", tmp_path / "m")
        file = tmp_path / "m" / "saved_model.pb"
        saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
        for node in saved.meta_graphs[0].object_graph_def.nodes:
            for child in node.children:
                child.node_id = 10**6
        file.write_bytes(saved.SerializeToString())
        (tmp_path / "m" / "fingerprint.pb").unlink()
        with pytest.raises(Exception):  # noqa: B017, PT011
            tf.saved_model.load(str(tmp_path / "m"))
        graph, whole = freeze(tmp_path / "m", tmp_path / "out"), freeze(models / "lstm", tmp_path / "whole")
        assert graph.graph_path.read_bytes() == whole.graph_path.read_bytes()

    def test_a_keras_model_inside_a_module(self, models: Path, tmp_path: Path) -> None:
        """Its restore op fills copies of Keras' variables that the signature does not read."""
        model = keras.saving.load_model(models / "mlp.keras")
        save_module_around(model, tmp_path / "m")
        graph = freeze(tmp_path / "m", tmp_path / "out")
        x = random(1, 5)
        expected = 2 * model.predict(x, verbose=0)
        np.testing.assert_allclose(run_graph(graph, {"x": x})["y"], expected, atol=1e-6)
        names = {variable.path for variable in model.variables}
        assert names < set(graph.variables.values())

        def elsewhere(meta: Any) -> None:
            for function in meta.object_graph_def.concrete_functions.values():
                function.bound_inputs[:] = [-1, 10**6, *function.bound_inputs[2:]]

        change_meta_graph(tmp_path / "m", elsewhere)
        with pytest.raises(ImportModelError, match=r"the checkpoint lacks dense.*bias, dense.*kernel, and"):
            freeze(tmp_path / "m", tmp_path / "damaged")

    def test_not_a_saved_model(self, tmp_path: Path) -> None:
        (tmp_path / "m").mkdir()
        with pytest.raises(ImportModelError, match=r"no saved_model\.pb"):
            freeze(tmp_path / "m", tmp_path / "out")
        (tmp_path / "m" / "saved_model.pb").write_bytes(b"\xff\xff")
        with pytest.raises(ImportModelError, match="damaged"):
            freeze(tmp_path / "m", tmp_path / "out")


@pytest.fixture
def frozen_pb(tmp_path: Path) -> Path:
    """A TensorFlow 1 frozen graph with dropout's placeholder, an assertion and a printing side branch."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 3], name="images")
        rate = v1.placeholder_with_default(0.0, [], name="rate")
        check = v1.Assert(v1.reduce_all(x > -1e9), ["too small", x])
        with v1.control_dependencies([check, v1.print("hello", x)]):
            y = tf.multiply(x, 2.0 - rate, name="double")
        tf.nn.softmax(y, name="softmax")
        tf.split(y, 3, axis=1, name="parts")
        tf.io.decode_jpeg(tf.io.read_file("none"), name="unused")
        path = tmp_path / "frozen.pb"
        path.write_bytes(graph.as_graph_def().SerializeToString())
        return path


class TestGraphDef:
    def test_ports_by_name(self, frozen_pb: Path, tmp_path: Path) -> None:
        fetches = (FetchSpec("softmax"), FetchSpec("parts:1", "middle"))
        graph = freeze(frozen_pb, tmp_path / "out", feeds=(FeedSpec("images", (1, 3)),), fetches=fetches)
        answers = run_graph(graph, {"images": np.array([[1, 2, 3]], "float32")})
        np.testing.assert_array_equal(answers["middle"], [[4]])
        ops = {n.op for n in tf.compat.v1.GraphDef.FromString(graph.graph_path.read_bytes()).node}
        assert not ops & {"Assert", "PrintV2", "DecodeJpeg"}

    def test_a_tf2xla_config_as_it_is(self, frozen_pb: Path, tmp_path: Path) -> None:
        config = tmp_path / "graph.config.pbtxt"
        config.write_text(
            'feed { id { node_name: "images" } shape { dim { size: 2 } dim { size: 3 } } name: "x" }\n'
            'fetch { id { node_name: "softmax" } name: "probabilities" }\n'
        )
        graph = freeze(frozen_pb, tmp_path / "out", config=config)
        assert [(p.spec.name, p.spec.shape) for p in graph.feeds] == [("x", (2, 3))]
        assert [p.spec.name for p in graph.fetches] == ["probabilities"]
        again = freeze(  # what coldforge writes is such a file, too
            graph.graph_path, tmp_path / "again", config=graph.config_path
        )
        assert again.feeds[0].spec == graph.feeds[0].spec
        x = random(2, 3)
        np.testing.assert_array_equal(
            run_graph(again, {"x": x})["probabilities"], run_graph(graph, {"x": x})["probabilities"]
        )

    def test_without_names_it_suggests_them(self, frozen_pb: Path, tmp_path: Path) -> None:
        with pytest.raises(ImportModelError) as error:
            freeze(frozen_pb, tmp_path / "out", feeds=(FeedSpec("images", (1, 3)),))
        assert '[[fetches]]\nname = "softmax"' in str(error.value)
        ports = describe_model(spec_for(frozen_pb).source, frozen_pb)
        assert [p.name for p in ports.feeds] == ["images"]
        assert "softmax" in [p.name for p in ports.fetches]

    def test_misspelt_names(self, frozen_pb: Path, tmp_path: Path) -> None:
        with pytest.raises(ImportModelError, match=r"no node sotfmax .*Did you mean softmax"):
            freeze(frozen_pb, tmp_path / "out", feeds=(FeedSpec("images", (1, 3)),), fetches=(FetchSpec("sotfmax"),))

    def test_a_placeholder_that_is_not_fed(self, frozen_pb: Path, tmp_path: Path) -> None:
        with pytest.raises(ImportModelError, match=r'reads the placeholder images.*(?s:.*)name = "images"'):
            freeze(frozen_pb, tmp_path / "out", feeds=(FeedSpec("rate"),), fetches=(FetchSpec("softmax"),))

    def test_a_feed_in_mid_graph(self, frozen_pb: Path, tmp_path: Path) -> None:
        graph = freeze(
            frozen_pb, tmp_path / "out", feeds=(FeedSpec("double", (1, 3)),), fetches=(FetchSpec("parts:0", "first"),)
        )
        assert run_graph(graph, {"double": np.array([[7, 8, 9]], "float32")})["first"] == [[7]]
        names = {n.name for n in tf.compat.v1.GraphDef.FromString(graph.graph_path.read_bytes()).node}
        assert not [n for n in names if "images" in n]

    def test_variables_are_not_frozen(self, tmp_path: Path) -> None:
        with tf.Graph().as_default() as graph:
            tf.compat.v1.get_variable("w", [2], use_resource=False)
            (tmp_path / "g.pb").write_bytes(graph.as_graph_def().SerializeToString())
        with pytest.raises(ImportModelError, match=r"not frozen.*w"):
            freeze(tmp_path / "g.pb", tmp_path / "out", feeds=(FeedSpec("w"),), fetches=(FetchSpec("w"),))

    @pytest.mark.parametrize(("most", "shape"), [(None, (4, 1)), (3, (3, 1)), (9, (4, 1))])
    def test_a_fetch_whose_size_depends_on_the_data(
        self, tmp_path: Path, most: int | None, shape: tuple[int, ...]
    ) -> None:
        """XLA says how large it is at most, the spec may say less, and the next fetch is its shape."""
        fetches = (FetchSpec("y", max_size=most), FetchSpec("twice"))
        graph = freeze(_where(tmp_path), tmp_path / "out", feeds=(FeedSpec("x"),), fetches=fetches)
        y, size, twice = (port.spec for port in FrozenGraph.load(graph.folder).fetches)
        assert (y, y.shape_fetch) == (TensorSpec("y", "int64", shape, (0,)), "y_shape")
        assert size == TensorSpec("y_shape", "int32", (2,))
        assert twice == TensorSpec("twice", "bool", (8,))
        for x, rows in (([0, 0, 0, 0], 0), ([0, 1, 1, 0], 2), ([1, 1, 1, 1], 4)):
            found = run_graph(graph, {"x": np.array(x, bool)})
            assert found["y"].shape == tuple(found["y_shape"]) == (rows, 1)

    def test_a_limit_for_a_size_that_is_fixed(self, tmp_path: Path) -> None:
        fetches = (FetchSpec("y"), FetchSpec("twice", max_size=3))
        with pytest.raises(ImportModelError, match="gives 'twice' a max_size, but its size is always the same"):
            freeze(_where(tmp_path), tmp_path / "out", feeds=(FeedSpec("x"),), fetches=fetches)

    def test_a_fetch_with_the_name_that_says_how_large_another_is(self, tmp_path: Path) -> None:
        fetches = (FetchSpec("y"), FetchSpec("twice", "Y.shape"))
        with pytest.raises(ImportModelError, match="'y_shape' is to say how large it is, and another output has that"):
            freeze(_where(tmp_path), tmp_path / "out", feeds=(FeedSpec("x"),), fetches=fetches)


def _where(folder: Path) -> Path:
    """A frozen graph: the places where ``x`` is true, and ``x`` twice."""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.bool, [4], name="x")
        tf.where(x, name="y")
        tf.concat([x, x], 0, name="twice")
    path = folder / "g.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


def test_labels_are_counted_against_the_output(tmp_path: Path) -> None:
    network = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3, name="scores")])
    path = save_keras(network, tmp_path / "m.keras")
    wrong = OutputSpec("kind", "scores", "classification", labels=("a", "b"))
    with pytest.raises(ImportModelError, match=r"kind: 2 labels for 'scores' \[1, 3\], which has 3 classes"):
        freeze(path, tmp_path, outputs=(wrong,))


def test_an_archive_of_keras_2_is_read_in_the_sandbox(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keras2.save(keras2.KINDS["siamese"], tmp_path / "m.keras")
    assert main(["inspect", str(tmp_path / "m.keras"), "--json"]) == 0
    found = printed("inspect", capsys.readouterr().out)
    assert "read by tf-keras" in found["origin"]
    assert [port["name"] for port in found["feeds"]] == ["a", "b"]
