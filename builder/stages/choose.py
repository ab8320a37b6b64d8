"""Choose: of ``[weights] type = "auto"``, the smallest type that holds the stated accuracy on the calibration set.

Where ``[activations]`` are asked for, int8 is tried with them and without.
"""

from __future__ import annotations

import functools
import json
from dataclasses import asdict
from pathlib import Path

from builder.cache import digest
from builder.errors import SpecError
from builder.quantise.accuracy import compare, library_answers
from builder.quantise.inputs import golden_inputs, own_inputs
from builder.quantise.kinds import SMALLEST_FIRST, Kind
from builder.spec import to_json
from builder.stages.answers import tensorflow_answers
from builder.stages.candidate import candidate, compile_here
from builder.stages.compile import CompiledVariant
from builder.workspace import Workspace

_CHOICE = "choice.json"


def choose(ws: Workspace) -> Kind:
    """The types, kept for the same model, spec and pictures; what was tried is printed.

    Raises SpecError for pictures that are not there, and the ColdforgeError of a stage that fails.
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
    )
    make = functools.partial(_choose, ws, compiled)
    folder = ws.stage("weights", "the smallest type that is accurate enough", key, make)
    found = json.loads((folder / _CHOICE).read_text())
    for line in found["tried"]:
        ws.progress.say(f"  {line}")
    return Kind(**found["chosen"])


def _choose(ws: Workspace, compiled: CompiledVariant, folder: Path) -> None:
    spec, graph, own = ws.spec, compiled.graph, ws.spec.weights.images or ws.spec.samples
    inputs = own_inputs(own, spec, graph) if own else golden_inputs(spec, graph)
    theirs = tensorflow_answers(ws, graph, inputs)
    tried = []
    for kind in SMALLEST_FIRST:
        if kind.weights == "float32":
            break
        if kind.activations == "int8" and not spec.calibrated:
            continue
        library = candidate(ws, compiled, kind).library
        agreement = compare(spec, graph, inputs, library_answers(library, graph, inputs), theirs).agreement
        if agreement is None:
            raise SpecError(
                f'{spec.path}: [weights].type: "auto" compares classifications, but the data decides the size of this '
                "model's; choose a type."
            )
        tried.append(f"{kind}: {100 * agreement:.2f} % of {inputs.source} agree with TensorFlow")
        if agreement >= spec.weights.accuracy:
            break
    (folder / _CHOICE).write_text(json.dumps({"chosen": asdict(kind), "tried": tried}))
