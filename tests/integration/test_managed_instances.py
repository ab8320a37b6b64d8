"""Lambda Managed Instances: the function in as many processes as AWS's own runtime client starts for one host."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from builder.base.project import HOME
from builder.measure.local.run_event import image_event, prepare_emulator
from tests.support import abi_library, runtime_api

pytestmark = [pytest.mark.integration, pytest.mark.network]

FACE = HOME / "tests" / "data" / "face.jpg"
PROCESSES, REQUESTS = 16, 96


def test_sixteen_processes_answer_at_once(tmp_path: Path) -> None:
    layer = abi_library.layer(tmp_path / "bundle", abi_library.picture_description(mode="rgb"))
    environment = {"AWS_LAMBDA_INITIALIZATION_TYPE": "lambda-managed-instances"}
    environment |= {"AWS_LAMBDA_MAX_CONCURRENCY": str(PROCESSES), "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "4096"}
    good, large = image_event(FACE), {"image": "A" * 5_000_000}
    with runtime_api.running(prepare_emulator(layer), tmp_path / "log", **environment) as api:
        api.wait(PROCESSES)
        waiting = [api.send(large if number % 8 == 7 else good) for number in range(REQUESTS)]
        answers = [one.result(runtime_api.SECONDS) for one in waiting]
    right = [answer for number, answer in enumerate(answers) if number % 8 != 7]
    assert len({json.dumps(answer["predictions"]) for answer in right}) == 1
    assert not any(answer["cold_start"] for answer in right)  # nobody waited for a start
    assert {answer["error"]["code"] for number, answer in enumerate(answers) if number % 8 == 7} == {"not_an_image"}
    assert not api.failed
    # Here all processes write into one file, and the ends of their lines may be elsewhere; in Lambda each has its own.
    log = (tmp_path / "log").read_text()
    metrics = [json.JSONDecoder().raw_decode(log, found.start())[0] for found in re.finditer(r'\{"_aws"', log)]
    assert sum("TotalMs" in line for line in metrics) == len(right)
