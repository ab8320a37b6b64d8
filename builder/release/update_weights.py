"""New weights for a library that is there: `coldforge weights`, for a model that was trained again.

The model goes through the same stages up to the program, as only they know where each weight is wanted. If nothing
but the weights has changed, they become a file for the library that was built before, are checked with it against
TensorFlow's answers of the new model, and nothing is compiled or linked.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from builder.base.cache import file_digest
from builder.base.commands import bundle_command
from builder.base.errors import UsageError, WeightsError
from builder.base.files import replacing_file, scratch
from builder.base.records import read_record
from builder.compiler.emit.outside_weights import write_outside
from builder.compiler.emit.print_program import layout_of
from builder.compiler.lower import Lowered
from builder.compiler.lower.decisions import LayerWeights
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.compiler.weights_file import FILE, Layout
from builder.package.bundle import LIBRARY
from builder.pipeline.compile_graph import CompiledModel, Compiler, compiler
from builder.pipeline.import_model import import_variants
from builder.pipeline.lower_program import attempts_for, programs_of, save_restored
from builder.pipeline.resolve_options import settle
from builder.pipeline.resolve_strings import completed
from builder.pipeline.resolved_options import Settled
from builder.pipeline.verify_library import roundings_of, verify_variants
from builder.pipeline.workspace import Workspace
from builder.release.recorded_choices import recorded_choice
from builder.verify.failure_report import require
from builder.verify.verification import Verification


@dataclass(frozen=True)
class NewWeights:
    """The file, its SHA-256, and how the library's answers with it compare with TensorFlow's."""

    path: Path
    sha256: str
    verification: Verification


def reweigh(ws: Workspace, output: Path | None) -> NewWeights:
    """Write the weights of the model as it is now for the bundle that was built of it as it was.

    To ``output``, or ``dist/<model>.weights``. Raises WeightsError where more than the weights has changed,
    VerifyError where the answers are not TensorFlow's, UsageError without such a bundle.
    """
    wanted = _wanted(ws)
    ws = completed(ws)
    compiled_for = compiler(ws, import_variants(ws))
    settled = replace(settle(ws, recorded_choice(ws.bundle)), quantisations=_quantisations(ws.bundle))
    ws = ws.for_spec(settled.spec)
    compiled, lowered = _fitting(ws, compiled_for, settled, wanted)
    with scratch(ws.build / "weigh") as temporary:
        fresh = temporary / FILE
        write_outside(lowered[0].program, wanted, fresh)
        library = fresh.with_name("libmodel.so")
        shutil.copyfile(ws.bundle / "layer" / LIBRARY, library)  # takes the weights beside it
        save_restored(ws.spec, lowered, fresh.parent)
        roundings = roundings_of(ws, compiled, fresh.parent)
        with ws.progress.stage("verify", "the library with these weights against TensorFlow's answers") as outcome:
            verification = verify_variants(ws, compiled, library, roundings)
            outcome.note = "" if verification.passed else "DISAGREES"
        require(verification)
        path = output or ws.bundle.with_name(f"{ws.bundle.name}.weights")
        with replacing_file(path) as partial:
            shutil.copyfile(fresh, partial)
    return NewWeights(path, file_digest(path), verification)


def _fitting(
    ws: Workspace, compiled_for: Compiler, settled: Settled, wanted: Layout
) -> tuple[CompiledModel, tuple[Lowered, ...]]:
    """What the library in the bundle was made of, and its programs, one for each variant. Raises WeightsError."""
    found: list[Layout] = []
    for attempt in attempts_for(ws.spec):
        compiled = compiled_for(attempt.in_parts)
        lowered = programs_of(ws, compiled, settled, attempt)
        program, *others = (one.program for one in lowered)
        layout = layout_of(program, compiled.kernels, dict(zip(ws.spec.variants[1:], others, strict=True)))
        if layout == wanted:
            return compiled, lowered
        found.append(layout)
    raise WeightsError(
        f"the model does not fit the library in {ws.bundle.name} any more:\n"
        + "\n".join(f"  {why}" for why in _differences(found[0], wanted))
        + f"\nBuild it again: `{bundle_command(str(ws.spec.path))}`."
    )


def _wanted(ws: Workspace) -> Layout:
    """What the library in the bundle wants its weights to be. Raises UsageError."""
    spec, bundle, target = ws.spec, ws.bundle, ws.target
    again = f"`{bundle_command(str(spec.path), target)}`"
    try:
        manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"there is no bundle of {spec.name} for {target.name}: run {again} first.") from error
    if "weights" not in manifest:
        raise UsageError(
            f"the weights of {bundle.name} are in its library. To change them without compiling, add "
            f'[weights] place = "layer" to model.toml and run {again}.'
        )
    return Layout.of(manifest["weights"])


def _quantisations(bundle: Path) -> dict[str, Quantisation]:
    """How the library in the folder ``bundle`` rounds its layers' inputs, which is compiled into it."""
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    layers = (read_record(LayerWeights, layer) for layer in manifest["lowering"]["weights"]["layers"])
    return {layer.layer: layer.input for layer in layers if layer.input is not None}


def _differences(ours: Layout, wanted: Layout) -> Iterator[str]:
    if ours.size != wanted.size:
        yield f"its weights take {ours.size:,} bytes, the library's {wanted.size:,}"
    if ours.program != wanted.program:
        yield (
            "it compiles to other steps: its layers, sizes, names of inputs and outputs, tuning or types of weights "
            "have changed, or weights were or are so plain (all zeros, all ones) that the compiler leaves them out"
        )
    if ours.kernels != wanted.kernels:
        yield "XLA's kernels are others: weights of a single element are compiled into them"
