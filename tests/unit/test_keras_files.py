"""Each Keras file is read by the Keras that wrote it, and the frozen graph answers as that Keras does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from builder.base.errors import EnvironmentSetupError, ImportModelError
from builder.base.tf import import_tensorflow
from builder.config import ModelSpec, Source
from builder.importers.model_description import describe_model
from builder.importers.model_import import freeze_model, open_model
from handler.description import Port
from handler.text.words import parse_program
from tests.support import keras2
from tests.support.models import run_graph
from tests.support.words import tensors

DENSE = keras2.KINDS["slashes"]
SIGMOID = keras2.KINDS["hard_sigmoid"]


def spec_of(path: Path, folder: Path, batch: int = 2, **source: Any) -> ModelSpec:
    form = "keras" if path.suffix == ".keras" else "h5"
    own = Source(form, path, **{"trust": form == "h5", **source})  # type: ignore[arg-type]
    return ModelSpec(folder / "model.toml", "test", "1", own, batch=batch)


def answers(spec: ModelSpec, folder: Path, feeds: list[Any]) -> list[Any]:
    """What TensorFlow answers with the frozen graph."""
    assert spec.source.path
    graph = freeze_model(open_model(spec, spec.source.path), spec, folder)
    found = run_graph(graph, {port.spec.name: feed for port, feed in zip(graph.feeds, feeds, strict=True)})
    return [found[port.spec.name] for port in graph.fetches]


def require_agreement(got: list[Any], wanted: list[Any]) -> None:
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, np.asarray(other), 1e-5, 1e-6)


@pytest.mark.parametrize("kind", keras2.KINDS)
def test_what_keras_2_wrote_is_answered_as_by_keras_2(kind: str, tmp_path: Path) -> None:
    hdf5, archive = tmp_path / "m.h5", tmp_path / "m.keras"
    model = keras2.save(keras2.KINDS[kind], hdf5)
    model.save(archive)
    feeds = keras2.examples(model)
    wanted = keras2.answers(model, feeds)
    require_agreement(answers(spec_of(hdf5, tmp_path), tmp_path / "hdf5", feeds), wanted)
    require_agreement(answers(spec_of(archive, tmp_path), tmp_path / "archive", feeds), wanted)


@pytest.mark.parametrize("kind", ["slashes", "transfer", "slices"])
def test_archives_of_keras_2_13(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m.keras"
    model = keras2.save(keras2.KINDS[kind], path)
    feeds = keras2.examples(model)
    spec = spec_of(keras2.as_keras_2_13(path), tmp_path)
    require_agreement(answers(spec, tmp_path / "graph", feeds), keras2.answers(model, feeds))


def test_hdf5_that_is_called_keras(tmp_path: Path) -> None:
    model = keras2.save(DENSE, tmp_path / "m.h5")
    path = (tmp_path / "m.h5").rename(tmp_path / "m.keras")
    with pytest.raises(ImportModelError, match="trust"):
        open_model(spec_of(path, tmp_path), path)
    feeds = keras2.examples(model)
    require_agreement(
        answers(spec_of(path, tmp_path, trust=True), tmp_path / "graph", feeds), keras2.answers(model, feeds)
    )


@pytest.mark.parametrize("gpu", ["CuDNNLSTM", "CuDNNGRU"])
def test_layers_for_gpus_run_on_a_cpu(gpu: str, tmp_path: Path) -> None:
    keras = keras2.tf_keras()

    def build(layer: Any) -> Any:
        return keras.Sequential([keras.Input((6, 4)), layer])

    options = {"recurrent_activation": "sigmoid", **({"reset_after": True} if gpu == "CuDNNGRU" else {})}
    model = keras2.save(lambda _: build(getattr(keras.layers, gpu[5:])(3, **options)), tmp_path / "cpu.h5")
    twin = build(getattr(import_tensorflow().compat.v1.keras.layers, gpu, None) or _layer_for_gpus(gpu)(3))
    twin.load_weights(tmp_path / "cpu.h5")
    twin.save(tmp_path / "gpu.h5")
    feeds = keras2.examples(model)
    require_agreement(
        answers(spec_of(tmp_path / "gpu.h5", tmp_path), tmp_path / "graph", feeds), keras2.answers(model, feeds)
    )


def _layer_for_gpus(name: str) -> Any:
    from tf_keras.src.layers.rnn import cudnn_gru, cudnn_lstm

    return {"CuDNNLSTM": cudnn_lstm.CuDNNLSTM, "CuDNNGRU": cudnn_gru.CuDNNGRU}[name]


def test_a_table_of_words(tmp_path: Path) -> None:
    keras, tf = keras2.tf_keras(), import_tensorflow()
    lookup = keras.layers.StringLookup(output_mode="one_hot")
    lookup.adapt(tf.constant([["red"], ["green"]]))
    x = keras.Input((1,), dtype="string", name="colour")
    model = keras.Model(x, keras.layers.Dense(2)(lookup(x)))
    model.save(tmp_path / "m.keras")
    spec = spec_of(tmp_path / "m.keras", tmp_path)
    graph = freeze_model(open_model(spec, tmp_path / "m.keras"), spec, tmp_path / "graph")
    port = Port("colour", "int64", (2, 1), 16)
    made = tensors(parse_program(graph.words_path.read_bytes()), {"colour": [b"red", b"blue"]}, {"colour": port})[
        "colour"
    ]
    found = run_graph(graph, {"colour": np.frombuffer(made, np.int64).reshape(2, 1)})
    require_agreement([*found.values()], [model(tf.constant([["red"], ["blue"]]))])


class TestNobodySaysWhoWroteIt:
    def test_both_read_it_differently(self, tmp_path: Path) -> None:
        path = tmp_path / "m.h5"
        model = keras2.save(lambda keras: keras.Sequential([
            keras.Input((4,)), keras.layers.Dense(3, name="same"),
            keras.layers.Dense(3, activation="hard_sigmoid", name="other"), keras.layers.Dense(2),
        ]), path)  # fmt: skip
        feeds, third = keras2.examples(model), import_tensorflow().keras.models.load_model(path, compile=False)
        keras2.without_version(path)
        with pytest.raises(ImportModelError, match=r"layer 'other'.*`keras = 2` or `keras = 3`"):
            open_model(spec_of(path, tmp_path), path)
        second = keras2.answers(model, feeds)
        require_agreement(answers(spec_of(path, tmp_path, keras=2), tmp_path / "2", feeds), second)
        require_agreement(answers(spec_of(path, tmp_path, keras=3), tmp_path / "3", feeds), [third(feeds[0])])

    def test_only_large_inputs_show_the_difference(self, tmp_path: Path) -> None:
        def build(keras: Any) -> Any:
            gate = keras.layers.Dense(3, "hard_sigmoid", kernel_initializer=keras.initializers.Constant(0.001))
            return keras.Sequential([keras.Input((4,)), gate])

        keras = keras2.tf_keras()
        build(keras).save(tmp_path / "m.h5")
        path = keras2.without_version(tmp_path / "m.h5")
        with pytest.raises(ImportModelError, match="`keras = 2` or `keras = 3`"):
            open_model(spec_of(path, tmp_path), path)

    def test_indices_in_a_float_input(self, tmp_path: Path) -> None:
        build = lambda keras: keras.Sequential([keras.Input((4,)), keras.layers.Embedding(5, 3)])  # noqa: E731
        keras2.save(build, tmp_path / "m.h5")
        path = keras2.without_version(tmp_path / "m.h5")
        assert open_model(spec_of(path, tmp_path), path).ports.feeds

    @pytest.mark.parametrize(("kind", "reader"), [("slashes", "tf-keras"), ("thresholded", "tf-keras")])
    def test_one_reads_it(self, kind: str, reader: str, tmp_path: Path) -> None:
        model = keras2.save(keras2.KINDS[kind], tmp_path / "m.h5")
        path, feeds = keras2.without_version(tmp_path / "m.h5"), keras2.examples(model)
        assert f"read by {reader}" in describe_model(spec_of(path, tmp_path).source, path).origin
        require_agreement(answers(spec_of(path, tmp_path), tmp_path / "g", feeds), keras2.answers(model, feeds))

    def test_both_agree(self, tmp_path: Path) -> None:
        build = lambda keras: keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="relu")])  # noqa: E731
        model = keras2.save(build, tmp_path / "m.h5")
        path, feeds = keras2.without_version(tmp_path / "m.h5"), keras2.examples(model)
        require_agreement(answers(spec_of(path, tmp_path), tmp_path / "g", feeds), keras2.answers(model, feeds))


@pytest.mark.parametrize("weights", ["m.h5", "m.weights.h5"])
@pytest.mark.parametrize("major", [2, 3])
def test_an_architecture_with_its_weights_beside_it(major: int, weights: str, tmp_path: Path) -> None:
    keras = keras2.tf_keras() if major == 2 else import_tensorflow().keras
    model = SIGMOID(keras)
    (tmp_path / "m.json").write_text(model.to_json())
    if major == 2 or weights == "m.weights.h5":
        model.save_weights(tmp_path / weights)
    else:
        model.save(tmp_path / weights)  # Keras 3 has no other way to write them so
    spec = spec_of(tmp_path / "m.json", tmp_path, weights=tmp_path / weights)
    feeds = keras2.examples(keras2.save(SIGMOID, tmp_path / "shapes.h5"))
    require_agreement(answers(spec, tmp_path / "graph", feeds), [model(feeds[0], training=False)])
    with pytest.raises(ImportModelError, match="trust"):
        describe_model(spec_of(tmp_path / "m.json", tmp_path, weights=tmp_path / weights, trust=False).source, tmp_path)


def _weights_alone(path: Path) -> None:
    DENSE(keras2.tf_keras()).save_weights(path)


def _changed(change: Callable[[h5py.File], object]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        keras2.save(DENSE, path)
        with h5py.File(path, "r+") as file:
            change(file)

    return write


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (_weights_alone, "holds weights and no graph"),
        (_changed(lambda file: file.attrs.__setitem__("keras_version", "1.2.2")), r"written by Keras 1\.2\.2"),
        (_changed(lambda file: file.attrs.__delitem__("model_config")), "not a Keras model"),
        (lambda path: path.write_bytes(b"no HDF5" * 9), "not an HDF5 file"),
        (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + b"cut off"), "damaged or cut off"),
    ],
    ids=["weights alone", "Keras 1", "not of Keras", "not HDF5", "damaged"],
)
def test_what_is_no_model_is_named(write: Callable[[Path], None], says: str, tmp_path: Path) -> None:
    write(tmp_path / "m.h5")
    with pytest.raises(ImportModelError, match=says):
        describe_model(spec_of(tmp_path / "m.h5", tmp_path).source, tmp_path / "m.h5")


@pytest.mark.parametrize("suffix", [".h5", ".keras"])
@pytest.mark.parametrize("major", [2, 3])
def test_missing_classes_are_named_in_full(major: int, suffix: str, tmp_path: Path) -> None:
    keras = keras2.tf_keras() if major == 2 else import_tensorflow().keras
    names = ["First" * 100, "Second"]
    first, second = (type(name, (keras.layers.Layer,), {"call": lambda self, x: x}) for name in names)
    keras.Sequential([keras.Input((4,)), first(), keras.layers.Dense(2), second()]).save(tmp_path / f"m{suffix}")
    with pytest.raises(ImportModelError, match=f"author has: {', '.join(names)}\\."):
        describe_model(spec_of(tmp_path / f"m{suffix}", tmp_path).source, tmp_path / f"m{suffix}")

    function = lambda x: x  # noqa: E731
    function.__name__ = "own_activation"
    keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, activation=function)]).save(tmp_path / f"f{suffix}")
    with pytest.raises(ImportModelError, match=r"author has: own_activation\."):
        describe_model(spec_of(tmp_path / f"f{suffix}", tmp_path).source, tmp_path / f"f{suffix}")


@pytest.mark.parametrize("major", [2, 3])
def test_a_model_of_a_fixed_batch_runs_for_others(major: int, tmp_path: Path) -> None:
    keras = keras2.tf_keras() if major == 2 else import_tensorflow().keras
    x = keras.Input(batch_shape=(32, 4))
    model = keras.Model(x, keras.layers.Dense(3)(x))
    model.save(tmp_path / "m.keras")
    feeds = [np.ones((5, 4), np.float32)]
    got = answers(spec_of(tmp_path / "m.keras", tmp_path, batch=5), tmp_path / "graph", feeds)
    require_agreement(got, [np.asarray(model(np.ones((32, 4), np.float32)))[:5]])

    x = keras.Input(batch_shape=(32, 6, 4))
    keras.Model(x, keras.layers.LSTM(3, stateful=True)(x)).save(tmp_path / "s.keras")
    spec = spec_of(tmp_path / "s.keras", tmp_path, batch=1)
    with pytest.raises(ImportModelError, match="`batch = 32`"):
        answers(spec, tmp_path / "stateful", [])


OPERATORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "items": lambda layers, ops, x: x[:, 0] + x[:, -1, :],
    "sums": lambda layers, ops, x: layers.Add()([x + 1.0, x]) + layers.Multiply()([x, x]) * x - x,
    "division": lambda layers, ops, x: layers.Dense(3)(x / 255.0) // 2.0,
    "relu": lambda layers, ops, x: ops.relu(layers.ReLU(2.0)(x)) + ops.softmax(layers.Softmax()(x)),
    "joins": lambda layers, ops, x: ops.concatenate([layers.Concatenate()([x, x]), x], axis=-1),
    "mean": lambda layers, ops, x: ops.mean(layers.Flatten()(x), axis=-1, keepdims=True) - ops.max(x, axis=1),
    "masked": lambda layers, ops, x: layers.GRU(3)(layers.Masking()(x)),
    "compared": lambda layers, ops, x: ops.where(x > 0.5, x, -x) + ops.maximum(x, layers.Maximum()([x, x * 2.0])),
    "average": lambda layers, ops, x: ops.average(layers.Average()([x, x]), axis=1) @ ops.ones((4, 2)),
}  # fmt: skip
"""Of layers, operations and an input; some have the name of a layer."""


@pytest.mark.parametrize("kind", OPERATORS)
def test_operators_in_hdf5_of_keras_3(kind: str, tmp_path: Path) -> None:
    keras = import_tensorflow().keras
    x = keras.Input((6, 4), name="x")
    model = keras.Model(x, OPERATORS[kind](keras.layers, keras.ops, x))
    model.save(tmp_path / "m.h5")
    feeds = [np.random.default_rng(3).normal(size=(2, 6, 4)).astype(np.float32)]
    require_agreement(answers(spec_of(tmp_path / "m.h5", tmp_path), tmp_path / "graph", feeds), [model(feeds[0])])


def test_who_wrote_and_who_read_it(tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    _changed(lambda file: file.attrs.__setitem__("keras_version", "2.2.4-tf"))(path)
    spec = spec_of(path, tmp_path)
    graph = freeze_model(open_model(spec, path), spec, tmp_path / "graph")
    assert graph.origin == f"written by Keras 2.2.4-tf, read by tf-keras {keras2.tf_keras().__version__}"
    assert type(graph).load(graph.folder) == graph


def test_tf_keras_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keras2.save(DENSE, tmp_path / "m.h5")
    monkeypatch.setitem(sys.modules, "tf_keras", None)
    with pytest.raises(EnvironmentSetupError, match=r"pip install --no-deps tf-keras=="):
        describe_model(spec_of(tmp_path / "m.h5", tmp_path).source, tmp_path / "m.h5")
