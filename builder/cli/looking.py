"""Commands that describe a model: inspect, explain, verify, tune and others."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from builder.base.commands import docs_command
from builder.base.project import Project
from builder.cli.command import (
    MODEL,
    Arguments,
    Command,
    Options,
    add_model,
    add_route,
    add_trust,
    is_model,
    load_named_spec,
    make_integer_type,
    parse_positive,
    print_result,
    progress_of,
    trained_spec,
    workspace_of,
)
from builder.cli.complete import complete_models, set_completer
from builder.config import ModelSpec, Source
from builder.config.address import is_address
from builder.pipeline.workspace import Workspace

if TYPE_CHECKING:
    from builder.importers.draft import Describe


def _where_arguments(parser: Arguments) -> None:
    help = f"{MODEL} that would be built (default: any)"
    set_completer(parser.add_argument("models", nargs="*", metavar="model", help=help), complete_models)
    add_route(parser)


def run_where(options: Options, project: Project) -> None:
    from builder.pipeline.docker.docker_client import BuilderImage
    from builder.pipeline.docker.route import choose_route

    specs = [load_named_spec(model, project) for model in options.models]
    route = choose_route(
        options.route, specs, BuilderImage.from_environment(project.lock), progress_of(options).show_lines
    )
    print_result(options, {"route": route}, route)


def _check_spec_arguments(parser: Arguments) -> None:
    parser.add_argument("specs", nargs="+", type=Path, metavar="FILE", help="a model.toml")


def run_check_spec(options: Options, _project: Project) -> None:
    from builder.config.parser import read_specs

    specs = read_specs(options.specs)
    checked = [
        {"file": str(path), "name": spec.name, "version": spec.version}
        for path, spec in zip(options.specs, specs, strict=True)
    ]
    print_result(
        options, {"specs": checked}, "\n".join(f"{row['file']}: {row['name']} {row['version']}" for row in checked)
    )


def _inspect_arguments(parser: Arguments) -> None:
    parser.add_argument("model", help=f"{MODEL}, or a model file, or its address ({docs_command('sources')})")
    add_trust(parser)


def run_inspect(options: Options, project: Project) -> int:
    from builder.cli.inspection_summary import format_inspection
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

    origin, path = find_source(options.model, project.cache, progress_of(options).show_transfer)
    return path, origin


def make_describer(options: Options, *, thorough: bool = False) -> Describe:
    """Return a function that reads a model's ports in a sandbox; if ``thorough``, it freezes the graph, too."""
    from builder.base.sandbox import Sandbox
    from builder.pipeline.import_model import make_model_describer

    return make_model_describer(
        Sandbox.from_machine(verbose=options.verbose), progress_of(options).show_lines, thorough=thorough
    )


def _explain_arguments(parser: Arguments) -> None:
    add_model(parser)
    _add_seconds(parser, 3.0)
    parser.add_argument("--threads", type=make_integer_type(1), default=1, help="threads to run on (default: 1)")


def run_explain(options: Options, project: Project) -> None:
    from builder.measure import explain_steps as explain

    ws = workspace_of(options, project)
    with ws.hold_lock():
        explanation = explain.explain_model(ws, threads=options.threads, seconds=options.seconds)
    print_result(options, explanation.to_dict(), explain.format_explanation(explanation))


def _verify_arguments(parser: Arguments) -> None:
    add_model(parser)
    help = "compare each step with TensorFlow's tensor, and name the first that is off"
    parser.add_argument("--layers", action="store_true", help=help)


def run_verify(options: Options, project: Project) -> None:
    from builder.cli.build_tables import format_agreement
    from builder.measure.compare_layers import format_layers, verify_model
    from builder.verify.verification import require_passed

    ws = workspace_of(options, project)
    with ws.hold_lock():
        verified = verify_model(ws, layers=options.layers)
    parts = [format_agreement(verified.verification), *([format_layers(verified.layers)] if verified.layers else [])]
    print_result(options, verified.to_dict(), "\n\n".join(parts))
    require_passed(verified.verification)


def _tune_arguments(parser: Arguments) -> None:
    add_model(parser)
    _add_seconds(parser, 10.0)


def run_tune(options: Options, project: Project) -> None:
    from builder.measure import tune_layers as tune

    ws = workspace_of(options, project)
    with ws.hold_lock():
        tuned = tune.tune_model(ws, seconds=options.seconds)
    print_result(options, tune.to_dict(tuned), tune.format_tuning(tuned))


def _add_seconds(parser: Arguments, seconds: float) -> None:
    says = f"how long to measure, about (default: {seconds:g})"
    parser.add_argument("--seconds", type=parse_positive, default=seconds, help=says)


def _accuracy_arguments(parser: Arguments) -> None:
    add_model(parser)
    parser.add_argument(
        "--images", type=Path, action="append", default=[], metavar="FOLDER",
        help="a folder of images, or one with a folder for each label, or an .npz file with an array for each "
        "input, and perhaps labels; may be repeated",
    )  # fmt: skip


def run_accuracy(options: Options, project: Project) -> None:
    from builder.measure import weight_accuracy as measured

    ws = workspace_of(options, project)
    with ws.hold_lock():
        report = measured.measure_accuracy(ws, images=options.images)
    print_result(options, asdict(report), measured.format_accuracy(report))


COMMANDS = (
    Command("inspect", "say what a model takes and gives, and if it can be compiled", _inspect_arguments, run_inspect),
    Command("explain", "say step by step what a model runs, and how long it takes", _explain_arguments, run_explain),
    Command("verify", "compare a model's library with TensorFlow's answers", _verify_arguments, run_verify),
    Command("tune", "time each layer's algorithms here, and keep the fastest", _tune_arguments, run_tune),
    Command("accuracy", "say what each type of weights costs, against float32", _accuracy_arguments, run_accuracy),
    Command("check-spec", "check model.toml files without reading a model", _check_spec_arguments, run_check_spec),
    Command("where", "say where a build would run, docker or host", _where_arguments, run_where),
)
