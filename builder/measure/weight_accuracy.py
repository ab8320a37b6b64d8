"""``coldforge accuracy``: every type of weights, and int8 activations, beside TensorFlow's float32."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from builder.base.cache import file_digest
from builder.base.console_tables import format_table
from builder.base.files import write_file
from builder.config import ActivationType, WeightType
from builder.importers.graph import FrozenGraph
from builder.pipeline.build_candidate import compile_here, make_candidate
from builder.pipeline.compute_answers import load_golden_inputs, load_user_inputs, tensorflow_answers
from builder.pipeline.resolve_strings import complete_workspace
from builder.pipeline.workspace import Workspace
from builder.verify.quantise.answer_accuracy import Accuracy, OutputAccuracy, answer_with_library, compare_answers
from builder.verify.quantise.precision import KINDS, Precision

_FILE = "accuracy.json"


@dataclass(frozen=True)
class TypeReport:
    """One kind: bytes of libmodel.so and of the weights in it, and the accuracy on each set of inputs, by its name.

    ``compressed_share``: of the weights' bytes as float32, those of layers that are compressed.
    """

    type: WeightType
    activations: ActivationType
    library: int
    weights: int
    compressed_share: float
    accuracy: dict[str, Accuracy]


@dataclass(frozen=True)
class AccuracyReport:
    """The accuracy of a model with each type of weights."""

    model: str
    items: dict[str, int]
    """The number of inputs in each set."""
    types: tuple[TypeReport, ...]


def measure_accuracy(ws: Workspace, *, images: Sequence[Path] = ()) -> AccuracyReport:
    """Build a library of every type and compare it on the golden inputs, the spec's samples, and each of ``images``.

    ``images``: folders of images, of folders by label, or ``.npz`` files of any inputs. Raises UsageError for those
    that do not fit the model, and the ColdforgeError of a stage that fails.
    """
    ws = complete_workspace(ws)
    compiled = compile_here(ws)
    spec, graph = ws.spec, compiled.graph
    sources = [*filter(None, [spec.samples]), *images]
    sets = [load_golden_inputs(spec, graph), *(load_user_inputs(path, spec, graph) for path in sources)]
    with ws.progress.show_stage("reference", "TensorFlow's own answers"):
        references = [tensorflow_answers(ws, graph, inputs) for inputs in sets]
    reports = []
    for kind in KINDS:
        candidate = make_candidate(ws, compiled, kind)
        compared = {}
        for inputs, theirs in zip(sets, references, strict=True):
            ours = answer_with_library(candidate.library, graph, inputs)
            compared[inputs.source] = compare_answers(spec, graph, inputs, ours, theirs)
        size, sizes = candidate.library.stat().st_size, candidate.lowering.sizes
        reports.append(TypeReport(kind.weights, kind.activations, size, sizes.bytes, sizes.compressed_share, compared))
    report = AccuracyReport(spec.name, {inputs.source: inputs.items for inputs in sets}, tuple(reports))
    write_file(ws.build / _FILE, json.dumps({"graph": file_digest(graph.graph_path), **asdict(report)}, indent=1))
    return report


def read_last_accuracy(ws: Workspace, graph: FrozenGraph) -> dict[str, Any] | None:
    """Return the last result of ``measure_accuracy`` for ``graph``, as JSON has it; None where there is none."""
    try:
        record: dict[str, Any] = json.loads((ws.build / _FILE).read_text(encoding="utf-8"))
        return record if record["graph"] == file_digest(graph.graph_path) else None
    except (OSError, ValueError, KeyError):
        return None


def format_accuracy(report: AccuracyReport) -> str:
    """Return a table for each set of inputs."""
    parts = []
    for source, items in report.items.items():
        rows = []
        for row in report.types:
            kind = str(Precision(row.type, row.activations))
            head = [kind, f"{row.library:,}", f"{100 * row.compressed_share:.1f} %"]
            for output in row.accuracy[source].outputs:
                rows.append([*head, output.output, *_format_cells(output)])
                head = ["", "", ""]
        headers = (
            "weights", "libmodel.so", "compressed", "output", "top-1", "top-5", "worst error", "mean error", "right",
            "TensorFlow right",
        )  # fmt: skip
        parts.append(f"{source} ({items:,} items), against TensorFlow float32\n")
        parts.append(format_table(headers, rows, right=(1, 2, 4, 5, 6, 7, 8, 9), indent=0) + "\n")
    return "\n".join(parts).rstrip()


def _format_cells(output: OutputAccuracy) -> list[str]:
    def share(value: float | None) -> str:
        return "–" if value is None else f"{100 * value:.2f} %"

    errors = [f"{output.worst:.2g}", f"{output.mean:.2g}"]
    return [share(output.top1), share(output.top5), *errors, share(output.right), share(output.right_tensorflow)]
