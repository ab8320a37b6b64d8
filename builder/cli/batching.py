"""Commands about batches of inputs: ``batch start`` and its neighbours."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builder.base.errors import BatchError, UsageError
from builder.base.project import Project
from builder.cli.argument_parser import complete_models, set_completer
from builder.cli.command import (
    MODEL,
    Arguments,
    Command,
    Family,
    Options,
    bundle_of,
    load_named_spec,
    make_integer_type,
    parse_positive,
    print_result,
    print_text,
    progress_of,
)
from builder.release.batch.batch_items import FORMS

if TYPE_CHECKING:
    from builder.release.batch.batch_plan import BatchTimes
    from builder.release.batch.start_batch import BatchStart

WATCH_SECONDS = 2.0


def _add_endpoint(parser: Arguments) -> None:
    parser.add_argument("--endpoint-url", metavar="URL", help="endpoint of another AWS, such as a local emulator")


def _add_run(parser: Arguments) -> None:
    parser.add_argument("run", help="s3://bucket/run1, where `batch start --to` put it")


def _add_times(parser: Arguments) -> None:
    help = f"{MODEL}, whose bundle is measured here (default: the project's)"
    set_completer(parser.add_argument("--model", default=".", help=help), complete_models)
    parser.add_argument("--ms", type=parse_positive, help="milliseconds of an item, instead of measuring the bundle")
    parser.add_argument(
        "--per-invocation",
        type=make_integer_type(1),
        metavar="N",
        help="items of a batch, at most (default: as planned)",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what it would cost and take, and start nothing")


def _start_arguments(parser: Arguments) -> None:
    parser.add_argument(
        "source",
        help="s3://bucket/prefix, or a list of keys or requests in S3 or here: .csv, .jsonl, .parquet, or the "
        "manifest.json of an S3 inventory",
    )
    parser.add_argument("--to", metavar="RUN", help="s3://bucket/run1: where lists and answers go")
    parser.add_argument("--stack", help="the deployed stack (default: coldforge-MODEL)")
    parser.add_argument("--format", choices=FORMS, help="the form of a list of objects (default: what its name says)")
    parser.add_argument("--bucket", help="the bucket of objects whose rows in a list name none")
    parser.add_argument("--limit", type=make_integer_type(1), metavar="N", help="the first N items only")
    parser.add_argument(
        "--reuse", metavar="RUN", help="a run whose answers are taken over where bytes and layer are the same"
    )
    _add_times(parser)
    parser.add_argument(
        "--max-concurrency",
        type=make_integer_type(1),
        default=100,
        metavar="N",
        help="invocations at once (default: 100)",
    )
    parser.add_argument(
        "--tolerated-failures", type=float, default=10, metavar="PERCENT",
        help="percent of the batches; if more fail for good, the rest is not run (default: 10)",
    )  # fmt: skip
    parser.add_argument(
        "--memory",
        type=make_integer_type(1),
        metavar="MB",
        help="memory of the function where there is no stack (default: 1769)",
    )
    parser.add_argument(
        "--timeout",
        type=make_integer_type(1),
        metavar="S",
        help="time for a batch where there is no stack (default: 15)",
    )
    _add_endpoint(parser)


def run_batch_start(options: Options, project: Project) -> None:
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


def _status_arguments(parser: Arguments) -> None:
    _add_run(parser)
    _add_endpoint(parser)


def run_batch_status(options: Options, _project: Project) -> None:
    from builder.release.batch.batch_jobs import describe_status, query_status
    from builder.release.batch.batch_run import BatchRun

    client = _make_client_factory(options)
    status = query_status(BatchRun.load(options.run, client("s3")), client("stepfunctions"))
    print_result(options, asdict(status), describe_status(status))


def run_batch_watch(options: Options, _project: Project) -> None:
    from builder.release.batch.batch_jobs import describe_briefly, describe_status, poll_status
    from builder.release.batch.batch_run import BatchRun

    client, progress = _make_client_factory(options), progress_of(options)
    run = BatchRun.load(options.run, client("s3"))
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


def run_batch_stop(options: Options, _project: Project) -> None:
    from builder.release.batch.batch_jobs import describe_status, query_status, stop_run
    from builder.release.batch.batch_run import BatchRun

    client = _make_client_factory(options)
    run = BatchRun.load(options.run, client("s3"))
    stop_run(run, client("stepfunctions"))
    status = query_status(run, client("stepfunctions"))
    print_result(options, asdict(status), describe_status(status))


def _resume_arguments(parser: Arguments) -> None:
    _add_run(parser)
    parser.add_argument(
        "--all-failed", action="store_true", help="also what has an error that another attempt will not cure"
    )
    parser.add_argument(
        "--redrive", action="store_true", help="have Step Functions run the same map's failed batches again"
    )
    parser.add_argument("--stack", help="the deployed stack (default: coldforge-MODEL)")
    _add_times(parser)
    _add_endpoint(parser)


def run_batch_resume(options: Options, project: Project) -> None:
    from builder.release.batch.batch_jobs import redrive_run
    from builder.release.batch.batch_run import BatchRun
    from builder.release.batch.start_batch import BatchStart, resume_batch

    client = _make_client_factory(options)
    run = BatchRun.load(options.run, client("s3"))
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


def _collect_arguments(parser: Arguments) -> None:
    _add_run(parser)
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help="the table: NAME.parquet, NAME.csv or NAME.jsonl"
    )
    _add_endpoint(parser)


def run_batch_collect(options: Options, _project: Project) -> None:
    from builder.release.batch.answer_rows import read_rows
    from builder.release.batch.batch_run import BatchRun
    from builder.release.batch.collect_answers import check_ending, describe_table, write_table

    check_ending(options.output)
    s3 = _make_client_factory(options)("s3")
    run = BatchRun.load(options.run, s3)
    table = write_table(lambda: read_rows(run, s3), options.output)
    print_result(options, asdict(table), describe_table(table))


def _print_batch_start(options: Options, found: BatchStart) -> None:
    from builder.release.batch.batch_plan import describe_plan

    text = describe_plan(found.plan) if found.plan and not found.run else found.run or "nothing was started"
    print_result(options, found.to_dict(), text)


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
            Command(
                "start", "say what a bucket or a list costs and takes, and start it", _start_arguments, run_batch_start
            ),
            Command(
                "watch",
                "show how far a run is until it ends; Ctrl-C leaves it running",
                _status_arguments,
                run_batch_watch,
            ),
            Command("status", "say how far a run is", _status_arguments, run_batch_status),
            Command("stop", "end a run", _status_arguments, run_batch_stop),
            Command("resume", "run what failed or is missing once more", _resume_arguments, run_batch_resume),
            Command("collect", "write the answers of a run as one table", _collect_arguments, run_batch_collect),
        ),
    ),
)
