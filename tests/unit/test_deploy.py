"""The command lines of SAM that a deployment runs; tests/e2e/test_deploy.py runs them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from builder.base.errors import EnvironmentSetupError, UsageError
from builder.base.project import HOME, Project
from builder.base.targets import ARM64, DEFAULT, TARGETS, Target
from builder.cli import main
from builder.release.deploy import Deployment, find_sam, find_target, make_deploy_arguments
from tests.conftest import ROOT

CHECKOUT = Project(HOME)
EMOTION = Deployment(("emotion",), "emotion", DEFAULT)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_stack_is_for_the_target_that_is_asked_for(target: Target) -> None:
    """By --target, or by the template's parameter."""
    asked = (f"Architecture={target.architecture}", "MemorySize=512")
    assert find_target(asked, DEFAULT) == target
    assert find_target(["MemorySize=512"], target) == target
    by_parameter, by_target = (replace(EMOTION, target=target, parameters=given) for given in (asked, asked[1:]))
    assert by_parameter.values.count(asked[0]) == 1
    assert (asked[0] in by_target.values) == (target is not DEFAULT)
    assert "MemorySize=512" in by_target.values


@pytest.mark.parametrize(
    ("wanted", "stack"),
    [
        (EMOTION, "coldforge-emotion"),
        (replace(EMOTION, environment="prod"), "coldforge-emotion-prod"),
        (replace(EMOTION, models=("age_gender", "emotion")), "coldforge-age-gender-emotion"),
        (replace(EMOTION, environment="prod", stack="mine"), "mine"),
    ],
)
def test_each_model_has_a_stack_in_each_environment(wanted: Deployment, stack: str, tmp_path: Path) -> None:
    assert wanted.stack_name(CHECKOUT) == stack
    config = '[{}.deploy.parameters]\nstack_name = "own-{}"\n'
    (tmp_path / "samconfig.toml").write_text("".join(config.format(name, name) for name in ("default", "prod")))
    assert wanted.stack_name(Project(tmp_path)) == (wanted.stack or f"own-{wanted.environment}")


def test_sam_gets_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = replace(EMOTION, target=ARM64, package="image", environment="prod", sam_options=("--no-rollback",))
    monkeypatch.delenv("CI", raising=False)
    words = make_deploy_arguments(wanted, "coldforge-emotion-prod", {"ModelName": "emotion", "Note": "two words"})
    assert words[:5] == ["deploy", "--config-env", "prod", "--stack-name", "coldforge-emotion-prod"]
    assert {"--resolve-image-repos", "ModelName=emotion", "Note=two words"} < set(words)
    assert words[-1] == "--no-rollback"
    assert "--no-confirm-changeset" not in words
    monkeypatch.setenv("CI", "true")
    assert "--no-confirm-changeset" in make_deploy_arguments(wanted, "", {})
    assert "--stack-name" not in make_deploy_arguments(wanted, "", {})


def test_without_sam_nothing_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SAM", raising=False)
    with pytest.raises(EnvironmentSetupError, match="SAM CLI"):
        find_sam(Project(tmp_path, tmp_path))
    monkeypatch.setenv("SAM", "python -m samcli")
    assert find_sam(Project(tmp_path, tmp_path)) == ["python", "-m", "samcli"]


def test_a_bundle_and_an_environment_that_are_not_there_are_named_before_anything_is_built(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAM", "no-sam-is-run")
    (tmp_path / "samconfig.toml").write_text("[default.deploy.parameters]\n")
    (tmp_path / "model.toml").write_text((ROOT / "examples" / "emotion" / "model.toml").read_text())
    command = ["-C", str(tmp_path), "deploy"]
    assert main(command) == UsageError.exit_code
    assert "there is no bundle of emotion" in capsys.readouterr().err
    assert main([*command, "--env", "prd"]) == UsageError.exit_code
    assert "no environment prd" in capsys.readouterr().err
    assert main([*command, "--package", "image"]) == UsageError.exit_code
