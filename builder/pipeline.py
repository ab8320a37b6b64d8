"""The order of the stages, and nothing else: a ModelSpec in, a bundle in ``dist/`` out.

Every stage reads the folder before it and writes its own, ``build/<model>/<stage>/``. The key that
decides whether a stage runs again is made of the content it reads, so a change travels only as far as
it makes a difference. TensorFlow is imported only by the stages that need it, when they run.
"""

from __future__ import annotations

import functools
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from builder import __version__
from builder.audit import AuditReport, audit
from builder.cache import code_digest, digest, run_cached
from builder.decisions import Lowering, decisions, layer_weights
from builder.emit import Sources, emit
from builder.importers import import_model
from builder.importers.graph import FrozenGraph
from builder.importers.tf import XLA_FLAGS
from builder.link.library import SharedLibrary, link_library
from builder.link.toolchain import zig_version
from builder.lower import Lowered, LoweringPath, lower
from builder.lower.compress import ITEM_SIZES, Rules
from builder.lower.optimise import Options
from builder.lower.program import Algorithm
from builder.pack.assemble import pack
from builder.pack.bundle import Bundle, activate, bundle_suffix
from builder.pack.dependencies import DEPENDENCIES_LOCK, build_dependencies
from builder.preflight import Preflight, check, require
from builder.progress import Progress
from builder.project import Project
from builder.sources import locate
from builder.spec import ModelSpec, to_json
from builder.tuning import read_tuning, tuning_path
from builder.verify import golden, restored
from builder.verify.compare import Rounding, Verification, reason, verify
from builder.verify.machine import machine_for
from builder.xla.descriptors import tensorflow_version
from builder.xla.tfcompile import CompiledGraph, compile_graph


@dataclass(frozen=True)
class Built:
    """A finished bundle and what was found out about it on the way."""

    bundle: Bundle
    audit: AuditReport
    verification: Verification
    lowering: Lowering


@dataclass(frozen=True)
class Attempt:
    """One way to lower a graph; ``suffix`` tells its folders from those of the others."""

    name: str
    suffix: str
    path: LoweringPath
    winograd: bool = False


ATTEMPTS = (
    Attempt("optimised", "", "optimised", winograd=True),
    Attempt("optimised, without Winograd", "-direct", "optimised"),
    Attempt("faithful", "-faithful", "faithful"),
)
"""In this order, until one agrees with TensorFlow: speed is never had for a wrong answer."""

LOWERING = "lowering.json"
"""In the folder of a lower stage, beside the sources: what was decided."""


@dataclass(frozen=True)
class Compiled:
    """A model as XLA left it: what everything after the compile stage starts from."""

    model: Path
    graph: FrozenGraph
    kernels: CompiledGraph


def run_stage(
    spec: ModelSpec,
    project: Project,
    progress: Progress,
    name: str,
    what: str,
    key: str,
    build: Callable[[Path], object],
    suffix: str = "",
) -> Path:
    """The folder of a stage, made by ``build`` unless it is there for this ``key`` and this coldforge."""
    folder = project.build / spec.name / f"{name}{suffix}"
    with progress.stage(name, what) as outcome:
        outcome.cached = run_cached(folder, digest(code_digest(), key), build)
    return folder


def compile_model(spec: ModelSpec, project: Project, progress: Progress, target: str) -> Compiled:
    """Run the stages up to XLA's kernels, or take their output from an earlier run. Raises as ``build_bundle`` does."""
    stage = functools.partial(run_stage, spec, project, progress)
    with progress.stage("source", spec.source.package or f"{spec.source.path}"):
        model = locate(spec, project.cache)
    folder = stage(
        "import",
        f"{spec.source.format} to a frozen graph, preflight, TensorFlow's own answers",
        digest(to_json(spec), model, tensorflow_version()),
        functools.partial(import_stage, spec, model),
    )
    graph = FrozenGraph.load(folder)
    folder = stage(
        "compile",
        f"tfcompile for {target}",
        digest(graph.graph_path, graph.config_path, target, XLA_FLAGS, tensorflow_version()),
        functools.partial(compile_graph, graph, target),
        bundle_suffix(target),
    )
    return Compiled(model, graph, CompiledGraph.load(folder, target))


def build_bundle(spec: ModelSpec, project: Project, progress: Progress, target: str | None = None) -> Built:
    """Run every stage for ``spec`` and ``target`` (the spec's first when None), or take its output from an earlier run.

    Raises the ColdforgeError of the stage that fails; the last good bundle stays in place.
    """
    cache, target = project.cache, target or spec.targets[0]
    suffix = bundle_suffix(target)
    stage = functools.partial(run_stage, spec, project, progress, suffix=suffix)
    made = compile_model(spec, project, progress, target)
    spec = settle_weights(spec, project, progress)
    graph, compiled = made.graph, made.kernels
    machine = machine_for(target, cache)
    by = f", on {machine.name}" if machine.runner else ""
    tuning = read_tuning(tuning_path(spec))
    algorithms = tuning.algorithms(target) if tuning else {}
    given_up: tuple[tuple[str, str], ...] = ()
    tried: set[str] = set()
    for attempt in (a for a in ATTEMPTS if spec.winograd or not a.winograd):
        key = (compiled.metadata_path, to_json(spec), graph.ports_path, json.dumps(algorithms, sort_keys=True), target)
        folder = stage(
            f"lower{attempt.suffix}",
            f"thunks to steps, buffers and C ({attempt.name})",
            digest(*key),
            functools.partial(_lower, attempt, made, spec, algorithms, cache),
        )
        sources = Sources(folder)
        lowering = replace(Lowering.load(folder / LOWERING), given_up=given_up)
        if (program := digest(folder / "program.c", folder / "weights.bin")) in tried:
            continue  # the same library would disagree again
        tried.add(program)
        folder = stage(
            f"link{attempt.suffix}",
            f"libmodel.so for {target}",
            digest(sources.folder, compiled.kernels_path, target, zig_version()),
            functools.partial(_link, sources, compiled, target, cache),
        )
        library = SharedLibrary(folder, target).path
        with progress.stage("audit", "the library against the portability policy"):
            report = audit(library, target)
        rounding = rounding_of(lowering, sources.folder, graph, stage)
        with progress.stage("verify", f"the library against TensorFlow's answers{by}") as outcome:
            verification = verify(library, graph, spec, machine, rounding)
            outcome.note = "" if verification.passed else f"DISAGREES: {reason(verification)}"
            outcome.note = f"NOT RUN: {machine.missing}" if machine.missing else outcome.note
        if verification.passed or verification.too_coarse:
            break  # another algorithm has no finer weights
        given_up = (*given_up, (lowering.path, reason(verification)))
    if tuning is not None and (stale := tuning.stale(lowering.geometries)):
        progress.say(f"  {tuning_path(spec).name} {stale}; `coldforge tune` measures anew")
    with progress.stage("layer", "the function's dependencies") as outcome:
        outcome.cached, dependencies = build_dependencies(project, target)
    with progress.stage("pack", f"dist/{spec.name}{suffix}"):
        bundle = pack(
            spec=spec,
            target=target,
            library=library,
            header=sources.header,
            model_json=sources.description.read_text(),
            audit=report,
            verification=verification,
            source_sha256=digest(made.model),
            versions={
                "coldforge": __version__,
                "python": platform.python_version(),
                "tensorflow": tensorflow_version(),
                "zig": zig_version(),
            },
            xla_flags=XLA_FLAGS,
            lowering=lowering,
            dist=project.dist,
            dependencies=dependencies,
            dependencies_lock=project.layers / DEPENDENCIES_LOCK,
            function=project.function,
        )
        activate(bundle, project.layers, target)
    return Built(bundle, report, verification, lowering)


def inspect(spec: ModelSpec, project: Project) -> Preflight:
    """The preflight on its own: what stands in the way of building ``spec``. Raises ImportModelError."""
    folder = project.build / spec.name / "inspect"
    folder.mkdir(parents=True, exist_ok=True)
    graph = import_model(spec, locate(spec, project.cache), folder)
    return check(graph, max_unzipped=spec.max_unzipped, max_zipped=spec.max_zipped)


def import_stage(spec: ModelSpec, model: Path, folder: Path) -> None:
    """The frozen graph of ``model`` and TensorFlow's answers, in ``folder``; raises what the preflight finds."""
    graph = import_model(spec, model, folder)
    smallest = "int8" if spec.weights.type == "auto" else spec.weights.type
    share = ITEM_SIZES[smallest] / ITEM_SIZES["float32"]
    require(check(graph, max_unzipped=spec.max_unzipped, max_zipped=spec.max_zipped, share=share))
    golden.make(spec, graph)


def lower_by(
    attempt: Attempt, made: Compiled, spec: ModelSpec, algorithms: Mapping[str, Algorithm], cache: Path
) -> Lowered:
    """The program that ``attempt`` makes of a settled ``spec``, with a tuner's decisions where it may have them."""
    if spec.weights.type == "auto":
        raise ValueError("settle_weights first")
    rules = Rules(spec.weights.type, tuple((layer.name, layer.weights) for layer in spec.layers))
    options = Options(attempt.winograd and spec.winograd, algorithms, rules)
    return lower(made.kernels.metadata_path, made.graph, cache, attempt.path, options)


def _lower(
    attempt: Attempt, made: Compiled, spec: ModelSpec, algorithms: Mapping[str, Algorithm], cache: Path, folder: Path
) -> None:
    lowered = lower_by(attempt, made, spec, algorithms, cache)
    emit(lowered.program, spec, made.kernels.target, folder)
    path = attempt.name if lowered.path == attempt.path else lowered.path
    lowering = Lowering(
        path,
        len(lowered.notes),
        decisions(lowered.program, lowered.notes, algorithms),
        lowered.reason,
        weights=layer_weights(lowered.program),
        weights_size=lowered.program.weights_size,
    )
    lowering.save(folder / LOWERING)
    save_restored(lowered, folder)


def save_restored(lowered: Lowered, folder: Path) -> None:
    """Beside the sources of ``lowered``, what ``rounding_of`` needs."""
    if lowered.restored:
        golden.save_arrays(folder / restored.RESTORED, lowered.restored)


def rounding_of(lowering: Lowering, folder: Path, graph: FrozenGraph, stage: Callable[..., Path]) -> Rounding | None:
    """How the weights of the program in ``folder`` were rounded, with TensorFlow's answers for such weights."""
    if not lowering.compressed:
        return None
    path = folder / restored.RESTORED
    made = stage(
        "restore",
        "TensorFlow's answers with the library's rounded weights",
        digest(path, graph.graph_path, graph.golden_path, graph.ports_path, tensorflow_version()),
        functools.partial(restored.make, graph, path),
    )
    return restored.load(made, {layer.type for layer in lowering.weights})


def settle_weights(spec: ModelSpec, project: Project, progress: Progress) -> ModelSpec:
    """``spec`` with a type in the place of ``auto``: the smallest that holds its accuracy on the calibration set."""
    if spec.weights.type != "auto":
        return spec
    from builder.accuracy.choose import choose  # builds libraries itself, with this module

    return replace(spec, weights=replace(spec.weights, type=choose(spec, project, progress)))


def _link(sources: Sources, compiled: CompiledGraph, target: str, cache: Path, folder: Path) -> None:
    link_library(sources, compiled.kernels_path, target, folder, cache / "zig")
