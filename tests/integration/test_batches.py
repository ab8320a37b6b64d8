"""One library for several batches, from model.toml to the function's answers; TensorFlow is always the judge."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from builder.base.project import Project
from builder.cli import main
from builder.package.bundle import Bundle
from builder.verify.library.loaded_library import OpenedModel
from tests.integration.test_weights import answers, project
from tests.support.function import served
from tests.support.models import save_keras
from tests.support.results import printed

__all__ = ["project"]

pytestmark = pytest.mark.integration

SPEC = '[model]\nsource = "small.keras"\nname = "small"\nbatch = {batch}\n'


def convolutions(hidden: int = 0) -> Any:
    """Large enough for Winograd, and with a dense layer of whole panels, behind one of ``hidden`` outputs, if any.

    48 are enough for a dense end.
    """
    import keras
    from keras import layers as kl

    x = keras.Input((24, 24, 16), name="x")
    y = kl.BatchNormalization()(kl.Conv2D(32, 3, padding="same", activation="relu")(x))
    y = kl.Conv2D(32, 3, padding="same")(y) + y
    y = kl.MaxPooling2D()(kl.DepthwiseConv2D(3, activation="relu")(y))
    y = kl.Flatten()(y)
    if hidden > 0:
        y = kl.Dense(hidden, activation="relu")(y)
    # Of 16: a product's channels are padded to that, and this one has most of the weights.
    return keras.Model(x, kl.Dense(16, activation="softmax", name="scores")(y))


def recurrent() -> Any:
    """A loop, which stays on XLA's plan."""
    import keras
    from keras import layers as kl

    x = keras.Input((12, 32), name="x")
    return keras.Model(x, kl.Dense(5, activation="softmax", name="scores")(kl.LSTM(64)(x)))


def attention() -> Any:
    import keras
    from keras import layers as kl

    x = keras.Input((16, 32), name="x")
    y = kl.LayerNormalization()(x + kl.MultiHeadAttention(4, 8)(x, x))
    return keras.Model(x, kl.Dense(5, name="scores")(y[:, 0]))


def bundled(project: Project, batch: object, more: str = "") -> Bundle:
    (project.root / "model.toml").write_text(SPEC.format(batch=batch) + more)
    assert main(["bundle", "model.toml", "--in", "host"]) == 0
    return Bundle.load(project.dist / "small")


IN_PARTS, WHOLE = "optimised, batches in parts", "optimised"


def path_of(bundle: Bundle) -> str:
    path: str = json.loads(bundle.manifest.read_text())["lowering"]["path"]
    return path


@pytest.mark.parametrize(("network", "path"), [(convolutions, IN_PARTS), (recurrent, WHOLE), (attention, WHOLE)])
def test_a_library_of_several_batches(project: Project, network: Any, path: str) -> None:
    model = network()
    save_keras(model, project.root / "small.keras")
    bundle = bundled(project, [1, 16, 4])
    manifest = json.loads(bundle.manifest.read_text())
    assert manifest["batches"] == [1, 4, 16]
    assert path_of(bundle) == path
    assert (
        len({case.rpartition("batch of ")[2] for case in manifest["verification"]["cases"] if "batch of" in case}) == 2
    )
    # Panels of 16 channels and 64-byte places take some room; two more copies would take three times as much.
    lowered = project.build / "small" / ("lower-parts" if path == IN_PARTS else "lower")
    weights = (lowered / "weights.bin").stat().st_size
    assert weights < 1.7 * 4 * model.count_params()

    shape = model.inputs[0].shape[1:]
    x = np.random.default_rng(0).standard_normal((23, *shape)).astype(np.float32)
    expected = model(x).numpy()
    for batch in (1, 4, 16):
        found = answers(bundle.library, x[:batch]).reshape(batch, -1)
        np.testing.assert_allclose(found, expected[:batch], rtol=1e-4, atol=1e-5)
    # A body in TensorFlow Serving's protocol may hold any number of items.
    event = {
        "version": "2.0",
        "requestContext": {"http": {"method": "POST", "path": "/v1/models/small:predict"}, "requestId": "r"},
        "rawPath": "/v1/models/small:predict",
        "headers": {"content-type": "application/json"},
        "body": json.dumps({"instances": x.tolist()}),
        "isBase64Encoded": False,
    }
    (answer,) = served(bundle.library, event).answers
    assert answer["statusCode"] == 200, answer
    np.testing.assert_allclose(json.loads(answer["body"])["predictions"], expected, rtol=1e-4, atol=1e-5)


def test_a_batch_in_parts_has_the_answers_of_single_inputs(project: Project) -> None:
    """To the bit, on one thread and on several."""
    save_keras(convolutions(hidden=48), project.root / "small.keras")
    bundle = bundled(project, [1, 16])
    assert path_of(bundle) == IN_PARTS
    assert "run_dense_end" in (project.build / "small" / "lower-parts" / "program.c").read_text()
    x = np.random.default_rng(0).standard_normal((16, 24, 24, 16)).astype(np.float32)
    found = []
    for threads in (1, 2, 3):
        with OpenedModel(bundle.library, threads) as model:
            call = model.bind_call([x], [16 * 16 * 4])
            call()
            found.append(np.copy(call.fetches[0]).view(np.float32))
    np.testing.assert_array_equal(found, [found[0]] * 3)
    save_keras(convolutions(hidden=48), project.root / "one.keras")
    spec = SPEC.format(batch=1).replace("small", "one")
    (project.root / "model.toml").write_text(spec)
    assert main(["bundle", "model.toml", "--in", "host"]) == 0
    one = np.concatenate([answers(Bundle.load(project.dist / "one").library, row[None]) for row in x])
    np.testing.assert_array_equal(found[0], one)


def mixed() -> Any:
    """Each answer depends on all inputs of the batch."""
    import keras
    from keras import layers as kl

    x = keras.Input((24, 24, 16), name="x")
    y = kl.GlobalAveragePooling2D()(kl.Conv2D(32, 3, activation="relu")(x))
    return keras.Model(x, y - keras.ops.mean(y, axis=0, keepdims=True))


def test_a_model_that_mixes_its_inputs_runs_whole(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    model = mixed()
    save_keras(model, project.root / "small.keras")
    bundle = bundled(project, 4)
    lowering = json.loads(bundle.manifest.read_text())["lowering"]
    assert [one["path"] for one in lowering["given_up"]] == [IN_PARTS]
    assert lowering["path"] == WHOLE
    x = np.random.default_rng(0).standard_normal((4, 24, 24, 16)).astype(np.float32)
    np.testing.assert_allclose(answers(bundle.library, x), model(x).numpy().ravel(), rtol=1e-4, atol=1e-5)


def test_a_model_that_is_made_for_its_batch_runs_whole(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    import keras
    from keras import layers as kl

    x = keras.Input(batch_shape=(4, 24, 24, 16), name="x")
    model = keras.Model(x, kl.Conv2D(32, 3)(keras.ops.reshape(x, (4, 24, 24, 16))))
    save_keras(model, project.root / "small.keras")
    bundle = bundled(project, 4)
    assert path_of(bundle) == WHOLE
    assert "all inputs run together" in capsys.readouterr().err


@pytest.mark.parametrize("network", [convolutions, attention])
def test_several_batches_take_new_weights(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, network: Any
) -> None:
    model = network()
    save_keras(model, project.root / "small.keras", 0)
    bundle = bundled(project, [1, 4], '[weights]\nplace = "layer"\n')
    save_keras(model, project.root / "small.keras", 1)
    capsys.readouterr()
    assert main(["weights", "model.toml", "--json"]) == 0
    (made,) = printed("weights", capsys.readouterr().out)["weights"]
    assert made["file"] == str(project.dist / "small.weights")
    monkeypatch.setenv("COLDFORGE_WEIGHTS", str(project.dist / "small.weights"))
    x = np.random.default_rng(0).standard_normal((4, *model.inputs[0].shape[1:])).astype(np.float32)
    for batch in (1, 4):
        found = answers(bundle.library, x[:batch]).reshape(batch, -1)
        np.testing.assert_allclose(found, model(x[:batch]).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.quick
def test_what_does_not_scale_is_refused(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    import keras

    x = keras.Input((4,), name="x")
    keras.Model(x, {"y": x * 2, "total": keras.ops.sum(x)}).save(project.root / "small.keras")
    (project.root / "model.toml").write_text(SPEC.format(batch=[1, 2]))
    assert main(["bundle", "model.toml", "--in", "host"]) == 11
    assert "'total'" in capsys.readouterr().err
