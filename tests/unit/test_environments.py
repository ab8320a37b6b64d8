"""The environments of samconfig.toml: what each deploys with, and what the command line changes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from builder.base.errors import UsageError
from builder.config.schema import SECTIONS
from builder.release.compose import compose_template
from builder.release.deploy import merge_parameters, read_environment_addons
from builder.release.template_check import TemplateLoader, list_problems
from tests.conftest import ROOT

SAMCONFIG = ROOT / "samconfig.toml"
NAMES = ("default", "dev", "staging", "prod")


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
