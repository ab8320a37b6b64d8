"""Commands that make something of a model: bundle, wasm, bindings, export, selftest, weights."""

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
    DEFAULT_MODEL,
    MODEL,
    Arguments,
    Command,
    Options,
    add_model,
    add_route,
    add_target,
    answer,
    load_spec,
    progress_of,
    relative,
    say,
    targets_of,
    trained_spec,
    workspace_of,
)
from builder.cli.complete import completed, models
from builder.pipeline.workspace import Workspace, all_held

if TYPE_CHECKING:
    from builder.package.bundle import Bundle


def _bundle_arguments(parser: Arguments) -> None:
    help = f"{MODEL}; the first is the function's default {DEFAULT_MODEL}"
    completed(parser.add_argument("models", nargs="*", default=["."], metavar="model", help=help), models)
    parser.add_argument(
        "--package",
        choices=("zip", "image"),
        default="zip",
        help="image: allow the size of a container image, which is larger than layers (default: zip)",
    )
    add_target(parser)
    add_route(parser)


def bundle(options: Options, project: Project) -> None:
    from builder.base.sandbox.kernel import CONTAINED
    from builder.cli.build_tables import size_table
    from builder.measure.sample_request import how_to_try
    from builder.package.join_bundles import join_active, joined_name
    from builder.pipeline.docker.builder_image import BuilderImage
    from builder.pipeline.docker.route import choose_route

    tell = _untold if options.json else say
    joined_name([load_spec(model, project).name for model in options.models])  # refused before anything is built
    specs = [replace(trained_spec(model, options, project), packaging=options.package) for model in options.models]
    route = choose_route(options.route, specs, BuilderImage.configured(project.lock), progress_of(options).say)
    made: list[dict[str, Any]] = []
    for target in targets_of(options, specs[0]):
        workspaces = [Workspace.of(spec, project, target, progress_of(options)) for spec in specs]
        with all_held(workspaces):
            bundles = [_bundle_one(ws, route, tell) for ws in workspaces]
            if len(bundles) > 1:
                joined = join_active(bundles, project, target)
                tell(f"\n{size_table(joined.sizes)}\n\nbundle of {len(specs)} models: {relative(joined.folder)}")
                bundles.append(joined)
        made += [{"folder": b.folder, "target": target.name, "sizes": b.sizes.to_dict()} for b in bundles]
        if target == host_target() and CONTAINED not in os.environ:  # in Docker, whoever started that says it
            tell(how_to_try(options.models, json.loads(bundles[0].description.read_text()), options.work_in))
    if options.json:
        answer(options, {"bundles": made}, "")


def _untold(_: str) -> None:
    """For whom the JSON at the end says it."""


def _bundle_one(ws: Workspace, route: str, tell: Callable[[str], None]) -> Bundle:
    if route == "docker":
        from builder.pipeline.docker.docker_run import bundle_in_docker

        progress = ws.progress
        with progress.stage("docker", "all of it in the builder image"):
            built_inside = bundle_in_docker(
                ws.spec, ws.project, progress.say, ws.target, progress.bytes, verbose=progress.verbose
            )
        tell(built_inside.output.removesuffix("\n"))
        return built_inside.bundle
    ws.expect_import()  # before the builder itself is imported, which takes half a second
    from builder.cli.build_summary import begins, finished
    from builder.pipeline.build_bundle import build_bundle

    ws.progress.say(begins(ws))
    built = build_bundle(ws)
    tell(f"{finished(built)}\n\nbundle: {relative(built.bundle.folder)} ({ws.progress.total():.1f} s)")
    return built.bundle


def wasm(options: Options, project: Project) -> None:
    from builder.release.wasm.build_module import build_wasm
    from builder.release.wasm.module_summary import modules_table

    ws = workspace_of(options, project)
    ws.progress.say(f"coldforge {__version__}: {ws.spec.name} {ws.spec.version} for WebAssembly, batch {ws.spec.batch}")
    with ws.held():
        modules = build_wasm(ws)
    folder = relative(modules[0].path.parent)
    text = f"modules: {folder} ({ws.progress.total():.1f} s)\ntry it: node {folder}/predict.mjs"
    rows = [{"file": m.path, "bytes": m.path.stat().st_size, **m.to_dict()} for m in modules]
    answer(options, {"modules": rows}, f"{modules_table(modules)}\n\n{text}")


def _bindings_arguments(parser: Arguments) -> None:
    add_model(parser)
    parser.add_argument("--lang", required=True, choices=("c", "rust", "go", "node", "python"), help="the language")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where the package goes (default: dist/bindings/<model>/<language>)"
    )
    parser.add_argument("--static", action="store_true", help="add libmodel.a, to be linked into a program")
    add_target(parser)


def bindings(options: Options, project: Project) -> None:
    from builder.release.bindings.build_bindings import build_bindings

    spec = load_spec(options.model, project)
    *_, target = targets_of(options, spec)
    ws = Workspace.of(spec, project, target, progress_of(options))
    with ws.held():
        folder = build_bindings(ws, options.lang, static=options.static, out=options.out, named=options.model)
    text = f"{options.lang} package: {relative(folder)} (README.md says how to run its example)"
    answer(options, {"language": options.lang, "folder": folder}, text)


def _export_arguments(parser: Arguments) -> None:
    add_model(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: dist/<model>-export)")


def export(options: Options, project: Project) -> None:
    from builder.release.export import export_model

    ws = workspace_of(options, project)
    with ws.held():
        done = export_model(ws, options.out)
    files = [f"{file.size:>14,}  {file.path}" for file in done.files]
    text = f"export: {relative(done.folder)} ({len(done.weights)} tensors, {done.parameters:,} parameters)"
    result = {
        "folder": done.folder,
        "files": [{"path": file.path, "bytes": file.size} for file in done.files],
        "tensors": len(done.weights),
        "parameters": done.parameters,
    }
    answer(options, result, "\n".join([*files, "", text]))


def _selftest_arguments(parser: Arguments) -> None:
    add_model(parser)
    add_target(parser)


def selftest(options: Options, project: Project) -> None:
    from builder.release.selftest.programs import selftest

    spec = load_spec(options.model, project)
    rows, lines = [], []
    for target in targets_of(options, spec):
        ws = Workspace.of(spec, project, target, progress_of(options))
        with ws.held():
            done = selftest(ws)
        rows.append(
            {"target": target.name, "test": done.test, "benchmark": done.benchmark, "ran": bool(done.said),
             "said": done.said}
        )  # fmt: skip
        lines.append(done.said or f"NOT RUN: {done.machine.missing}")
        lines.append(f"programs: {relative(done.test)}, {relative(done.benchmark)}")
    answer(options, {"programs": rows}, "\n".join(lines))


def _weights_arguments(parser: Arguments) -> None:
    add_model(parser)
    add_target(parser)
    parser.add_argument("--output", type=Path, help="where to write (default: dist/<model>.weights)")


def weights(options: Options, project: Project) -> None:
    from builder.cli.build_tables import agreement_table
    from builder.release.update_weights import reweigh

    spec = load_spec(options.model, project)
    targets = targets_of(options, spec)
    if options.output and len(targets) > 1:
        raise UsageError("--output names one file: say which with --target.")
    rows, parts = [], []
    for target in targets:
        ws = Workspace.of(spec, project, target, progress_of(options))
        with ws.held():
            made = reweigh(ws, options.output)
        rows.append({"target": target.name, "file": made.path, "sha256": made.sha256})
        parts.append(f"{agreement_table(made.verification)}\n\nweights: {relative(made.path)}, SHA-256 {made.sha256}")
    answer(options, {"weights": rows}, "\n".join(parts))


COMMANDS = (
    Command("bundle", "compile a model, or several, and pack them as one Lambda layer", _bundle_arguments, bundle),
    Command("wasm", "compile a model to WebAssembly", add_model, wasm),
    Command("bindings", "write a package that calls a model from another language", _bindings_arguments, bindings),
    Command("export", "write a model's weights, graph and configuration for others", _export_arguments, export),
    Command("selftest", "build and run a test and a benchmark program for a bundle", _selftest_arguments, selftest),
    Command("weights", "make a new weights file of a model that was trained again", _weights_arguments, weights),
)
