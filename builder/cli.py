"""The coldforge command: parses arguments, calls one function, prints its result.

Failures reach a person as a message and an exit code (see ``builder.errors``), never as a traceback.
"""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from builder import __version__
from builder.errors import ColdforgeError, UsageError
from builder.progress import Progress
from builder.project import Project
from builder.spec import TARGETS, ModelSpec, load

if TYPE_CHECKING:
    from builder.pack.bundle import Bundle


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.command(options, Project.here())
        return code
    except ColdforgeError as error:
        print(f"coldforge: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("coldforge: interrupted; the last good bundle is as it was.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="coldforge", description="A trained model as one small Lambda layer.")
    parser.add_argument("--version", action="version", version=f"coldforge {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    model_help = "a model.toml, a folder with one, or the name of an example"

    bundle = commands.add_parser("bundle", help="compile a model, or several, and pack them as one Lambda layer")
    bundle.add_argument("models", nargs="+", metavar="model", help=f"{model_help}; the first is the function's default")
    bundle.add_argument(
        "--package",
        choices=("zip", "image"),
        default="zip",
        help="image: allow what a container image holds, which is more than layers do (default: zip)",
    )
    _add_target(bundle)
    _add_route(bundle)
    bundle.set_defaults(command=_bundle)

    wasm = commands.add_parser("wasm", help="compile a model to WebAssembly")
    wasm.add_argument("model", help=model_help)
    wasm.set_defaults(command=_wasm)

    bindings = commands.add_parser("bindings", help="write a package that calls a model from another language")
    bindings.add_argument("model", help=model_help)
    bindings.add_argument("--lang", required=True, metavar="LANGUAGE", help="c, rust, go, node or python")
    bindings.add_argument("--out", type=Path, metavar="DIR", help="(default: dist/bindings/<model>/<language>)")
    bindings.add_argument("--static", action="store_true", help="add libmodel.a, to be linked into a program")
    _add_target(bindings)
    bindings.set_defaults(command=_bindings)

    export = commands.add_parser("export", help="write a model's weights, graph and configuration for others to read")
    export.add_argument("model", help=model_help)
    export.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: dist/<model>-export)")
    export.set_defaults(command=_export)

    selftest = commands.add_parser("selftest", help="build and run a test and a benchmark program for a bundle")
    selftest.add_argument("model", help=model_help)
    _add_target(selftest)
    selftest.set_defaults(command=_selftest)

    where = commands.add_parser("where", help="say where a build would run, docker or host")
    _add_route(where)
    where.set_defaults(command=_where)

    inspect = commands.add_parser("inspect", help="say whether a model can be compiled, and how large it will be")
    inspect.add_argument("model", help=f"{model_help}, or a model file")
    inspect.add_argument("--json", action="store_true", help="print the result as JSON")
    inspect.add_argument("--trust", action="store_true", help="load a .h5 file, which may run code")
    inspect.set_defaults(command=_inspect)

    explain = commands.add_parser("explain", help="say, step by step, what a model runs and how long it takes")
    explain.add_argument("model", help=model_help)
    _add_measuring(explain, 3.0)
    explain.add_argument("--threads", type=int, default=1, help="threads to run on (default: 1)")
    explain.add_argument("--json", action="store_true", help="print the result as JSON")
    explain.set_defaults(command=_explain)

    tune = commands.add_parser("tune", help="time each layer's algorithms here, and keep the fastest for later builds")
    tune.add_argument("model", help=model_help)
    _add_measuring(tune, 10.0)
    tune.set_defaults(command=_tune)

    weights = commands.add_parser("weights", help="make a new weights file of a model that was trained again")
    weights.add_argument("model", help=model_help)
    _add_target(weights)
    weights.add_argument("--output", type=Path, help="where to write (default: dist/<model>.weights)")
    weights.set_defaults(command=_weights)

    init = commands.add_parser("init", help="write a model.toml for a model, to be edited")
    init.add_argument("model", type=Path, help=".keras, .h5, .pb or a SavedModel folder")
    init.add_argument("--output", type=Path, help="where to write (default: model.toml beside the model)")
    init.add_argument("--force", action="store_true", help="write over an existing file")
    init.add_argument("--trust", action="store_true", help="load a .h5 file, which may run code")
    init.set_defaults(command=_init)

    invoke = commands.add_parser("invoke", help="run a bundle on an image in Lambda's emulator, without Docker")
    invoke.add_argument("models", nargs="+", metavar="model", help=f"{model_help}; all that are in the bundle")
    invoke.add_argument("image", type=Path)
    _add_target(invoke)
    invoke.set_defaults(command=_invoke)

    serve = commands.add_parser("serve", help="serve a bundle on this machine as its Function URL does, without Docker")
    serve.add_argument("models", nargs="+", metavar="model", help=f"{model_help}; all that are in the bundle")
    serve.add_argument("--port", type=int, default=8080, help="(default: 8080; 0 is any)")
    serve.add_argument("--cors", default="", metavar="ORIGINS", help="origins whose pages may call it, or *")
    serve.set_defaults(command=_serve)

    publish = commands.add_parser("publish", help="publish a bundle's layer to AWS, unless it is there already")
    publish.add_argument("models", nargs="+", metavar="model", help=f"{model_help}; all that are in the bundle")
    _add_target(publish)
    publish.add_argument("--dependencies", action="store_true", help="publish the dependencies layer as well")
    publish.add_argument("--bucket", help="S3 bucket for a zip over 50 MB (default: the one SAM made)")
    publish.add_argument("--prune", type=int, metavar="N", help="keep the newest N versions and those in use")
    publish.add_argument("--endpoint-url", metavar="URL", help="of another AWS, such as a local emulator")
    publish.add_argument("--json", action="store_true", help="print the result as JSON")
    publish.set_defaults(command=_publish)

    check = commands.add_parser("check", help="check a built SAM template against Lambda's limits")
    check.add_argument("parameters", nargs="*", metavar="NAME=VALUE", help="parameters of the deploy")
    check.add_argument("--template", type=Path, default=Path(".aws-sam/build/template.yaml"))
    check.set_defaults(command=_check)
    return parser


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", metavar="TARGET", help="x86_64, arm64 or all (default: model.toml's `targets`)")


def _targets(options: argparse.Namespace, spec: ModelSpec) -> tuple[str, ...]:
    """Those asked for, x86_64 last: what a command prints last, and what is active, is Lambda's default."""
    wanted = {None: spec.targets, "": spec.targets, "all": TARGETS}.get(options.target, (options.target,))
    if unknown := [t for t in wanted if t not in TARGETS]:
        raise UsageError(f"there is no target {unknown[0]!r}: {', '.join(TARGETS)} or all.")
    return tuple(t for t in reversed(TARGETS) if t in wanted)


def _add_route(parser: argparse.ArgumentParser) -> None:
    routes = "docker, host, or auto: in Docker when an engine answers"
    parser.add_argument("--in", dest="route", default="auto", metavar="WHERE", help=f"{routes} (default: auto)")


def _add_measuring(parser: argparse.ArgumentParser, seconds: float) -> None:
    says = f"how long to measure, about (default: {seconds:g})"
    parser.add_argument("--seconds", type=float, default=seconds, help=says)


def _where(options: argparse.Namespace, _project: Project) -> int:
    from builder.docker.client import choose

    print(choose(options.route))
    return 0


def _bundle(options: argparse.Namespace, project: Project) -> int:
    from builder.docker.client import choose

    specs = [replace(_load_spec(model, project), packaging=options.package) for model in options.models]
    _bundle_name(specs)  # a model named twice is refused before anything is built
    route = choose(options.route)
    for target in _targets(options, specs[0]):
        bundles = [_bundle_one(spec, route, target, project) for spec in specs]
        if len(bundles) > 1:
            from builder.pack.bundle import activate, bundle_suffix
            from builder.pack.join import join
            from builder.report.text import size_table

            bundle = join(bundles, project.dist, suffix=bundle_suffix(target))
            activate(bundle, project.layers, target)
            print(f"\n{size_table(bundle.sizes)}\n\nbundle of {len(specs)} models: {_relative(bundle.folder)}")
        if route == "host" and target == "x86_64":  # in Docker, what runs there has said so
            print(f"try it: make invoke MODEL={shlex.quote(' '.join(options.models))} IMAGE=tests/data/face.jpg")
    return 0


def _bundle_one(spec: ModelSpec, route: str, target: str, project: Project) -> Bundle:
    progress = Progress()
    if route == "docker":
        from builder.docker.run import bundle_in_docker

        built_inside = bundle_in_docker(spec, project, progress.say, target)
        print(built_inside.output, end="")
        return built_inside.bundle
    from builder import pipeline
    from builder.report.text import agreement_table, audit_line, lowering_line, size_table

    progress.say(f"coldforge {__version__}: {spec.name} {spec.version} for {target}, batch {_batches(spec)}")
    built = pipeline.build_bundle(spec, project, progress, target)
    where = _relative(built.bundle.folder)
    print(size_table(built.bundle.sizes))
    print()
    print(agreement_table(built.verification))
    print()
    print(lowering_line(built.lowering))
    print(audit_line(built.audit))
    if built.states:
        names = ", ".join(built.states)
        print(f"state: {names}; each opened model has its own, and the function resets it before every request")
    print(f"\nbundle: {where} ({progress.total():.1f} s)")
    return built.bundle


def _batches(spec: ModelSpec) -> str:
    return ", ".join(map(str, spec.buckets))


def _wasm(options: argparse.Namespace, project: Project) -> int:
    from builder.wasm.build import build_wasm
    from builder.wasm.report import modules_table

    spec, progress = _load_spec(options.model, project), Progress()
    progress.say(f"coldforge {__version__}: {spec.name} {spec.version} for WebAssembly, batch {spec.batch}")
    modules = build_wasm(spec, project, progress)
    print(modules_table(modules))
    folder = _relative(modules[0].path.parent)
    print(f"\nmodules: {folder} ({progress.total():.1f} s)\ntry it: node {folder}/predict.mjs")
    return 0


def _bindings(options: argparse.Namespace, project: Project) -> int:
    from builder.bindings import STATIC, Parts, generate
    from builder.pack.bundle import Bundle, bundle_suffix

    spec = _load_spec(options.model, project)
    *_, target = _targets(options, spec)
    archive = None
    if options.static:
        from builder import pipeline

        if options.lang not in STATIC:
            raise UsageError(f"--static is for {', '.join(STATIC)}: {options.lang} loads the model at run time.")
        progress = Progress()
        built = pipeline.build_bundle(spec, project, progress, target)
        archive = pipeline.build_archive(built, spec, project, progress, target)
    name = f"{spec.name}{bundle_suffix(target)}"
    try:
        bundle = Bundle.load(project.dist / name)
    except (OSError, ValueError, KeyError) as error:
        again = f"make bundle MODEL={shlex.quote(options.model)}{' TARGET=' + target if bundle_suffix(target) else ''}"
        raise UsageError(f"there is no bundle of {spec.name} for {target}: run `{again}` first.") from error
    wasm = project.dist / spec.name / "wasm"
    modules = wasm if (wasm / "manifest.json").is_file() else None
    folder = options.out or project.dist / "bindings" / name / options.lang
    parts = Parts(bundle.description, bundle.header, bundle.library, archive, modules)
    generate(options.lang, parts, folder)
    print(f"{options.lang} package: {_relative(folder)} (README.md says how to run its example)")
    return 0


def _export(options: argparse.Namespace, project: Project) -> int:
    from builder.export import export_model

    done = export_model(_load_spec(options.model, project), project, Progress(), options.out)
    for file in done.files:
        print(f"{file.size:>14,}  {file.path}")
    print(f"\nexport: {_relative(done.folder)} ({len(done.weights)} tensors, {done.parameters:,} parameters)")
    return 0


def _selftest(options: argparse.Namespace, project: Project) -> int:
    from builder.selftest.programs import selftest

    spec = _load_spec(options.model, project)
    for target in _targets(options, spec):
        done = selftest(spec, project, Progress(), target)
        print(done.said or f"NOT RUN: {done.machine.missing}")
        print(f"programs: {_relative(done.test)}, {_relative(done.benchmark)}")
    return 0


def _inspect(options: argparse.Namespace, project: Project) -> int:
    from builder import pipeline, preflight

    path = Path(options.model)
    spec = _drafted(path, options.trust) if _is_model(path) else _load_spec(options.model, project)
    found = pipeline.inspect(spec, project)
    print(json.dumps(found.to_json(), indent=1) if options.json else preflight.render(found))
    return 0 if found.ok else (12 if found.unsupported else 18)


def _explain(options: argparse.Namespace, project: Project) -> int:
    from builder import explain

    if options.threads < 1:
        raise UsageError(f"--threads {options.threads}: at least 1.")
    found = explain.explain(
        _load_spec(options.model, project), project, Progress(), threads=options.threads, seconds=options.seconds
    )
    print(found.to_json() if options.json else explain.render(found))
    return 0


def _tune(options: argparse.Namespace, project: Project) -> int:
    from builder import tune

    spec = _load_spec(options.model, project)
    print(tune.render(tune.tune(spec, project, Progress(), seconds=options.seconds)))
    return 0


def _weights(options: argparse.Namespace, project: Project) -> int:
    from builder.report.text import agreement_table
    from builder.reweigh import reweigh

    spec = _load_spec(options.model, project)
    targets = _targets(options, spec)
    if options.output and len(targets) > 1:
        raise UsageError("--output names one file: say which with --target.")
    for target in targets:
        made = reweigh(spec, project, Progress(), target, options.output)
        print(f"{agreement_table(made.verification)}\n\nweights: {_relative(made.path)}, SHA-256 {made.sha256}")
    return 0


def _init(options: argparse.Namespace, _project: Project) -> int:
    from builder.importers import describe
    from builder.init import draft_text

    output: Path = options.output or options.model.resolve().parent / "model.toml"
    if output.exists() and not options.force:
        raise UsageError(f"{output} exists; give another --output, or --force to write over it.")
    output.write_text(draft_text(options.model, describe, toml=output, trust=options.trust), encoding="utf-8")
    print(f"wrote {_relative(output)}: check what it says, then run `make bundle MODEL={_relative(output)}`")
    return 0


def _invoke(options: argparse.Namespace, project: Project) -> int:
    from builder.local import rie

    if options.target not in (None, "", "x86_64"):
        raise UsageError(
            f"invoke runs the function on this machine, and {options.target} is another; "
            f"`make bundle TARGET={options.target}` runs its library on TensorFlow's inputs under QEMU."
        )
    layer = _layer(options.models, project)
    result = rie.invoke(layer, None, None, rie.image_event(options.image))
    print(json.dumps(result.answer, indent=2), flush=True)
    if result.note:
        print(result.note, file=sys.stderr)
    print(result.times, file=sys.stderr)
    return 0


def _serve(options: argparse.Namespace, project: Project) -> int:
    from builder.local import http, rie

    layer = _layer(options.models, project)
    environment = {"COLDFORGE_PLAYGROUND": "on", "COLDFORGE_CORS_ORIGINS": options.cors}

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    for number in (signal.SIGTERM, signal.SIGINT):  # a shell's background job would ignore SIGINT
        signal.signal(number, signal.default_int_handler)  # the emulator is ended in either case
    with (
        suppress(KeyboardInterrupt),
        rie.emulator(layer, environment=environment) as running,
        http.serving(running.invoke, options.port, say) as url,
    ):
        print(f"{url} (Ctrl-C ends)", flush=True)
        threading.Event().wait()
    return 0


def _publish(options: argparse.Namespace, project: Project) -> int:
    from builder.pack.bundle import bundle_suffix
    from builder.pack.layer import write_zip
    from builder.publish import publish

    if options.prune is not None and options.prune < 1:
        raise UsageError(f"--prune {options.prune}: at least the newest version is kept; give 1 or more.")
    specs = [_load_spec(model, project) for model in options.models]
    name, archives = _bundle_name(specs), list[tuple[str, Path, str]]()
    for target in _targets(options, specs[0]):
        suffix = bundle_suffix(target)
        archive = project.dist / f"{name}{suffix}" / "layer.zip"
        if not archive.is_file():
            models = shlex.quote(" ".join(options.models))
            again = f"make bundle MODEL={models}{' TARGET=' + target if suffix else ''}"
            raise UsageError(
                f"there is no bundle of {name} for {target}: run `{again}` first. (One for a container image, "
                '[weights] place = "image", has no layer to publish.)'
            )
        archives.append((f"coldforge-{name}{suffix}", archive, target))
        if options.dependencies:
            from builder.pack.dependencies import build_dependencies

            archive = project.build / f"dependencies{suffix}.zip"
            write_zip(build_dependencies(project, target)[1], archive)
            archives.append((f"coldforge-dependencies{suffix}", archive, target))
    for name, archive, target in archives:
        done = publish(
            archive,
            name,
            architecture=target,
            bucket=options.bucket,
            keep=options.prune,
            endpoint=options.endpoint_url,
        )
        if options.json:
            print(json.dumps(asdict(done)))
            continue
        gone = f"; deleted {', '.join(map(str, done.pruned))}" if done.pruned else ""
        print(f"{done.arn}  ({'new' if done.created else 'the same bytes were there'}{gone})")
    return 0


def _check(options: argparse.Namespace, _project: Project) -> int:
    from builder.template_check import require

    if wrong := [p for p in options.parameters if "=" not in p]:
        raise UsageError(f"{wrong[0]}: parameters are given as NAME=VALUE.")
    require(options.template, dict(p.split("=", 1) for p in options.parameters))
    return 0


def _layer(models: Sequence[str], project: Project) -> Path:
    return project.dist / _bundle_name([_load_spec(model, project) for model in models]) / "layer"


def _bundle_name(specs: list[ModelSpec]) -> str:
    from builder.pack.join import joined_name

    return joined_name([spec.name for spec in specs])


def _load_spec(model: str, project: Project) -> ModelSpec:
    """The spec at a path, or of an example by name. Raises UsageError for neither."""
    path = Path(model)
    candidates = [path, path / "model.toml", project.examples / model / "model.toml"]
    for candidate in candidates:
        if candidate.is_file():
            return load(candidate)
    examples = sorted(p.parent.name for p in project.examples.glob("*/model.toml"))
    raise UsageError(
        f"there is no model.toml at {model}, and no such example ({', '.join(examples)}). "
        "`coldforge init MODEL` writes one for a trained model."
    )


def _is_model(path: Path) -> bool:
    return path.exists() and path.suffix != ".toml" and not (path / "model.toml").is_file()


def _drafted(path: Path, trust: bool) -> ModelSpec:
    from builder.importers import describe
    from builder.init import draft

    return draft(path, describe, trust=trust)


def _relative(path: Path) -> Path:
    try:
        return path.resolve().relative_to(Path.cwd())
    except ValueError:
        return path


if __name__ == "__main__":
    sys.exit(main())
