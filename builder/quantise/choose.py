"""``[weights] type = "auto"``: the smallest type that holds the stated accuracy on the calibration set.

Where ``[activations]`` are asked for, int8 is tried with them and without.
"""

from __future__ import annotations

import functools
import json
from dataclasses import asdict
from pathlib import Path

from builder.cache import digest
from builder.errors import SpecError
from builder.pipeline import Compiled, run_stage
from builder.progress import Progress
from builder.project import Project
from builder.quantise.accuracy import compare, library_answers, tensorflow_answers
from builder.quantise.candidates import Kind, candidate, compile_here
from builder.quantise.inputs import Inputs, golden_inputs, pictures
from builder.spec import ModelSpec, to_json

SMALLEST_FIRST = (Kind("int8", "int8"), Kind("int8"), Kind("float16"), Kind("bfloat16"), Kind("float32"))
"""float16 before bfloat16, which is as large and three bits coarser; float32 always holds."""

_CHOICE = "choice.json"


def choose(spec: ModelSpec, project: Project, progress: Progress) -> Kind:
    """The types, kept for the same model, spec and pictures; what was tried goes to ``progress``.

    Raises SpecError for pictures that are not there, and the ColdforgeError of a stage that fails.
    """
    images = spec.weights.images
    if images is not None and not images.exists():
        raise SpecError(f"{spec.path}: [weights].images: there is no {images}; it is the calibration set of auto.")
    made = compile_here(spec, project, progress)
    key = digest(
        made.kernels.metadata_path,
        made.graph.golden_path,
        to_json(spec),
        *(path for path in (images, spec.activations.images) if path),
    )
    build = functools.partial(_choose, spec, made, project, progress)
    folder = run_stage(spec, project, progress, "weights", "the smallest type that is accurate enough", key, build)
    found = json.loads((folder / _CHOICE).read_text())
    for line in found["tried"]:
        progress.say(f"  {line}")
    return Kind(**found["chosen"])


def _choose(spec: ModelSpec, made: Compiled, project: Project, progress: Progress, folder: Path) -> None:
    inputs = calibration(spec, made)
    theirs = tensorflow_answers(made.graph, inputs)
    tried = []
    for kind in SMALLEST_FIRST:
        if kind.weights == "float32":
            break
        if kind.activations == "int8" and not spec.calibrated:
            continue
        library = candidate(spec, made, kind, project, progress).library
        agreement = compare(spec, made.graph, inputs, library_answers(library, made.graph, inputs), theirs).agreement
        assert agreement is not None  # the spec has a classification
        tried.append(f"{kind}: {100 * agreement:.2f} % of {inputs.source} as TensorFlow's")
        if agreement >= spec.weights.accuracy:
            break
    (folder / _CHOICE).write_text(json.dumps({"chosen": asdict(kind), "tried": tried}))


def calibration(spec: ModelSpec, made: Compiled) -> Inputs:
    images = spec.weights.images
    return pictures(images, spec, made.graph) if images else golden_inputs(spec, made.graph)
