"""Commands that describe a model or a bundle: inspect, explain, verify, diff, report and others."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from builder.base.commands import bundle_command, did_you_mean, docs_command
from builder.base.errors import UsageError
from builder.base.files import write_file
from builder.base.project import Project
from builder.cli.argument_parser import complete_models, list_known_models
from builder.cli.command import (
    COUNT,
    MEASURING,
    MODEL,
    ONE_MODEL,
    ROUTE,
    TRUST,
    Argument,
    Options,
    argument,
    bundle_of,
    command,
    is_model,
    load_named_spec,
    parse_positive,
    print_result,
    progress_of,
    shorten_path,
    trained_spec,
    workspace_of,
)
from builder.config import ModelSpec, Source
from builder.config.address import is_address
from builder.pipeline.workspace import Workspace

if TYPE_CHECKING:
    from builder.importers.draft import Describe


def _seconds_argument(seconds: float) -> Argument:
    help = f"how long to measure, about (default: {seconds:g})"
    return argument("--seconds", type=parse_positive, default=seconds, help=help)


@command(
    "where",
    "emotion",
    argument(
        "models",
        nargs="*",
        metavar="model",
        help=f"{MODEL} that would be built (default: any)",
        completer=complete_models,
    ),
    ROUTE,
)
def run_where(options: Options, project: Project) -> None:
    """Say where a build would run, docker or host."""
    from builder.pipeline.docker.docker_client import BuilderImage
    from builder.pipeline.docker.route import choose_route

    specs = [load_named_spec(model, project) for model in options.models]
    route = choose_route(
        options.route, specs, BuilderImage.from_environment(project.lock), progress_of(options).show_lines
    )
    print_result(options, {"route": route}, route)


@command("check-spec", "model.toml", argument("specs", nargs="+", type=Path, metavar="FILE", help="a model.toml"))
def run_check_spec(options: Options, _project: Project) -> None:
    """Check model.toml files without reading a model."""
    from builder.config.parser import read_specs

    specs = read_specs(options.specs)
    checked = [
        {"file": str(path), "name": spec.name, "version": spec.version}
        for path, spec in zip(options.specs, specs, strict=True)
    ]
    print_result(
        options, {"specs": checked}, "\n".join(f"{row['file']}: {row['name']} {row['version']}" for row in checked)
    )


@command(
    "inspect",
    "model.keras",
    argument("model", help=f"{MODEL}, or a model file, or its address ({docs_command('sources')})"),
    TRUST,
)
def run_inspect(options: Options, project: Project) -> int:
    """Say what a model takes and gives, and if it can be compiled."""
    from builder.cli.summaries import format_inspection
    from builder.pipeline.inspect_model import inspect_source

    drafted = is_address(options.model) or is_model(Path(options.model))
    spec = _draft_spec(options, project) if drafted else trained_spec(options.model, options, project)
    ws = Workspace.from_spec(spec, project, spec.target, progress_of(options))
    with ws.hold_lock():
        inspection = inspect_source(ws)
    print_result(options, inspection.to_json(), format_inspection(inspection))
    return inspection.preflight.exit_code


def _draft_spec(options: Options, project: Project) -> ModelSpec:
    from builder.importers.draft import draft_spec, with_raw_outputs

    path, origin = fetched_model(options, project)
    return with_raw_outputs(draft_spec(path, make_describer(options), trust=options.trust, origin=origin).spec)


def fetched_model(options: Options, project: Project) -> tuple[Path, Source | None]:
    """Return the path of the named model, and its source where it was fetched."""
    if not is_address(options.model):
        return Path(options.model), None
    from builder.sources import find_source

    show = progress_of(options).show_transfer
    origin, path = find_source(options.model, project.cache, show, trust=options.trust)
    return path, origin


def make_describer(options: Options, *, thorough: bool = False) -> Describe:
    """Return a function that reads a model's ports in a sandbox; if ``thorough``, it freezes the graph, too."""
    from builder.base.sandbox import Sandbox
    from builder.pipeline.import_model import make_model_describer

    return make_model_describer(
        Sandbox.from_machine(verbose=options.verbose), progress_of(options).show_lines, thorough=thorough
    )


@command(
    "explain",
    "emotion --threads 2",
    ONE_MODEL,
    _seconds_argument(3.0),
    argument("--threads", type=COUNT, default=1, help="threads to run on (default: 1)"),
)
def run_explain(options: Options, project: Project) -> None:
    """Say step by step what a model runs, and how long it takes."""
    from builder.measure import explain_steps as explain

    ws = workspace_of(options, project)
    with ws.hold_lock():
        explanation = explain.study_model(ws, threads=options.threads, seconds=options.seconds).explanation
    print_result(options, explanation.to_dict(), explain.format_explanation(explanation))


@command(
    "verify",
    "emotion --layers",
    ONE_MODEL,
    argument(
        "--layers",
        action="store_true",
        help="compare each step with TensorFlow's tensor, and name the first that is off",
    ),
)
def run_verify(options: Options, project: Project) -> None:
    """Compare a model's library with TensorFlow's answers."""
    from builder.cli.summaries import format_agreement
    from builder.measure.compare_layers import format_layers, verify_model
    from builder.verify.verification import require_passed

    ws = workspace_of(options, project)
    with ws.hold_lock():
        verified = verify_model(ws, layers=options.layers)
    parts = [format_agreement(verified.verification), *([format_layers(verified.layers)] if verified.layers else [])]
    print_result(options, verified.to_dict(), "\n\n".join(parts))
    require_passed(verified.verification)


@command("tune", "emotion --seconds 30", ONE_MODEL, _seconds_argument(10.0))
def run_tune(options: Options, project: Project) -> None:
    """Time each layer's algorithms here, and keep the fastest."""
    from builder.measure import tune_layers as tune

    ws = workspace_of(options, project)
    with ws.hold_lock():
        tuned = tune.tune_model(ws, seconds=options.seconds)
    print_result(options, tune.to_dict(tuned), tune.format_tuning(tuned))


@command(
    "accuracy",
    "emotion --images photos",
    ONE_MODEL,
    argument(
        "--images",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="a folder of images, or one with a folder for each label, or an .npz file with an array for each "
        "input, and perhaps labels; may be repeated",
    ),
)
def run_accuracy(options: Options, project: Project) -> None:
    """Say what each type of weights costs, against float32."""
    from builder.measure import weight_accuracy as measured

    ws = workspace_of(options, project)
    with ws.hold_lock():
        report = measured.measure_accuracy(ws, images=options.images)
    print_result(options, asdict(report), measured.format_accuracy(report))


@command(
    "diff",
    "main/dist/emotion dist/emotion --time",
    argument("before", help="a bundle's folder, such as dist/emotion, or a model by name"),
    argument("after", help="a bundle's folder, such as dist/emotion, or a model by name"),
    argument("--time", action="store_true", help="run both libraries here, in turns, and compare their speed"),
    argument("--threads", type=COUNT, default=1, help="threads to run on (default: 1)"),
    _seconds_argument(3.0),
    argument("--html", type=Path, metavar="FILE", help="write the result as a page, too"),
)
def run_diff(options: Options, project: Project) -> None:
    """Say what is different between two bundles, as Markdown."""
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


@command(
    "report",
    "emotion --output report.html",
    ONE_MODEL,
    *MEASURING,
    argument(
        "--output", type=Path, metavar="FILE", help="where to write (default: report.html in the bundle's folder)"
    ),
)
def run_report(options: Options, project: Project) -> None:
    """Write a page that shows what a model runs, weighs and costs."""
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
    run_inspect,
    run_explain,
    run_verify,
    run_tune,
    run_accuracy,
    run_check_spec,
    run_where,
    run_diff,
    run_report,
)
