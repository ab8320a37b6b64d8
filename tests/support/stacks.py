"""What CloudFormation and IAM make of the template: tests/support/in_emulator.py, in the emulator's environment."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from builder.release.compose import addon_names, compose_template
from builder.release.template_check import TemplateLoader
from tests.conftest import ROOT

PYTHON = ROOT / ".venv-aws" / "bin" / "python"
CODE = {"Bucket": "code", "Key": "code.zip"}
AWS = "us-east-1:000000000000"
REQUIRED = {
    "QueueArn": f"arn:aws:sqs:{AWS}:pictures",
    "SourceBucket": "inbox",
    "ResultsBucket": "answers",
    "JwtIssuer": "https://cognito-idp.us-east-1.amazonaws.com/us-east-1_ABCDEFGHI",
    "JwtAudience": "app,other-app",
    "WebAclArn": f"arn:aws:wafv2:{AWS}:regional/webacl/team/1",
    "DomainName": "models.example",
    "CertificateArn": f"arn:aws:acm:{AWS}:certificate/1",
    "OtelLayerArn": "arn:aws:lambda:us-east-1:615299751070:layer:AWSOpenTelemetryDistroPython:1",
    "Weights": "s3://models/emotion.weights",
    "FileSystem": f"arn:aws:elasticfilesystem:{AWS}:access-point/fsap-1",
    "Subnets": "subnet-00000000",
    "SecurityGroups": "sg-00000000",
    "CodeSigningConfigArn": f"arn:aws:lambda:{AWS}:code-signing-config:csc-0123456789abcdefg",
    "CapacityProvider": f"arn:aws:lambda:{AWS}:capacity-provider:models",
}
"""A value for each parameter that has no default."""

EVERYTHING = sorted({*addon_names()} - {"snapstart", "fifo", "weights"})
"""The add-ons that go together."""

Stack = dict[str, dict[str, Any]]


def packaged(addons: Iterable[str] = (), package: str = "zip") -> dict[str, Any]:
    """The template as `sam deploy` sends it: its folders are objects in S3."""
    template: dict[str, Any] = yaml.load(compose_template(addons, package), Loader=TemplateLoader)
    for resource in template["Resources"].values():
        for place in {"CodeUri", "ContentUri"} & resource.get("Properties", {}).keys():
            resource["Properties"][place] = CODE
    return template


def filled(template: Mapping[str, Any], parameters: Mapping[str, str]) -> dict[str, str]:
    """``parameters``, and a value for each other one of the template that has no default."""
    return {name: value for name, value in REQUIRED.items() if name in template["Parameters"]} | dict(parameters)


def stacks(sets: Mapping[str, tuple[Iterable[str], Mapping[str, str]]], package: str = "zip") -> dict[str, Stack]:
    """For each set of add-ons and parameters the resources that there are, by logical id, resolved."""
    templates = {name: packaged(addons, package) for name, (addons, _) in sets.items()}
    asked = {name: [template, filled(template, sets[name][1])] for name, template in templates.items()}
    found: dict[str, Stack] = _asked({"stacks": asked})
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
