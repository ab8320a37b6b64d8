"""New weights for a library that is there: `coldforge weights`, for a model that was trained again.

The model goes through the same stages up to the program, as only they know where each weight is wanted. If nothing
but the weights has changed, they become a file for the library that was built before, are checked with it against
TensorFlow's answers of the new model, and nothing is compiled or linked.
"""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from builder.cache import file_digest
from builder.emit.outside import write_outside
from builder.emit.program import layout_of
from builder.errors import UsageError, WeightsError
from builder.library.machine import machine_for
from builder.library.outside import FILE, Layout
from builder.lower.decisions import LayerWeights
from builder.lower.program import Quantisation
from builder.measure.tuning import read_tuning, tuning_path
from builder.pack.bundle import LIBRARY
from builder.pack.swap import replacing_file
from builder.pipeline import (
    attempts_for,
    compile_variants,
    lower_variants,
    roundings_of,
    run_stage,
    save_restored,
    settle,
    verify_variants,
)
from builder.progress import Progress
from builder.project import Project
from builder.spec import ModelSpec
from builder.targets import Target
from builder.verify.verdict import require
from builder.verify.verification import Verification


@dataclass(frozen=True)
class NewWeights:
    """The file, its SHA-256, and how the library's answers with it compare with TensorFlow's."""

    path: Path
    sha256: str
    verification: Verification


def reweigh(spec: ModelSpec, project: Project, progress: Progress, target: Target, output: Path | None) -> NewWeights:
    """Write the weights of the model as it is now for the bundle that was built of it as it was.

    To ``output``, or ``dist/<model>.weights``. Raises WeightsError where more than the weights has changed,
    VerifyError where the answers are not TensorFlow's, UsageError without such a bundle.
    """
    suffix = target.suffix
    bundle = project.dist / f"{spec.name}{suffix}"
    wanted = _wanted(bundle, spec, target)
    made = compile_variants(spec, project, progress, target)
    settled = replace(settle(spec, project, progress), quantisations=_quantisations(bundle))
    spec = settled.spec
    tuning = read_tuning(tuning_path(spec))
    algorithms = tuning.algorithms(target.name) if tuning else {}
    found: list[Layout] = []
    for attempt in attempts_for(spec):
        lowered = lower_variants(attempt, made, settled, algorithms, project.cache)
        program, *others = (one.program for one in lowered)
        kernels = [m.kernels.kernels_path for m in made]
        layout = layout_of(program, kernels, dict(zip(spec.variants[1:], others, strict=True)))
        if layout == wanted:
            break
        found.append(layout)
    else:
        raise WeightsError(
            f"the model does not fit the library in {bundle.name} any more:\n"
            + "\n".join(f"  {why}" for why in _differences(found[0], wanted))
            + f"\nBuild it again: `make bundle MODEL={spec.path}`."
        )
    with tempfile.TemporaryDirectory(prefix="coldforge-weights-") as temporary:
        fresh = Path(temporary) / FILE
        write_outside(program, layout, fresh)
        library = fresh.with_name("libmodel.so")
        shutil.copyfile(bundle / "layer" / LIBRARY, library)  # takes the weights beside it
        save_restored(spec, lowered, fresh.parent)
        stage = functools.partial(run_stage, spec, project, progress, suffix=suffix)
        roundings = roundings_of(spec, made, fresh.parent, stage)
        with progress.stage("verify", "the library with these weights against TensorFlow's answers") as outcome:
            verification = verify_variants(library, made, spec, machine_for(target, project.cache), roundings)
            outcome.note = "" if verification.passed else "DISAGREES"
        require(verification)
        path = output or project.dist / f"{spec.name}{suffix}.weights"
        with replacing_file(path) as partial:
            shutil.copyfile(fresh, partial)
    return NewWeights(path, file_digest(path), verification)


def _wanted(bundle: Path, spec: ModelSpec, target: Target) -> Layout:
    """What the library in the folder ``bundle`` wants its weights to be. Raises UsageError."""
    again = f"`make bundle MODEL={spec.path}{target.option}`"
    try:
        manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"there is no bundle of {spec.name} for {target.name}: run {again} first.") from error
    if "weights" not in manifest:
        raise UsageError(
            f"the weights of {bundle.name} are in its library: they can be changed without compiling where model.toml "
            f'says so. Add [weights] place = "layer", and run {again}.'
        )
    return Layout.of(manifest["weights"])


def _quantisations(bundle: Path) -> dict[str, Quantisation]:
    """How the library in the folder ``bundle`` rounds its layers' inputs, which is compiled into it."""
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    layers = (LayerWeights.of_json(layer) for layer in manifest["lowering"]["weights"]["layers"])
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
