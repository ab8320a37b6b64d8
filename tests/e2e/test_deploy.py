"""`make deploy` to a local AWS: bucket, change set, transform, layers, function, outputs; then a client's day."""

from __future__ import annotations

import base64
import csv
import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
import yaml
from botocore.exceptions import ClientError

from builder.cli import main
from builder.package.bundle import Bundle
from builder.release.batch.batch_plan import BatchTimes, Capacity
from builder.release.batch.start_batch import BatchRequest, start_batch
from builder.release.template_check import TemplateLoader
from tests.support.album import Album, killed_container
from tests.support.aws import LocalAws, client_environment
from tests.support.stacks import packaged

ROOT = Path(__file__).parents[2]
IMAGE = base64.b64encode((ROOT / "tests" / "data" / "face.jpg").read_bytes()).decode()
STACK, ORDERED = "coldforge-test", "coldforge-ordered"


@dataclass(frozen=True)
class Deployed:
    """A stack that is up, and its outputs."""

    aws: LocalAws
    outputs: dict[str, str]

    def client(self, service: str) -> Any:
        return boto3.client(service, endpoint_url=self.aws.endpoint)

    def invoke(self, event: Any) -> tuple[Any, str | None]:
        """(payload, FunctionError)."""
        answer = self.client("lambda").invoke(FunctionName=self.outputs["FunctionName"], Payload=json.dumps(event))
        return json.loads(answer["Payload"].read()), answer.get("FunctionError")


def sam(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / ".venv-sam" / "bin" / "sam"), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def aws(lambda_image: str, local: LocalAws) -> Iterator[LocalAws]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in client_environment(local.endpoint).items():
            patch.setenv(name, value)
        yield local


@pytest.fixture(scope="module")
def queue(aws: LocalAws) -> str:
    """The URL of a queue whose messages come again after two seconds."""
    sqs = boto3.client("sqs", endpoint_url=aws.endpoint)
    return str(sqs.create_queue(QueueName="pictures", Attributes={"VisibilityTimeout": "2"})["QueueUrl"])


@pytest.fixture(scope="module")
def deployed(aws: LocalAws, emotion: Bundle, queue: str) -> Iterator[Deployed]:
    flags = ["SAM_FLAGS=--no-confirm-changeset", f"STACK={STACK}"]
    arn = "arn:aws:sqs:us-east-1:000000000000:pictures"
    parameters = f"QueueArn={arn} ResultsBucket=answers BatchSources=album/"
    parameters += " SourceBucket=inbox SourcePrefix=in/ QueueAttempts=2"
    parameters += " Timeout=60 QueueVisibilityTimeout=360"  # other tests keep the processors busy, too
    addons = "WITH=batch,bucket,existing-queue,queue,results"
    command = ["make", "deploy", "MODEL=emotion", *flags, addons, f"PARAMETERS={parameters}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"deploying emotion 1 to stack {STACK}" in done.stderr
    assert f"Successfully created/updated stack - {STACK}" in done.stdout
    return up(aws, STACK)


def up(aws: LocalAws, stack: str) -> Deployed:
    found = boto3.client("cloudformation", endpoint_url=aws.endpoint).describe_stacks(StackName=stack)["Stacks"][0]
    return Deployed(aws, {o["OutputKey"]: o["OutputValue"] for o in found["Outputs"]})


def test_what_stands_there(deployed: Deployed) -> None:
    function = deployed.client("lambda").get_function(FunctionName=deployed.outputs["FunctionName"])["Configuration"]
    assert function["Runtime"] == "python3.13"
    assert function["Handler"] == "handler.app.lambda_handler"
    assert [layer["Arn"].split(":")[6] for layer in function["Layers"]] == [
        "coldforge-emotion",
        "coldforge-emotion-dependencies",
    ]
    assert deployed.outputs["FunctionUrl"].startswith("https://")
    groups = deployed.client("logs").describe_log_groups(logGroupNamePrefix=deployed.outputs["LogGroupName"])
    assert groups["logGroups"][0]["retentionInDays"] == 14
    buckets = deployed.client("s3").list_buckets()["Buckets"]
    assert any("sam" in bucket["Name"] for bucket in buckets)


def test_cold_then_warm(deployed: Deployed) -> None:
    cold, error = deployed.invoke({"image": IMAGE})
    assert error is None, cold
    assert cold["predictions"][0]["emotion"][0]["label"] == "happy"
    warm, _ = deployed.invoke({"image": f"data:image/jpeg;base64,{IMAGE}"})
    assert warm["predictions"] == cold["predictions"]
    assert (cold["cold_start"], warm["cold_start"]) == (True, False)


def test_four_at_once(deployed: Deployed) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(deployed.invoke, [{"images": [IMAGE] * n} for n in (1, 2, 3, 4)]))
    assert [len(payload["predictions"]) for payload, _ in answers] == [1, 2, 3, 4]
    assert all(error is None for _, error in answers)


def test_a_bad_request_and_the_next(deployed: Deployed) -> None:
    payload, error = deployed.invoke({"picture": IMAGE})
    assert error is None
    assert payload["error"]["code"] == "wrong_field"
    payload, _ = deployed.invoke({"image": IMAGE})
    assert "predictions" in payload


def refusal(deployed: Deployed, event: Any) -> str:
    """Why an event was refused: AWS's error code, FunctionError, or the function's own code."""
    try:
        payload, error = deployed.invoke(event)
    except ClientError as refused:
        return str(refused.response["Error"]["Code"])
    return error or str(payload["error"]["code"])


def test_an_oversized_payload_is_refused(deployed: Deployed) -> None:
    """More than 6 MB never reaches the function: AWS answers 413, the emulator cuts it off (Unhandled)."""
    refused = refusal(deployed, {"image": "A" * 7_000_000})
    assert refused in ("RequestEntityTooLargeException", "413", "Unhandled")
    payload, _ = deployed.invoke({"image": IMAGE})
    assert "predictions" in payload


@pytest.fixture(scope="module")
def album(deployed: Deployed) -> Album:
    """A bucket of pictures, of which 20 are corrupt and 5 have too many pixels, and one for the results."""
    return Album.filled(deployed.client("s3"))


def test_of_a_queue_only_what_failed_comes_again(deployed: Deployed, queue: str, album: Album) -> None:
    """The answers to the rest are in the bucket for results, which the album brings."""
    sqs = deployed.client("sqs")
    for body in (json.dumps({"image": IMAGE}), "poison", json.dumps({"image": IMAGE})):
        sqs.send_message(QueueUrl=queue, MessageBody=body)

    def left() -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)

    deadline = time.monotonic() + 60
    while left() > 1 and time.monotonic() < deadline:
        time.sleep(0.5)
    time.sleep(3)  # it comes again, and fails again
    assert left() == 1
    stored = deployed.client("s3").list_objects_v2(Bucket="answers", Prefix="coldforge/")["Contents"]
    assert len(stored) == 2
    sqs.purge_queue(QueueUrl=queue)


def test_new_objects_go_through_a_queue_that_keeps_what_fails(deployed: Deployed, album: Album) -> None:
    """From S3 to EventBridge, the queue, and the function; what has failed twice waits to be tried again."""
    s3, sqs = deployed.client("s3"), deployed.client("sqs")
    queue, dead = deployed.outputs["QueueUrl"], deployed.outputs["DeadLetterQueueUrl"]
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": "2"})
    s3.create_bucket(Bucket="inbox")
    s3.put_bucket_notification_configuration(Bucket="inbox", NotificationConfiguration={"EventBridgeConfiguration": {}})
    face = base64.b64decode(IMAGE)
    for key, body in (("in/a face (1).jpg", face), ("in/half.jpg", face[: len(face) // 2]), ("out/1.jpg", face)):
        s3.put_object(Bucket="inbox", Key=key, Body=body)
    found = sqs.receive_message(QueueUrl=dead, WaitTimeSeconds=20, VisibilityTimeout=60)
    (letter,) = found["Messages"]
    assert json.loads(letter["Body"])["detail"]["object"]["key"] == "in/half.jpg"

    def results() -> dict[str, Any]:
        rows = s3.list_objects_v2(Bucket="answers", Prefix="coldforge/inbox/").get("Contents", [])
        return {row["Key"]: json.loads(s3.get_object(Bucket="answers", Key=row["Key"])["Body"].read()) for row in rows}

    first = results()
    assert first.keys() == {"coldforge/inbox/in/a face (1).jpg.json", "coldforge/inbox/in/half.jpg.json"}
    assert first["coldforge/inbox/in/half.jpg.json"]["error"]["code"] == "truncated_image"
    assert "predictions" in first["coldforge/inbox/in/a face (1).jpg.json"]
    # As a redrive does, which the emulator does not have: the same message once more.
    s3.put_bucket_notification_configuration(Bucket="inbox", NotificationConfiguration={})
    s3.put_object(Bucket="inbox", Key="in/half.jpg", Body=face)
    sqs.send_message(QueueUrl=queue, MessageBody=letter["Body"])
    deadline = time.monotonic() + 30
    while "error" in results()["coldforge/inbox/in/half.jpg.json"] and time.monotonic() < deadline:
        time.sleep(0.5)
    assert "predictions" in results()["coldforge/inbox/in/half.jpg.json"]


def test_a_bucket_becomes_a_table_whatever_happens(
    deployed: Deployed, album: Album, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three objects vanish between listing and reading, and a container is killed meanwhile."""
    states = deployed.client("stepfunctions")
    states = SimpleNamespace(start_execution=album.vanishing(states.start_execution))
    clients = {"s3": album.s3, "stepfunctions": states}
    asked = BatchRequest(
        source="s3://album/in/", to="s3://answers/coldforge/run1", stack=STACK, form=None, bucket=None, limit=None,
        reuse=None, layer=None, per_invocation=album.size // 4, max_concurrency=2, tolerated=10,
        capacity=Capacity(0, 0, 0.0),
    )  # fmt: skip
    said: list[str] = []
    made = start_batch(
        asked,
        lambda: BatchTimes({1: 10.0}, 100.0),
        lambda name: clients.get(name) or deployed.client(name),
        said.append,
        dry_run=False,
    )
    assert made.items == album.size
    assert made.plan is not None
    assert made.plan.invocations == 4
    assert "USD" in said[0]
    assert killed_container()
    assert main(["batch", "watch", "s3://answers/coldforge/run1", "--json"]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["state"], last["done"], last["failed"]) == ("SUCCEEDED", album.size, 0)
    rows = collected(tmp_path / "t.csv")
    assert [row["row"] for row in rows] == [str(row) for row in range(album.size)]
    assert len({row["key"] for row in rows}) == album.size
    assert {row["key"]: row["code"] for row in rows if row["code"]} == album.codes
    assert {row["emotion.label"] for row in rows if not row["code"]} == {"happy"}
    assert [row["etag"] for row in rows if not row["code"]] == [album.etag] * (album.size - len(album.codes))


def test_what_failed_is_run_once_more_when_its_cause_is_gone(
    deployed: Deployed, album: Album, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resume = ["batch", "resume", "s3://answers/coldforge/run1", "--stack", STACK, "--ms", "10"]
    assert main(resume) == 0  # of what is corrupt or gone, nothing is tried again unasked
    assert "nothing was started" in capsys.readouterr().out
    album.restore()
    assert main([*resume, "--all-failed", "--per-invocation", "20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == 28
    assert main(["batch", "watch", "s3://answers/coldforge/run1"]) == 0
    rows = collected(tmp_path / "t.csv")
    assert len(rows) == album.size
    assert Counter(row["code"] for row in rows if row["code"]) == {"truncated_image": 20, "too_many_pixels": 5}


def test_a_later_run_takes_over_what_the_same_layer_answered(
    deployed: Deployed, album: Album, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["batch", "start", "s3://album/in/", "--to", "s3://answers/coldforge/run2", "--stack", STACK]
    reuse = ["--model", "emotion", "--reuse", "s3://answers/coldforge/run1", "--ms", "10", "--dry-run", "--json"]
    assert main([*command, *reuse]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["items"], found["reused"], found["plan"]["items"]) == (album.size, album.size - 25, 25)
    assert main([*command, "--to", "s3://answers/elsewhere/", "--ms", "1"]) == 2
    assert main([*command, "--to", "s3://answers/coldforge/run1", "--ms", "1"]) == 27


def collected(output: Path) -> list[dict[str, str]]:
    assert main(["batch", "collect", "s3://answers/coldforge/run1", "--output", str(output)]) == 0
    with output.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_failure_in_a_fifo_queue_stops_its_own_group_alone(deployed: Deployed, album: Album) -> None:
    """In a stack of its own. What fails is tried twice before what is behind it, and it alone is put aside."""
    parameters = {"ModelName": "emotion", "QueueAttempts": "2", "ResultsBucket": "answers"}
    copy_stack(deployed, ORDERED, ["fifo", "queue", "results"], parameters)
    ordered, sqs = up(deployed.aws, ORDERED), deployed.client("sqs")
    queue = ordered.outputs["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": "2"})
    good = json.dumps({"image": IMAGE})
    bodies = {"a1": good, "b1": good, "a2": "poison", "a3": good, "b2": good, "a4": good}
    entries = [
        {"Id": name, "MessageBody": body, "MessageGroupId": name[0], "MessageDeduplicationId": name}
        for name, body in bodies.items()
    ]
    sent = sqs.send_message_batch(QueueUrl=queue, Entries=entries)["Successful"]
    names = {row["MessageId"]: row["Id"] for row in sent}
    found = sqs.receive_message(QueueUrl=ordered.outputs["DeadLetterQueueUrl"], WaitTimeSeconds=20)
    assert [letter["Body"] for letter in found["Messages"]] == ["poison"]
    tried = [(names[line["correlation_id"]], line["message"]) for line in logged(ordered) if "correlation_id" in line]
    assert [name for name, message in tried if message == "request refused"] == ["a2", "a2"]
    answers = [name for name, message in tried if message == "result"]
    assert [name for name in answers if name[0] == "a"] == ["a1", "a3", "a4"]
    assert [name for name in answers if name[0] == "b"] == ["b1", "b2"]
    assert tried.index(("a3", "result")) > len(tried) - 1 - tried[::-1].index(("a2", "request refused"))
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert (attributes["ApproximateNumberOfMessages"], attributes["ApproximateNumberOfMessagesNotVisible"]) == (
        "0",
        "0",
    )


def copy_stack(deployed: Deployed, name: str, addons: list[str], parameters: dict[str, str]) -> None:
    """One more stack, of what `make deploy` has uploaded: SAM would take seconds to do so again."""
    cloudformation, s3 = deployed.client("cloudformation"), deployed.client("s3")
    body = cloudformation.get_template(StackName=STACK, TemplateStage="Original")["TemplateBody"]
    uploaded = yaml.load(body, Loader=TemplateLoader) if isinstance(body, str) else body
    template = packaged(addons)
    for logical_id, resource in template["Resources"].items():
        for place in {"CodeUri", "ContentUri"} & resource["Properties"].keys():
            resource["Properties"][place] = uploaded["Resources"][logical_id]["Properties"][place]
    s3.put_object(Bucket="album", Key="template", Body=json.dumps(template))
    cloudformation.create_stack(
        StackName=name,
        TemplateURL=f"{deployed.aws.endpoint}/album/template",
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
    )
    cloudformation.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig={"Delay": 1})


def logged(deployed: Deployed) -> list[dict[str, Any]]:
    """What the function has logged, in the order of its invocations."""
    logs, group = deployed.client("logs"), {"logGroupName": deployed.outputs["LogGroupName"]}
    streams = sorted(logs.describe_log_streams(**group)["logStreams"], key=lambda stream: stream["creationTime"])
    names = [stream["logStreamName"] for stream in streams]
    events = [logs.get_log_events(**group, logStreamName=name, startFromHead=True)["events"] for name in names]
    lines = [event["message"] for event in chain.from_iterable(events)]
    return [json.loads(line) for line in lines if line.startswith('{"level"')]


def test_delete_leaves_nothing(deployed: Deployed) -> None:
    functions = deployed.client("lambda")
    name = deployed.outputs["FunctionName"]
    layers = [row["Arn"] for row in functions.get_function(FunctionName=name)["Configuration"]["Layers"]]
    done = sam("delete", "--stack-name", STACK, "--no-prompts", "--region", "us-east-1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert name not in [f["FunctionName"] for f in functions.list_functions()["Functions"]]
    for arn in layers:
        rows = functions.list_layer_versions(LayerName=arn.split(":")[6])["LayerVersions"]
        assert arn not in [row["LayerVersionArn"] for row in rows]
    groups = deployed.client("logs").describe_log_groups(logGroupNamePrefix=deployed.outputs["LogGroupName"])
    assert groups["logGroups"] == []
