"""Commands about many inputs at once: ``batch start`` and its neighbours."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builder.base.errors import BatchError, UsageError
from builder.base.project import Project
from builder.cli.command import (
    MODEL,
    Arguments,
    Command,
    Family,
    Options,
    answer,
    bundle_of,
    load_spec,
    positive,
    progress_of,
    say,
    whole,
)
from builder.cli.complete import completed, models
from builder.release.batch.batch_items import FORMS

if TYPE_CHECKING:
    from builder.release.batch.batch_plan import Times
    from builder.release.batch.start_batch import Started

WATCH_SECONDS = 2.0


def _add_endpoint(parser: Arguments) -> None:
    parser.add_argument("--endpoint-url", metavar="URL", help="endpoint of another AWS, such as a local emulator")


def _add_run(parser: Arguments) -> None:
    parser.add_argument("run", help="s3://bucket/run1, where `batch start --to` put it")


def _add_times(parser: Arguments) -> None:
    help = f"{MODEL}, whose bundle is measured here (default: the project's)"
    completed(parser.add_argument("--model", default=".", help=help), models)
    parser.add_argument("--ms", type=positive, help="milliseconds of an item, instead of measuring the bundle")
    parser.add_argument(
        "--per-invocation", type=whole(1), metavar="N", help="items of a batch, at most (default: as planned)"
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
    parser.add_argument("--limit", type=whole(1), metavar="N", help="the first N items only")
    parser.add_argument(
        "--reuse", metavar="RUN", help="a run whose answers are taken over where bytes and layer are the same"
    )
    _add_times(parser)
    parser.add_argument(
        "--max-concurrency", type=whole(1), default=100, metavar="N", help="invocations at once (default: 100)"
    )
    parser.add_argument(
        "--tolerated-failures", type=float, default=10, metavar="PERCENT",
        help="percent of the batches; if more fail for good, the rest is not run (default: 10)",
    )  # fmt: skip
    parser.add_argument(
        "--memory", type=whole(1), metavar="MB", help="memory of the function where there is no stack (default: 1769)"
    )
    parser.add_argument(
        "--timeout", type=whole(1), metavar="S", help="time for a batch where there is no stack (default: 15)"
    )
    _add_endpoint(parser)


def start(options: Options, project: Project) -> None:
    from builder.base.targets import DEFAULT
    from builder.measure.prices import list_prices
    from builder.release.batch.batch_plan import Capacity
    from builder.release.batch.start_batch import Asked, started

    if not options.dry_run and not options.to:
        raise UsageError("say where lists and answers go, with --to s3://bucket/run1, or --dry-run to start nothing.")
    asked = Asked(
        source=options.source,
        to=options.to,
        stack=options.stack or (_stack(options, project) if options.to else None),
        form=options.format,
        bucket=options.bucket,
        limit=options.limit,
        reuse=options.reuse,
        layer=_layer(options, project) if options.reuse else None,
        per_invocation=options.per_invocation,
        max_concurrency=options.max_concurrency,
        tolerated=options.tolerated_failures,
        capacity=Capacity(options.memory or 1769, options.timeout or 15, list_prices().gb_second[DEFAULT.architecture]),
    )
    progress = progress_of(options)
    found = started(asked, lambda: _times(options, project), _clients(options), progress.say, dry_run=options.dry_run)
    _answer_started(options, found)


def _status_arguments(parser: Arguments) -> None:
    _add_run(parser)
    _add_endpoint(parser)


def status(options: Options, _project: Project) -> None:
    from builder.release.batch.batch_jobs import render, status
    from builder.release.batch.batch_run import Run

    client = _clients(options)
    found = status(Run.load(options.run, client("s3")), client("stepfunctions"))
    answer(options, asdict(found), render(found))


def watch(options: Options, _project: Project) -> None:
    from builder.release.batch.batch_jobs import render, render_short, watched
    from builder.release.batch.batch_run import Run

    client, progress = _clients(options), progress_of(options)
    run = Run.load(options.run, client("s3"))
    try:
        with progress.screen.running("items") as line:
            for found in watched(run, client("stepfunctions"), WATCH_SECONDS):
                line.at(found.done + found.failed, found.items, render_short(found))
                if options.json:
                    print(json.dumps(asdict(found)), flush=True)
    except KeyboardInterrupt:
        progress.say(f"it goes on; `coldforge batch stop {options.run}` would end it.")
        return
    if not options.json:
        say(render(found))
    if found.state != "SUCCEEDED":
        raise BatchError(
            f"the map ended as {found.state}; `coldforge batch resume {options.run}` runs what is missing."
        )


def stop(options: Options, _project: Project) -> None:
    from builder.release.batch.batch_jobs import render, status, stop
    from builder.release.batch.batch_run import Run

    client = _clients(options)
    run = Run.load(options.run, client("s3"))
    stop(run, client("stepfunctions"))
    found = status(run, client("stepfunctions"))
    answer(options, asdict(found), render(found))


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


def resume(options: Options, project: Project) -> None:
    from builder.release.batch.batch_jobs import redrive
    from builder.release.batch.batch_run import Run
    from builder.release.batch.start_batch import Started, resumed

    client = _clients(options)
    run = Run.load(options.run, client("s3"))
    if options.redrive:
        redrive(run, client("stepfunctions"))
        _answer_started(options, Started(str(run.place), run.last.execution, run.last.items, run.reused, None))
        return
    found = resumed(
        run, options.stack or _stack(options, project), lambda: _times(options, project), client,
        progress_of(options).say, per_invocation=options.per_invocation, all_failed=options.all_failed,
        dry_run=options.dry_run,
    )  # fmt: skip
    _answer_started(options, found)


def _collect_arguments(parser: Arguments) -> None:
    _add_run(parser)
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help="the table: NAME.parquet, NAME.csv or NAME.jsonl"
    )
    _add_endpoint(parser)


def collect(options: Options, _project: Project) -> None:
    from builder.release.batch.answer_rows import rows
    from builder.release.batch.batch_run import Run
    from builder.release.batch.collect_answers import collect, ending_of, render

    ending_of(options.output)
    s3 = _clients(options)("s3")
    run = Run.load(options.run, s3)
    found = collect(lambda: rows(run, s3), options.output)
    answer(options, asdict(found), render(found))


def _answer_started(options: Options, found: Started) -> None:
    from builder.release.batch.batch_plan import render

    text = render(found.plan) if found.plan and not found.run else found.run or "nothing was started"
    answer(options, found.to_dict(), text)


def _clients(options: Options) -> Any:
    from builder.base.aws import make_client

    return lambda service: make_client(service, options.endpoint_url)


def _stack(options: Options, project: Project) -> str:
    return f"coldforge-{load_spec(options.model, project).name.replace('_', '-')}"


def _times(options: Options, project: Project) -> Times:
    from builder.release.batch.batch_plan import Times
    from builder.release.batch.measured_times import measured

    if options.ms is not None:
        return Times({1: options.ms}, 0.0)
    progress_of(options).say(f"measuring the bundle of {load_spec(options.model, project).name} here")
    return measured(bundle_of([options.model], project))


def _layer(options: Options, project: Project) -> str:
    from builder.base.cache import file_digest
    from builder.base.targets import DEFAULT
    from builder.package.bundle import LAYER_MANIFEST

    return file_digest(bundle_of([options.model], project, DEFAULT).layer / LAYER_MANIFEST)


COMMANDS = (
    Family(
        "batch",
        "answer many inputs, from a bucket to one table",
        (
            Command("start", "say what a bucket or a list costs and takes, and start it", _start_arguments, start),
            Command("watch", "show how far a run is until it ends; Ctrl-C leaves it running", _status_arguments, watch),
            Command("status", "say how far a run is", _status_arguments, status),
            Command("stop", "end a run", _status_arguments, stop),
            Command("resume", "run what failed or is missing once more", _resume_arguments, resume),
            Command("collect", "write the answers of a run as one table", _collect_arguments, collect),
        ),
    ),
)
