"""Files with weights and no graph are refused with the lines that export the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.base.errors import ImportModelError, SpecError
from builder.cli import main
from builder.config import read_spec
from builder.config.checkpoints import explain_if_weights


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("net.pth", 'torch.export.save(program, "model.pt2")'),
        ("NET.PT", "torch.export.export(model, (example,))"),
        ("model.safetensors", "torch.export"),
        ("flax.msgpack", 'open("model.jax", "wb").write'),
        ("model.ckpt-100.index", 'saver.restore(session, "model.ckpt-100")'),
        ("model.ckpt-100.data-00000-of-00001", 'saver.restore(session, "model.ckpt-100")'),
        ("model.ckpt.meta", 'saver.restore(session, "model.ckpt")'),
        ("a.weights.h5", 'model.load_weights("a.weights.h5")'),
    ],
)
def test_a_file_of_weights(tmp_path: Path, name: str, line: str) -> None:
    path = tmp_path / name
    path.touch()
    found = explain_if_weights(path)
    assert found
    assert found.startswith(f"{name} holds weights and no graph")
    assert line in found
    assert len([line for line in found.splitlines() if line.startswith("    ")]) == 3


def test_the_name_that_a_saver_takes_and_its_folder(tmp_path: Path) -> None:
    for name in ("checkpoint", "model.ckpt-1.index", "model.ckpt-1.data-00000-of-00001"):
        (tmp_path / name).touch()
    assert 'saver.restore(session, "model.ckpt-1")' in str(explain_if_weights(tmp_path / "model.ckpt-1"))
    assert "simple_save" in str(explain_if_weights(tmp_path))


def test_a_folder_of_orbax(tmp_path: Path) -> None:
    (tmp_path / "_CHECKPOINT_METADATA").touch()
    assert "jax.export" in str(explain_if_weights(tmp_path))


@pytest.mark.parametrize("name", ["a.keras", "a.h5", "a.pb", "a.pt2", "a.jax", "folder", "index"])
def test_models_are_no_checkpoints(tmp_path: Path, name: str) -> None:
    assert explain_if_weights(tmp_path / name) is None


def test_commands_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.pth").touch()
    assert main(["init", str(tmp_path / "net.pth")]) == ImportModelError.exit_code
    assert "torch.export.save" in capsys.readouterr().err
    toml = tmp_path / "model.toml"
    toml.write_text('[model]\nsource = "net.pth"\n')
    with pytest.raises(SpecError, match=r"net\.pth holds weights and no graph"):
        read_spec(toml)
    assert main(["bundle", str(toml), "--in", "host"]) == SpecError.exit_code
    assert "torch.export.save" in capsys.readouterr().err
