"""A project that `coldforge new` writes: its own `make bundle`, `make test` with SAM, and `make deploy`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import boto3
import pytest

from tests.support.aws import LocalAws, client_environment
from tests.support.graphs import SMALL_GRAPH

ROOT = Path(__file__).parents[2]
COLDFORGE = [sys.executable, "-m", "builder.cli"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose bundle is built."""
    folder = tmp_path_factory.mktemp("work") / "my service"
    (folder.parent / "graph.pbtxt").write_text(SMALL_GRAPH)
    new = [*COLDFORGE, "new", str(folder), "--from", str(folder.parent / "graph.pbtxt")]
    subprocess.run(new, cwd=ROOT, check=True)
    make(folder, "bundle")
    return folder


def make(folder: Path, goal: str, **environment: str) -> str:
    """What `make` says of ``goal``, on both streams."""
    variables = {
        "COLDFORGE": " ".join(COLDFORGE),
        "PYTHONPATH": str(ROOT),
        "SAM": str(ROOT / ".venv-sam" / "bin" / "sam"),
        "SAM_SKIP_PULL_IMAGE": "1",
        "BUILD_IN": "host",
        **environment,
    }
    done = subprocess.run(
        ["make", goal], cwd=folder, env=os.environ | variables, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_its_tests_run_the_golden_request_in_lambdas_container(service: Path, lambda_image: str) -> None:
    assert "Ran 2 tests" in (said := make(service, "test"))
    assert "skipped" not in said
    answer = service / "tests" / "answer.json"
    recorded = json.loads(answer.read_text())
    recorded["predictions"][0]["my_service"][0]["probability"] += 0.01
    answer.write_text(json.dumps(recorded))
    with pytest.raises(AssertionError, match=r"predictions\[0\]\.my_service\[0\]\.probability: 0\.5, not 0\.51"):
        make(service, "test")


def test_it_is_deployed(service: Path, lambda_image: str, local: LocalAws) -> None:
    make(service, "deploy", **client_environment(local.endpoint))
    clients = {
        name: boto3.client(name, endpoint_url=local.endpoint, region_name="us-east-1",
                           aws_access_key_id="test", aws_secret_access_key="test")
        for name in ("cloudformation", "lambda")
    }  # fmt: skip
    (stack,) = clients["cloudformation"].describe_stacks(StackName="my-service-dev")["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    request = (service / "tests" / "request.json").read_bytes()
    answer = clients["lambda"].invoke(FunctionName=outputs["FunctionName"], Payload=request)
    assert json.loads(answer["Payload"].read())["model"]["name"] == "my_service"
