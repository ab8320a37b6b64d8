"""``coldforge verify --layers``: the value of each step beside TensorFlow's, to find the first wrong one."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.arrays import Array, save_arrays
from builder.base.console_tables import format_table
from builder.base.errors import VerifyError
from builder.base.files import scratch_folder
from builder.compiler.lower import LoweredProgram
from builder.compiler.lower.hlo_proto import HloIndex
from builder.compiler.xla.compilation_result import read_result
from builder.config import Tolerance
from builder.importers.graph import FrozenGraph
from builder.measure.step_outputs import StepOutput, is_read_correctly, list_step_outputs
from builder.pipeline.compile_graph import CompiledVariant, make_compiler
from builder.pipeline.compute_answers import make_answers_error
from builder.pipeline.fallbacks import build_verified_library
from builder.pipeline.import_model import import_variants
from builder.pipeline.lower_program import lower_variant
from builder.pipeline.resolve_options import resolve_spec
from builder.pipeline.resolve_strings import complete_workspace
from builder.pipeline.workspace import Workspace
from builder.verify.agreement import allowed_sensitivity, make_jsonable, measure_errors, used_share
from builder.verify.expected_answers import FLIPPED_SHARE
from builder.verify.golden import GoldenFile
from builder.verify.quantise.rounded_reference import make_rounded_path, round_reference
from builder.verify.reference_graph import ReferenceGraph, compute_inner_values, read_graph
from builder.verify.sensitivity import measure_sensitivity, nudge_calls, nudge_constants
from builder.verify.step_probes import build_observable, observe_steps
from builder.verify.target_runner import HERE, prepare_machine
from builder.verify.verification import Verification

Feeds = Mapping[str, Array]

FLOOR = 3e-5
"""Error, as a share of a tensor's largest magnitude, that any step may have: Winograd's rounding."""

_KINDS = ("theirs", "moved")
_FEEDS, _VALUES = "feeds.npz", "values.npz"


@dataclass(frozen=True)
class StepDifference:
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
class LayerComparison:
    """``rows``: each step that leaves the value of an op in the model, in order; ``case``: the golden input.

    ``first``: the first that is off; None where none is. ``steps``: of the program, those without such a value as well.
    """

    case: str
    steps: int
    rows: tuple[StepDifference, ...]
    first: StepDifference | None


@dataclass(frozen=True)
class ModelVerification:
    """A comparison of a library with TensorFlow; ``layers``: the comparison of its steps, where that was asked for."""

    verification: Verification
    path: str
    layers: LayerComparison | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {
            "path": self.path,
            "verification": self.verification.to_dict(),
            "layers": make_jsonable(asdict(self.layers)) if self.layers else None,
        }


def verify_model(ws: Workspace, *, layers: bool = False) -> ModelVerification:
    """Build the library if it is missing, and compare it with TensorFlow's answers; a disagreement raises no error.

    ``layers``: whether each step of the first variant is compared as well. Raises the ColdforgeError of a stage that
    fails, and VerifyError where ``layers`` are asked for and this machine cannot run the library itself.
    """
    ws = complete_workspace(ws)
    compiled_for, settled = make_compiler(ws, import_variants(ws)), resolve_spec(ws)
    ws = ws.for_spec(settled.spec)
    if layers and prepare_machine(ws.target, ws.cache) != HERE:
        raise VerifyError(f"--layers looks into a running library, and this machine is no {ws.target.name}.")
    library = build_verified_library(ws, compiled_for, settled)
    if not layers:
        return ModelVerification(library.verification, library.lowering.path)
    compiled = compiled_for(False)
    lowered = lower_variant(ws, compiled.first, settled, library.emitted.attempt, whole=True)
    case = _choose_case(library.verification, compiled.first.graph)
    restored = make_rounded_path(library.emitted.folder)
    with ws.progress.show_stage("layers", "each step's value beside TensorFlow's") as outcome:
        layer_comparison = compare_steps(ws, compiled.first, lowered, case, restored if restored.exists() else None)
        outcome.note = f"{len(layer_comparison.rows)} of {layer_comparison.steps} steps"
    return ModelVerification(library.verification, library.lowering.path, layer_comparison)


def _choose_case(verification: Verification, graph: FrozenGraph) -> str:
    """Return the golden input on which an output is wrong, or the last; with state the first, which has no past."""
    with GoldenFile.open(graph.golden_path) as golden:
        cases = golden.cases
    if graph.states:
        return cases[0]
    off = (row.worst.case for row in verification.outputs if not row.passed and row.worst)
    return next((case for case in off if case in cases), cases[-1])


def compare_steps(
    ws: Workspace, compiled: CompiledVariant, lowered: LoweredProgram, case: str, restored: Path | None = None
) -> LayerComparison:
    """Run ``lowered`` on the golden input ``case``, and compare the values that its steps leave.

    ``restored``: the file of its rounded weights, if any: TensorFlow's are rounded alike, where it can. Raises
    LinkError, and VerifyError where a library cannot be run here or TensorFlow cannot run the model.
    """
    graph = compiled.graph
    lefts = list_step_outputs(lowered, HloIndex(read_result(compiled.kernels.metadata_path, ws.cache)))
    with GoldenFile.open(graph.golden_path) as golden:
        feeds = {port.spec.name: golden.read_feed(case, port.spec.name) for port in graph.feeds}
    ours = _read_library_values(ws, compiled, lowered, lefts, feeds)
    theirs, moved = _ask_tensorflow(ws, graph, feeds, [left.op for left in lefts], restored)
    floor = FLIPPED_SHARE if any(rounding.quantisation for rounding in lowered.rounded) else FLOOR
    rows = {
        left: _compare_value(left, ours[left.op], theirs[left.op], moved.get(left.op), floor)
        for left in lefts
        if left.op in theirs and theirs[left.op].size == ours[left.op].size > 0
    }
    right = {left for left, row in rows.items() if not row.off}
    wrong = (left for left, row in rows.items() if row.off and not is_read_correctly(left, lefts, right, lowered))
    first = next(wrong, None)
    return LayerComparison(case, len(lowered.program.steps), tuple(rows.values()), rows[first] if first else None)


def _read_library_values(
    ws: Workspace, compiled: CompiledVariant, lowered: LoweredProgram, lefts: tuple[StepOutput, ...], feeds: Feeds
) -> dict[str, Array]:
    values: dict[str, Array] = {}

    def look(number: int, arena: NDArray[np.uint8]) -> None:
        values.update({left.op: left.read(arena) for left in lefts if left.after == number})

    with tempfile.TemporaryDirectory(dir=ws.build) as folder:
        library = build_observable(lowered.program, ws.spec, compiled.kernels, Path(folder), ws.cache)
        observe_steps(library, lowered.program, compiled.graph, [feeds], look)
    return values


def _ask_tensorflow(
    ws: Workspace, graph: FrozenGraph, feeds: Feeds, ops: list[str], restored: Path | None
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return TensorFlow's values by op, and the values when weights and inputs move by one ulp."""
    with scratch_folder(ws.build / "layers") as folder:
        save_arrays(folder / _FEEDS, feeds)
        reads = [graph.folder, *([restored] if restored else [])]
        ws.run_sandboxed(
            _write_tensorflow_values, graph, ops, restored, folder=folder, reads=reads, failed=make_answers_error
        )
        with np.load(folder / _VALUES, allow_pickle=False) as file:
            theirs, moved = (
                {op: file[f"{kind}/{i}"] for i, op in enumerate(ops) if f"{kind}/{i}" in file.files} for kind in _KINDS
            )
    return theirs, moved


def _write_tensorflow_values(graph: FrozenGraph, ops: list[str], restored: Path | None) -> None:
    with np.load(_FEEDS, allow_pickle=False) as file:
        feeds = {name: file[name] for name in file.files}

    definition = round_reference(graph, restored)[0] if restored else graph.read_reference()
    reference = ReferenceGraph.from_definition(definition)
    theirs = compute_inner_values(graph, reference, feeds, ops)
    calls = nudge_calls({"": feeds}, read_graph(graph, reference.definition).feeds)
    moved = compute_inner_values(graph, nudge_constants(reference), calls[""], ops)
    kinds = zip(_KINDS, (theirs, moved), strict=True)
    save_arrays(Path(_VALUES), {f"{kind}/{ops.index(op)}": v for kind, values in kinds for op, v in values.items()})


def _compare_value(left: StepOutput, ours: Array, theirs: Array, moved: Array | None, floor: float) -> StepDifference:
    ours = ours.reshape(theirs.shape)
    uncertain = measure_sensitivity({"": {"": theirs}}, {"": {"": theirs if moved is None else moved}}).get("", 0.0)
    share = max(floor, allowed_sensitivity(uncertain)) if theirs.dtype.kind == "f" else 0.0
    error, allowed = measure_errors(ours, theirs, Tolerance() if share else Tolerance(0.0, 0.0), share)
    index = np.unravel_index(int(used_share(error, allowed).argmax()), error.shape)
    finite = np.abs(theirs[np.isfinite(theirs)].astype(np.float64))
    return StepDifference(
        step=left.step.name,
        op=left.op,
        shape=theirs.shape,
        place=tuple(int(i) for i in index),
        ours=float(ours[index]),
        theirs=float(theirs[index]),
        error=float(error[index]),
        allowed=float(allowed[index]),
        largest=float(finite.max(initial=0.0)),
        off=bool(~(error[index] <= allowed[index])),
    )


def format_layers(layers: LayerComparison) -> str:
    """Return a table of the steps in the order they run, then the first wrong one."""
    rows = [
        [row.step, row.op, f"{row.error:.2g}", f"{row.allowed:.2g}", f"{row.largest:.3g}", "OFF" if row.off else ""]
        for row in layers.rows
    ]
    headers = ("step", "op in the model", "off by", "allowed", "largest", "")
    text = format_table(headers, rows, right=(2, 3, 4), indent=0)
    counted = f"{len(layers.rows)} of {layers.steps} steps leave a value that TensorFlow has"
    verdict = "no step is off"
    if first := layers.first:
        verdict = (
            f"first step that is off: {first.step}, {first.op} {list(first.shape)}: at {list(first.place)} ours is "
            f"{first.ours:.6g}, TensorFlow's {first.theirs:.6g}, off by {first.error:.3g} where {first.allowed:.3g} is "
            "allowed"
        )
    return f"{text}\n\n{counted}, on the golden input {layers.case}\n{verdict}"
