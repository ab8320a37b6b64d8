"""Choose: of ``[weights] type = "auto"``, the smallest type that holds the stated accuracy on the calibration set.

Where ``[activations]`` are asked for, int8 is tried with them and without, and nothing is taken that is slower than
float32 here. ``builder.verify.quantise.choice`` has the rule.
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
from builder.verify.quantise.choice import PrecisionChoice, TriedPrecision
from builder.verify.quantise.number_types import SMALLEST_FIRST

_CHOICE = "choice.json"


def choose_weight_type(ws: Workspace, recorded: PrecisionChoice | None = None) -> PrecisionChoice:
    """The choice, kept for the same model, spec, pictures and target; what was tried is printed.

    ``recorded``: one that was made before, whose times are taken instead of measuring: they are another machine's, or
    this one's at another moment. Raises SpecError for pictures that are not there, and the ColdforgeError of a stage
    that fails.
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
        one = make_candidate(ws, compiled, kind)
        agreement = compare_answers(
            spec, graph, inputs, answer_with_library(one.library, graph, inputs), theirs
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
            timing = time_beside_float32(ws, compiled, one)
        tried.append(TriedPrecision(kind, agreement, timing))
        if tried[-1].is_good_enough(spec.weights.accuracy):
            break
    choice = PrecisionChoice(spec.weights.accuracy, inputs.source, tuple(tried), untimed)
    (folder / _CHOICE).write_text(json.dumps(choice.to_dict()))


def _explain_untimed(ws: Workspace) -> str:
    """Why the library's time cannot be measured here; empty where it can, or does not count."""
    if not ws.spec.calibrated or ws.target == host_target():
        return ""
    return f"this machine does not run libraries for {ws.target.name}"
