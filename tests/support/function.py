"""The function in a process of its own, which answers events one after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from tests.conftest import ROOT
from tests.support import measured

_SERVE = """
import json, sys, types
import handler.app
from handler.errors import RetryLater
for number, line in enumerate(sys.stdin):
    event, remaining = json.loads(line)
    context = types.SimpleNamespace(function_name="f", aws_request_id=f"request-{number}",
                                    invoked_function_arn="arn:aws:lambda:us-east-1:123456789012:function:f:live",
                                    get_remaining_time_in_millis=lambda: remaining)
    try:
        answer = handler.app.lambda_handler(event, context)
    except RetryLater as error:
        answer = {"errorMessage": str(error), "errorType": type(error).__name__}
    sys.stderr.write(json.dumps(answer) + "\\n")
"""


@dataclass(frozen=True)
class Served:
    """``answers`` in the events' order; ``lines``: all that was logged."""

    answers: list[Any]
    lines: list[dict[str, Any]]

    @property
    def text(self) -> str:
        return json.dumps(self.lines)

    def metrics(self, name: str) -> list[dict[str, Any]]:
        """The lines in CloudWatch's embedded format that have this metric."""
        return [line for line in self.lines if "_aws" in line and name in line]


def served(library: object, *events: object, remaining_ms: int = 15_000, **environment: str) -> Served:
    """``events`` answered by a function that has just started."""
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "COLDFORGE_LIBRARY": str(library),
        "AWS_LAMBDA_FUNCTION_NAME": "f",
        "AWS_LAMBDA_FUNCTION_VERSION": "3",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",  # nobody is there
        **measured.environment(),
        **environment,
    }
    sent = "".join(json.dumps([event, remaining_ms]) + "\n" for event in events)
    done = subprocess.run(
        [sys.executable, "-c", _SERVE], env=variables, cwd="/", input=sent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return Served([json.loads(line) for line in done.stderr.splitlines()], [*map(json.loads, done.stdout.splitlines())])
