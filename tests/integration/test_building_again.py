"""``coldforge reproduce``: the same bundle from the same inputs, and the name of the input that is another one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from builder.base.cache import compute_digest, file_digest
from builder.base.project import Project
from builder.cli import main
from tests.support.models import empty_project, save_keras
from tests.support.results import printed

pytestmark = pytest.mark.integration

SPEC = """\
[model]
source = "small.keras"
name = "{name}"
{rest}
"""


def dense(path: Path, seed: int) -> Path:
    import keras

    keras.utils.set_random_seed(seed)
    return save_keras(keras.Sequential([keras.layers.Input((64,), name="x"), keras.layers.Dense(64)]), path)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A trained model, and the same trained again."""
    folder = tmp_path_factory.mktemp("models")
    return [dense(folder / f"{seed}.keras", seed) for seed in (1, 2)]


@pytest.fixture
def project(tmp_path: Path, models: list[Path], monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with two model.toml for one trained model, and nothing built but the dependencies layer."""
    made = empty_project(tmp_path, monkeypatch)
    shutil.copy(models[0], tmp_path / "small.keras")
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(SPEC.format(name=name, rest=""))
    return made


def test_the_same_inputs_give_the_same_bundle_and_others_are_named(
    project: Project, models: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert main(["bundle", "--in", "host", "one.toml", "two.toml"]) == 0
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    built = compute_digest(project.dist, project.layers)
    capsys.readouterr()

    assert main(["reproduce", "dist/one-two", "--json"]) == 0
    assert printed("reproduce", capsys.readouterr().out)["identical"]

    spec, trained = project.root / "one.toml", project.root / "small.keras"
    before = [file_digest(path) for path in (spec, trained)]
    spec.write_text(SPEC.format(name="one", rest='[weights]\ntype = "float16"'))
    shutil.copy(models[1], trained)
    after = [file_digest(path) for path in (spec, trained)]
    assert main(["reproduce", "dist/one"]) == 25
    done = capsys.readouterr()
    assert "differs: layer/lib/libmodel.so, first in section " in done.out
    assert "differs: layer.zip, first in its " in done.out
    assert [line for line in done.out.splitlines() if line.startswith("another input")] == [
        f"another input: one.toml: {before[0]} → {after[0]}",
        f"another input: trained model small.keras: {before[1]} → {after[1]}",
    ]
    assert "Bring back the inputs" in done.err

    spec.rename(project.root / "moved.toml")
    assert main(["reproduce", "dist/one"]) == 2
    assert "built from one.toml, which is not in this checkout: say where it is with --model" in capsys.readouterr().err

    assert compute_digest(project.dist, project.layers) == built  # what was there stays as it was
    assert not list(project.build.glob("reproduced*"))
