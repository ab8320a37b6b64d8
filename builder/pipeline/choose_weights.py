"""Choice, for ``[weights] type = "auto"``, of the smallest type with the stated accuracy on the calibration set.

If the spec has ``[activations]``, int8 is tried with them and without, and nothing is chosen that is slower than
float32 here. ``builder.verify.quantise.precision`` has the rule.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

from builder.base.cache import compute_digest
from builder.base.errors import SpecError
from builder.base.targets import host_target
from builder.config import to_json
from builder.pipeline.build_candidate import compile_here, make_candidate
from builder.pipeline.compile_graph import CompiledVariant
from builder.pipeline.compute_answers import tensorflow_answers
from builder.pipeline.measuring_inputs import load_golden_inputs, load_user_inputs
from builder.pipeline.time_candidates import time_beside_float32
from builder.pipeline.workspace import Workspace
from builder.verify.quantise.answer_accuracy import answer_with_library, compare_answers
from builder.verify.quantise.precision import SMALLEST_FIRST, PrecisionChoice, TriedPrecision

_CHOICE = "choice.json"


def choose_weight_type(ws: Workspace, recorded: PrecisionChoice | None = None) -> PrecisionChoice:
    """Choose a type, once for the same model, spec, images and target, and print the tried ones.

    ``recorded``: an earlier choice, whose times replace a measurement: they are another machine's, or this one's at
    another moment. Raises SpecError for missing images, and the ColdforgeError of a stage that fails.
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
    inputs = load_user_inputs(own, spec, graph) if own else load_golden_inputs(spec, graph)
    theirs = tensorflow_answers(ws, graph, inputs)
    untimed = recorded.untimed if recorded else _explain_untimed(ws)
    tried: list[TriedPrecision] = []
    for kind in SMALLEST_FIRST:
        if kind.activations == "int8" and not spec.calibrated:
            continue
        candidate = make_candidate(ws, compiled, kind)
        agreement = compare_answers(
            spec, graph, inputs, answer_with_library(candidate.library, graph, inputs), theirs
        ).agreement
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
