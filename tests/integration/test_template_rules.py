"""Other people's rules: cfn-lint, which SAM brings, and checkov for templates; asl-validator for the state machine."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from builder.release.compose import PACKAGES, compose_template
from tests.conftest import ROOT
from tests.integration.test_template_security import ALL, REST, SETS
from tests.support.needs import missing, needs
from tests.support.stacks import EVERYTHING, Stack, filled, packaged, stacks

pytestmark = pytest.mark.integration

ASL_VALIDATOR = "4.0.0"
TEMPLATES = {package: compose_template([], package) for package in PACKAGES if package != "built"} | {
    "everything": compose_template(EVERYTHING),
    "rest": compose_template(REST),
}
CURED_BY = {
    "CKV_AWS_158": "KmsKeyArn",
    "CKV_AWS_173": "KmsKeyArn",
    "CKV_AWS_115": "ReservedConcurrency",
}
"""What checkov misses in a stack of the core with its defaults, and the parameter that switches it on."""


@pytest.fixture(scope="module")
def made() -> dict[str, Stack]:
    return stacks({name: SETS[name] for name in ("core", "batch", "everything")})


@pytest.fixture(scope="module")
def found(made: dict[str, Stack], tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The checks that fail, for the templates by name and for stacks by the name of their set."""
    folder = tmp_path_factory.mktemp("stacks")
    files = {folder / f"{name}.yaml": text for name, text in TEMPLATES.items()}
    for name in ("core", "everything"):
        stack = {"AWSTemplateFormatVersion": "2010-09-09", "Resources": made[name]}
        files[folder / f"{name}-stack.json"] = json.dumps(stack, indent=1)
    for file, text in files.items():
        file.write_text(text)
    command = [ROOT / ".venv-checkov" / "bin" / "checkov", "--framework", "cloudformation", "--skip-download"]
    command += ["--output", "json", *(word for file in files for word in ("--file", file))]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    assert report["summary"]["parsing_errors"] == 0
    seen = {Path(row["file_path"]).stem for row in report["results"]["passed_checks"]}
    assert seen == {file.stem for file in files}
    failed: dict[str, set[str]] = {file.stem: set() for file in files}
    for row in report["results"]["failed_checks"]:
        failed[Path(row["file_path"]).stem].add(row["check_id"])
    return failed


@pytest.mark.parametrize("name", TEMPLATES)
def test_checkov_finds_nothing_that_the_template_does_not_explain(name: str, found: dict[str, set[str]]) -> None:
    assert found[name] == set()


def test_parameters_cure_all_that_checkov_finds(found: dict[str, set[str]]) -> None:
    assert found["core-stack"] == CURED_BY.keys()
    assert set(CURED_BY.values()) <= ALL.keys()
    # The network interfaces of a function in a VPC: Lambda refuses a role that may have them in one subnet only.
    assert found["everything-stack"] == {"CKV_AWS_111"}


@pytest.mark.parametrize("name", TEMPLATES)
def test_cfn_lint_finds_nothing(name: str, tmp_path: Path) -> None:
    """Of the core `sam validate --lint` asks in tests/integration/test_sam.py."""
    path = tmp_path / "template.yaml"
    path.write_text(TEMPLATES[name])
    template = packaged(*{"everything": (EVERYTHING,), "rest": (REST,)}.get(name, ([], name)))
    given = [f"{key}={value}" for key, value in filled(template, ALL).items() if key in template["Parameters"]]
    command = [ROOT / ".venv-sam" / "bin" / "cfn-lint", path, "--parameters", *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in done.stdout.splitlines() if "CodeUri" not in line]
    assert (done.returncode, said) == (0, [])


@pytest.fixture(scope="module")
def asl_validator(tmp_path_factory: pytest.TempPathFactory) -> list[str | Path]:
    """The command that reads a state machine's definition, which npm brings."""
    folder = tmp_path_factory.mktemp("asl")
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--silent", "--prefix", folder]
    options += ["--fetch-timeout=30000", "--fetch-retries=5"]  # By default, a lost answer costs 5 minutes.
    command = [needs("npm"), "install", *options, f"asl-validator@{ASL_VALIDATOR}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        missing(f"npm cannot install asl-validator: {done.stderr[-300:]}")
    return ["node", folder / "node_modules" / "asl-validator" / "dist" / "bin" / "asl-validator.js", "--json-path"]


@pytest.mark.network
@pytest.mark.parametrize(
    ("where", "wrong", "says"),
    [
        ((), None, "is valid"),
        (("States", "Answer", "MaxConcurrencyPath"), 5, "MaxConcurrencyPath is invalid"),
        (("States", "Answer", "ItemProcessor", "ProcessorConfig", "Mode"), "SPREAD", "Mode is invalid"),
        (("States", "Answer", "ItemProcessor", "StartAt"), "Other", "State Batch is not reachable"),
    ],
)
def test_the_state_machine_is_one(
    asl_validator: list[str | Path],
    made: dict[str, Stack],
    tmp_path: Path,
    where: tuple[str, ...],
    wrong: Any,
    says: str,
) -> None:
    """As asl-validator knows Step Functions' language; and what it finds where something is wrong."""
    definition = copy.deepcopy(made["batch"]["BatchMachine"]["Properties"]["Definition"])
    part = definition
    for name in where[:-1]:
        part = part[name]
    if where:
        part[where[-1]] = wrong
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(definition))
    done = subprocess.run([*asl_validator, path], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is (not where)
    assert says in done.stdout + done.stderr
