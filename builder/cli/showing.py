"""Commands that show a bundle to the person who decides about it: diff, report."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from builder.base.commands import bundle_command, did_you_mean
from builder.base.errors import UsageError
from builder.base.files import write_file
from builder.base.project import Project
from builder.cli.command import (
    Arguments,
    Command,
    Options,
    add_measuring_options,
    add_model,
    bundle_of,
    load_named_spec,
    make_integer_type,
    parse_positive,
    print_result,
    progress_of,
    shorten_path,
)
from builder.cli.complete import list_known_models
from builder.config import ModelSpec


def _diff_arguments(parser: Arguments) -> None:
    bundle = "a bundle's folder, such as dist/emotion, or a model by name"
    parser.add_argument("before", help=bundle)
    parser.add_argument("after", help=bundle)
    parser.add_argument(
        "--time", action="store_true", help="run both libraries here, in turns, and compare their speed"
    )
    parser.add_argument("--threads", type=make_integer_type(1), default=1, help="threads to run on (default: 1)")
    parser.add_argument("--seconds", type=parse_positive, default=3.0, help="how long to measure, about (default: 3)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the result as a page, too")


def run_diff(options: Options, project: Project) -> None:
    from builder.measure.diff.bundle_difference import BundleFacts, compare_facts, time_bundles
    from builder.measure.diff.diff_markdown import format_difference
    from builder.measure.html_report.document import diff_page

    before, after = (
        BundleFacts.from_folder(_bundle_folder(named, project)) for named in (options.before, options.after)
    )
    speed = time_bundles(before, after, threads=options.threads, seconds=options.seconds) if options.time else None
    difference = compare_facts(before, after, speed)
    print_result(options, asdict(difference), format_difference(difference))
    if options.html:
        write_file(options.html, diff_page(difference))
        progress_of(options).show_lines(f"page: {shorten_path(options.html)}")


def _bundle_folder(named: str, project: Project) -> Path:
    """Return the folder itself, where it is a bundle's, or the folder of a model's bundle."""
    folder = Path(named)
    if (folder / "manifest.json").is_file():
        return folder
    return bundle_of([named], project, _bundled_spec(named, project).target).folder


def _bundled_spec(named: str, project: Project) -> ModelSpec:
    """Load the spec of a model whose bundle is wanted. Raises UsageError where there is no such model."""
    try:
        return load_named_spec(named, project)
    except UsageError:
        hint = did_you_mean(named, list_known_models(project))
        raise UsageError(
            f"there is no bundle in {named}, and no model there or of that name.{hint} "
            f"`{bundle_command('emotion')}` makes the bundle of an example."
        ) from None


def _report_arguments(parser: Arguments) -> None:
    add_model(parser)
    add_measuring_options(parser)
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="where to write (default: report.html in the bundle's folder)"
    )


def run_report(options: Options, project: Project) -> None:
    from builder.base.targets import host_target
    from builder.measure.html_report.document import report_page
    from builder.measure.html_report.report_data import gather_report
    from builder.pipeline.workspace import Workspace

    ws = Workspace.from_spec(_bundled_spec(options.model, project), project, host_target(), progress_of(options))
    with ws.hold_lock():
        data = gather_report(ws, seconds=options.seconds, starts=options.starts, named=options.model)
        output = options.output or ws.bundle / "report.html"
        write_file(output, report_page(data))
    print_result(options, {"file": str(output)}, f"report: {shorten_path(output)}")


COMMANDS = (
    Command("diff", "say what is different between two bundles, as Markdown", _diff_arguments, run_diff),
    Command("report", "write a page that shows what a model runs, weighs and costs", _report_arguments, run_report),
)
