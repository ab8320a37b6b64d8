"""The inputs on which a library is measured: a user's own, or the golden ones."""

from __future__ import annotations

from pathlib import Path

from builder.base.project import cache_folder
from builder.config import ModelSpec
from builder.importers.graph import FrozenGraph
from builder.importers.samples.user_samples import Inputs, read_samples
from builder.package.tokenizers_library import add_tokenizers_package
from builder.verify.golden import GoldenFile


def load_golden_inputs(spec: ModelSpec, graph: FrozenGraph) -> Inputs:
    """Load the inputs with which a library is verified."""
    names = [port.spec.name for port in graph.feeds]
    with GoldenFile.open(graph.golden_path) as golden:
        runs = tuple({name: golden.read_feed(case, name) for name in names} for case in golden.cases)
    return Inputs("the golden inputs", runs, len(runs) * spec.batch)


def load_user_inputs(path: Path, spec: ModelSpec, graph: FrozenGraph) -> Inputs:
    """Load the inputs at ``path``. Raises UsageError as ``user_samples.read_samples`` does."""
    return read_samples(path, add_tokenizers_package(spec, cache_folder()), [port.spec for port in graph.feeds])
