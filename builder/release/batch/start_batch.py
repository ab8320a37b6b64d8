"""Planning and starting: from a source to a map that runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, TextIO

from builder.base.errors import BatchError
from builder.release.batch import batch_jobs
from builder.release.batch.answer_rows import rows
from builder.release.batch.batch_items import items
from builder.release.batch.batch_manifest import Listing, listed
from builder.release.batch.batch_plan import Capacity, Load, Plan, Times, plan, render
from builder.release.batch.batch_run import Run, find
from builder.release.batch.deployed_stack import deployed
from builder.release.batch.reuse_answers import answered, split
from builder.release.batch.s3_location import Place, upload

Client = Callable[[str], Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """What a person asked for. ``layer``: the SHA-256 of the bundle's manifest, with ``reuse``.

    ``capacity``: of the function, where no stack says it.
    """

    source: str
    to: str | None
    stack: str | None
    form: str | None
    bucket: str | None
    limit: int | None
    reuse: str | None
    layer: str | None
    per_invocation: int | None
    max_concurrency: int
    tolerated: float
    capacity: Capacity


@dataclass(frozen=True)
class Started:
    """A run that was started, or planned."""

    run: str | None
    """None where nothing was started."""
    execution: str | None
    """The ARN of Step Functions' execution; None where nothing was started."""
    items: int
    """Rows of the run, or of those that are run once more."""
    reused: int
    """How many of them an earlier run has answered."""
    plan: Plan | None
    """None where nothing is left to be answered."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return asdict(self) | {"plan": self.plan and self.plan.to_dict()}


def started(asked: Asked, times: Callable[[], Times], client: Client, say: Say, *, dry_run: bool) -> Started:
    """Plan ``asked``, say what it costs, and start it. Raises BatchError, UsageError, EnvironmentSetupError."""
    s3 = client("s3") if asked.to or asked.reuse or asked.source.startswith("s3://") else None
    place = Place.of(asked.to) if asked.to else None
    there = deployed(asked.stack, client) if asked.stack else None
    if there and place:
        there.require_below(place)
        if find(str(place), s3):
            raise BatchError(f"there is a run at {place} already: resume or collect it, or take another place.")
    with ExitStack() as stack:
        found = items(asked.source, s3, asked.form, asked.bucket)
        reused = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))
        if asked.reuse and asked.layer:
            known = stack.enter_context(answered(rows(Run.load(asked.reuse, s3), s3), asked.layer))
            listing = listed(split(islice(found, asked.limit), known, reused), numbered=True)
        else:
            listing = listed(found, asked.limit)
        stack.callback(listing.close)
        taken = _lines(reused)
        if taken:
            say(f"{taken:,} items were answered by {asked.reuse}, with the same bytes and layer")
        elif not listing.items:
            raise BatchError("there is nothing to answer: the source has no item.")
        made = None
        if listing.items:
            load = _load(listing, times(), there.function if there else asked.capacity, asked.max_concurrency)
            made = plan(load, asked.per_invocation)
        if dry_run or place is None or there is None:
            return Started(None, None, listing.items + taken, taken, made)
        if made:
            say(render(made))
        run = Run(
            place,
            asked.source,
            there.machine,
            listing.items + taken,
            taken,
            made.together if made else 1,
            settings={"max_concurrency": asked.max_concurrency, "tolerated": asked.tolerated},
        )
        if taken:
            upload(reused, place.below("reused.jsonl"), s3)
        if made is None:
            run.save(s3)
            return Started(str(place), None, run.items, taken, None)
        run = batch_jobs.begin(run, listing, made.per_invocation, s3, client("stepfunctions"))
        say(f"started: `coldforge batch watch {place}`")
        return Started(str(place), run.last.execution, run.items, taken, made)


def resumed(
    run: Run, stack: str, times: Callable[[], Times], client: Client, say: Say, *,
    per_invocation: int | None, all_failed: bool, dry_run: bool,
) -> Started:  # fmt: skip
    """Start one more map, over what failed or is missing in ``run``, in smaller batches. Raises as ``started``."""
    s3, states = client("s3"), client("stepfunctions")
    if batch_jobs.status(run, states).running:
        raise BatchError(f"{run.place} is running: watch it, or stop it first.")
    with closing(listed(batch_jobs.unanswered(rows(run, s3), all_failed=all_failed), numbered=True)) as listing:
        if not listing.items:
            say("nothing is left that another attempt could answer")
            return Started(None, None, 0, run.reused, None)
        there = deployed(stack, client)
        most = per_invocation or max(1, run.last.per_invocation // 4)  # what failed together is taken apart
        made = plan(_load(listing, times(), there.function, run.settings["max_concurrency"]), most)
        if dry_run:
            return Started(None, None, listing.items, run.reused, made)
        say(render(made))
        run = batch_jobs.begin(replace(run, machine=there.machine, together=made.together), listing, most, s3, states)
        say(f"started: `coldforge batch watch {run.place}`")
        return Started(str(run.place), run.last.execution, listing.items, run.reused, made)


def _load(listing: Listing, times: Times, function: Capacity, concurrency: int) -> Load:
    return Load(listing.items, listing.bytes, times, function, concurrency, fetched=listing.objects > 0)


def _lines(file: TextIO) -> int:
    file.seek(0)
    return sum(1 for _ in file)
