"""Commands about many inputs at once: batch and what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.batch.sources import FORMS
from builder.cli.command import (
    MODEL,
    Arguments,
    Command,
    Family,
    Options,
    add_json,
    answer,
    load_spec,
    progress_of,
)
from builder.cli.complete import completed, models, one_of
from builder.errors import UsageError
from builder.project import Project

if TYPE_CHECKING:
    from builder.batch.manifest import Listing
    from builder.batch.plan import Load


def _add_source(parser: Arguments) -> None:
    parser.add_argument(
        "source",
        help="s3://bucket/prefix, or a list of keys or requests in S3 or here: .csv, .jsonl, .parquet, or the "
        "manifest.json of an S3 inventory",
    )
    action = parser.add_argument(
        "--format", metavar="FORM", choices=FORMS, help=f"{', '.join(FORMS)} (default: what the name says)"
    )
    completed(action, one_of(*FORMS))
    parser.add_argument("--bucket", help="the bucket of rows that name none")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N items only")


def _add_times(parser: Arguments) -> None:
    help = f"{MODEL}, whose bundle is measured here (default: the project's)"
    completed(parser.add_argument("--model", default=".", help=help), models)
    parser.add_argument("--ms", type=float, help="milliseconds of an item, instead of measuring the bundle")
    parser.add_argument(
        "--max-concurrency", type=int, default=100, metavar="N", help="invocations at once (default: 100)"
    )
    parser.add_argument(
        "--per-invocation", type=int, metavar="N", help="items of an invocation, at most (default: as the plan says)"
    )


def _add_function(parser: Arguments) -> None:
    parser.add_argument("--memory", type=int, default=1769, metavar="MB", help="the function's (default: 1769)")
    parser.add_argument("--timeout", type=int, default=15, metavar="S", help="the function's (default: 15)")
    parser.add_argument("--endpoint-url", metavar="URL", help="endpoint of another AWS, such as a local emulator")
    add_json(parser)


def _plan_arguments(parser: Arguments) -> None:
    _add_source(parser)
    _add_times(parser)
    _add_function(parser)


def plan(options: Options, project: Project) -> int:
    from builder.batch.manifest import listed
    from builder.batch.place import client
    from builder.batch.plan import plan, render
    from builder.batch.sources import items

    for name in ("limit", "max_concurrency", "per_invocation", "memory", "timeout", "ms"):
        if getattr(options, name) is not None and getattr(options, name) <= 0:
            raise UsageError(f"--{name.replace('_', '-')} {getattr(options, name)}: give more than 0.")
    s3 = client("s3", options.endpoint_url) if _in_s3(options) else None
    listing = listed(items(options.source, s3, options.format, options.bucket), options.limit)
    try:
        found = plan(_load(options, project, listing), options.per_invocation)
    finally:
        listing.close()
    answer(options, found.to_dict(), render(found))
    return 0


def _in_s3(options: Options) -> bool:
    return str(options.source).startswith("s3://")


def _load(options: Options, project: Project, listing: Listing) -> Load:
    from builder.batch.plan import Load
    from builder.targets import DEFAULT

    ms, cold_ms = {1: options.ms}, 0.0
    if options.ms is None:
        from builder.batch.measured import measured
        from builder.pack.bundle import find_bundle
        from builder.targets import host_target

        name = load_spec(options.model, project).name
        progress_of(options).say(f"measuring the bundle of {name} here")
        times = measured(find_bundle(project.dist, name, host_target(), options.model))
        ms, cold_ms = dict(times.ms), times.cold_ms
    return Load(
        items=listing.items,
        bytes=listing.bytes,
        ms=ms,
        cold_ms=cold_ms,
        memory=options.memory,
        timeout=options.timeout,
        concurrency=options.max_concurrency,
        gb_second=DEFAULT.gb_second,
        fetched=listing.objects > 0,
    )


COMMANDS = (
    Family(
        "batch",
        "answer many inputs, from a bucket to one table",
        (Command("plan", "say what answering a bucket or a list would cost and take", _plan_arguments, plan),),
    ),
)
