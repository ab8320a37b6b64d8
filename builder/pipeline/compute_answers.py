"""Inputs on which a library is measured, a user's own or the golden ones, and TensorFlow's answers to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from builder.base.arrays import save_arrays
from builder.base.errors import VerifyError
from builder.base.files import scratch_folder
from builder.base.project import cache_folder
from builder.base.sandbox.sandbox_client import describe_crash
from builder.config import ModelSpec
from builder.importers.graph import FrozenGraph
from builder.importers.samples.user_samples import Feeds, Inputs, read_samples
from builder.package.tokenizers_library import add_tokenizers_package
from builder.pipeline.workspace import Workspace
from builder.verify.golden import GoldenFile
from builder.verify.quantise import answer_accuracy
from builder.verify.quantise.answer_accuracy import Answers

_INPUTS, _ANSWERS = "inputs.npz", "answers.npz"


def load_golden_inputs(spec: ModelSpec, graph: FrozenGraph) -> Inputs:
    """Load the inputs with which a library is verified."""
    names = [port.spec.name for port in graph.feeds]
    with GoldenFile.open(graph.golden_path) as golden:
        runs = tuple({name: golden.read_feed(case, name) for name in names} for case in golden.cases)
    return Inputs("the golden inputs", runs, len(runs) * spec.batch)


def load_user_inputs(path: Path | None, spec: ModelSpec, graph: FrozenGraph) -> Inputs:
    """Load the inputs at ``path``; None for the golden ones. Raises UsageError as ``read_samples`` does."""
    if path is None:
        return load_golden_inputs(spec, graph)
    return read_samples(path, add_tokenizers_package(spec, cache_folder()), [port.spec for port in graph.feeds])


def tensorflow_answers(ws: Workspace, graph: FrozenGraph, inputs: Inputs) -> Answers:
    """Compute the answers op by op, with float32 weights. Raises VerifyError if TensorFlow cannot run the graph."""
    with scratch_folder(ws.build / "answers") as folder:
        arrays = {f"{run}/{name}": array for run, feeds in enumerate(inputs.runs) for name, array in feeds.items()}
        save_arrays(folder / _INPUTS, arrays)
        ws.run_sandboxed(
            _answer_inputs, graph, inputs.items, folder=folder, reads=[graph.folder], failed=make_answers_error
        )
        with np.load(folder / _ANSWERS, allow_pickle=False) as answers:
            return {name: answers[name] for name in answers.files}


def make_answers_error(code: int, output: str) -> VerifyError:
    """Return the error for a TensorFlow process that ended with ``code``."""
    return VerifyError(describe_crash(code, output, "TensorFlow's run of the model"))


def _answer_inputs(graph: FrozenGraph, items: int) -> None:
    runs: dict[int, Feeds] = {}
    with np.load(_INPUTS, allow_pickle=False) as arrays:
        for key in arrays.files:
            run, _, name = key.partition("/")
            runs.setdefault(int(run), {})[name] = arrays[key]
    save_arrays(Path(_ANSWERS), answer_accuracy.answer_with_tensorflow(graph, Inputs("", tuple(runs.values()), items)))
