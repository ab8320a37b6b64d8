"""Weights that leave the library: whole builds, and new weights for a library that stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.project import Project
from builder.cli import main
from builder.package.bundle import Bundle
from handler.model import Model
from tests.support.models import empty_project, save_keras

pytestmark = pytest.mark.integration

SPEC = '[model]\nsource = "small.keras"\nname = "small"\n[weights]\nplace = "layer"\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with a spec in it and nothing built, but for the dependencies layer."""
    made = empty_project(tmp_path, monkeypatch)
    (tmp_path / "model.toml").write_text(SPEC)
    return made


def network(activation: str = "relu", classes: int = 5) -> Any:
    import keras

    return keras.Sequential(
        [
            keras.layers.Input((12, 12, 3), name="picture"),
            keras.layers.Conv2D(16, 3, activation=activation),
            keras.layers.BatchNormalization(),
            keras.layers.Conv2D(32, 3, activation=activation),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(classes, activation="softmax", name="scores"),
        ]
    )


def trained(project: Project, seed: int, model: Any = None) -> Any:
    model = model or network()
    save_keras(model, project.root / "small.keras", seed)
    return model


def answers(library: Path, x: np.ndarray) -> np.ndarray:
    opened = Model(str(library))
    found = np.frombuffer(opened.run([x.tobytes()])[0], np.float32)
    opened.close()
    return found


@pytest.mark.quick
def test_a_model_that_was_trained_again_keeps_its_library(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).standard_normal((1, 12, 12, 3)).astype(np.float32)
    first = trained(project, 0)
    assert main(["bundle", "model.toml"]) == 0
    bundle = Bundle.load(project.dist / "small")
    assert {"libmodel.so", "model.weights"} <= {p.name for p in bundle.library.parent.iterdir()}
    np.testing.assert_allclose(answers(bundle.library, x), first(x).numpy().ravel(), rtol=1e-4, atol=1e-6)
    manifest = json.loads(bundle.manifest.read_text())
    assert {"layer/lib/model.weights", "layer/lib/libmodel.so"} <= manifest["files"].keys()
    assert manifest["weights"]["layout"] == json.loads(bundle.description.read_text())["weights"]["layout"]
    content = project.layers / "model" / "content" / "lib"
    assert {p.name for p in content.iterdir()} == {p.name for p in bundle.library.parent.iterdir()}

    second = trained(project, 1)
    before = bundle.library.read_bytes()
    capsys.readouterr()
    assert main(["weights", "model.toml"]) == 0
    said = capsys.readouterr()
    assert "agrees" in said.out
    assert "link" not in said.err
    assert bundle.library.read_bytes() == before
    np.testing.assert_allclose(answers(bundle.library, x), first(x).numpy().ravel(), rtol=1e-4, atol=1e-6)
    monkeypatch.setenv("COLDFORGE_WEIGHTS", str(project.dist / "small.weights"))
    found = answers(bundle.library, x)
    np.testing.assert_allclose(found, second(x).numpy().ravel(), rtol=1e-4, atol=1e-6)
    assert np.abs(found - first(x).numpy().ravel()).max() > 1e-3

    # A whole build of the same weights gives the same file.
    assert main(["bundle", "model.toml"]) == 0
    assert bundle.weights.read_bytes() == (project.dist / "small.weights").read_bytes()

    trained(project, 2, network("tanh"))
    (project.dist / "small.weights").unlink()
    assert main(["weights", "model.toml"]) == 22
    assert "it compiles to other steps" in capsys.readouterr().err
    trained(project, 2, network(classes=40))
    assert main(["weights", "model.toml"]) == 22
    assert "weights take" in capsys.readouterr().err
    assert not (project.dist / "small.weights").exists()


def test_weights_of_a_bundle_that_has_them_inside_cannot_be_changed(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(project, 0)
    assert main(["weights", "model.toml"]) == 2
    assert "coldforge bundle" in capsys.readouterr().err
    (project.root / "model.toml").write_text(SPEC.replace('"layer"', '"library"'))
    assert main(["bundle", "model.toml"]) == 0
    assert main(["weights", "model.toml"]) == 2
    assert 'place = "layer"' in capsys.readouterr().err
