"""Choose: of ``[weights] type = "auto"``, the smallest type that holds the stated accuracy on the calibration set.

Where ``[activations]`` are asked for, int8 is tried with them and without, and nothing is taken that is slower than
float32 here. ``builder.verify.quantise.choice`` has the rule.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

from builder.base.cache import digest
from builder.base.errors import SpecError
from builder.base.targets import host_target
from builder.config import to_json
from builder.pipeline.build_candidate import candidate, compile_here
from builder.pipeline.compile_graph import CompiledVariant
from builder.pipeline.compute_answers import tensorflow_answers
from builder.pipeline.measuring_inputs import golden_inputs, own_inputs
from builder.pipeline.time_candidates import timed
from builder.pipeline.workspace import Workspace
from builder.verify.quantise.answer_accuracy import compare, library_answers
from builder.verify.quantise.choice import Choice, Tried
from builder.verify.quantise.number_types import SMALLEST_FIRST

_CHOICE = "choice.json"


def choose(ws: Workspace, recorded: Choice | None = None) -> Choice:
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
    key = digest(
        compiled.kernels.metadata_path,
        compiled.graph.golden_path,
        to_json(spec),
        *(path for path in paths if path),
        *([json.dumps(recorded.to_dict())] if recorded else []),
    )
    make = functools.partial(_choose, ws, compiled, recorded)
    suffix = f"{ws.target.suffix}{'-recorded' if recorded else ''}"
    folder = ws.stage("weights", "the smallest type that is accurate enough", key, make, suffix)
    choice = Choice.of_dict(json.loads((folder / _CHOICE).read_text()))
    for line in choice.lines():
        ws.progress.say(f"  {line}")
    return choice


def _choose(ws: Workspace, compiled: CompiledVariant, recorded: Choice | None, folder: Path) -> None:
    spec, graph, own = ws.spec, compiled.graph, ws.spec.weights.images or ws.spec.samples
    inputs = own_inputs(own, spec, graph) if own else golden_inputs(spec, graph)
    theirs = tensorflow_answers(ws, graph, inputs)
    untimed = recorded.untimed if recorded else _untimed(ws)
    tried: list[Tried] = []
    for kind in SMALLEST_FIRST:
        if kind.activations == "int8" and not spec.calibrated:
            continue
        one = candidate(ws, compiled, kind)
        agreement = compare(spec, graph, inputs, library_answers(one.library, graph, inputs), theirs).agreement
        if agreement is None:
            raise SpecError(
                f'{spec.path}: [weights].type: "auto" compares classifications, but the data decides the size of this '
                "model's; choose a type."
            )
        timing = None
        if recorded:
            timing = recorded.timing(kind)
        elif spec.calibrated and not untimed and agreement >= spec.weights.accuracy:
            timing = timed(ws, compiled, one)
        tried.append(Tried(kind, agreement, timing))
        if tried[-1].holds(spec.weights.accuracy):
            break
    choice = Choice(spec.weights.accuracy, inputs.source, tuple(tried), untimed)
    (folder / _CHOICE).write_text(json.dumps(choice.to_dict()))


def _untimed(ws: Workspace) -> str:
    """Why the library's time cannot be measured here; empty where it can, or does not count."""
    if not ws.spec.calibrated or ws.target == host_target():
        return ""
    return f"this machine does not run libraries for {ws.target.name}"
