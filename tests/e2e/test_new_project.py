"""docs/projects.md, word for word, in an empty folder: `new`, `bundle`, `invoke`, `test` with SAM, and `deploy`."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import boto3
import pytest

from tests.support.aws import LocalAws, client_environment
from tests.support.installed import ROOT, clean, install

INSTALLING = "uv tool install coldforge"
"""The first command of the page, in whose place the wheel is installed in an environment."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, lambda_image: str, local: LocalAws) -> dict[str, str]:
    """That of a user with coldforge from its wheel, the SAM CLI and an AWS account."""
    command = install(tmp_path_factory.mktemp("installed")).command
    path = f"{command.parent}:{clean()['PATH']}:{ROOT / '.venv-sam' / 'bin'}"
    settings = {"PATH": path, "SAM_SKIP_PULL_IMAGE": "1", "BUILD_IN": "host"}
    return clean(**settings, **client_environment(local.endpoint))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """The project of the page's first commands."""
    page = (ROOT / "docs" / "projects.md").read_text(encoding="utf-8")
    first, _, commands = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0].partition("\n")
    assert first.startswith(INSTALLING)
    assert [line.split()[:2] for line in commands.splitlines()] == [
        ["coldforge", "new"], ["cd", "faces"], ["make", "bundle"], ["coldforge", "invoke"], ["make", "test"],
        ["make", "deploy"],
    ]  # fmt: skip
    folder = tmp_path_factory.mktemp("work")
    done = subprocess.run(
        ["bash", "-ec", commands], cwd=folder, env=environment, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "Ran 2 tests" in done.stdout
    assert "skipped" not in done.stdout
    assert not (folder / "faces" / ".venv").exists()
    return folder / "faces"


def test_its_tests_notice_another_answer(service: Path, environment: dict[str, str]) -> None:
    answer = service / "tests" / "answer.json"
    recorded = json.loads(answer.read_text())
    recorded["predictions"][0]["emotion"][0]["probability"] += 0.01
    answer.write_text(json.dumps(recorded))
    tested = ["python3", "-m", "unittest", "discover", "--start-directory", "tests"]
    command = {"COLDFORGE": "./.coldforge", "SAM": "no-such-sam"}
    done = subprocess.run(tested, cwd=service, env=environment | command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "predictions[0].emotion[0].probability: " in done.stderr


def test_it_is_deployed(service: Path, local: LocalAws) -> None:
    clients = {
        name: boto3.client(name, endpoint_url=local.endpoint, region_name="us-east-1",
                           aws_access_key_id="test", aws_secret_access_key="test")
        for name in ("cloudformation", "lambda")
    }  # fmt: skip
    (stack,) = clients["cloudformation"].describe_stacks(StackName="faces-dev")["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    request = (service / "tests" / "request.json").read_bytes()
    answer = clients["lambda"].invoke(FunctionName=outputs["FunctionName"], Payload=request)
    assert json.loads(answer["Payload"].read())["model"]["name"] == "faces"
