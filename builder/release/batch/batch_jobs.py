"""Start, watch, stop and resume a run by Step Functions."""

from __future__ import annotations

import json
import re
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from builder.base.errors import BatchError
from builder.base.escape import describe_error
from builder.release.batch.answer_rows import MAY_SUCCEED, ResultRow
from builder.release.batch.batch_items import Item
from builder.release.batch.batch_manifest import Listing, write_batches
from builder.release.batch.batch_run import BatchAttempt, BatchRun
from builder.release.batch.s3_location import batch_errors, upload_file

RUNNING = ("RUNNING", "PENDING_REDRIVE")


@dataclass(frozen=True)
class BatchStatus:
    """The progress of the last attempt of a run. Items are counted by whole batches."""

    state: str
    """The status of the execution, in Step Functions' words."""
    attempt: int
    """Counted from 0."""
    batches: int
    batches_done: int
    batches_failed: int
    """For good."""
    batches_running: int
    batches_pending: int
    """Neither ended nor running."""
    items: int
    """The number of items of this attempt."""
    done: int
    failed: int
    """Items in batches that failed for good; an item with an error of its own is answered."""
    per_second: float | None
    """Items; None where nothing can be said yet."""
    seconds_left: float | None
    """None where nothing can be said yet."""
    redrivable: bool
    """True if `batch resume --redrive` can run them again."""
    error: str | None
    """The error of one batch that failed for good, or of the whole map."""

    @property
    def running(self) -> bool:
        """True until the last attempt has ended."""
        return self.state in RUNNING


def start_attempt(run: BatchRun, listing: Listing, per_invocation: int, s3: Any, states: Any) -> BatchRun:
    """Write the list of one more attempt, start its map, and return the run with it. Raises BatchError."""
    number = len(run.attempts)
    name = f"{re.sub(r'[^A-Za-z0-9_-]', '-', run.place.key)[-40:].strip('-')}-{number}-{uuid.uuid4().hex[:8]}"
    execution = f"{run.machine.replace(':stateMachine:', ':execution:')}:{name}"
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        batches = write_batches(listing, per_invocation, file)
        run = run.with_attempt(BatchAttempt(number, listing.items, batches, per_invocation, execution))
        upload_file(file, run.place.join_key(run.last.list), s3)
    run.save(s3)  # The run is saved before anything starts, so that what runs can be found.
    with batch_errors(f"starting {run.machine}"):
        states.start_execution(stateMachineArn=run.machine, name=name, input=json.dumps(run.make_event()))
    return run


def query_status(run: BatchRun, states: Any) -> BatchStatus:
    """Ask Step Functions how far the last attempt of ``run`` is. Raises BatchError."""
    attempt = run.last
    with batch_errors(f"asking for {attempt.execution}"):
        about = states.describe_execution(executionArn=attempt.execution)
        maps = states.list_map_runs(executionArn=attempt.execution)["mapRuns"]
        map_run = states.describe_map_run(mapRunArn=maps[0]["mapRunArn"]) if maps else {}
        failures = _list_failures(states, maps[0]["mapRunArn"]) if maps else []
    counts = map_run.get("executionCounts", {})
    done, running = (int(counts.get(name, 0)) for name in ("succeeded", "running"))
    failed = sum(int(counts.get(name, 0)) for name in ("failed", "timedOut", "aborted"))
    items = [min(attempt.items, batches * attempt.per_invocation) for batches in (done, failed)]
    rate = _measure_rate(items[0], map_run)
    left = attempt.items - sum(items)
    return BatchStatus(
        state=str(about["status"]),
        attempt=attempt.number,
        batches=attempt.batches,
        batches_done=done,
        batches_failed=failed,
        batches_running=running,
        batches_pending=max(0, attempt.batches - done - failed - running),  # also batches not read from the list yet
        items=attempt.items,
        done=items[0],
        failed=items[1],
        per_second=rate,
        seconds_left=max(left, 0) / rate if rate else None,
        redrivable=about.get("redriveStatus") == "REDRIVABLE",
        error=next((text for text in map(_describe_failure, [*failures, about]) if text), None),
    )


def _list_failures(states: Any, map_run: str) -> list[dict[str, Any]]:
    """Return one batch that failed for good, if there is one."""
    failures = states.list_executions(mapRunArn=map_run, statusFilter="FAILED", maxResults=1)["executions"]
    return [states.describe_execution(executionArn=row["executionArn"]) for row in failures]


def _describe_failure(about: dict[str, Any]) -> str | None:
    return f"{about['error']}: {describe_error(about.get('cause', ''))}" if about.get("error") else None


def _measure_rate(done: int, map_run: dict[str, Any]) -> float | None:
    """Return the items per second since the map began; None where nothing can be said yet."""
    began: datetime | None = map_run.get("startDate")
    if began is None or not done:
        return None
    ended = map_run.get("stopDate") or datetime.now(UTC)
    return done / max((ended - began).total_seconds(), 1.0)


def poll_status(run: BatchRun, states: Any, seconds: float) -> Iterator[BatchStatus]:
    """Yield the status every ``seconds``, until nothing runs. Raises BatchError."""
    while True:
        status = query_status(run, states)
        yield status
        if not status.running:
            return
        time.sleep(seconds)


def stop_run(run: BatchRun, states: Any) -> None:
    """End the map; batches that run are ended, too. Raises BatchError."""
    with batch_errors(f"stopping {run.last.execution}"):
        states.stop_execution(executionArn=run.last.execution)


def redrive_run(run: BatchRun, states: Any) -> None:
    """Have Step Functions run again the batches of the last map that did not succeed. Raises BatchError."""
    if not query_status(run, states).redrivable:
        raise BatchError(
            "Step Functions can redrive only what failed or was stopped, for 14 days: leave out --redrive."
        )
    with batch_errors(f"redriving {run.last.execution}"):
        states.redrive_execution(executionArn=run.last.execution)


def select_unanswered(rows: Iterator[ResultRow], *, all_failed: bool) -> Iterator[Item]:
    """Yield the items of ``rows`` that are worth another attempt; with ``all_failed``, each that has an error."""
    for row in rows:
        if row.predictions is None and (all_failed or row.code in MAY_SUCCEED):
            yield row.item


def describe_status(status: BatchStatus) -> str:
    """Describe the status in one line for a person."""
    parts = [
        f"{status.state.lower()}: {status.done:,} of {status.items:,} items",
        f"{status.batches_done:,} of {status.batches:,} batches",
    ]
    parts += [f"{status.batches_failed:,} batches failed"] if status.batches_failed else []
    parts += [f"{status.batches_running:,} running, {status.batches_pending:,} pending"] if status.running else []
    parts += [f"{status.per_second:,.0f} items/s"] if status.per_second else []
    parts += [f"{status.seconds_left:,.0f} s left"] if status.running and status.seconds_left is not None else []
    return ", ".join(parts) + (f"\n{status.error}" if status.error and not status.running else "")


def describe_briefly(status: BatchStatus) -> str:
    """Describe the batches in a few words, for a progress bar of the items."""
    left = f", {status.seconds_left:,.0f} s left" if status.seconds_left is not None else ""
    return f"{status.batches_done:,} of {status.batches:,} batches{left}"
