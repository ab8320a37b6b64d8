"""What the tests of real builds share: specs without a model.toml, and small models of each format."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.project import Project
from builder.base.tf import import_tensorflow, reference_session
from builder.config import Format, ModelSpec, Source
from builder.importers.graph import FrozenGraph
from builder.importers.model_import import import_model
from tests.conftest import have_dependencies

SUFFIXES: dict[str, Format] = {
    ".keras": "keras",
    ".h5": "h5",
    ".hdf5": "h5",
    ".pb": "graph_def",
    ".pbtxt": "graph_def",
    ".jax": "jax",
    ".pt2": "pytorch",
    ".onnx": "onnx",
    ".tflite": "tflite",
    ".ubj": "xgboost",
    ".skops": "sklearn",
    ".joblib": "sklearn",
}


def empty_project(root: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project at ``root``, the current folder from here on, in which nothing is built but the dependencies layer."""
    shutil.copytree(have_dependencies(), root / "build" / "dependencies")
    monkeypatch.chdir(root)
    return Project(root)


def spec_for(
    path: Path,
    *,
    trust: bool = False,
    signature: str | None = None,
    config: Path | None = None,
    **options: Any,
) -> ModelSpec:
    """The spec of the model at ``path``, as if its model.toml stood beside it; ``options`` are ModelSpec's fields."""
    source = Source(
        format=SUFFIXES.get(path.suffix, "saved_model"),
        path=path,
        trust=trust,
        signature=signature,
        config=config,
    )
    return ModelSpec(path=path.parent / "model.toml", name="test", version="1", source=source, **options)


def freeze(path: Path, folder: Path, **options: Any) -> FrozenGraph:
    """The model at ``path`` imported into ``folder`` with the options of ``spec_for``."""
    return import_model(spec_for(path, **options), path, folder)


def save_keras(model: Any, path: Path, seed: int = 0) -> Path:
    """Give every weight a value that matters (Keras' defaults leave BatchNorm and biases trivial) and save."""
    random = np.random.default_rng(seed)
    for variable in model.variables:
        if "seed" in variable.path or not variable.dtype.startswith(("float", "bfloat")):
            continue
        if "variance" in variable.path or "gamma" in variable.path:
            value = random.uniform(0.5, 1.5, variable.shape)
        else:
            fan_in = max(int(np.prod(variable.shape[:-1])), 1)
            value = random.normal(0, fan_in**-0.5, variable.shape)
        variable.assign(value)
    model.save(path)
    return path


def save_graph(
    function: Callable[..., Any], feeds: Mapping[str, tuple[str, tuple[int, ...]]], folder: Path
) -> FrozenGraph:
    """``function`` of the named feeds (dtype, shape) as a FrozenGraph; it gives a tensor or a dict of them."""
    from builder.importers.freeze import write_frozen
    from builder.importers.loaded import RawGraph

    tf = import_tensorflow()
    with tf.Graph().as_default() as graph:
        inputs = [tf.compat.v1.placeholder(dtype, shape, name=name) for name, (dtype, shape) in feeds.items()]
        tf.compat.v1.enable_control_flow_v2()
        result = function(*inputs)
        fetches = result if isinstance(result, dict) else {"y": result}
        raw = RawGraph(
            graph.as_graph_def(),
            {name: tensor.name for name, tensor in zip(feeds, inputs, strict=True)},
            {name: tensor.name for name, tensor in fetches.items()},
        )
    shapes = {name: shape for name, (_, shape) in feeds.items()}
    return write_frozen(raw, shapes, {name: name for name in fetches}, spec_for(folder / "graph.pb"), folder)


def run_graph(graph: FrozenGraph, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """TensorFlow's answers, by fetch name."""
    tf = import_tensorflow()
    definition = tf.compat.v1.GraphDef.FromString(graph.graph_path.read_bytes())
    with tf.Graph().as_default() as loaded, reference_session(loaded) as session:
        tf.import_graph_def(definition, name="")
        answers = session.run(
            {p.spec.name: p.tensor for p in graph.fetches}, {p.tensor: feeds[p.spec.name] for p in graph.feeds}
        )
    return {name: np.asarray(value) for name, value in answers.items()}
