"""Accuracy of a library's answers: the share that agrees with TensorFlow's, and their errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from builder.base.arrays import Array
from builder.config import ModelSpec
from builder.importers.graph import FrozenGraph, GraphPort
from builder.importers.samples.user_samples import Inputs
from builder.verify.expected_answers import list_outputs
from builder.verify.library.loaded_library import OpenedModel
from builder.verify.reference_answers import run_reference
from builder.verify.reference_graph import ReferenceGraph

Answers = dict[str, Array]
"""Answers of each fetch, by its name: [items, ...]."""


@dataclass(frozen=True)
class OutputAccuracy:
    """One output over all items, against TensorFlow's float32.

    ``top1``: the share of items with TensorFlow's top class, ``top5``: of those with it among the first five; None
    where the output has no classes, or no more than five. ``worst`` and ``mean``: absolute errors. ``right`` and
    ``right_tensorflow``: the share of items whose top class is the label's, None without labels.
    """

    output: str
    top1: float | None
    top5: float | None
    worst: float
    mean: float
    right: float | None = None
    right_tensorflow: float | None = None


@dataclass(frozen=True)
class Accuracy:
    """All outputs of one library.

    ``agreement``: the share of items in which every classification has TensorFlow's top class; None without any.
    """

    outputs: tuple[OutputAccuracy, ...]
    agreement: float | None


def list_comparable(graph: FrozenGraph) -> tuple[GraphPort, ...]:
    """Return the fetches of a fixed size: others have no items that could be compared."""
    shapes = {port.spec.shape_fetch for port in graph.fetches}
    return tuple(port for port in graph.fetches if not port.spec.dynamic and port.spec.name not in shapes)


def answer_with_tensorflow(graph: FrozenGraph, inputs: Inputs) -> Answers:
    """Return TensorFlow's own answers, op by op, with the graph's float32 weights."""
    calls = {str(number): feeds for number, feeds in enumerate(inputs.runs)}
    return _join_runs(graph, [run for _, run in run_reference(graph, ReferenceGraph.read(graph), calls)], inputs.items)


def answer_with_library(library: Path, graph: FrozenGraph, inputs: Inputs) -> Answers:
    """Return the answers of libmodel.so, in this process. Raises VerifyError if this machine can't run it."""
    with OpenedModel(library) as model:
        return _join_runs(graph, [run_once(model, graph, feeds) for feeds in inputs.runs], inputs.items)


def run_once(model: OpenedModel, graph: FrozenGraph, feeds: Mapping[str, Array]) -> Answers:
    """Run one inference: return every fetch, by name, as large as it can be. Raises VerifyError if it fails."""
    call = model.bind_call([feeds[port.spec.name] for port in graph.feeds], [port.spec.size for port in graph.fetches])
    call()
    pairs = zip(graph.fetches, call.fetches, strict=True)
    return {p.spec.name: data.view(p.spec.dtype).reshape(p.spec.shape) for p, data in pairs}


def _join_runs(graph: FrozenGraph, runs: Sequence[Answers], items: int) -> Answers:
    """Concatenate the items of all runs; a result without a batch is one item per run."""
    names = [port.spec.name for port in list_comparable(graph)]
    return {name: np.concatenate([np.atleast_1d(run[name]) for run in runs])[:items] for name in names}


def compare_answers(spec: ModelSpec, graph: FrozenGraph, inputs: Inputs, ours: Answers, theirs: Answers) -> Accuracy:
    """Compare every output of ``spec`` (every fetch, if it has none) that is ``list_comparable``."""
    rows, same = [], []
    outputs = list_outputs(spec, tuple(port.spec for port in graph.fetches))
    for output in outputs[: len(spec.outputs) or None]:
        if output.fetch.name not in ours:
            continue
        a, b = ours[output.fetch.name], theirs[output.fetch.name]
        classes = output.kind == "classification" and b.ndim > 1
        labels = inputs.labels if output.name == inputs.output else None
        rows.append(_compare_output(output.name, a, b, classes, labels))
        if classes:
            same.append((a.argmax(-1) == b.argmax(-1)).reshape(len(b), -1).all(axis=1))
    agreement = float(np.mean(np.logical_and.reduce(same))) if same else None
    return Accuracy(tuple(rows), agreement)


def _compare_output(name: str, ours: Array, theirs: Array, classes: bool, labels: Array | None) -> OutputAccuracy:
    error = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    top1 = top5 = right = right_tensorflow = None
    if classes:
        mine, other = ours.argmax(-1), theirs.argmax(-1)
        top1 = float(np.mean(mine == other))
        if theirs.shape[-1] > 5:
            first = np.argsort(-ours, axis=-1, kind="stable")[..., :5]
            top5 = float(np.mean((first == other[..., None]).any(-1)))
        if labels is not None:
            right, right_tensorflow = float(np.mean(mine == labels)), float(np.mean(other == labels))
    worst, mean = float(error.max(initial=0)), float(error.mean() or 0)
    return OutputAccuracy(name, top1, top5, worst, mean, right, right_tensorflow=right_tensorflow)
