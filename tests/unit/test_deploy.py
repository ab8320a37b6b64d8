"""What a deployment of each environment runs and passes to SAM; tests/e2e/test_deploy.py runs it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from builder.base.errors import EnvironmentSetupError, UsageError
from builder.base.project import HOME, Project
from builder.base.targets import ARM64, DEFAULT, TARGETS, Target
from builder.cli import main
from builder.config.schema import SECTIONS
from builder.release.compose import compose_template
from builder.release.deploy import (
    Deployment,
    find_sam,
    find_target,
    make_deploy_arguments,
    merge_parameters,
    read_environment_addons,
)
from builder.release.template_check import TemplateLoader, list_problems
from tests.conftest import ROOT

CHECKOUT = Project(HOME)
EMOTION = Deployment(("emotion",), "emotion", DEFAULT)
SAMCONFIG = ROOT / "samconfig.toml"
NAMES = ("default", "dev", "staging", "prod")


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


@pytest.mark.parametrize("name", NAMES)
def test_the_templates_take_every_environment(name: str, tmp_path: Path) -> None:
    for package in ("zip", "image"):
        path = tmp_path / f"{package}.yaml"
        path.write_text(compose_template(read_environment_addons(SAMCONFIG, name), package))
        assert list(list_problems(path, merge_parameters(SAMCONFIG, name, ["ModelName=emotion"]))) == []


def test_what_is_given_joins_what_is_configured_and_wins() -> None:
    configured = merge_parameters(SAMCONFIG, "prod", [])
    assert configured["LogRetentionDays"] == "90"
    given = merge_parameters(
        SAMCONFIG, "prod", ["ModelName=digits", "LogRetentionDays=1", "LogRetentionDays=90", "S3Sources=a=b"]
    )
    assert given == configured | {"ModelName": "digits", "S3Sources": "a=b"}


@pytest.mark.parametrize(
    "listed", ["'A=1 B=\"two words\"'", '["A=1", "B=two words"]']
)  # as `sam deploy --guided` writes it, and as a list
def test_both_forms_of_samconfig(tmp_path: Path, listed: str) -> None:
    path = tmp_path / "samconfig.toml"
    path.write_text(f"[x.deploy.parameters]\nparameter_overrides = {listed}\n")
    assert merge_parameters(path, "x", []) == {"A": "1", "B": "two words"}


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no environment production; it has default, dev, staging, prod"):
        merge_parameters(SAMCONFIG, "production", [])
    with pytest.raises(UsageError, match="LogLevel: write parameters as NAME=VALUE"):
        merge_parameters(SAMCONFIG, "prod", ["LogLevel"])
    with pytest.raises(UsageError, match="has no environment production"):
        read_environment_addons(SAMCONFIG, "production")
    with pytest.raises(UsageError, match="cannot be read"):
        merge_parameters(tmp_path / "samconfig.toml", "prod", [])


def test_every_environment_has_its_own_stack_and_may_make_roles() -> None:
    tables = tomllib.loads(SAMCONFIG.read_text())
    assert [name for name in tables if name != "version"] == list(NAMES)
    assert len({tables[name]["global"]["parameters"]["stack_name"] for name in NAMES}) == len(NAMES)
    for name in NAMES:
        settings = tables[name]["deploy"]["parameters"]
        assert (settings["capabilities"], settings["resolve_s3"]) == ("CAPABILITY_IAM", True)
    assert tables["prod"]["deploy"]["parameters"]["confirm_changeset"] is True


def test_the_longest_name_fits_what_aws_makes_of_it() -> None:
    """A stack's name may have 128 characters, a layer's 140. Names of several models join, up to 110 characters."""
    template = yaml.load((ROOT / "template.yaml").read_text(), Loader=TemplateLoader)
    pattern = template["Parameters"]["ModelName"]["AllowedPattern"]
    longest = "x" * 110
    assert re.fullmatch(pattern, longest)
    assert not re.fullmatch(pattern, longest + "x")
    assert max(len(f"coldforge-{longest}-{name}") for name in NAMES[1:]) <= 128
    assert len(f"coldforge-{longest}-dependencies") <= 140
    kind = SECTIONS["model"].keys["name"].kind
    assert list(kind.find_problems(longest[:64])) == []
    assert list(kind.find_problems(longest)) != []
