"""The template for Lambda Managed Instances: by cfn-lint's schemas, by SAM, and by what CloudFormation makes of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from builder.deliver.template_check import Loader
from builder.pack.instances import instances_template
from tests.conftest import ROOT
from tests.integration.test_template_security import SETS
from tests.support.stacks import CODE, stacks

pytestmark = pytest.mark.integration

PROVIDER = "arn:aws:lambda:us-east-1:123456789012:capacity-provider:models"


@pytest.fixture(scope="module")
def text() -> str:
    return instances_template((ROOT / "template.yaml").read_text())


@pytest.fixture(scope="module")
def parameters(text: str) -> dict[str, str]:
    """All that the security tests switch on, as far as it is there."""
    known = yaml.load(text, Loader=Loader)["Parameters"].keys()
    return {name: value for name, value in SETS["everything"].items() if name in known} | {"CapacityProvider": PROVIDER}


def test_cfn_lint_knows_every_property(text: str, parameters: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "template.yaml"
    file.write_text(text)
    given = [f"{name}={value}" for name, value in sorted(parameters.items())]
    command = [ROOT / ".venv-sam" / "bin" / "cfn-lint", file, "--parameters", *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in done.stdout.splitlines() if "CodeUri" not in line]
    assert (done.returncode, said) == (0, [])


def test_the_function_runs_on_the_capacity_provider_and_nowhere_else(text: str, parameters: dict[str, str]) -> None:
    template = yaml.load(text, Loader=Loader)
    for resource in template["Resources"].values():
        for place in {"CodeUri", "ContentUri"} & resource.get("Properties", {}).keys():
            resource["Properties"][place] = CODE
    chosen = {"RequestsAtOnce": "16", "MemoryPerProcessor": "8", "MemorySize": "8192", "MostEnvironments": "5"}
    made = stacks(template, {"everything": parameters | chosen})["everything"]
    function = made["Function"]["Properties"]
    assert function["CapacityProviderConfig"]["LambdaManagedInstancesCapacityProviderConfig"] == {
        "CapacityProviderArn": PROVIDER,
        "PerExecutionEnvironmentMaxConcurrency": "16",
        "ExecutionEnvironmentMemoryGiBPerVCpu": "8",
    }
    assert function["FunctionScalingConfig"] == {"MinExecutionEnvironments": "3", "MaxExecutionEnvironments": "5"}
    assert function["LoggingConfig"]["LogFormat"] == "JSON"
    assert not function.keys() & {"VpcConfig", "FileSystemConfigs", "SnapStart", "ReservedConcurrentExecutions"}
    assert "ProvisionedConcurrencyConfig" not in made["FunctionAliaslive"]["Properties"]
