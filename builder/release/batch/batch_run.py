"""A run: what was asked, in which lists, and what Step Functions was told. It is ``run.json`` below its place in S3.

s3://bucket/run1/run.json
s3://bucket/run1/list/0.jsonl               batches of the first attempt, which the map reads
s3://bucket/run1/parts/0/00000017.jsonl     answers of its batch 17, which the function writes
s3://bucket/run1/report/0/…                 which batches failed, and why: Step Functions writes it
s3://bucket/run1/reused.jsonl               answers of an earlier run
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from builder.base.errors import BatchError
from builder.release.batch.s3_location import S3Location, batch_errors, read_object

SCHEMA = 1


@dataclass(frozen=True)
class BatchAttempt:
    """One map over one list. ``execution``: its ARN; ``per_invocation``: items of a batch, at most."""

    number: int
    items: int
    batches: int
    per_invocation: int
    execution: str

    @property
    def list(self) -> str:
        """The name of the list."""
        return f"list/{self.number}.jsonl"

    def make_part_name(self, batch: int) -> str:
        """Name the answers to a batch as ``handler/parts.py`` does."""
        return f"{self.parts}{batch:08}.jsonl"

    @property
    def parts(self) -> str:
        """What the names of the answers begin with."""
        return f"parts/{self.number}/"


@dataclass(frozen=True)
class BatchRun:
    """``items``: rows of the table that comes out; ``reused``: those that an earlier run answered.

    ``together``: pictures of one run of the model. ``settings``: what further attempts take over.
    """

    place: S3Location
    source: str
    machine: str
    items: int
    reused: int
    together: int
    settings: dict[str, Any]
    attempts: tuple[BatchAttempt, ...] = ()

    @property
    def last(self) -> BatchAttempt:
        """Raises BatchError where nothing was started, because an earlier run had answered all."""
        if not self.attempts:
            raise BatchError(f"nothing was started for {self.place}: an earlier run had answered it all.")
        return self.attempts[-1]

    def with_attempt(self, attempt: BatchAttempt) -> BatchRun:
        """Return the run with one more attempt."""
        return replace(self, attempts=(*self.attempts, attempt))

    def make_event(self) -> dict[str, Any]:
        """Return the input of the state machine for the last attempt."""
        attempt = self.last
        return {
            "Bucket": self.place.bucket,
            "List": self.place.join_key(attempt.list).key,
            "Report": self.place.join_key(f"report/{attempt.number}").key,
            "MaxConcurrency": self.settings["max_concurrency"],
            "ToleratedFailurePercentage": self.settings["tolerated"],
            "BatchInput": {"Results": f"{self.place.join_key(attempt.parts)}", "Together": self.together},
        }

    def save(self, s3: Any) -> None:
        """Write ``run.json``. Raises BatchError."""
        place = self.place.join_key("run.json")
        text = json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1)
        with batch_errors(f"writing {place}"):
            s3.put_object(Bucket=place.bucket, Key=place.key, Body=text.encode(), ContentType="application/json")

    @classmethod
    def load(cls, address: str, s3: Any) -> BatchRun:
        """Read the run at ``address``. Raises BatchError where there is none."""
        run = find_run(address, s3)
        if run is None:
            raise BatchError(f"there is no run at {address}: `coldforge batch start ... --to {address}` starts one.")
        return run


def find_run(address: str, s3: Any) -> BatchRun | None:
    """Read the run at ``address``; None where there is none. Raises UsageError, BatchError."""
    place = S3Location.from_address(address)
    file = place.join_key("run.json")
    text = read_object(file, s3)
    if text is None:
        return None
    try:
        found = json.loads(text)
        if found.pop("schema") != SCHEMA:
            raise BatchError(f"{file} was written by another version of coldforge.")
        attempts = tuple(BatchAttempt(**row) for row in found.pop("attempts"))
        return BatchRun(**{**found, "place": place}, attempts=attempts)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise BatchError(f"{file} is not what `coldforge batch` writes: {error}") from error
