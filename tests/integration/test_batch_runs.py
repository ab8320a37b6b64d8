"""Runs as Step Functions has them, in the emulator: started, watched, stopped, and resumed. No function answers here:
the state machine waits in its place. tests/e2e/test_deploy.py has the whole of it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from builder.base.aws import make_client
from builder.base.errors import BatchError, UsageError
from builder.cli import main
from builder.release.batch import batch_jobs
from builder.release.batch.answer_rows import read_rows
from builder.release.batch.batch_items import read_items
from builder.release.batch.batch_manifest import write_listing
from builder.release.batch.batch_plan import Capacity
from builder.release.batch.batch_run import BatchRun
from builder.release.batch.s3_location import S3Location
from builder.release.batch.start_batch import BatchStack, resume_batch
from tests.conftest import ROOT
from tests.support.aws import client_environment, local_aws
from tests.support.results import printed
from tests.support.stacks import packaged

pytestmark = pytest.mark.integration

ROLE = "arn:aws:iam::000000000000:role/states"
TODAY = datetime(2026, 11, 23, tzinfo=UTC)
EXECUTION = {"executionArn": "arn", "stateMachineArn": "arn", "startDate": TODAY}


def machine(name: str, **task: Any) -> str:
    """The template's state machine under ``name``, with ``task`` in the place of the function."""
    definition = packaged(["batch", "results"])["Resources"]["BatchMachine"]["Properties"]["Definition"]
    answer = definition["States"]["Answer"]
    for part in (answer["ItemReader"], answer["ResultWriter"]):
        part["Resource"] = part["Resource"]["Fn::Sub"].replace("${AWS::Partition}", "aws")
    answer["ItemProcessor"]["States"]["Batch"] = task
    text = json.dumps(definition)
    return str(
        boto3.client("stepfunctions").create_state_machine(name=name, definition=text, roleArn=ROLE)["stateMachineArn"]
    )


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """State machines by what becomes of their batches."""
    subprocess.run(["make", "--silent", ".venv-aws/.done"], cwd=ROOT, check=True)
    with local_aws(tmp_path_factory.mktemp("aws") / "log", grace=1) as aws, pytest.MonkeyPatch.context() as patch:
        for name, value in client_environment(aws.endpoint).items():
            patch.setenv(name, value)
        for bucket in ("inputs", "answers"):
            boto3.client("s3").create_bucket(Bucket=bucket)
        yield {
            "done": machine("done", Type="Pass", End=True),
            "waiting": machine("waiting", Type="Wait", Seconds=600, End=True),
            "failing": machine("failing", Type="Fail", Error="Lambda.Unknown", Cause="killed"),
        }


@pytest.fixture(scope="module")
def s3(machines: dict[str, str]) -> Any:
    objects = make_client("s3")
    for key in ("a/", "a/2.jpg", "a/1 ü.jpg", "b/3.jpg"):
        objects.put_object(Bucket="inputs", Key=key, Body=key.encode())
    return objects


def begun(name: str, machines: dict[str, str], s3: Any) -> BatchRun:
    place = S3Location("answers", f"coldforge/{name}")
    run = BatchRun(place, "s3://inputs/", machines[name], 5, 0, 1, {"max_concurrency": 2, "tolerated": 10})
    listing = write_listing({"Bucket": "inputs", "Key": f"{row}.jpg"} for row in range(5))
    try:
        return batch_jobs.start_attempt(run, listing, 2, s3, make_client("stepfunctions"))
    finally:
        listing.close()


def test_a_prefix_is_listed_in_order_and_without_folders(s3: Any) -> None:
    assert [one["Key"] for one in read_items("s3://inputs/a/", s3)] == ["a/1 ü.jpg", "a/2.jpg"]
    assert len(next(read_items("s3://inputs/b", s3))["ETag"]) == 32
    with pytest.raises(BatchError, match="listing s3://none/ failed"):
        list(read_items("s3://none/", s3))


def test_a_run_that_ends(machines: dict[str, str], s3: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run = begun("done", machines, s3)
    assert main(["batch", "watch", str(run.place)]) == 0
    assert capsys.readouterr().out.startswith("succeeded: 5 of 5 items, 3 of 3 batches")
    assert main(["batch", "status", str(run.place), "--json"]) == 0
    found = printed("batch status", capsys.readouterr().out)
    assert (found["state"], found["batches"], found["done"], found["error"]) == ("SUCCEEDED", 3, 5, None)
    assert (found["batches_running"], found["batches_pending"]) == (0, 0)
    assert main(["batch", "resume", str(run.place), "--redrive"]) == BatchError.exit_code
    assert "can redrive only what failed" in capsys.readouterr().err


def test_a_run_is_stopped_and_what_it_did_stays(
    machines: dict[str, str], s3: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun("waiting", machines, s3)

    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("time.sleep", interrupted)
        assert main(["batch", "watch", str(run.place)]) == 0
    assert "it goes on" in capsys.readouterr().err
    assert batch_jobs.query_status(run, make_client("stepfunctions")).running
    with pytest.raises(BatchError, match="is running"):
        resume_batch(run, "", lambda: None, make_client, print, per_invocation=None, all_failed=False, dry_run=False)  # type: ignore[arg-type,return-value]
    assert main(["batch", "stop", str(run.place), "--json"]) == 0
    assert printed("batch stop", capsys.readouterr().out)["state"] == "ABORTED"


def test_a_run_that_fails_says_why(machines: dict[str, str], s3: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run = begun("failing", machines, s3)
    assert main(["batch", "watch", str(run.place)]) == BatchError.exit_code
    said = capsys.readouterr()
    assert "failed: 0 of 5 items, 0 of 3 batches, 3 batches failed" in said.out
    assert "Lambda.Unknown: killed" in said.out
    assert "batch resume" in said.err
    assert [one["Row"] for one in batch_jobs.select_unanswered(read_rows(run, s3), all_failed=False)] == [0, 1, 2, 3, 4]


def test_a_redrive_asks_aws_for_the_same_execution(machines: dict[str, str], s3: Any) -> None:
    """The emulator redrives nothing: here are AWS's answers, in the form that botocore knows them."""
    run, states = begun("done", machines, s3), make_client("stepfunctions")
    with Stubber(states) as aws:
        aws.add_response("describe_execution", {"status": "FAILED", "redriveStatus": "REDRIVABLE"} | EXECUTION)
        aws.add_response("list_map_runs", {"mapRuns": []})
        aws.add_response("redrive_execution", {"redriveDate": TODAY}, {"executionArn": run.last.execution})
        batch_jobs.redrive_run(run, states)
        aws.assert_no_pending_responses()


def test_a_table_of_a_run_without_answers(machines: dict[str, str], s3: Any, tmp_path: Path) -> None:
    run = begun("done", machines, s3)
    assert main(["batch", "collect", str(run.place), "--output", str(tmp_path / "t.csv")]) == 0
    assert (tmp_path / "t.csv").read_text().count("not_answered") == 5


def test_another_stack_or_place_is_refused(
    machines: dict[str, str], s3: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    there = BatchStack("", S3Location("answers", "coldforge/"), Capacity(1769, 15, 1e-5))
    there.require_writable(S3Location("answers", "coldforge/run1"))
    for wrong in (S3Location("other", "coldforge/run1"), S3Location("answers", "cold"), S3Location("answers", "")):
        with pytest.raises(UsageError, match="is not below s3://answers/coldforge/"):
            there.require_writable(wrong)
    command = ["batch", "start", "s3://inputs/", "--to", "s3://answers/coldforge/new", "--stack", "none", "--ms", "1"]
    assert main(command) == BatchError.exit_code
    assert "looking for the stack none failed" in capsys.readouterr().err
    assert main(["batch", "status", "s3://answers/coldforge/none"]) == BatchError.exit_code
    assert "there is no run at" in capsys.readouterr().err


def test_lines_for_a_person() -> None:
    found = batch_jobs.BatchStatus("RUNNING", 0, 10, 4, 1, 2, 3, 1000, 400, 100, 50.0, 10.0, False, None)
    said = "running: 400 of 1,000 items, 4 of 10 batches, 1 batches failed, 2 running, 3 pending, 50 items/s, 10 s left"
    assert batch_jobs.describe_status(found) == said
    ended = replace(found, state="FAILED", error="E: why")
    assert batch_jobs.describe_status(ended).endswith("50 items/s\nE: why")
