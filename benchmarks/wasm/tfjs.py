"""A frozen graph in TensorFlow.js' format, by TensorFlow's own converter (the package tensorflowjs)."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from builder.importers.graph import FrozenGraph


def to_tfjs(graph: FrozenGraph, folder: Path) -> None:
    """Write model.json and its weights into ``folder``; BatchNorm folded, activations fused."""
    _converter().convert_tf_frozen_model(
        str(graph.graph_path), ",".join(port.tensor.split(":")[0] for port in graph.fetches), str(folder)
    )


@functools.cache
def _converter() -> Any:
    """Its module for graphs, without what the package imports for other formats (JAX, decision forests, TF Hub)."""
    spec = importlib.util.find_spec("tensorflowjs")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("tensorflowjs is not installed")
    root = Path(spec.origin).parent
    for name in ("tensorflow_decision_forests", "tensorflow_hub", "tensorflowjs", "tensorflowjs.converters"):
        sys.modules[name] = ModuleType(name)
    sys.modules["tensorflowjs"].__path__ = [str(root)]
    sys.modules["tensorflowjs.converters"].__path__ = [str(root / "converters")]
    return importlib.import_module("tensorflowjs.converters.tf_saved_model_conversion_v2")
