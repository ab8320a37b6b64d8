"""Calibration: the model runs on images as it is, and each layer's input gets a range."""

from __future__ import annotations

import functools
import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from builder.base.cache import compute_digest
from builder.base.errors import SpecError
from builder.base.targets import host_target
from builder.compiler.lower.steps.base import walk_steps
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.compiler.lower.steps.quantisation import STATE_ROUNDING, Quantisation
from builder.compiler.lower.steps.recurrent_step import RecurrentStep
from builder.config import ModelSpec, to_json
from builder.pipeline.compile_graph import CompiledVariant, compile_first
from builder.pipeline.compute_answers import load_user_inputs
from builder.pipeline.lower_program import ResolvedOptions, list_attempts, lower_variant
from builder.pipeline.workspace import Workspace
from builder.verify.quantise.calibrate import choose_input_type, explain_kept, measure_ranges, require_known
from builder.verify.step_probes import build_observable

_RANGES = "ranges.json"


def calibrate_model(ws: Workspace) -> ResolvedOptions:
    """Resolve the spec, in which no type is "auto" any more, with the rounding of layers' inputs if it demands that.

    The ranges are measured on this machine, whatever the target, and for the first variant, since layers have the same
    names in all. They are kept for the same model, spec and images. Raises SpecError for missing images and for an
    exception that matches no layer, and the ColdforgeError of a stage that fails.
    """
    spec, images = ws.spec, ws.spec.activations.images
    if not (spec.calibrated and "int8" in spec.weight_types):
        return ResolvedOptions(spec)
    if images is not None and not images.exists():
        raise SpecError(f"{spec.path}: [activations].images: there is no {images}; name images to measure ranges on.")
    compiled = compile_first(ws.for_target(host_target()))
    if images is not None and compiled.graph.states:
        kept = compiled.graph.states[0].spec.name
        raise SpecError(
            f"{spec.path}: [activations].images: the model keeps {kept!r} from call to call, and images are not a "
            "sequence of calls. Delete this line: the golden inputs are such a sequence."
        )
    own = _choose_own_inputs(spec, compiled)
    key = compute_digest(*compiled.inputs, compiled.graph.golden_path, to_json(spec.alone), *([own] if own else []))
    what = f"the ranges of layers' inputs on {own.name if own else 'the golden inputs'}"
    folder = ws.build_stage("calibrate", what, key, functools.partial(_measure_ranges, ws.alone, compiled))
    ranges = json.loads((folder / _RANGES).read_text())
    return ResolvedOptions(spec, {name: Quantisation(**by) for name, by in ranges["rounded"].items()}, ranges["kept"])


def _choose_own_inputs(spec: ModelSpec, compiled: CompiledVariant) -> Path | None:
    """Return the user's inputs to measure on; None if those are the golden ones, e.g. for a sequence of calls."""
    return spec.activations.images or (None if compiled.graph.states else spec.samples)


def _measure_ranges(ws: Workspace, compiled: CompiledVariant, folder: Path) -> None:
    spec, own = ws.spec, _choose_own_inputs(ws.spec, compiled)
    lowered = lower_variant(ws, compiled, ResolvedOptions(spec), list_attempts(spec)[0], whole=True)
    steps = {n: step for n, step in enumerate(walk_steps(lowered.program.steps)) if isinstance(step, LayerStep)}
    recurrent = [step for step in walk_steps(lowered.program.steps) if isinstance(step, RecurrentStep)]
    known: list[LayerStep | RecurrentStep] = [*recurrent, *steps.values()]
    require_known(spec, [step.layer for step in known])
    kept = {step.layer: why for step in known if (why := explain_kept(spec, step, lowered))}
    wanted = {n: s for n, s in steps.items() if s.layer not in kept and choose_input_type(spec, s.layer) == "int8"}
    states = {s.layer for s in recurrent if s.layer not in kept and choose_input_type(spec, s.layer) == "int8"}
    rounded: dict[str, Quantisation] = {}
    if wanted:
        inputs = load_user_inputs(own, spec, compiled.graph)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:  # a killed stage's folder is deleted
            library = build_observable(lowered.program, spec, compiled.kernels, Path(temporary), ws.cache)
            rounded, more = measure_ranges(library, lowered, compiled.graph, inputs, wanted)
        kept |= more
    rounded |= dict.fromkeys(states, STATE_ROUNDING)
    ranges = {"rounded": {name: asdict(by) for name, by in rounded.items()}, "kept": kept}
    (folder / _RANGES).write_text(json.dumps(ranges, indent=1) + "\n")
