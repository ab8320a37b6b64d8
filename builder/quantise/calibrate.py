"""The calibrate stage: the model runs on pictures as it is, and each layer's input gets a range."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from builder.cache import digest
from builder.errors import SpecError
from builder.importers.graph import FrozenGraph
from builder.lower import Lowered
from builder.lower.program import LayerStep, Quantisation, walk
from builder.pipeline import Compiled, Settled, attempts_for, compile_model, lower_by, run_stage
from builder.progress import Progress
from builder.project import Project
from builder.quantise.inputs import Inputs, golden_inputs, pictures
from builder.quantise.observe import Look, build, input_of, watch
from builder.quantise.ranges import Extent, Histogram, best_range, quantisation
from builder.spec import ActivationType, ModelSpec, to_json
from builder.targets import host_target

_RANGES = "ranges.json"


def calibrate(spec: ModelSpec, project: Project, progress: Progress) -> Settled:
    """``spec``, whose type of weights is settled, with the rounding of its layers' inputs.

    Measured on this machine, whatever the target, and for the first batch: layers have the same names in all. Kept for
    the same model, spec and pictures. Raises SpecError for pictures that are not there and for an exception that fits
    no layer, and the ColdforgeError of a stage that fails.
    """
    images = spec.activations.images
    if images is not None and not images.exists():
        raise SpecError(f"{spec.path}: [activations].images: there is no {images}; ranges are measured on it.")
    spec_one = spec.alone
    made = compile_model(spec, project, progress, host_target())
    if images is not None and made.graph.states:
        kept = made.graph.states[0].spec.name
        raise SpecError(
            f"{spec.path}: [activations].images: the model keeps {kept!r} from call to call, and pictures are no "
            "sequence of calls. Delete this line: the golden inputs are such a sequence."
        )
    key = digest(
        *(made.kernels.metadata_path, made.kernels.kernels_path, made.graph.ports_path, made.graph.golden_path),
        to_json(spec_one),
        *([images] if images else []),
    )
    source = images.name if images else "the golden inputs"
    make = functools.partial(_calibrate, spec_one, made, project.cache)
    folder = run_stage(spec, project, progress, "calibrate", f"the ranges of layers' inputs on {source}", key, make)
    found = json.loads((folder / _RANGES).read_text())
    return Settled(spec, {name: Quantisation(**by) for name, by in found["rounded"].items()}, found["kept"])


def _calibrate(spec: ModelSpec, made: Compiled, cache: Path, folder: Path) -> None:
    lowered = lower_by(attempts_for(spec)[0], made, Settled(spec), {}, cache)
    steps = {n: step for n, step in enumerate(walk(lowered.program.steps)) if isinstance(step, LayerStep)}
    require_known(spec, [step.layer for step in steps.values()])
    kept = {step.layer: why for step in steps.values() if (why := why_kept(spec, step, lowered))}
    wanted = {n: s for n, s in steps.items() if s.layer not in kept and type_of(spec, s.layer) == "int8"}
    rounded: dict[str, Quantisation] = {}
    if wanted:
        images = spec.activations.images
        inputs = pictures(images, spec, made.graph) if images else golden_inputs(spec, made.graph)
        with tempfile.TemporaryDirectory(prefix="coldforge-calibrate-") as temporary:
            library = build(lowered.program, spec, made.kernels, Path(temporary), cache)
            rounded, more = measure(library, lowered, made.graph, inputs, wanted)
        kept |= more
    found = {"rounded": {name: asdict(by) for name, by in rounded.items()}, "kept": kept}
    (folder / _RANGES).write_text(json.dumps(found, indent=1) + "\n")


def type_of(spec: ModelSpec, name: str) -> ActivationType:
    """What is asked for of the layer ``name``: by the last exception that fits it, or for all."""
    exceptions = (layer for layer in reversed(spec.layers) if layer.activations and fnmatchcase(name, layer.name))
    return next((layer.activations for layer in exceptions if layer.activations), spec.activations.type)


def require_known(spec: ModelSpec, names: Sequence[str]) -> None:
    """Raises SpecError for an exception whose pattern fits no layer."""
    for layer in spec.layers:
        if layer.activations and not any(fnmatchcase(name, layer.name) for name in names):
            known = ", ".join(dict.fromkeys(names)) or "none"
            raise SpecError(f'[[layers]].name: "{layer.name}" fits no layer of the model; its layers are: {known}.')


def why_kept(spec: ModelSpec, step: LayerStep, lowered: Lowered) -> str:
    """Why the input of ``step`` is not rounded although that is asked for; empty where it can be, or is not asked."""
    if type_of(spec, step.layer) == "float32":
        return ""
    if step.weight_type != "int8":
        return f"its weights are {step.weight_type}"
    if step.groups != 1:
        return "its channels are in groups"
    if not step.geometry.summable:
        return "it adds up more products than int32 holds"
    if not lowered.straight:
        return "the model has loops or branches"
    return "" if step.input.buffer.space == "arena" else "its input is a constant"


def measure(
    library: Path, lowered: Lowered, graph: FrozenGraph, inputs: Inputs, steps: Mapping[int, LayerStep]
) -> tuple[dict[str, Quantisation], dict[str, str]]:
    """How the inputs of ``steps`` (by their place in the program) are to be rounded, by layer, and why others are not.

    The model runs twice on ``inputs``: for the ends, and for what lies between them.
    """
    extents = {step.layer: Extent() for step in steps.values()}
    watch(library, lowered.program, graph, inputs.runs, _adding(extents, steps))
    kept = dict(_degenerate(extents))
    histograms = {name: Histogram(extent) for name, extent in extents.items() if name not in kept}
    watch(library, lowered.program, graph, inputs.runs, _adding(histograms, steps))
    return {name: quantisation(*best_range(found)) for name, found in histograms.items()}, kept


def _adding(statistics: Mapping[str, Extent] | Mapping[str, Histogram], steps: Mapping[int, LayerStep]) -> Look:
    def look(number: int, arena: np.ndarray) -> None:
        if number in steps and (found := statistics.get(steps[number].layer)) is not None:
            found.add(input_of(steps[number], arena))

    return look


def _degenerate(extents: Mapping[str, Extent]) -> Iterator[tuple[str, str]]:
    for name, extent in extents.items():
        if not extent.finite:
            yield name, "its input is not always finite"
        elif (extent.high - extent.low) / 255 < np.finfo(np.float32).tiny:
            yield name, "its input was always 0 where it was measured"
