"""What CloudFormation and IAM make of the template: tests/support/in_emulator.py, in the emulator's environment."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from builder.deliver.template_check import Loader
from tests.conftest import ROOT

PYTHON = ROOT / ".venv-aws" / "bin" / "python"
CODE = {"Bucket": "code", "Key": "code.zip"}
Stack = dict[str, dict[str, Any]]


def packaged(name: str = "template.yaml") -> dict[str, Any]:
    """The template as `sam deploy` sends it: its folders are objects in S3."""
    template: dict[str, Any] = yaml.load((ROOT / name).read_text(), Loader=Loader)
    for resource in template["Resources"].values():
        for place in {"CodeUri", "ContentUri"} & resource.get("Properties", {}).keys():
            resource["Properties"][place] = CODE
    return template


def stacks(template: dict[str, Any], parameters: Mapping[str, Mapping[str, str]]) -> dict[str, Stack]:
    """For each set of parameters the resources that there are, by logical id, resolved."""
    found: dict[str, Stack] = _asked({"template": template, "stacks": parameters})
    return found


def allowed(requests: Sequence[Mapping[str, Any]]) -> list[bool]:
    """What IAM decides of each: ``policies``, ``boundary`` (or None), ``action``, ``resource``, ``context``."""
    found: list[bool] = _asked({"decide": requests})
    return found


def policies(stack: Stack, role: str) -> list[dict[str, Any]]:
    return [row["PolicyDocument"] for row in stack[role]["Properties"]["Policies"]]


def _asked(what: dict[str, Any]) -> Any:
    command = [PYTHON, "-P", ROOT / "tests" / "support" / "in_emulator.py"]  # -P: not beside tests/support/http.py
    done = subprocess.run(command, input=json.dumps(what), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
