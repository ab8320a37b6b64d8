"""Resolution of the options that a spec leaves open, by measuring and by the tuning file.

For ``[weights] type = "auto"``, that is the smallest type with the stated accuracy on the calibration set. If the spec
has ``[activations]``, int8 is tried with them and without, and nothing is chosen that is slower than float32 here.
``builder.verify.quantise.precision`` has the rule.
"""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path

from builder.base.cache import compute_digest
from builder.base.errors import SpecError
from builder.base.targets import host_target
from builder.config import to_json
from builder.pipeline.build_candidate import compile_here, make_candidate, time_beside_float32
from builder.pipeline.calibrate_layers import calibrate_model
from builder.pipeline.compile_graph import CompiledVariant
from builder.pipeline.compute_answers import load_user_inputs, tensorflow_answers
from builder.pipeline.lower_program import ResolvedOptions
from builder.pipeline.read_tuning import load_tuning
from builder.pipeline.workspace import Workspace
from builder.verify.quantise.answer_accuracy import answer_with_library, compare_answers
from builder.verify.quantise.precision import SMALLEST_FIRST, PrecisionChoice, TriedPrecision, apply_precision

_CHOICE = "choice.json"


def resolve_spec(ws: Workspace, recorded: PrecisionChoice | None = None) -> ResolvedOptions:
    """Resolve the spec, with types in place of ``auto``, the ranges of layers' inputs, and the tuner's decisions.

    ``recorded``: an earlier choice, whose times replace a measurement. Raises SpecError for an invalid tuning file, and
    as ``resolve_by_rule``.
    """
    return replace(resolve_by_rule(ws, recorded), algorithms=load_tuning(ws.spec).choose_algorithms(ws.target.name))


def resolve_by_rule(ws: Workspace, recorded: PrecisionChoice | None = None) -> ResolvedOptions:
    """Resolve the spec as ``resolve_spec`` does, without the tuner's decisions: the static rule decides everywhere.

    Types and ranges are measured on this machine's own build of the model, whatever the target. Raises SpecError for
    missing files that the spec names, and the ColdforgeError of a stage that fails.
    """
    if ws.spec.weights.type != "auto":
        return calibrate_model(ws)
    choice = choose_weight_type(ws, recorded)
    return replace(calibrate_model(ws.for_spec(apply_precision(ws.spec, choice.chosen))), choice=choice)


def choose_weight_type(ws: Workspace, recorded: PrecisionChoice | None = None) -> PrecisionChoice:
    """Choose a type, once for the same model, spec, images and target, and print the tried ones.

    The times of ``recorded`` are another machine's, or this one's at another moment. Raises as ``resolve_by_rule``.
    """
    spec, images = ws.spec, ws.spec.weights.images
    if images is not None and not images.exists():
        raise SpecError(f"{spec.path}: [weights].images: there is no {images}; name the calibration set of auto.")
    compiled = compile_here(ws)
    paths = (images, spec.samples, spec.activations.images)
    key = compute_digest(
        compiled.kernels.metadata_path,
        compiled.graph.golden_path,
        to_json(spec),
        *(path for path in paths if path),
        *([json.dumps(recorded.to_dict())] if recorded else []),
    )
    make = functools.partial(_compare_types, ws, compiled, recorded)
    suffix = f"{ws.target.suffix}{'-recorded' if recorded else ''}"
    folder = ws.build_stage("weights", "the smallest type that is accurate enough", key, make, suffix)
    choice = PrecisionChoice.from_dict(json.loads((folder / _CHOICE).read_text()))
    for line in choice.describe_choice():
        ws.progress.show_lines(f"  {line}")
    return choice


def _compare_types(ws: Workspace, compiled: CompiledVariant, recorded: PrecisionChoice | None, folder: Path) -> None:
    spec, graph, own = ws.spec, compiled.graph, ws.spec.weights.images or ws.spec.samples
    inputs = load_user_inputs(own, spec, graph)
    theirs = tensorflow_answers(ws, graph, inputs)
    untimed = recorded.untimed if recorded else _explain_untimed(ws)
    tried: list[TriedPrecision] = []
    for kind in SMALLEST_FIRST:
        if kind.activations == "int8" and not spec.calibrated:
            continue
        candidate = make_candidate(ws, compiled, kind)
        ours = answer_with_library(candidate.library, graph, inputs)
        agreement = compare_answers(spec, graph, inputs, ours, theirs).agreement
        if agreement is None:
            raise SpecError(
                f'{spec.path}: [weights].type: "auto" compares classifications, but the data decides the size of this '
                "model's; choose a type."
            )
        timing = None
        if recorded:
            timing = recorded.find_timing(kind)
        elif spec.calibrated and not untimed and agreement >= spec.weights.accuracy:
            timing = time_beside_float32(ws, compiled, candidate)
        tried.append(TriedPrecision(kind, agreement, timing))
        if tried[-1].is_good_enough(spec.weights.accuracy):
            break
    choice = PrecisionChoice(spec.weights.accuracy, inputs.source, tuple(tried), untimed)
    (folder / _CHOICE).write_text(json.dumps(choice.to_dict()))


def _explain_untimed(ws: Workspace) -> str:
    """Explain why the library's time cannot be measured here; the text is empty if it can be, or does not count."""
    if not ws.spec.calibrated or ws.target == host_target():
        return ""
    return f"this machine does not run libraries for {ws.target.name}"
