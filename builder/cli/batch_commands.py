"""Commands about batches of inputs: ``batch start`` and its neighbours."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builder.base.errors import BatchError, UsageError
from builder.base.project import Project
from builder.cli.argument_parser import complete_models
from builder.cli.command import (
    COUNT,
    MODEL,
    Family,
    Options,
    argument,
    bundle_of,
    command,
    load_named_spec,
    parse_positive,
    print_result,
    print_text,
    progress_of,
)
from builder.release.batch.batch_items import FORMS

if TYPE_CHECKING:
    from builder.release.batch.batch_plan import BatchTimes
    from builder.release.batch.batch_run import BatchRun
    from builder.release.batch.start_batch import BatchStart

WATCH_SECONDS = 2.0


ENDPOINT = argument("--endpoint-url", metavar="URL", help="endpoint of another AWS, such as a local emulator")
STACK = argument("--stack", help="the deployed stack (default: coldforge-MODEL)")
RUN = argument("run", help="s3://bucket/run1, where `batch start --to` put it")
TIMES = (
    argument(
        "--model",
        default=".",
        help=f"{MODEL}, whose bundle is measured here (default: the project's)",
        completer=complete_models,
    ),
    argument("--ms", type=parse_positive, help="milliseconds of an item, instead of measuring the bundle"),
    argument("--per-invocation", type=COUNT, metavar="N", help="items of a batch, at most (default: as planned)"),
    argument("--dry-run", action="store_true", help="say what it would cost and take, and start nothing"),
)


@command(
    "batch start",
    "s3://pictures/in/ --to s3://answers/run1 --dry-run",
    argument(
        "source",
        help="s3://bucket/prefix, or a list of keys or requests in S3 or here: .csv, .jsonl, .parquet, or the "
        "manifest.json of an S3 inventory",
    ),
    argument("--to", metavar="RUN", help="s3://bucket/run1: where lists and answers go"),
    STACK,
    argument("--format", choices=FORMS, help="the form of a list of objects (default: what its name says)"),
    argument("--bucket", help="the bucket of objects whose rows in a list name none"),
    argument("--limit", type=COUNT, metavar="N", help="the first N items only"),
    argument("--reuse", metavar="RUN", help="a run whose answers are taken over where bytes and layer are the same"),
    *TIMES,
    argument("--max-concurrency", type=COUNT, default=100, metavar="N", help="invocations at once (default: 100)"),
    argument(
        "--tolerated-failures",
        type=float,
        default=10,
        metavar="PERCENT",
        help="percent of the batches; if more fail for good, the rest is not run (default: 10)",
    ),
    argument(
        "--memory", type=COUNT, metavar="MB", help="memory of the function where there is no stack (default: 1769)"
    ),
    argument("--timeout", type=COUNT, metavar="S", help="time for a batch where there is no stack (default: 15)"),
    ENDPOINT,
)
def run_batch_start(options: Options, project: Project) -> None:
    """Say what a bucket or a list costs and takes, and start it."""
    from builder.base.targets import DEFAULT
    from builder.measure.prices import load_prices
    from builder.release.batch.batch_plan import Capacity
    from builder.release.batch.start_batch import BatchRequest, start_batch

    if not options.dry_run and not options.to:
        raise UsageError("say where lists and answers go, with --to s3://bucket/run1, or --dry-run to start nothing.")
    request = BatchRequest(
        source=options.source,
        to=options.to,
        stack=options.stack or (_name_stack(options, project) if options.to else None),
        form=options.format,
        bucket=options.bucket,
        limit=options.limit,
        reuse=options.reuse,
        layer=_digest_layer(options, project) if options.reuse else None,
        per_invocation=options.per_invocation,
        max_concurrency=options.max_concurrency,
        tolerated=options.tolerated_failures,
        capacity=Capacity(options.memory or 1769, options.timeout or 15, load_prices().gb_second[DEFAULT.architecture]),
    )
    progress = progress_of(options)
    start = start_batch(
        request,
        lambda: _measure_times(options, project),
        _make_client_factory(options),
        progress.show_lines,
        dry_run=options.dry_run,
    )
    _print_batch_start(options, start)


@command("batch status", "s3://answers/run1", RUN, ENDPOINT)
def run_batch_status(options: Options, _project: Project) -> None:
    """Say how far a run is."""
    from builder.release.batch.batch_jobs import describe_status, query_status

    run, client = _open_run(options)
    status = query_status(run, client("stepfunctions"))
    print_result(options, asdict(status), describe_status(status))


@command("batch watch", "s3://answers/run1", RUN, ENDPOINT)
def run_batch_watch(options: Options, _project: Project) -> None:
    """Show how far a run is until it ends; Ctrl-C leaves it running."""
    from builder.release.batch.batch_jobs import describe_briefly, describe_status, poll_status

    run, client = _open_run(options)
    progress = progress_of(options)
    try:
        with progress.screen.show_task("items") as set_progress:
            for status in poll_status(run, client("stepfunctions"), WATCH_SECONDS):
                set_progress(status.done + status.failed, status.items, describe_briefly(status))
                if options.json:
                    print(json.dumps(asdict(status)), flush=True)
    except KeyboardInterrupt:
        progress.show_lines(f"it goes on; `coldforge batch stop {options.run}` would end it.")
        return
    if not options.json:
        print_text(describe_status(status))
    if status.state != "SUCCEEDED":
        raise BatchError(
            f"the map ended as {status.state}; `coldforge batch resume {options.run}` runs what is missing."
        )


@command("batch stop", "s3://answers/run1", RUN, ENDPOINT)
def run_batch_stop(options: Options, _project: Project) -> None:
    """End a run."""
    from builder.release.batch.batch_jobs import describe_status, query_status, stop_run

    run, client = _open_run(options)
    stop_run(run, client("stepfunctions"))
    status = query_status(run, client("stepfunctions"))
    print_result(options, asdict(status), describe_status(status))


@command(
    "batch resume",
    "s3://answers/run1",
    RUN,
    argument("--all-failed", action="store_true", help="also what has an error that another attempt will not cure"),
    argument("--redrive", action="store_true", help="have Step Functions run the same map's failed batches again"),
    STACK,
    *TIMES,
    ENDPOINT,
)
def run_batch_resume(options: Options, project: Project) -> None:
    """Run what failed or is missing once more."""
    from builder.release.batch.batch_jobs import redrive_run
    from builder.release.batch.start_batch import BatchStart, resume_batch

    run, client = _open_run(options)
    if options.redrive:
        redrive_run(run, client("stepfunctions"))
        _print_batch_start(options, BatchStart(str(run.place), run.last.execution, run.last.items, run.reused, None))
        return
    start = resume_batch(
        run, options.stack or _name_stack(options, project), lambda: _measure_times(options, project), client,
        progress_of(options).show_lines, per_invocation=options.per_invocation, all_failed=options.all_failed,
        dry_run=options.dry_run,
    )  # fmt: skip
    _print_batch_start(options, start)


@command(
    "batch collect",
    "s3://answers/run1 --output answers.parquet",
    RUN,
    argument(
        "--output", type=Path, required=True, metavar="FILE", help="the table: NAME.parquet, NAME.csv or NAME.jsonl"
    ),
    ENDPOINT,
)
def run_batch_collect(options: Options, _project: Project) -> None:
    """Write the answers of a run as one table."""
    from builder.release.batch.answer_rows import read_rows
    from builder.release.batch.collect_answers import check_ending, describe_table, write_table

    check_ending(options.output)
    run, client = _open_run(options)
    s3 = client("s3")
    table = write_table(lambda: read_rows(run, s3), options.output)
    print_result(options, asdict(table), describe_table(table))


def _print_batch_start(options: Options, start: BatchStart) -> None:
    from builder.release.batch.batch_plan import describe_plan

    text = describe_plan(start.plan) if start.plan and not start.run else start.run or "nothing was started"
    print_result(options, start.to_dict(), text)


def _open_run(options: Options) -> tuple[BatchRun, Any]:
    from builder.release.batch.batch_run import BatchRun

    client = _make_client_factory(options)
    return BatchRun.load(options.run, client("s3")), client


def _make_client_factory(options: Options) -> Any:
    from builder.base.aws import make_client

    return lambda service: make_client(service, options.endpoint_url)


def _name_stack(options: Options, project: Project) -> str:
    return f"coldforge-{load_named_spec(options.model, project).name.replace('_', '-')}"


def _measure_times(options: Options, project: Project) -> BatchTimes:
    from builder.release.batch.batch_plan import BatchTimes
    from builder.release.batch.measured_times import measure_bundle

    if options.ms is not None:
        return BatchTimes({1: options.ms}, 0.0)
    progress_of(options).show_lines(f"measuring the bundle of {load_named_spec(options.model, project).name} here")
    return measure_bundle(bundle_of([options.model], project))


def _digest_layer(options: Options, project: Project) -> str:
    from builder.base.cache import file_digest
    from builder.base.targets import DEFAULT
    from builder.package.bundle import LAYER_MANIFEST

    return file_digest(bundle_of([options.model], project, DEFAULT).layer / LAYER_MANIFEST)


COMMANDS = (
    Family(
        "batch",
        "answer many inputs, from a bucket to one table",
        (
            run_batch_start,
            run_batch_watch,
            run_batch_status,
            run_batch_stop,
            run_batch_resume,
            run_batch_collect,
        ),
    ),
)
