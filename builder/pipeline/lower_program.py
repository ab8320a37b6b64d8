"""Lowering: XLA's thunks become steps over one arena and one block of weights, and those become C."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from builder.base.cache import compute_digest
from builder.compiler.emit import GeneratedSources, emit_sources
from builder.compiler.lower import LoweredProgram, LoweringPath, lower_graph
from builder.compiler.lower.compress import WeightRules
from builder.compiler.lower.decisions import LoweringReport, list_decisions, list_layer_weights
from builder.compiler.lower.geometry import Algorithm
from builder.compiler.lower.microbatch import make_batch_program
from builder.compiler.lower.program_plan import LoweringOptions
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.compiler.lower.weight_store import merge_weights
from builder.config import ModelSpec, to_json
from builder.pipeline.compile_graph import CompiledModel, CompiledVariant
from builder.pipeline.workspace import Workspace
from builder.verify.quantise import rounded_reference
from builder.verify.quantise.precision import PrecisionChoice


@dataclass(frozen=True)
class ResolvedOptions:
    """A ``spec`` in which no type is "auto", with the measured facts about its layers.

    ``quantisations``: those of layers' inputs, by the layer's name in the model. ``kept``: the reasons why some are not
    rounded on demand, by name. ``algorithms``: a tuner's decisions, by ``Geometry.label``; the static rule decides the
    rest. ``choice``: the types tried for "auto", if the spec has that.
    """

    spec: ModelSpec
    quantisations: Mapping[str, Quantisation] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)
    algorithms: Mapping[str, Algorithm] = field(default_factory=dict)
    choice: PrecisionChoice | None = None

    @property
    def key(self) -> str:
        """The digest, for caches, of all that a program depends on."""
        answers = {name: asdict(by) for name, by in self.quantisations.items()}
        measured = [answers, dict(self.kept), dict(self.algorithms)]
        return compute_digest(to_json(self.spec), json.dumps(measured, sort_keys=True))


LOWERING = "lowering.json"
"""Name of the file of decisions in the stage's folder, next to the sources."""


@dataclass(frozen=True)
class LoweringAttempt:
    """One way to lower a graph; ``suffix`` tells its folders from those of the others."""

    name: str
    suffix: str
    path: LoweringPath
    winograd: bool = False
    in_parts: bool = False


ATTEMPTS = (
    LoweringAttempt("optimised, batches in parts", "-parts", "optimised", winograd=True, in_parts=True),
    LoweringAttempt("optimised", "", "optimised", winograd=True),
    LoweringAttempt("optimised, without Winograd", "-direct", "optimised"),
    LoweringAttempt("faithful", "-faithful", "faithful"),
)
"""The attempts in order, until one agrees with TensorFlow: speed never excuses a wrong answer."""


def list_attempts(spec: ModelSpec) -> tuple[LoweringAttempt, ...]:
    """Return those of ``ATTEMPTS`` that ``spec`` permits."""
    batches = any(batch > 1 for batch in spec.buckets)
    return tuple(a for a in ATTEMPTS if (batches if a.in_parts else spec.winograd or not a.winograd))


@dataclass(frozen=True)
class EmittedSources:
    """C sources of one attempt in ``folder``, with its weights, and its lowering report. ``compiled``: its input."""

    attempt: LoweringAttempt
    folder: Path
    compiled: CompiledModel

    @property
    def sources(self) -> GeneratedSources:
        """The emitted C and weights."""
        return GeneratedSources.load(self.folder)

    @property
    def lowering(self) -> LoweringReport:
        """The decisions of lowering."""
        return LoweringReport.load(self.folder / LOWERING)

    @property
    def program(self) -> str:
        """Digest of the C and the weights: attempts with the same digest give the same library."""
        return compute_digest(*self.sources.programs, self.sources.weights)


Emit = Callable[[Workspace, CompiledModel, Sequence[LoweredProgram], Path], object]
"""A function that writes the C of each variant's program, and the weights, into a folder."""


def _emit_library(ws: Workspace, compiled: CompiledModel, lowered: Sequence[LoweredProgram], folder: Path) -> None:
    """Write the sources of ``libmodel.so``."""
    first, *rest = (variant.program for variant in lowered)
    others = dict(zip(ws.spec.variants[1:], rest, strict=True))
    emit_sources(
        first,
        ws.spec,
        ws.target,
        folder,
        kernels=compiled.kernels,
        others=others,
        caller_inputs=[graph.caller_inputs for graph in compiled.list_signature_graphs(ws.spec.variants)],
    )


def emit_variants(
    ws: Workspace,
    compiled: CompiledModel,
    settled: ResolvedOptions,
    attempt: LoweringAttempt,
    write: Emit = _emit_library,
) -> EmittedSources:
    """Emit the C that ``attempt`` makes of the model, or take it from an earlier run. ``ws.spec`` is resolved.

    Raises LowerError, which names what the runtime cannot do.
    """

    def lower_into(folder: Path) -> None:
        lowered = lower_all_variants(ws, compiled, settled, attempt)
        write(ws, compiled, lowered, folder)
        make_lowering_report(lowered, settled, attempt).save(folder / LOWERING)
        save_rounded_weights(ws.spec, lowered, folder)

    folder = ws.build_stage(
        f"lower{attempt.suffix}",
        f"thunks to steps, buffers and C ({attempt.name})",
        compute_digest(*compiled.inputs, settled.key, ws.target.name),
        lower_into,
        ws.target.suffix,
    )
    return EmittedSources(attempt, folder, compiled)


def lower_all_variants(
    ws: Workspace, compiled: CompiledModel, settled: ResolvedOptions, attempt: LoweringAttempt
) -> tuple[LoweredProgram, ...]:
    """Call ``lower_variant`` for each variant; several programs share one block of weights."""
    programs_by_folder: dict[Path, LoweredProgram] = {}  # several batches may run the same kernels in parts
    for variant in compiled.variants:
        if variant.kernels.folder not in programs_by_folder:
            programs_by_folder[variant.kernels.folder] = _lower_once(ws, variant, settled, attempt)
    lowered = tuple(_for_batch(variant, programs_by_folder[variant.kernels.folder]) for variant in compiled.variants)
    if len(lowered) == 1:
        return lowered
    programs = merge_weights([own.program for own in lowered], share=settled.spec.weights.place == "library")
    return tuple(replace(own, program=program) for own, program in zip(lowered, programs, strict=True))


def lower_variant(
    ws: Workspace, compiled: CompiledVariant, settled: ResolvedOptions, attempt: LoweringAttempt, *, whole: bool = False
) -> LoweredProgram:
    """Lower one variant by ``attempt``, with a tuner's decisions if they apply.

    ``whole`` leaves every value of a layer in memory as floats, for observation.
    """
    return _for_batch(compiled, _lower_once(ws, compiled, settled, attempt, whole))


def _lower_once(
    ws: Workspace, compiled: CompiledVariant, settled: ResolvedOptions, attempt: LoweringAttempt, whole: bool = False
) -> LoweredProgram:
    """Lower the graph that was compiled, which may be that of a part."""
    spec = settled.spec
    if spec.weights.type == "auto":
        raise ValueError("settle first")
    exceptions = tuple((layer.name, layer.weights) for layer in spec.layers if layer.weights)
    rules = WeightRules(spec.weights.type, exceptions, summed=spec.calibrated)
    winograd, share = attempt.winograd and spec.winograd, spec.weights.place == "library"
    options = LoweringOptions(winograd, settled.algorithms, share, rules, settled.quantisations, whole)
    return lower_graph(compiled.kernels.metadata_path, compiled.compiled, ws.cache, attempt.path, options)


def _for_batch(compiled: CompiledVariant, lowered: LoweredProgram) -> LoweredProgram:
    if compiled.part is None:
        return lowered
    feeds, fetches = compiled.graph.feeds, compiled.graph.fetches
    return replace(lowered, program=make_batch_program(lowered.program, feeds, fetches, feeds[0].spec.shape[0]))


def make_lowering_report(
    lowered: Sequence[LoweredProgram], settled: ResolvedOptions, attempt: LoweringAttempt
) -> LoweringReport:
    """Record the decisions about the programs of all variants, for the manifest: once if batches run the same steps."""
    steps = [program.program.steps for program in lowered]
    lowered = [program for number, program in enumerate(lowered) if steps.index(program.program.steps) == number]
    first = lowered[0].program
    unlike = next((program for program in lowered if program.path != attempt.path), None)
    return LoweringReport(
        unlike.path if unlike else attempt.name,
        sum(len(program.notes) for program in lowered),
        tuple(d for program in lowered for d in list_decisions(program.program, program.notes, settled.algorithms)),
        unlike.reason if unlike else "",
        weights=list_layer_weights(first, settled.kept),
        weights_size=first.weights_size,
    )


def save_rounded_weights(spec: ModelSpec, lowered: Sequence[LoweredProgram], folder: Path) -> None:
    """Write next to the sources of ``lowered``, one per variant, the input of ``verify_library.load_roundings``."""
    for variant, program in zip(spec.variants, lowered, strict=True):
        if program.restored:
            rounded_reference.save_rounded(
                rounded_reference.make_rounded_path(folder, variant.suffix), program.restored, program.rounded
            )
