"""``coldforge verify --layers``: the value of each step beside TensorFlow's, to find the first that is off."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.arrays import Array, save_arrays
from builder.base.console_tables import table
from builder.base.errors import VerifyError
from builder.base.files import scratch
from builder.compiler.lower import Lowered
from builder.compiler.lower.hlo_index import HloIndex
from builder.compiler.xla.compilation_result import read_result
from builder.config import Tolerance
from builder.importers.graph import FrozenGraph
from builder.measure.step_outputs import Left, left_by, read_rightly
from builder.pipeline.compile_graph import CompiledVariant, compiler
from builder.pipeline.compute_answers import failed
from builder.pipeline.fallbacks import verified_library
from builder.pipeline.import_model import import_variants
from builder.pipeline.lower_program import program_of
from builder.pipeline.resolve_options import settle
from builder.pipeline.resolve_strings import completed
from builder.pipeline.workspace import Workspace
from builder.verify.agreement import allowed_sensitivity, errors, jsonable
from builder.verify.golden import Golden
from builder.verify.input_rounding import read_graph
from builder.verify.intermediate_values import inner_values
from builder.verify.quantise.observe import build, watch
from builder.verify.quantise.rounded_weights import path_in, rounded_reference
from builder.verify.rounding import FLIPPED_SHARE
from builder.verify.sensitivity import nudge_constants, nudged_calls, sensitivity
from builder.verify.target_runner import HERE, machine_for
from builder.verify.verification import Verification

Feeds = Mapping[str, Array]

FLOOR = 3e-5
"""Of a tensor's largest magnitude, what a step may be off whatever TensorFlow's own value does: Winograd's rounding."""

_KINDS = ("theirs", "moved")
_FEEDS, _VALUES = "feeds.npz", "values.npz"


@dataclass(frozen=True)
class Difference:
    """A step's value against that of ``op`` in TensorFlow: the element furthest beyond, or nearest to, what is allowed.

    ``largest``: TensorFlow's largest magnitude. ``off``: whether it is beyond. ``place``: in TensorFlow's tensor.
    """

    step: str
    op: str
    shape: tuple[int, ...]
    place: tuple[int, ...]
    ours: float
    theirs: float
    error: float
    allowed: float
    largest: float
    off: bool


@dataclass(frozen=True)
class Layers:
    """``rows``: each step that leaves the value of an op in the model, in order; ``case``: the golden input.

    ``first``: the first that is off; None where none is. ``steps``: of the program, those without such a value as well.
    """

    case: str
    steps: int
    rows: tuple[Difference, ...]
    first: Difference | None


@dataclass(frozen=True)
class Verified:
    """A library compared with TensorFlow; ``layers``: its steps, where that was asked for."""

    verification: Verification
    path: str
    layers: Layers | None = None

    def to_dict(self) -> dict[str, Any]:
        """The result for JSON."""
        return {
            "path": self.path,
            "verification": self.verification.to_dict(),
            "layers": jsonable(asdict(self.layers)) if self.layers else None,
        }


def verify_model(ws: Workspace, *, layers: bool = False) -> Verified:
    """Build the library unless it is there and compare it with TensorFlow's answers; a disagreement is no error here.

    ``layers``: each step as well, of the first variant. Raises the ColdforgeError of a stage that fails, and
    VerifyError where ``layers`` are asked for and this machine cannot run the library itself.
    """
    ws = completed(ws)
    compiled_for, settled = compiler(ws, import_variants(ws)), settle(ws)
    ws = ws.for_spec(settled.spec)
    if layers and machine_for(ws.target, ws.cache) != HERE:
        raise VerifyError(f"--layers looks into a running library, and this machine is no {ws.target.name}.")
    library = verified_library(ws, compiled_for, settled)
    if not layers:
        return Verified(library.verification, library.lowering.path)
    compiled = compiled_for(False)
    lowered = program_of(ws, compiled.first, settled, library.emitted.attempt, whole=True)
    case = _case(library.verification, compiled.first.graph)
    restored = path_in(library.emitted.folder)
    with ws.progress.stage("layers", "each step's value beside TensorFlow's") as outcome:
        found = compare_steps(ws, compiled.first, lowered, case, restored if restored.exists() else None)
        outcome.note = f"{len(found.rows)} of {found.steps} steps"
    return Verified(library.verification, library.lowering.path, found)


def _case(verification: Verification, graph: FrozenGraph) -> str:
    """The golden input on which an output is off, or the last; of a model with state the first, which has no past."""
    with Golden.open(graph.golden_path) as golden:
        cases = golden.cases
    if graph.states:
        return cases[0]
    off = (row.worst.case for row in verification.outputs if not row.passed and row.worst)
    return next((case for case in off if case in cases), cases[-1])


def compare_steps(
    ws: Workspace, compiled: CompiledVariant, lowered: Lowered, case: str, restored: Path | None = None
) -> Layers:
    """Run ``lowered`` on the golden input ``case``, and look at what its steps leave.

    ``restored``: the file of its rounded weights, where there is one: TensorFlow's are rounded alike, if it can.
    Raises LinkError, and VerifyError where a library cannot be run here or TensorFlow cannot run the model.
    """
    graph = compiled.graph
    lefts = left_by(lowered, HloIndex(read_result(compiled.kernels.metadata_path, ws.cache)))
    with Golden.open(graph.golden_path) as golden:
        feeds = {port.spec.name: golden.feed(case, port.spec.name) for port in graph.feeds}
    ours = _ours(ws, compiled, lowered, lefts, feeds)
    theirs, moved = _theirs(ws, graph, feeds, [left.op for left in lefts], restored)
    floor = FLIPPED_SHARE if any(one.quantisation for one in lowered.rounded) else FLOOR
    found = {
        left: _difference(left, ours[left.op], theirs[left.op], moved.get(left.op), floor)
        for left in lefts
        if left.op in theirs and theirs[left.op].size == ours[left.op].size > 0
    }
    wrong = {left for left, row in found.items() if row.off}
    right = {left for left in found if left not in wrong}
    first = next((left for left in lefts if left in wrong and not read_rightly(left, lefts, right, lowered)), None)
    return Layers(case, len(lowered.program.steps), tuple(found.values()), found[first] if first else None)


def _ours(
    ws: Workspace, compiled: CompiledVariant, lowered: Lowered, lefts: tuple[Left, ...], feeds: Feeds
) -> dict[str, Array]:
    values: dict[str, Array] = {}

    def look(number: int, arena: NDArray[np.uint8]) -> None:
        values.update({left.op: left.read(arena) for left in lefts if left.after == number})

    with tempfile.TemporaryDirectory(dir=ws.build) as folder:
        library = build(lowered.program, ws.spec, compiled.kernels, Path(folder), ws.cache)
        watch(library, lowered.program, compiled.graph, [feeds], look)
    return values


def _theirs(
    ws: Workspace, graph: FrozenGraph, feeds: Feeds, ops: list[str], restored: Path | None
) -> tuple[dict[str, Array], dict[str, Array]]:
    """TensorFlow's values by op, and those when weights and inputs move by one ulp."""
    with scratch(ws.build / "layers") as folder:
        save_arrays(folder / _FEEDS, feeds)
        reads = [graph.folder, *([restored] if restored else [])]
        ws.sandboxed(_ask, graph, ops, restored, folder=folder, reads=reads, failed=failed)
        with np.load(folder / _VALUES, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    theirs, moved = (
        {op: arrays[f"{kind}/{i}"] for i, op in enumerate(ops) if f"{kind}/{i}" in arrays} for kind in _KINDS
    )
    return theirs, moved


def _ask(graph: FrozenGraph, ops: list[str], restored: Path | None) -> None:
    with np.load(_FEEDS, allow_pickle=False) as file:
        feeds = {name: file[name] for name in file.files}

    def reference() -> Any:
        return rounded_reference(graph, restored) if restored else graph.reference()

    theirs = inner_values(graph, reference(), feeds, ops)
    calls = nudged_calls({"": feeds}, read_graph(graph, graph.reference()).feeds)
    moved = inner_values(graph, nudge_constants(reference()), calls[""], ops)
    found = zip(_KINDS, (theirs, moved), strict=True)
    save_arrays(Path(_VALUES), {f"{kind}/{ops.index(op)}": v for kind, values in found for op, v in values.items()})


def _difference(left: Left, ours: Array, theirs: Array, moved: Array | None, floor: float) -> Difference:
    ours = ours.reshape(theirs.shape)
    uncertain = sensitivity({"": {"": theirs}}, {"": {"": theirs if moved is None else moved}}).get("", 0.0)
    share = max(floor, allowed_sensitivity(uncertain)) if theirs.dtype.kind == "f" else 0.0
    error, allowed = errors(ours, theirs, Tolerance() if share else Tolerance(0.0, 0.0), share)
    with np.errstate(all="ignore"):
        used = np.where(error == 0, 0.0, error / allowed)
    place = np.unravel_index(int(used.argmax()), used.shape)
    finite = np.abs(theirs[np.isfinite(theirs)].astype(np.float64))
    return Difference(
        step=left.step.name,
        op=left.op,
        shape=theirs.shape,
        place=tuple(int(i) for i in place),
        ours=float(ours[place]),
        theirs=float(theirs[place]),
        error=float(error[place]),
        allowed=float(allowed[place]),
        largest=float(finite.max(initial=0.0)),
        off=bool(~(error[place] <= allowed[place])),
    )


def render(layers: Layers) -> str:
    """A table of the steps in the order they run, then the first that is off."""
    rows = [
        [row.step, row.op, f"{row.error:.2g}", f"{row.allowed:.2g}", f"{row.largest:.3g}", "OFF" if row.off else ""]
        for row in layers.rows
    ]
    headers = ("step", "op in the model", "off by", "allowed", "largest", "")
    text = table(headers, rows, right=(2, 3, 4), indent=0)
    counted = f"{len(layers.rows)} of {layers.steps} steps leave a value that TensorFlow has"
    return f"{text}\n\n{counted}, on the golden input {layers.case}\n{_verdict(layers)}"


def _verdict(layers: Layers) -> str:
    first = layers.first
    if first is None:
        return "no step is off"
    return (
        f"first step that is off: {first.step}, {first.op} {list(first.shape)}: at {list(first.place)} ours is "
        f"{first.ours:.6g}, TensorFlow's {first.theirs:.6g}, off by {first.error:.3g} where {first.allowed:.3g} is "
        "allowed"
    )
