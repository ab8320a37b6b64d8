"""Every event in AWS's Runtime Interface Emulator: what the service that sends it gets back."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from builder.base.project import HOME
from builder.measure.local.emulator import LambdaEmulator
from builder.measure.local.run_event import prepare_emulator
from tests.support import abi_library, s3

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.xdist_group("checkout")]

EVENTS = {path.stem: json.loads(path.read_text()) for path in sorted((HOME / "events").glob("*.json"))}
FACE = (HOME / "tests" / "data" / "face.jpg").read_bytes()
OBJECT = "pictures/in/a face (1).jpg"


@pytest.fixture(scope="module")
def bucket() -> Iterator[s3.Bucket]:
    with s3.serving() as bucket:
        yield bucket


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, bucket: s3.Bucket) -> Iterator[LambdaEmulator]:
    layer = abi_library.layer(tmp_path_factory.mktemp("bundle"), abi_library.picture_description())
    started = prepare_emulator(layer, environment=bucket.environment | {"COLDFORGE_RESULTS": "s3://results/"})
    # Lambda has boto3 in its runtime; here it comes last, after all that the function brings.
    packages = Path(boto3.__file__).parents[1]
    path = [started.function, started.dependencies / "python", started.runtime, packages]
    started.environment["PYTHONPATH"] = ":".join(str(folder.resolve()) for folder in path)
    with started:
        yield started


@pytest.fixture(autouse=True)
def fresh(bucket: s3.Bucket) -> None:
    bucket.objects = {OBJECT: FACE}
    bucket.failing = {}


def kind(answer: Any) -> str:
    """What an answer amounts to, in one word."""
    if "statusCode" in answer:
        text = base64.b64decode(answer["body"]) if answer["isBase64Encoded"] else answer["body"]
        return f"{answer['statusCode']} {kind(json.loads(text))}"
    if "results" in answer:
        return ", ".join(kind(result) for result in answer["results"])
    if "batchItemFailures" in answer:
        return f"{len(answer['batchItemFailures'])} failed"
    if "part" in answer:
        return f"{answer['failed']} of {answer['items']} failed"
    return "predictions" if "predictions" in answer else str(answer.get("status") or answer["error"]["code"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("alb", "200 predictions"),
        ("alb_health_check", "200 healthy"),
        ("alb_multi_value", "200 predictions"),
        ("direct", "predictions"),
        ("eventbridge", "predictions"),
        ("eventbridge_s3", "predictions"),
        ("function_url", "200 predictions"),
        ("http_api", "200 predictions"),
        ("rest_api", "200 predictions"),
        ("s3", "predictions"),
        ("sns_s3", "predictions"),
        ("sqs", "1 failed"),
        ("sqs_fifo", "2 failed"),
        ("sqs_s3", "0 failed"),
        ("sqs_sns_s3", "0 failed"),
        ("step_functions_batch", "predictions, predictions, not_base64"),
        ("step_functions_list", "2 of 3 failed"),
        ("step_functions_object", "predictions"),
    ],
)
def test_each_event(running: LambdaEmulator, bucket: s3.Bucket, name: str, expected: str) -> None:
    assert kind(running.invoke(EVENTS[name])) == expected
    if "s3" in name:
        assert "predictions" in json.loads(bucket.objects["results/pictures/in/a face (1).jpg.json"])


def test_a_batch_of_a_list_is_one_object(running: LambdaEmulator, bucket: s3.Bucket) -> None:
    told = running.invoke(EVENTS["step_functions_list"])
    assert told["part"] == "s3://results/coldforge/run1/parts/0/00000017.jsonl"
    head, *rows = map(json.loads, bucket.objects["results/coldforge/run1/parts/0/00000017.jsonl"].splitlines())
    assert (head["batch"], head["items"]) == (17, 3)
    assert [(row["Row"], row.get("error", {}).get("code")) for row in rows] == [
        (1700, "object_changed"),
        (1701, "object_not_found"),
        (1702, None),
    ]


def test_every_fixture_is_tried() -> None:
    (parameters,) = [mark for mark in test_each_event.pytestmark if mark.name == "parametrize"]
    assert {name for name, _ in parameters.args[1]} == set(EVENTS)


def test_a_failure_that_lambda_should_try_again_says_nothing(running: LambdaEmulator, bucket: s3.Bucket) -> None:
    bucket.failing[OBJECT] = [503] * 3
    answer = running.invoke(EVENTS["s3"])
    assert answer["errorType"] == "RetryLater"
    assert answer["errorMessage"].startswith("1 of 1 items failed and may succeed later")
    # The runtime adds the stack by itself, which has been cut down to the entry point.
    assert len(answer["stackTrace"]) == 1
    assert "lambda_handler" in answer["stackTrace"][0]
    assert "pictures" not in json.dumps(answer)
    assert kind(running.invoke(EVENTS["s3"])) == "predictions"
