"""The Terraform module and the CDK construct, run: what they ask CloudFormation for is what `make deploy` asks for.

Terraform evaluates the module without the provider for AWS, which no package registry has: `terraform_data` takes the
arguments of the resources instead. Whether the provider takes them is not tested here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from builder.infrastructure.cdk import cdk_construct
from builder.infrastructure.facts import facts_of
from builder.infrastructure.terraform import STACK, terraform_module
from tests.conftest import ROOT
from tests.integration.test_template_security import SETS
from tests.support import needs
from tests.support.stacks import CODE, Stack, packaged, stacks

pytestmark = pytest.mark.integration

FACTS = facts_of(ROOT / "template.yaml")
SNAKE = {one.name: one.snake for one in FACTS.parameters}
DEFAULTS = {one.name: one.default for one in FACTS.parameters}
PLACES = {"Function": "CodeUri", "ModelLayer": "ContentUri", "DependenciesLayer": "ContentUri"}


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The module with `terraform_data` in place of the provider's resources."""
    if shutil.which("terraform") is None:
        pytest.skip("NOT RUN: there is no terraform, and no package of it")
    folder = tmp_path_factory.mktemp("module")
    text = terraform_module(FACTS).replace("aws_s3_object.template.key", "terraform_data.aws_s3_object.input.key")
    text = text.replace("data.aws_s3_bucket.code.bucket_regional_domain_name", "var.bucket")
    made = json.loads(text)
    del made["terraform"]["required_providers"], made["data"], made["output"]
    resources = {kind: arguments for kind, named in made["resource"].items() for arguments in named.values()}
    made["resource"] = {"terraform_data": {kind: {"input": arguments} for kind, arguments in resources.items()}}
    (folder / "main.tf.json").write_text(json.dumps(made))
    (folder / "packaged.yaml").write_text("Resources: {}\n")
    done = terraform(folder, "init", "-input=false")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def terraform(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    own = {"TF_CLI_CONFIG_FILE": os.devnull, "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"}
    command = ["terraform", f"-chdir={folder}", *words]
    return subprocess.run(command, env=os.environ | own, capture_output=True, text=True, check=False)


def planned(folder: Path, given: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    own = {
        "stack_name": "digits",
        "template": str(folder / "packaged.yaml"),
        "bucket": "code",
        "tags": {"team": "vision"},
    }
    variables = own | {SNAKE[name]: value for name, value in given.items()}
    (folder / "given.tfvars.json").write_text(json.dumps(variables))
    return terraform(folder, "plan", "-input=false", "-no-color", "-var-file=given.tfvars.json", "-out=plan")


@pytest.mark.parametrize("name", ["defaults", "everything"])
def test_terraform_gives_the_stack_the_parameters_as_the_template_has_them(name: str, module: Path) -> None:
    done = planned(module, SETS[name])
    assert done.returncode == 0, done.stdout + done.stderr
    plan = json.loads(terraform(module, "show", "-json", "plan").stdout)
    found = {row["name"]: row["values"]["input"] for row in plan["planned_values"]["root_module"]["resources"]}
    assert found[STACK]["parameters"] == DEFAULTS | SETS[name]
    assert found[STACK]["name"] == "digits"
    assert found[STACK]["tags"] == {"team": "vision"}
    assert found[STACK]["template_url"] == f"https://code/{found['aws_s3_object']['key']}"


def test_terraform_refuses_what_the_template_refuses(module: Path) -> None:
    wrong = {"Playground": "yes", "MemorySize": 64, "JwtIssuer": "http://a.example", "ModelName": "A"}
    done = planned(module, wrong)
    assert done.returncode == 1
    for message in (
        "Playground must be one of off, on.",
        "MemorySize must be 128 or more.",
        "JwtIssuer must match (https://[^ ,?#]+)?.",
        "ModelName must match [a-z0-9_][a-z0-9_-]{0,109}.",
    ):
        assert message in " ".join(done.stderr.replace("│", " ").split())


APP = """
import json, sys
from aws_cdk import App, Stack
from coldforge_cdk import Coldforge
app = App(outdir=sys.argv[1])
for name, given in json.loads(sys.argv[2]).items():
    stack = Stack(app, name)
    print(Coldforge(stack, "Model", built="built", **given).function_arn)
app.synth()
"""


@pytest.mark.slow
def test_cdk_asks_for_the_same_resources(tmp_path: Path) -> None:
    """`cdk synth`, in the construct's own environment: make test-infrastructure."""
    python = ROOT / ".venv-cdk" / "bin" / "python"
    if not python.exists():
        needs.missing("there is no .venv-cdk (make test-infrastructure makes it)")
    needs.node()
    for name, text in cdk_construct(FACTS).items():
        (tmp_path / name).write_text(text)
    for name in PLACES:
        (tmp_path / "built" / name).mkdir(parents=True)
        (tmp_path / "built" / name / "content").write_text(name)
    (tmp_path / "app.py").write_text(APP)
    sets = {name: SETS[name] | {"ModelName": "digits"} for name in ("defaults", "everything")}
    given = {name: {SNAKE[key]: value for key, value in values.items()} for name, values in sets.items()}
    command = [python, "app.py", "out", json.dumps(given)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, values in sets.items():
        outer = json.loads((tmp_path / "out" / f"{name}.template.json").read_text())
        (nested,) = (row for row in outer["Resources"].values() if row["Type"] == "AWS::CloudFormation::Stack")
        assert nested["Properties"]["Parameters"] == DEFAULTS | values
        asset = nested["Properties"]["TemplateURL"]["Fn::Sub"].rpartition("/")[2]
        template = json.loads((tmp_path / "out" / f"asset.{asset}").read_text())
        assets = json.loads((tmp_path / "out" / f"{name}.assets.json").read_text())["files"]
        for resource, place in PLACES.items():
            code = template["Resources"][resource]["Properties"][place]
            source = tmp_path / "out" / assets[code["Key"].removesuffix(".zip")]["source"]["path"]
            assert (source / "content").read_text() == resource
            template["Resources"][resource]["Properties"][place] = CODE
        assert resources(template, values) == resources(packaged(), values)


def resources(template: dict[str, Any], values: dict[str, str]) -> Stack:
    """What there is with these parameters. SAM ends a version's name with a hash of how the template is written."""
    found = stacks(template, {"x": values})["x"]
    return {re.sub(r"^(FunctionVersion)[0-9a-f]{10}$", r"\1", name): row for name, row in found.items()}
