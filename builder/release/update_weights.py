"""New weights for an existing library: `coldforge weights`, for a model that was trained again.

The model goes through the same stages up to the program, as only they know the place of each weight. If nothing but the
weights has changed, they become a file for the existing library, and are checked with it against TensorFlow's answers
of the new model; nothing is compiled or linked.
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
from builder.base.files import replace_file, scratch_folder
from builder.base.records import read_record
from builder.compiler.emit.print_program import make_layout
from builder.compiler.emit.write_weights import write_weights_file
from builder.compiler.lower import LoweredProgram
from builder.compiler.lower.decisions import LayerWeights
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.compiler.weights_file import FILE, Layout
from builder.package.bundle import LIBRARY
from builder.pipeline.compile_graph import CompiledModel, Compiler, make_compiler
from builder.pipeline.import_model import import_variants
from builder.pipeline.lower_program import ResolvedOptions, list_attempts, lower_all_variants, save_rounded_weights
from builder.pipeline.resolve_options import resolve_spec
from builder.pipeline.resolve_strings import complete_workspace
from builder.pipeline.verify_library import load_roundings, verify_variants
from builder.pipeline.workspace import Workspace
from builder.release.statement import recorded_choice
from builder.verify.verification import Verification, require_passed


@dataclass(frozen=True)
class NewWeights:
    """The file, its SHA-256, and the comparison of the library's answers with TensorFlow's."""

    path: Path
    sha256: str
    verification: Verification


def write_new_weights(ws: Workspace, output: Path | None) -> NewWeights:
    """Write the weights of the model as it is now, for the bundle that was built of it before.

    They go to ``output``, by default ``dist/<model>.weights``. Raises WeightsError where more than the weights has
    changed, VerifyError where the answers are not TensorFlow's, UsageError without such a bundle.
    """
    layout = _read_bundle_layout(ws)
    ws = complete_workspace(ws)
    compiled_for = make_compiler(ws, import_variants(ws))
    settled = replace(resolve_spec(ws, recorded_choice(ws.bundle)), quantisations=_read_quantisations(ws.bundle))
    ws = ws.for_spec(settled.spec)
    compiled, lowered = _find_matching_program(ws, compiled_for, settled, layout)
    with scratch_folder(ws.build / "weigh") as temporary:
        fresh = temporary / FILE
        write_weights_file(lowered[0].program, layout, fresh)
        library = fresh.with_name("libmodel.so")
        shutil.copyfile(ws.bundle / "layer" / LIBRARY, library)  # The library loads the weights file beside it.
        save_rounded_weights(ws.spec, lowered, fresh.parent)
        roundings = load_roundings(ws, compiled, fresh.parent)
        with ws.progress.show_stage(
            "verify", "the library with these weights against the model's own answers"
        ) as outcome:
            verification = verify_variants(ws, compiled, library, roundings)
            outcome.note = "" if verification.passed else "DISAGREES"
        require_passed(verification)
        path = output or ws.bundle.with_name(f"{ws.bundle.name}.weights")
        with replace_file(path) as partial:
            shutil.copyfile(fresh, partial)
    return NewWeights(path, file_digest(path), verification)


def _find_matching_program(
    ws: Workspace, compiled_for: Compiler, settled: ResolvedOptions, wanted: Layout
) -> tuple[CompiledModel, tuple[LoweredProgram, ...]]:
    """Return the model and the programs, one per variant, that fit the library in the bundle. Raises WeightsError."""
    layouts: list[Layout] = []
    for attempt in list_attempts(ws.spec):
        compiled = compiled_for(attempt.in_parts)
        lowered = lower_all_variants(ws, compiled, settled, attempt)
        program, *other_programs = (lowering.program for lowering in lowered)
        layout = make_layout(program, compiled.kernels, dict(zip(ws.spec.variants[1:], other_programs, strict=True)))
        if layout == wanted:
            return compiled, lowered
        layouts.append(layout)
    raise WeightsError(
        f"the model does not fit the library in {ws.bundle.name} any more:\n"
        + "\n".join(f"  {why}" for why in _describe_differences(layouts[0], wanted))
        + f"\nBuild it again: `{bundle_command(str(ws.spec.path))}`."
    )


def _read_bundle_layout(ws: Workspace) -> Layout:
    """Return the layout of weights that the library in the bundle needs. Raises UsageError."""
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
    return Layout.from_dict(manifest["weights"])


def _read_quantisations(bundle: Path) -> dict[str, Quantisation]:
    """Return how the library in the folder ``bundle`` rounds its layers' inputs, which is compiled into it."""
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    layers = (read_record(LayerWeights, layer) for layer in manifest["lowering"]["weights"]["layers"])
    return {layer.layer: layer.input for layer in layers if layer.input is not None}


def _describe_differences(ours: Layout, wanted: Layout) -> Iterator[str]:
    if ours.size != wanted.size:
        yield f"its weights take {ours.size:,} bytes, the library's {wanted.size:,}"
    if ours.program != wanted.program:
        yield (
            "it compiles to other steps: its layers, sizes, names of inputs and outputs, tuning or types of weights "
            "have changed, or weights were or are so plain (all zeros, all ones) that the compiler leaves them out"
        )
    if ours.kernels != wanted.kernels:
        yield "XLA's kernels are others: weights of a single element are compiled into them"
