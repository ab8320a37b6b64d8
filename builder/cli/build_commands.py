"""Commands that build something from a model: bundle, wasm, bindings, export, selftest, weights."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builder import __version__
from builder.base.errors import UsageError
from builder.base.project import Project
from builder.base.targets import host_target
from builder.cli.command import (
    ONE_MODEL,
    ROUTE,
    TARGET,
    Options,
    argument,
    choose_targets,
    command,
    load_named_spec,
    models_argument,
    print_result,
    print_text,
    progress_of,
    shorten_path,
    trained_spec,
    workspace_of,
)
from builder.pipeline.workspace import Workspace, hold_all_locks

if TYPE_CHECKING:
    from builder.package.bundle import Bundle


@command(
    "bundle",
    "emotion --in host",
    models_argument("the first is the function's default"),
    argument(
        "--package",
        choices=("zip", "image"),
        default="zip",
        help="image: allow the size of a container image, which is larger than layers (default: zip)",
    ),
    TARGET,
    ROUTE,
)
def run_bundle(options: Options, project: Project) -> None:
    """Compile a model, or several, and pack them as one Lambda layer.

    The model of an example that is trained here is trained first.
    """
    from builder.base.sandbox.confinement import CONTAINED
    from builder.cli.summaries import format_sizes
    from builder.measure.local.run_event import format_try_command
    from builder.package.join_bundles import join_active, join_names
    from builder.pipeline.docker.docker_client import BuilderImage
    from builder.pipeline.docker.route import choose_route

    tell = _no_progress if options.json else print_text
    join_names([load_named_spec(model, project).name for model in options.models])  # checked before the build
    specs = [replace(trained_spec(model, options, project), packaging=options.package) for model in options.models]
    route = choose_route(
        options.route, specs, BuilderImage.from_environment(project.lock), progress_of(options).show_lines
    )
    bundle_rows: list[dict[str, Any]] = []
    for target in choose_targets(options, specs[0]):
        workspaces = [Workspace.from_spec(spec, project, target, progress_of(options)) for spec in specs]
        with hold_all_locks(workspaces):
            bundles = [_bundle_one(ws, route, tell) for ws in workspaces]
            if len(bundles) > 1:
                joined = join_active(bundles, project, target)
                tell(f"\n{format_sizes(joined.sizes)}\n\nbundle of {len(specs)} models: {shorten_path(joined.folder)}")
                bundles.append(joined)
        bundle_rows += [{"folder": b.folder, "target": target.name, "sizes": b.sizes.to_dict()} for b in bundles]
        if target == host_target() and CONTAINED not in os.environ:  # In Docker, the outer command prints it.
            tell(format_try_command(options.models, json.loads(bundles[0].description.read_text()), options.work_in))
    if options.json:
        print_result(options, {"bundles": bundle_rows}, "")


def _no_progress(_: str) -> None:
    """Print nothing, as the JSON at the end has the result."""


def _bundle_one(ws: Workspace, route: str, tell: Callable[[str], None]) -> Bundle:
    if route == "docker":
        from builder.pipeline.docker.docker_run import bundle_in_docker

        progress = ws.progress
        with progress.show_stage("docker", "all of it in the builder image"):
            built_inside = bundle_in_docker(
                ws.spec, ws.project, progress.show_lines, ws.target, progress.show_transfer, verbose=progress.verbose
            )
        tell(built_inside.output.removesuffix("\n"))
        return built_inside.bundle
    ws.expect_import()  # The builder itself takes half a second to import.
    from builder.cli.summaries import format_build_result, format_build_start
    from builder.pipeline.build_bundle import build_bundle

    ws.progress.show_lines(format_build_start(ws))
    result = build_bundle(ws)
    tell(
        f"{format_build_result(result)}\n\nbundle: {shorten_path(result.bundle.folder)} "
        f"({ws.progress.count_seconds():.1f} s)"
    )
    return result.bundle


@command("wasm", "emotion", ONE_MODEL)
def run_wasm(options: Options, project: Project) -> None:
    """Compile a model to WebAssembly."""
    from builder.release.wasm.build_module import build_wasm, format_modules

    ws = workspace_of(options, project)
    ws.progress.show_lines(
        f"coldforge {__version__}: {ws.spec.name} {ws.spec.version} for WebAssembly, batch {ws.spec.batch}"
    )
    with ws.hold_lock():
        modules = build_wasm(ws)
    folder = shorten_path(modules[0].path.parent)
    text = f"modules: {folder} ({ws.progress.count_seconds():.1f} s)\ntry it: node {folder}/predict.mjs"
    rows = [{"file": m.path, "bytes": m.path.stat().st_size, **m.to_dict()} for m in modules]
    print_result(options, {"modules": rows}, f"{format_modules(modules)}\n\n{text}")


@command(
    "bindings",
    "emotion --lang rust",
    ONE_MODEL,
    argument("--lang", required=True, choices=("c", "rust", "go", "node", "python"), help="the language"),
    argument(
        "--out", type=Path, metavar="DIR", help="where the package goes (default: dist/bindings/<model>/<language>)"
    ),
    argument("--static", action="store_true", help="add libmodel.a, to be linked into a program"),
    TARGET,
)
def run_bindings(options: Options, project: Project) -> None:
    """Write a package that calls a model from another language."""
    from builder.release.bindings.build_bindings import build_bindings

    spec = load_named_spec(options.model, project)
    *_, target = choose_targets(options, spec)
    ws = Workspace.from_spec(spec, project, target, progress_of(options))
    with ws.hold_lock():
        folder = build_bindings(ws, options.lang, static=options.static, out=options.out, named=options.model)
    text = f"{options.lang} package: {shorten_path(folder)} (README.md says how to run its example)"
    print_result(options, {"language": options.lang, "folder": folder}, text)


@command(
    "export",
    "emotion --out exported",
    ONE_MODEL,
    argument("--out", type=Path, metavar="DIR", help="where to write (default: dist/<model>-export)"),
)
def run_export(options: Options, project: Project) -> None:
    """Write a model's weights, graph and configuration for others."""
    from builder.release.export import export_model

    ws = workspace_of(options, project)
    with ws.hold_lock():
        export = export_model(ws, options.out)
    files = [f"{file.size:>14,}  {file.path}" for file in export.files]
    text = f"export: {shorten_path(export.folder)} ({len(export.weights)} tensors, {export.parameters:,} parameters)"
    result = {
        "folder": export.folder,
        "files": [{"path": file.path, "bytes": file.size} for file in export.files],
        "tensors": len(export.weights),
        "parameters": export.parameters,
    }
    print_result(options, result, "\n".join([*files, "", text]))


@command("selftest", "emotion", ONE_MODEL, TARGET)
def run_selftest(options: Options, project: Project) -> None:
    """Build and run a test and a benchmark program for a bundle."""
    from builder.release.selftest.programs import build_selftest

    spec = load_named_spec(options.model, project)
    rows, lines = [], []
    for target in choose_targets(options, spec):
        ws = Workspace.from_spec(spec, project, target, progress_of(options))
        with ws.hold_lock():
            programs = build_selftest(ws)
        rows.append(
            {"target": target.name, "test": programs.test, "benchmark": programs.benchmark,
             "ran": bool(programs.output), "said": programs.output}
        )  # fmt: skip
        lines.append(programs.output or f"NOT RUN: {programs.machine.missing}")
        lines.append(f"programs: {shorten_path(programs.test)}, {shorten_path(programs.benchmark)}")
    print_result(options, {"programs": rows}, "\n".join(lines))


@command(
    "weights",
    "emotion --output emotion.weights",
    ONE_MODEL,
    TARGET,
    argument("--output", type=Path, help="where to write (default: dist/<model>.weights)"),
)
def run_weights(options: Options, project: Project) -> None:
    """Make a new weights file of a model that was trained again."""
    from builder.cli.summaries import format_agreement
    from builder.release.update_weights import write_new_weights

    spec = load_named_spec(options.model, project)
    targets = choose_targets(options, spec)
    if options.output and len(targets) > 1:
        raise UsageError("--output names one file: say which with --target.")
    rows, parts = [], []
    for target in targets:
        ws = Workspace.from_spec(spec, project, target, progress_of(options))
        with ws.hold_lock():
            file = write_new_weights(ws, options.output)
        rows.append({"target": target.name, "file": file.path, "sha256": file.sha256})
        parts.append(
            f"{format_agreement(file.verification)}\n\nweights: {shorten_path(file.path)}, SHA-256 {file.sha256}"
        )
    print_result(options, {"weights": rows}, "\n".join(parts))


COMMANDS = (
    run_bundle,
    run_wasm,
    run_bindings,
    run_export,
    run_selftest,
    run_weights,
)
