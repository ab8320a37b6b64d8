"""Plan and start a run of a deployed stack: from a source to a map that runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, TextIO

from builder.base.errors import BatchError, UsageError
from builder.base.targets import DEFAULT
from builder.measure.prices import load_prices
from builder.release.batch import batch_jobs
from builder.release.batch.answer_rows import read_rows, select_new_items, store_answers
from builder.release.batch.batch_items import read_items
from builder.release.batch.batch_manifest import Listing, write_listing
from builder.release.batch.batch_plan import BatchPlan, BatchTimes, Capacity, Workload, describe_plan, plan_batches
from builder.release.batch.batch_run import BatchRun, find_run
from builder.release.batch.s3_location import S3Location, batch_errors, upload_file

Client = Callable[[str], Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class BatchStack:
    """A deployed stack: its state machine, the folder that it writes to, and its function."""

    machine: str
    results: S3Location
    function: Capacity

    def require_writable(self, place: S3Location) -> None:
        """Raise UsageError for a location that the function may not write to."""
        if place.bucket != self.results.bucket or not f"{place.key}/".startswith(self.results.key):
            raise UsageError(f"{place} is not below {self.results}, where this stack may write.")


def _find_stack(stack: str, client: Callable[[str], Any]) -> BatchStack:
    """Ask AWS about ``stack``. ``client`` makes a client of the service that it is given. Raises BatchError."""
    with batch_errors(f"looking for the stack {stack}"):
        description = client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
    outputs = {row["OutputKey"]: row["OutputValue"] for row in description.get("Outputs", [])}
    if "BatchMachineArn" not in outputs:
        raise BatchError(
            f"the stack {stack} has no state machine for batches: deploy it with the add-ons batch and results."
        )
    with batch_errors(f"asking for the function of {stack}"):
        about = client("lambda").get_function_configuration(FunctionName=outputs["FunctionName"])
    architecture = (about.get("Architectures") or [DEFAULT.architecture])[0]
    return BatchStack(
        outputs["BatchMachineArn"],
        S3Location.from_address(outputs["BatchResults"]),
        Capacity(int(about["MemorySize"]), int(about["Timeout"]), load_prices().gb_second[architecture]),
    )


@dataclass(frozen=True)
class BatchRequest:
    """Options of a run that a person asks for.

    ``layer``: the SHA-256 of the bundle's manifest, with ``reuse``. ``capacity``: the function's, without a stack.
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
class BatchStart:
    """A run that was started, or planned."""

    run: str | None
    """None where nothing was started."""
    execution: str | None
    """The ARN of Step Functions' execution; None where nothing was started."""
    items: int
    """Rows of the run, or of those that are run once more."""
    reused: int
    """The number of items that an earlier run has answered."""
    plan: BatchPlan | None
    """None where nothing is left to be answered."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return asdict(self) | {"plan": self.plan and self.plan.to_dict()}


def start_batch(
    request: BatchRequest, times: Callable[[], BatchTimes], client: Client, say: Say, *, dry_run: bool
) -> BatchStart:
    """Plan ``request``, say what it costs, and start it. Raises BatchError, UsageError, EnvironmentSetupError."""
    s3 = client("s3") if request.to or request.reuse or request.source.startswith("s3://") else None
    location = S3Location.from_address(request.to) if request.to else None
    aws = _find_stack(request.stack, client) if request.stack else None
    if aws and location:
        aws.require_writable(location)
        if find_run(str(location), s3):
            raise BatchError(f"there is a run at {location} already: resume or collect it, or take another place.")
    with ExitStack() as stack:
        items = read_items(request.source, s3, request.form, request.bucket)
        reused = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))
        if request.reuse and request.layer:
            known = stack.enter_context(store_answers(read_rows(BatchRun.load(request.reuse, s3), s3), request.layer))
            listing = write_listing(select_new_items(islice(items, request.limit), known, reused), numbered=True)
        else:
            listing = write_listing(items, request.limit)
        stack.callback(listing.close)
        reused_count = _count_lines(reused)
        if reused_count:
            say(f"{reused_count:,} items were answered by {request.reuse}, with the same bytes and layer")
        elif not listing.items:
            raise BatchError("there is nothing to answer: the source has no item.")
        plan = None
        if listing.items:
            load = _make_workload(listing, times(), aws.function if aws else request.capacity, request.max_concurrency)
            plan = plan_batches(load, request.per_invocation)
        if dry_run or location is None or aws is None:
            return BatchStart(None, None, listing.items + reused_count, reused_count, plan)
        if plan:
            say(describe_plan(plan))
        run = BatchRun(
            location,
            request.source,
            aws.machine,
            listing.items + reused_count,
            reused_count,
            plan.together if plan else 1,
            settings={"max_concurrency": request.max_concurrency, "tolerated": request.tolerated},
        )
        if reused_count:
            upload_file(reused, location.join_key("reused.jsonl"), s3)
        if plan is None:
            run.save(s3)
            return BatchStart(str(location), None, run.items, reused_count, None)
        run = batch_jobs.start_attempt(run, listing, plan.per_invocation, s3, client("stepfunctions"))
        say(f"started: `coldforge batch watch {location}`")
        return BatchStart(str(location), run.last.execution, run.items, reused_count, plan)


def resume_batch(
    run: BatchRun, stack: str, times: Callable[[], BatchTimes], client: Client, say: Say, *,
    per_invocation: int | None, all_failed: bool, dry_run: bool,
) -> BatchStart:  # fmt: skip
    """Start one more map, over the failed and missing items, in smaller batches. Raises as ``start_batch``."""
    s3, states = client("s3"), client("stepfunctions")
    if batch_jobs.query_status(run, states).running:
        raise BatchError(f"{run.place} is running: watch it, or stop it first.")
    with closing(
        write_listing(batch_jobs.select_unanswered(read_rows(run, s3), all_failed=all_failed), numbered=True)
    ) as listing:
        if not listing.items:
            say("nothing is left that another attempt could answer")
            return BatchStart(None, None, 0, run.reused, None)
        aws = _find_stack(stack, client)
        most = per_invocation or max(1, run.last.per_invocation // 4)  # smaller than the failed batches
        plan = plan_batches(_make_workload(listing, times(), aws.function, run.settings["max_concurrency"]), most)
        if dry_run:
            return BatchStart(None, None, listing.items, run.reused, plan)
        say(describe_plan(plan))
        run = batch_jobs.start_attempt(
            replace(run, machine=aws.machine, together=plan.together), listing, most, s3, states
        )
        say(f"started: `coldforge batch watch {run.place}`")
        return BatchStart(str(run.place), run.last.execution, listing.items, run.reused, plan)


def _make_workload(listing: Listing, times: BatchTimes, function: Capacity, concurrency: int) -> Workload:
    return Workload(listing.items, listing.bytes, times, function, concurrency, fetched=listing.objects > 0)


def _count_lines(file: TextIO) -> int:
    file.seek(0)
    return sum(1 for _ in file)
