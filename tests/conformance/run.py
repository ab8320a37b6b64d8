"""Build one case with the pipeline's own stages, up to the verified library, and say what came of it."""

from __future__ import annotations

import io
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from builder.base.errors import ColdforgeError, PreflightError, SizeLimitError
from builder.base.progress import Progress
from builder.base.project import HOME, Project
from builder.config import ModelSpec, Source
from builder.pipeline.compile_graph import make_compiler
from builder.pipeline.fallbacks import VerifiedLibrary, build_verified_library
from builder.pipeline.import_model import import_variants
from builder.pipeline.resolve_options import resolve_spec
from builder.pipeline.workspace import Workspace
from builder.verify.verification import explain_failure
from tests.conformance.case import Case

Outcome = Literal["agrees", "refused", "error", "disagrees"]
"""``disagrees``: a library was made whose answers are not TensorFlow's, so that the build stopped. ``refused``: by the
name of an op or a size."""


@dataclass(frozen=True)
class Result:
    """``seconds``: from the saved model to the verified library. ``size``: the library's bytes, 0 where there is none.

    ``error``: the worst disagreement, as a share of what is allowed. ``path``: of lowering.
    """

    group: str
    name: str
    outcome: Outcome
    why: str
    seconds: float
    size: int
    error: float
    path: str


def run(case: Case, folder: Path) -> Result:
    """Make the model of ``case``, save it, and build it in ``folder``, of which nothing is left."""
    place = folder / case.slug
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    started = time.monotonic()
    try:
        source = case.save(place, case.seed)
        started = time.monotonic()
        library = _built(case, source, place)
    except ColdforgeError as error:
        refused = isinstance(error, PreflightError | SizeLimitError)
        return _without(case, "refused" if refused else "error", str(error), started)
    except Exception as error:  # nobody could make or save it; a traceback would end the run of all others
        return _without(case, "error", f"{type(error).__name__}: {error}", started)
    finally:
        size = _size(place)
        shutil.rmtree(place)
    verification = library.verification
    alike = all(row.constant for row in verification.outputs)
    return Result(
        case.group,
        case.name,
        "agrees" if verification.passed else "disagrees",
        "the same answer to every input" if alike and verification.passed else explain_failure(verification),
        time.monotonic() - started,
        size,
        max((row.worst.error / row.worst.allowed for row in verification.outputs if row.worst), default=0.0),
        library.lowering.path,
    )


def _built(case: Case, source: Source, place: Path) -> VerifiedLibrary:
    # As an image, so that the largest fit: whether a layer could hold them is not asked here.
    spec = ModelSpec(place / "model.toml", case.slug[:64], "1", source, packaging="image")
    ws = Workspace.from_spec(spec, Project(place, HOME), progress=Progress(io.StringIO()))
    return build_verified_library(ws, make_compiler(ws, import_variants(ws)), resolve_spec(ws))


def _size(place: Path) -> int:
    return max((path.stat().st_size for path in place.rglob("libmodel.so")), default=0)


def _without(case: Case, outcome: Outcome, why: str, started: float) -> Result:
    return Result(case.group, case.name, outcome, why.strip(), time.monotonic() - started, 0, 0.0, "")
