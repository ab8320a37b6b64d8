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
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from builder import __version__
from builder.audit import AuditReport, audit
from builder.cache import code_digest, digest, run_cached
from builder.emit import GeneratedSources, emit
from builder.importers import import_model
from builder.importers.graph import FrozenGraph
from builder.importers.tf import XLA_FLAGS
from builder.importers.variants import require_variants
from builder.library.machine import Machine, machine_for
from builder.link.archive import ARCHIVE, TRIAL, link_archive
from builder.link.library import SharedLibrary, link_library
from builder.link.toolchain import zig_version
from builder.lower import Lowered, LoweringPath, lower
from builder.lower.compact import together
from builder.lower.compress import ITEM_SIZES, Rules
from builder.lower.decisions import Lowering, decisions, layer_weights
from builder.lower.options import Options
from builder.lower.program import Algorithm, Quantisation
from builder.measure.tuning import read_tuning, tuning_path
from builder.pack.assemble import pack
from builder.pack.bundle import Bundle, activate
from builder.pack.dependencies import DEPENDENCIES_LOCK, build_dependencies
from builder.pack.limits import allowed
from builder.preflight import Preflight, check, require
from builder.progress import Progress
from builder.project import Project
from builder.quantise import restored
from builder.sources import locate
from builder.spec import ModelSpec, Variant, to_json
from builder.targets import Target
from builder.verify import reference
from builder.verify.compare import verify
from builder.verify.rounding import Rounding
from builder.verify.verdict import reason
from builder.verify.verdict import require as require_agreement
from builder.verify.verification import Verification, merged
from builder.xla.descriptors import tensorflow_version
from builder.xla.tfcompile import CompiledGraph, compile_graph


@dataclass(frozen=True)
class Built:
    """A finished bundle, what was found out about it on the way, and what its library was linked from."""

    bundle: Bundle
    audit: AuditReport
    verification: Verification
    lowering: Lowering
    sources: GeneratedSources
    compiled: tuple[Compiled, ...]  # for each variant
    roundings: tuple[Rounding | None, ...]
    states: tuple[str, ...] = ()  # variables that an opened model keeps from call to call


@dataclass(frozen=True)
class Settled:
    """A spec without open questions: ``settle`` has answered what only measuring can.

    ``quantisations``: of layers' inputs, by the layer's name in the model. ``kept``: why others are not rounded where
    that was asked for, by name.
    """

    spec: ModelSpec
    quantisations: Mapping[str, Quantisation] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """For caches."""
        answers = {name: asdict(by) for name, by in self.quantisations.items()}
        return digest(to_json(self.spec), json.dumps([answers, dict(self.kept)], sort_keys=True))


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

    Of the first variant alone. Raises as ``build_bundle`` does.
    """
    model = _located(spec, project, progress)
    return model, _import_variant(spec, spec.variants[0], model, project, progress)


def compile_model(spec: ModelSpec, project: Project, progress: Progress, target: Target) -> Compiled:
    """Run the stages up to XLA's kernels, or take their output from an earlier run. Raises as ``build_bundle`` does.

    Of the first variant alone.
    """
    return compile_variants(spec.alone, project, progress, target)[0]


def compile_variants(spec: ModelSpec, project: Project, progress: Progress, target: Target) -> tuple[Compiled, ...]:
    """As ``compile_model``, for each variant of ``spec``. Raises ImportModelError too where one library cannot be."""
    model = _located(spec, project, progress)
    made = tuple(_compile_variant(spec, variant, model, project, progress, target) for variant in spec.variants)
    require_variants(spec, [m.graph for m in made])
    return made


def _located(spec: ModelSpec, project: Project, progress: Progress) -> Path:
    with progress.stage("source", spec.source.package or f"{spec.source.path}"):
        return locate(spec, project.cache)


def _import_variant(
    spec: ModelSpec, variant: Variant, model: Path, project: Project, progress: Progress
) -> FrozenGraph:
    own = spec.of_variant(variant)
    folder = run_stage(
        own,
        project,
        progress,
        "import",
        f"{spec.source.format} to a frozen graph, preflight, TensorFlow's own answers{_said(variant)}",
        digest(to_json(own), model, tensorflow_version()),
        functools.partial(import_stage, own, model),
        variant.suffix,
    )
    return FrozenGraph.load(folder)


def _compile_variant(
    spec: ModelSpec, variant: Variant, model: Path, project: Project, progress: Progress, target: Target
) -> Compiled:
    graph, part = _import_variant(spec, variant, model, project, progress), variant.symbol
    folder = run_stage(
        spec,
        project,
        progress,
        "compile",
        f"tfcompile for {target.name}{_said(variant)}",
        digest(graph.graph_path, graph.config_path, target.name, part, XLA_FLAGS, tensorflow_version()),
        functools.partial(compile_graph, graph, target, part=part),
        f"{target.suffix}{variant.suffix}",
    )
    return Compiled(model, graph, CompiledGraph.load(folder, target))


def _said(variant: Variant) -> str:
    """What tells a further variant's lines in the build's output from those of the first."""
    return f", {variant.says}" if variant.says else ""


def build_bundle(spec: ModelSpec, project: Project, progress: Progress, target: Target | None = None) -> Built:
    """Run every stage for ``spec`` and ``target`` (the spec's first when None), or take its output from an earlier run.

    Raises the ColdforgeError of the stage that fails; the last good bundle stays in place.
    """
    cache, target = project.cache, target or spec.target
    suffix = target.suffix
    stage = functools.partial(run_stage, spec, project, progress, suffix=suffix)
    made = compile_variants(spec, project, progress, target)
    settled = settle(spec, project, progress)
    spec = settled.spec
    machine = machine_for(target, cache)
    by = f", on {machine.name}" if machine.runner else ""
    tuning = read_tuning(tuning_path(spec))
    algorithms = tuning.algorithms(target.name) if tuning else {}
    kernels = [m.kernels.kernels_path for m in made]
    given_up: tuple[tuple[str, str], ...] = ()
    tried: set[str] = set()
    for attempt in attempts_for(spec):
        sources = lower_stage(attempt, made, settled, algorithms, cache, stage)
        lowering = replace(Lowering.load(sources.folder / LOWERING), given_up=given_up)
        if (program := digest(*sources.programs, sources.weights)) in tried:
            continue  # the same library would disagree again
        tried.add(program)
        folder = stage(
            f"link{attempt.suffix}",
            f"libmodel.so for {target.name}",
            digest(sources.folder, *kernels, target.name, zig_version()),
            functools.partial(_link, sources, kernels, target, cache),
        )
        library = SharedLibrary(folder, target).path
        with progress.stage("audit", "the library against the portability policy"):
            report = audit(library, target)
        roundings = roundings_of(spec, made, sources.folder, stage)
        with progress.stage("verify", f"the library against TensorFlow's answers{by}") as outcome:
            verification = verify_variants(library, made, spec, machine, roundings)
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


def build_archive(built: Built, spec: ModelSpec, project: Project, progress: Progress, target: Target) -> Path:
    """``libmodel.a`` of what was ``built``, verified as the library was. Raises LinkError or VerifyError."""
    cache, kernels = project.cache, [m.kernels.kernels_path for m in built.compiled]
    folder = run_stage(
        spec,
        project,
        progress,
        "archive",
        f"{ARCHIVE} for {target.name}",
        digest(built.sources.folder, *kernels, target.name, zig_version()),
        lambda folder: link_archive(built.sources, kernels, target, folder, cache / "zig"),
        target.suffix,
    )
    with progress.stage("verify", f"{ARCHIVE} against TensorFlow's answers"):
        machine = machine_for(target, cache)
        require_agreement(verify_variants(folder / TRIAL, built.compiled, spec, machine, built.roundings))
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
    reference.make(spec, graph)


def _preflight(spec: ModelSpec, graph: FrozenGraph) -> Preflight:
    unzipped, zipped = allowed(spec)
    share = min(ITEM_SIZES[kind] for kind in spec.weight_types) / ITEM_SIZES["float32"]
    return check(graph, max_unzipped=unzipped, max_zipped=zipped, place=spec.weights.place, share=share)


def lower_by(
    attempt: Attempt, made: Compiled, settled: Settled, algorithms: Mapping[str, Algorithm], cache: Path
) -> Lowered:
    """The program that ``attempt`` makes of a settled spec, with a tuner's decisions where it may have them."""
    spec = settled.spec
    if spec.weights.type == "auto":
        raise ValueError("settle first")
    rules = Rules(spec.weights.type, tuple((layer.name, layer.weights) for layer in spec.layers if layer.weights))
    winograd, share = attempt.winograd and spec.winograd, spec.weights.place == "library"
    options = Options(winograd, algorithms, share, rules, settled.quantisations)
    return lower(made.kernels.metadata_path, made.graph, cache, attempt.path, options)


def lower_variants(
    attempt: Attempt, made: Sequence[Compiled], settled: Settled, algorithms: Mapping[str, Algorithm], cache: Path
) -> tuple[Lowered, ...]:
    """``lower_by`` for each variant; several programs are over one block of weights."""
    lowered = tuple(lower_by(attempt, m, settled, algorithms, cache) for m in made)
    if len(lowered) == 1:
        return lowered
    programs = together([one.program for one in lowered], share=settled.spec.weights.place == "library")
    return tuple(replace(one, program=program) for one, program in zip(lowered, programs, strict=True))


def verify_variants(
    library: Path, made: Sequence[Compiled], spec: ModelSpec, machine: Machine, roundings: Sequence[Rounding | None]
) -> Verification:
    """``verify`` for each variant: one verification of all, in which further ones are named."""
    found = [
        verify(library, m.graph, spec.of_variant(variant), machine, rounding, variant=variant)
        for variant, m, rounding in zip(spec.variants, made, roundings, strict=True)
    ]
    return merged({v.says: one for v, one in zip(spec.variants, found, strict=True)})


def lower_stage(
    attempt: Attempt,
    made: Sequence[Compiled],
    settled: Settled,
    algorithms: Mapping[str, Algorithm],
    cache: Path,
    stage: Callable[..., Path],
) -> GeneratedSources:
    """The sources that ``attempt`` makes of a settled spec, with ``LOWERING`` beside them."""
    inputs = (p for m in made for p in (m.kernels.metadata_path, m.kernels.kernels_path, m.graph.ports_path))
    folder = stage(
        f"lower{attempt.suffix}",
        f"thunks to steps, buffers and C ({attempt.name})",
        digest(*inputs, settled.key, json.dumps(algorithms, sort_keys=True), made[0].kernels.target.name),
        functools.partial(_lower, attempt, made, settled, algorithms, cache),
    )
    return GeneratedSources.load(folder)


def _lower(
    attempt: Attempt,
    made: Sequence[Compiled],
    settled: Settled,
    algorithms: Mapping[str, Algorithm],
    cache: Path,
    folder: Path,
) -> None:
    spec = settled.spec
    lowered = lower_variants(attempt, made, settled, algorithms, cache)
    first, *rest = (one.program for one in lowered)
    others = dict(zip(spec.variants[1:], rest, strict=True))
    kernels = [m.kernels.kernels_path for m in made]
    emit(first, spec, made[0].kernels.target, folder, kernels=kernels, others=others)
    unlike = next((one for one in lowered if one.path != attempt.path), None)
    lowering = Lowering(
        unlike.path if unlike else attempt.name,
        sum(len(one.notes) for one in lowered),
        tuple(d for one in lowered for d in decisions(one.program, one.notes, algorithms)),
        unlike.reason if unlike else "",
        weights=layer_weights(first, settled.kept),
        weights_size=first.weights_size,
    )
    lowering.save(folder / LOWERING)
    save_restored(spec, lowered, folder)


def save_restored(spec: ModelSpec, lowered: Sequence[Lowered], folder: Path) -> None:
    """Beside the sources of ``lowered``, one for each variant, what ``roundings_of`` needs."""
    for variant, one in zip(spec.variants, lowered, strict=True):
        if one.restored:
            restored.save(restored.path_in(folder, variant.suffix), one.restored, one.rounded)


def roundings_of(
    spec: ModelSpec, made: Sequence[Compiled], folder: Path, stage: Callable[..., Path]
) -> tuple[Rounding | None, ...]:
    """How the weights of the programs in ``folder`` were rounded, and TensorFlow's answers with such weights.

    For each variant, as each has a graph and golden inputs of its own; None where nothing is rounded.
    """

    def rounding(variant: Variant, graph: FrozenGraph) -> Rounding | None:
        path = restored.path_in(folder, variant.suffix)
        if not path.exists():
            return None
        answers = stage(
            f"restore{variant.suffix}",
            f"TensorFlow's answers with the library's rounded weights{_said(variant)}",
            digest(path, graph.graph_path, graph.golden_path, graph.ports_path, tensorflow_version()),
            functools.partial(restored.make, graph, path),
        )
        return restored.load(answers, spec.weight_types)

    return tuple(rounding(variant, m.graph) for variant, m in zip(spec.variants, made, strict=True))


def rounding_of_bundle(
    bundle: Bundle, spec: ModelSpec, project: Project, progress: Progress, target: Target
) -> Rounding | None:
    """How the weights in ``bundle``, made of ``spec``, were rounded; of several variants for the first."""
    layers = json.loads(bundle.manifest.read_text(encoding="utf-8"))["lowering"]["weights"]["layers"]
    if all(layer["type"] == "float32" for layer in layers):
        return None
    made = compile_variants(spec, project, progress, target)
    settled = settle(spec, project, progress)
    stage = functools.partial(run_stage, spec, project, progress, suffix=target.suffix)
    tuning = read_tuning(tuning_path(spec))
    algorithms = tuning.algorithms(target.name) if tuning else {}
    attempt = attempts_for(spec)[0]  # in any, the same weights are rounded
    sources = lower_stage(attempt, made, settled, algorithms, project.cache, stage)
    return roundings_of(settled.spec, made, sources.folder, stage)[0]


def settle(spec: ModelSpec, project: Project, progress: Progress) -> Settled:
    """``spec`` with what has to be measured: types in the place of ``auto``, the ranges of layers' inputs.

    Both are for this machine's own build of the model, whatever the target. Raises the ColdforgeError of a stage that
    fails.
    """
    # These build libraries themselves, with this module.
    from builder.quantise.calibrate import calibrate
    from builder.quantise.candidates import of_kind
    from builder.quantise.choose import choose

    if spec.weights.type == "auto":
        spec = of_kind(spec, choose(spec, project, progress))
    return calibrate(spec, project, progress) if spec.calibrated and "int8" in spec.weight_types else Settled(spec)


def _link(sources: GeneratedSources, kernels: Sequence[Path], target: Target, cache: Path, folder: Path) -> None:
    link_library(sources, kernels, target, folder, cache / "zig")
