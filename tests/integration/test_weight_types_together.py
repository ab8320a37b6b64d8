"""Rounded weights beside what else a model may be: of several batches, with its weights outside, with state."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.project import Project
from builder.cli import main
from builder.package.bundle import Bundle
from tests.integration.test_batches import convolutions
from tests.integration.test_weights import answers, project
from tests.support.models import save_keras
from tests.support.results import printed

__all__ = ["project"]

pytestmark = pytest.mark.integration


def bundled(project: Project, weights: str, batch: object = 1) -> Bundle:
    text = f'[model]\nsource = "small.keras"\nname = "small"\nbatch = {batch}\n[weights]\n{weights}\n'
    (project.root / "model.toml").write_text(text)
    assert main(["bundle", "model.toml", "--in", "host"]) == 0
    return Bundle.load(project.dist / "small")


def verification_of(bundle: Bundle) -> Any:
    return json.loads(bundle.manifest.read_text())["verification"]


def pictures(items: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((items, 24, 24, 16)).astype(np.float32)


def test_several_batches_share_rounded_weights(project: Project) -> None:
    model = convolutions()
    save_keras(model, project.root / "small.keras")
    bundle = bundled(project, 'type = "int8"', [1, 4])
    rows = verification_of(bundle)["same_weights"]
    assert [row["output"].partition(" in a ")[2] for row in rows] == ["", "batch of 4"]
    assert all(row["passed"] and row["absolute"] == 1e-5 for row in rows)
    size = (project.build / "small" / "lower-parts" / "weights.bin").stat().st_size
    assert size < 0.4 * 4 * model.count_params()
    one, four = answers(bundle.library, pictures(1)), answers(bundle.library, pictures(4))
    np.testing.assert_allclose(one, four[:16], rtol=1e-4, atol=1e-5)  # the same weights, whatever the batch
    assert np.abs(four.reshape(4, 16) - model(pictures(4)).numpy()).max() > 1e-4  # which were rounded


def test_rounded_weights_outside_the_library_are_exchanged(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = convolutions()
    save_keras(model, project.root / "small.keras", 0)
    bundle = bundled(project, 'type = "int8"\nplace = "layer"', [1, 4])
    assert bundle.weights.stat().st_size < 0.4 * 4 * model.count_params() + 4096
    first = answers(bundle.library, pictures(4))
    save_keras(model, project.root / "small.keras", 1)
    capsys.readouterr()
    assert main(["weights", "model.toml"]) == 0
    said = capsys.readouterr()
    assert said.out.count("same weights") == 2  # of each batch
    assert "link" not in said.err
    monkeypatch.setenv("COLDFORGE_WEIGHTS", str(project.dist / "small.weights"))
    second = answers(bundle.library, pictures(4))
    assert np.abs(first - second).max() > 0.02
    np.testing.assert_allclose(second.reshape(4, 16), model(pictures(4)).numpy(), atol=0.01)


def test_a_model_with_state(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """The answers with the rounded weights are a sequence of calls too."""
    import keras
    from keras import layers as kl

    x = keras.Input(batch_shape=(1, 4, 32), name="x")
    y = kl.Dense(64, activation="tanh")(x)
    model = keras.Model(x, kl.Dense(48, name="scores")(kl.SimpleRNN(64, stateful=True)(y)))
    save_keras(model, project.root / "small.keras")
    bundle = bundled(project, 'type = "float16"')
    rows = verification_of(bundle)["same_weights"]
    assert rows
    assert all(row["passed"] and row["absolute"] == 1e-5 for row in rows)
    assert main(["accuracy", "model.toml"]) == 2
    assert "keeps state" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_the_models_own_test_program(kind: str, project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """It compares with TensorFlow's answers to the weights that the library has."""
    save_keras(convolutions(), project.root / "small.keras")
    bundle = bundled(project, f'type = "{kind}"')
    capsys.readouterr()
    assert main(["selftest", "model.toml"]) == 0
    said = capsys.readouterr()
    assert "PASSED" in said.out
    assert ("restore" in said.err) == (kind != "float32")
    assert (bundle.folder / "small_test").is_file()


def test_an_export_has_the_same_exceptions(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    save_keras(convolutions(), project.root / "small.keras")
    rules = 'type = "int8"\n[[layers]]\nname = "model/*/scores*/MatMul"\nweights = "float16"'
    bundle = bundled(project, rules)
    before = bundle.library.read_bytes()
    layers = json.loads(bundle.manifest.read_text())["lowering"]["weights"]["layers"]
    assert {layer["type"] for layer in layers} == {"int8", "float16", "float32"}
    capsys.readouterr()
    assert main(["export", "model.toml", "--json"]) == 0
    assert printed("export", capsys.readouterr().out)["folder"] == str(project.dist / "small-export")
    assert main(["bundle", str(project.dist / "small-export"), "--in", "host"]) == 0
    assert bundle.library.read_bytes() == before


def test_the_program_of_another_type_disagrees(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    save_keras(convolutions(), project.root / "small.keras")
    bundled(project, 'type = "int8"')
    capsys.readouterr()
    assert main(["selftest", "model.toml", "--json"]) == 0
    (made,) = printed("selftest", capsys.readouterr().out)["programs"]
    assert made["ran"]
    assert "PASSED" in made["said"]
    program = project.dist / "small_test"
    program.write_bytes((project.dist / "small" / "small_test").read_bytes())
    program.chmod(0o755)
    library = bundled(project, 'type = "float16"').library
    assert _exit_code(program, library) == 1


def _exit_code(program: Path, library: Path) -> int:
    return subprocess.run([program, library], capture_output=True, check=False).returncode
