"""Record of a run: its request, lists, and calls of Step Functions. It is ``run.json`` below its place in S3.

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
    """One map over one list. ``execution``: its ARN; ``per_invocation``: the largest number of items of a batch."""

    number: int
    items: int
    batches: int
    per_invocation: int
    execution: str

    @property
    def list(self) -> str:
        """Name of the list's object."""
        return f"list/{self.number}.jsonl"

    def make_part_name(self, batch: int) -> str:
        """Return the name of the answers to a batch, as ``handler/map_batch.py`` chooses it."""
        return f"{self.parts}{batch:08}.jsonl"

    @property
    def parts(self) -> str:
        """Beginning of the names of all answers."""
        return f"parts/{self.number}/"


@dataclass(frozen=True)
class BatchRun:
    """A batch run and its attempts.

    ``items``: the number of rows of the resulting table. ``reused``: the number that an earlier run answered.
    ``together``: the number of images in one run of the model. ``settings``: the options that further attempts keep.
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
        """The last attempt. Raises BatchError where none was started, as an earlier run had answered everything."""
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
        location = self.place.join_key("run.json")
        text = json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1)
        with batch_errors(f"writing {location}"):
            s3.put_object(Bucket=location.bucket, Key=location.key, Body=text.encode(), ContentType="application/json")

    @classmethod
    def load(cls, address: str, s3: Any) -> BatchRun:
        """Read the run at ``address``. Raises BatchError where there is no run."""
        run = find_run(address, s3)
        if run is None:
            raise BatchError(f"there is no run at {address}: `coldforge batch start ... --to {address}` starts one.")
        return run


def find_run(address: str, s3: Any) -> BatchRun | None:
    """Read the run at ``address``; return None where there is no run. Raises UsageError, BatchError."""
    location = S3Location.from_address(address)
    file = location.join_key("run.json")
    text = read_object(file, s3)
    if text is None:
        return None
    try:
        record = json.loads(text)
        if record.pop("schema") != SCHEMA:
            raise BatchError(f"{file} was written by another version of coldforge.")
        attempts = tuple(BatchAttempt(**row) for row in record.pop("attempts"))
        return BatchRun(**{**record, "place": location}, attempts=attempts)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise BatchError(f"{file} is not what `coldforge batch` writes: {error}") from error
