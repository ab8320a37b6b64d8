"""The order of the stages, and nothing else: a ModelSpec in, a bundle in ``dist/`` out.

Every stage reads the folder before it and writes its own, ``build/<model>/<stage>/``. The key that
decides whether a stage runs again is made of the content it reads, so a change travels only as far as
it makes a difference. TensorFlow is imported only by the stages that need it, when they run.
"""

from __future__ import annotations

import functools
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from builder import __version__
from builder.audit import AuditReport, audit
from builder.cache import code_digest, digest, run_cached
from builder.decisions import Lowering, decisions, layer_weights
from builder.emit import Sources, emit
from builder.errors import ImportModelError
from builder.importers import import_model
from builder.importers.graph import FrozenGraph, save_arrays
from builder.importers.tf import XLA_FLAGS
from builder.link.archive import ARCHIVE, TRIAL, link_archive
from builder.link.library import SharedLibrary, link_library
from builder.link.toolchain import zig_version
from builder.lower import Lowered, LoweringPath, lower
from builder.lower.compact import together
from builder.lower.compress import ITEM_SIZES, Rules
from builder.lower.options import Options
from builder.lower.program import Algorithm
from builder.pack.assemble import pack
from builder.pack.bundle import Bundle, activate, bundle_suffix
from builder.pack.dependencies import DEPENDENCIES_LOCK, build_dependencies
from builder.pack.limits import allowed
from builder.preflight import Preflight, check, require
from builder.progress import Progress
from builder.project import Project
from builder.sources import locate
from builder.spec import ModelSpec, to_json
from builder.tuning import read_tuning, tuning_path
from builder.verify import golden, restored
from builder.verify.compare import Rounding, Verification, merged, reason, verify
from builder.verify.compare import require as require_agreement
from builder.verify.machine import Machine, machine_for
from builder.xla.descriptors import tensorflow_version
from builder.xla.tfcompile import CompiledGraph, compile_graph


@dataclass(frozen=True)
class Built:
    """A finished bundle, what was found out about it on the way, and what its library was linked from."""

    bundle: Bundle
    audit: AuditReport
    verification: Verification
    lowering: Lowering
    sources: Sources
    compiled: tuple[Compiled, ...]  # for each batch
    roundings: tuple[Rounding | None, ...]
    states: tuple[str, ...] = ()  # variables that an opened model keeps from call to call


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


def attempts_for(spec: ModelSpec) -> tuple[Attempt, ...]:
    """Those of ``ATTEMPTS`` that ``spec`` permits."""
    return tuple(a for a in ATTEMPTS if spec.winograd or not a.winograd)


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


def import_graph(spec: ModelSpec, project: Project, progress: Progress) -> tuple[Path, FrozenGraph]:
    """The trained model, and its frozen graph with TensorFlow's answers, or those of an earlier run.

    Of the first batch alone. Raises as ``build_bundle`` does.
    """
    model = _located(spec, project, progress)
    return model, _import_batch(spec, spec.batch, model, project, progress)


def compile_model(spec: ModelSpec, project: Project, progress: Progress, target: str) -> Compiled:
    """Run the stages up to XLA's kernels, or take their output from an earlier run. Raises as ``build_bundle`` does.

    Of the first batch alone.
    """
    return compile_batches(spec.of_batch(spec.batch), project, progress, target)[0]


def compile_batches(spec: ModelSpec, project: Project, progress: Progress, target: str) -> tuple[Compiled, ...]:
    """As ``compile_model``, for each batch of ``spec``. Raises ImportModelError too where one does not scale."""
    model = _located(spec, project, progress)
    made = tuple(_compile_batch(spec, batch, model, project, progress, target) for batch in spec.buckets)
    require_scaling(spec.buckets, [m.graph for m in made])
    return made


def _located(spec: ModelSpec, project: Project, progress: Progress) -> Path:
    with progress.stage("source", spec.source.package or f"{spec.source.path}"):
        return locate(spec, project.cache)


def _import_batch(spec: ModelSpec, batch: int, model: Path, project: Project, progress: Progress) -> FrozenGraph:
    own, (more, says) = spec.of_batch(batch), _named(spec, batch)
    folder = run_stage(
        own,
        project,
        progress,
        "import",
        f"{spec.source.format} to a frozen graph, preflight, TensorFlow's own answers{says}",
        digest(to_json(own), model, tensorflow_version()),
        functools.partial(import_stage, own, model),
        more,
    )
    return FrozenGraph.load(folder)


def _compile_batch(
    spec: ModelSpec, batch: int, model: Path, project: Project, progress: Progress, target: str
) -> Compiled:
    graph, (more, says) = _import_batch(spec, batch, model, project, progress), _named(spec, batch)
    part = more.replace("-", "_")  # in symbols
    folder = run_stage(
        spec,
        project,
        progress,
        "compile",
        f"tfcompile for {target}{says}",
        digest(graph.graph_path, graph.config_path, target, part, XLA_FLAGS, tensorflow_version()),
        functools.partial(compile_graph, graph, target, part=part),
        f"{bundle_suffix(target)}{more}",
    )
    return Compiled(model, graph, CompiledGraph.load(folder, target))


def _named(spec: ModelSpec, batch: int) -> tuple[str, str]:
    """What tells a further batch's folders, and its lines in the build's output, from those of the first."""
    return ("", "") if batch == spec.batch else (f"-{batch}", f", batch {batch}")


def require_scaling(batches: tuple[int, ...], graphs: Sequence[FrozenGraph]) -> None:
    """Raise ImportModelError unless all that goes in and out of ``graphs`` is in proportion to their ``batches``."""
    if len(batches) > 1 and graphs[0].states:
        kept = ", ".join(repr(state.spec.name) for state in graphs[0].states)
        raise ImportModelError(f"The model keeps {kept} from call to call, of one batch. Give [model] one batch.")
    for port in (*graphs[0].feeds, *graphs[0].fetches):
        shape = port.spec.shape
        for batch, graph in zip(batches[1:], graphs[1:], strict=True):
            other = next(p.spec.shape for p in (*graph.feeds, *graph.fetches) if p.spec.name == port.spec.name)
            if shape[:1] != batches[:1] or other != (batch, *shape[1:]):
                raise ImportModelError(
                    f"{port.spec.name!r} is {list(shape)} where the batch is {batches[0]}, and {list(other)} where it "
                    f"is {batch}: with several batches, every input and output must begin with the batch. "
                    "Give [model] one batch."
                )


def build_bundle(spec: ModelSpec, project: Project, progress: Progress, target: str | None = None) -> Built:
    """Run every stage for ``spec`` and ``target`` (the spec's first when None), or take its output from an earlier run.

    Raises the ColdforgeError of the stage that fails; the last good bundle stays in place.
    """
    cache, target = project.cache, target or spec.targets[0]
    suffix = bundle_suffix(target)
    stage = functools.partial(run_stage, spec, project, progress, suffix=suffix)
    made = compile_batches(spec, project, progress, target)
    spec = settle_weights(spec, project, progress)
    machine = machine_for(target, cache)
    by = f", on {machine.name}" if machine.runner else ""
    tuning = read_tuning(tuning_path(spec))
    algorithms = tuning.algorithms(target) if tuning else {}
    kernels = [m.kernels.kernels_path for m in made]
    given_up: tuple[tuple[str, str], ...] = ()
    tried: set[str] = set()
    for attempt in attempts_for(spec):
        sources = lower_stage(attempt, made, spec, algorithms, cache, stage)
        lowering = replace(Lowering.load(sources.folder / LOWERING), given_up=given_up)
        if (program := digest(*sources.programs, sources.weights)) in tried:
            continue  # the same library would disagree again
        tried.add(program)
        folder = stage(
            f"link{attempt.suffix}",
            f"libmodel.so for {target}",
            digest(sources.folder, *kernels, target, zig_version()),
            functools.partial(_link, sources, kernels, target, cache),
        )
        library = SharedLibrary(folder, target).path
        with progress.stage("audit", "the library against the portability policy"):
            report = audit(library, target)
        roundings = roundings_of(spec, made, sources.folder, stage)
        with progress.stage("verify", f"the library against TensorFlow's answers{by}") as outcome:
            verification = verify_batches(library, made, spec, machine, roundings)
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
            weights=sources.outside,
            layout=sources.layout,
            header=sources.header,
            model_json=sources.description.read_text(),
            audit=report,
            verification=verification,
            source_sha256=digest(made[0].model),
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
    states = tuple(state.spec.name for state in made[0].graph.states)
    return Built(bundle, report, verification, lowering, sources, made, roundings, states)


def build_archive(built: Built, spec: ModelSpec, project: Project, progress: Progress, target: str) -> Path:
    """``libmodel.a`` of what was ``built``, verified as the library was. Raises LinkError or VerifyError."""
    cache, kernels = project.cache, [m.kernels.kernels_path for m in built.compiled]
    folder = run_stage(
        spec,
        project,
        progress,
        "archive",
        f"{ARCHIVE} for {target}",
        digest(built.sources.folder, *kernels, target, zig_version()),
        lambda folder: link_archive(built.sources, kernels, target, folder, cache / "zig"),
        bundle_suffix(target),
    )
    with progress.stage("verify", f"{ARCHIVE} against TensorFlow's answers"):
        machine = machine_for(target, cache)
        require_agreement(verify_batches(folder / TRIAL, built.compiled, spec, machine, built.roundings))
    return folder / ARCHIVE


def inspect(spec: ModelSpec, project: Project) -> Preflight:
    """The preflight on its own: what stands in the way of building ``spec``. Raises ImportModelError."""
    folder = project.build / spec.name / "inspect"
    folder.mkdir(parents=True, exist_ok=True)
    graph = import_model(spec, locate(spec, project.cache), folder)
    return _preflight(spec, graph)


def import_stage(spec: ModelSpec, model: Path, folder: Path) -> None:
    """The frozen graph of ``model`` and TensorFlow's answers, in ``folder``; raises what the preflight finds."""
    graph = import_model(spec, model, folder)
    require(_preflight(spec, graph))
    golden.make(spec, graph)


def _preflight(spec: ModelSpec, graph: FrozenGraph) -> Preflight:
    unzipped, zipped = allowed(spec)
    share = min(ITEM_SIZES[kind] for kind in spec.weight_types) / ITEM_SIZES["float32"]
    return check(graph, max_unzipped=unzipped, max_zipped=zipped, place=spec.weights.place, share=share)


def lower_by(
    attempt: Attempt, made: Compiled, spec: ModelSpec, algorithms: Mapping[str, Algorithm], cache: Path
) -> Lowered:
    """The program that ``attempt`` makes of a settled ``spec``, with a tuner's decisions where it may have them."""
    if spec.weights.type == "auto":
        raise ValueError("settle_weights first")
    rules = Rules(spec.weights.type, tuple((layer.name, layer.weights) for layer in spec.layers))
    options = Options(attempt.winograd and spec.winograd, algorithms, spec.weights.place == "library", rules)
    return lower(made.kernels.metadata_path, made.graph, cache, attempt.path, options)


def lower_batches(
    attempt: Attempt, made: Sequence[Compiled], spec: ModelSpec, algorithms: Mapping[str, Algorithm], cache: Path
) -> tuple[Lowered, ...]:
    """``lower_by`` for each batch; several programs are over one block of weights."""
    lowered = tuple(lower_by(attempt, m, spec, algorithms, cache) for m in made)
    if len(lowered) == 1:
        return lowered
    programs = together([one.program for one in lowered], share=spec.weights.place == "library")
    return tuple(replace(one, program=program) for one, program in zip(lowered, programs, strict=True))


def verify_batches(
    library: Path, made: Sequence[Compiled], spec: ModelSpec, machine: Machine, roundings: Sequence[Rounding | None]
) -> Verification:
    """``verify`` for each batch: one verification of all, in which further ones are named."""
    found = [
        verify(library, m.graph, spec, machine, rounding, described=m is made[0])
        for m, rounding in zip(made, roundings, strict=True)
    ]
    return merged(dict(zip(spec.buckets, found, strict=True)))


def lower_stage(
    attempt: Attempt,
    made: Sequence[Compiled],
    spec: ModelSpec,
    algorithms: Mapping[str, Algorithm],
    cache: Path,
    stage: Callable[..., Path],
) -> Sources:
    """The sources that ``attempt`` makes of a settled ``spec``, with ``LOWERING`` beside them."""
    inputs = (p for m in made for p in (m.kernels.metadata_path, m.kernels.kernels_path, m.graph.ports_path))
    folder = stage(
        f"lower{attempt.suffix}",
        f"thunks to steps, buffers and C ({attempt.name})",
        digest(*inputs, to_json(spec), json.dumps(algorithms, sort_keys=True), made[0].kernels.target),
        functools.partial(_lower, attempt, made, spec, algorithms, cache),
    )
    return Sources(folder)


def _lower(
    attempt: Attempt,
    made: Sequence[Compiled],
    spec: ModelSpec,
    algorithms: Mapping[str, Algorithm],
    cache: Path,
    folder: Path,
) -> None:
    lowered = lower_batches(attempt, made, spec, algorithms, cache)
    first, *rest = (one.program for one in lowered)
    others = dict(zip(spec.buckets[1:], rest, strict=True))
    kernels = [m.kernels.kernels_path for m in made]
    emit(first, spec, made[0].kernels.target, folder, kernels=kernels, others=others)
    unlike = next((one for one in lowered if one.path != attempt.path), None)
    lowering = Lowering(
        unlike.path if unlike else attempt.name,
        sum(len(one.notes) for one in lowered),
        tuple(d for one in lowered for d in decisions(one.program, one.notes, algorithms)),
        unlike.reason if unlike else "",
        weights=layer_weights(first),
        weights_size=first.weights_size,
    )
    lowering.save(folder / LOWERING)
    save_restored(spec, lowered, folder)


def save_restored(spec: ModelSpec, lowered: Sequence[Lowered], folder: Path) -> None:
    """Beside the sources of ``lowered``, one for each batch, what ``roundings_of`` needs."""
    for batch, one in zip(spec.buckets, lowered, strict=True):
        if one.restored:
            save_arrays(restored.path_in(folder, _named(spec, batch)[0]), one.restored)


def roundings_of(
    spec: ModelSpec, made: Sequence[Compiled], folder: Path, stage: Callable[..., Path]
) -> tuple[Rounding | None, ...]:
    """How the weights of the programs in ``folder`` were rounded, and TensorFlow's answers with such weights.

    For each batch, as each has a graph and golden inputs of its own; None where nothing is rounded.
    """

    def rounding(batch: int, graph: FrozenGraph) -> Rounding | None:
        more, says = _named(spec, batch)
        path = restored.path_in(folder, more)
        if not path.exists():
            return None
        answers = stage(
            f"restore{more}",
            f"TensorFlow's answers with the library's rounded weights{says}",
            digest(path, graph.graph_path, graph.golden_path, graph.ports_path, tensorflow_version()),
            functools.partial(restored.make, graph, path),
        )
        return restored.load(answers, spec.weight_types)

    return tuple(rounding(batch, m.graph) for batch, m in zip(spec.buckets, made, strict=True))


def rounding_of_bundle(
    bundle: Bundle, spec: ModelSpec, project: Project, progress: Progress, target: str
) -> Rounding | None:
    """How the weights in ``bundle``, made of ``spec``, were rounded; of several batches for the first."""
    layers = json.loads(bundle.manifest.read_text(encoding="utf-8"))["lowering"]["weights"]["layers"]
    if all(layer["type"] == "float32" for layer in layers):
        return None
    made = compile_batches(spec, project, progress, target)
    spec = settle_weights(spec, project, progress)
    stage = functools.partial(run_stage, spec, project, progress, suffix=bundle_suffix(target))
    tuning = read_tuning(tuning_path(spec))
    algorithms = tuning.algorithms(target) if tuning else {}
    attempt = attempts_for(spec)[0]  # in any, the same weights are rounded
    sources = lower_stage(attempt, made, spec, algorithms, project.cache, stage)
    return roundings_of(spec, made, sources.folder, stage)[0]


def settle_weights(spec: ModelSpec, project: Project, progress: Progress) -> ModelSpec:
    """``spec`` with a type in the place of ``auto``: the smallest that holds its accuracy on the calibration set."""
    if spec.weights.type != "auto":
        return spec
    from builder.accuracy.choose import choose  # builds libraries itself, with this module

    return replace(spec, weights=replace(spec.weights, type=choose(spec, project, progress)))


def _link(sources: Sources, kernels: Sequence[Path], target: str, cache: Path, folder: Path) -> None:
    link_library(sources, kernels, target, folder, cache / "zig")
