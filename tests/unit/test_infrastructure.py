"""What the Terraform module and the CDK construct are made of; tests/integration/test_infrastructure.py runs them."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from builder.cli import main
from builder.errors import UsageError
from builder.infrastructure.cdk import cdk_construct
from builder.infrastructure.facts import facts_of, snake_case
from builder.infrastructure.terraform import STACK, terraform_module
from tests.conftest import ROOT
from tests.support.results import printed

FACTS = facts_of(ROOT / "template.yaml")
NAMES = [one.name for one in FACTS.parameters]


def test_names() -> None:
    assert [snake_case(name) for name in ("ModelName", "S3Sources", "KmsKeyArn", "ApiUrl")] == [
        "model_name", "s3_sources", "kms_key_arn", "api_url",
    ]  # fmt: skip
    assert len({one.snake for one in FACTS.parameters}) == len(NAMES)


def test_every_parameter_is_a_variable_of_terraform_and_reaches_the_stack() -> None:
    module = json.loads(terraform_module(FACTS))
    own = {"stack_name", "template", "bucket", "tags"}
    assert module["variable"].keys() == own | {one.snake for one in FACTS.parameters}
    (stack,) = module["resource"][STACK].values()
    assert list(stack["parameters"]) == NAMES
    assert module["output"].keys() == {snake_case(name) for name in FACTS.outputs}


def test_every_parameter_is_an_argument_of_the_construct_and_reaches_the_stack() -> None:
    files = cdk_construct(FACTS)
    tree = ast.parse(files["coldforge_cdk.py"])
    (construct,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    methods = {node.name: node for node in construct.body if isinstance(node, ast.FunctionDef)}
    arguments = [one.arg for one in methods["__init__"].args.kwonlyargs]
    assert sorted(arguments) == sorted(["built", *(one.snake for one in FACTS.parameters)])
    (passed,) = (
        node.value
        for node in ast.walk(methods["__init__"])
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "parameters"
        and isinstance(node.value, ast.Dict)
    )
    assert [ast.literal_eval(key) for key in passed.keys if key] == NAMES
    assert methods.keys() >= {snake_case(name) for name in FACTS.outputs}


def test_the_template_of_the_construct_is_json_that_cloudformation_takes() -> None:
    template = json.loads(cdk_construct(FACTS)["coldforge.template.json"])
    text = json.dumps(template)
    assert template["Resources"].keys() == FACTS.template["Resources"].keys()
    assert '"Fn::GetAtt": "' not in text
    assert '"Fn::GetAtt": ["Rest", "RootResourceId"]' in text


def test_a_folder_without_a_template(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no .*template\.yaml"):
        facts_of(tmp_path / "template.yaml")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form, names in (("terraform", ["main.tf.json"]), ("cdk", ["coldforge_cdk.py", "coldforge.template.json"])):
        assert main(["template", form, "--out", str(tmp_path), "--json"]) == 0
        files = printed("template", capsys.readouterr().out)["files"]
        assert files == [str(tmp_path / name) for name in names]
        assert all(Path(file).stat().st_size for file in files)
