"""Reads .tflite files: ports and a JAX function; LiteRT answers for the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from ai_edge_litert.interpreter import Interpreter

from builder.base.arrays import Array
from builder.importers.frameworks.framework_model import FrameworkModel
from builder.importers.frameworks.tflite.tflite_graph import TfliteSubgraph, read_graph
from builder.importers.loaded import make_names_unique
from builder.importers.ports import ModelPorts, PortInfo


def open_tflite(path: Path) -> FrameworkModel:
    """Open the model in ``path``. Feeds and fetches have the names of its signature, if there is one.

    Raises ImportModelError for a file that is not a .tflite model.
    """
    data = path.read_bytes()
    graph, model = read_graph(data, path.name)
    main = graph.subgraphs[0]
    signatures = [item for item in model.signatureDefs or [] if item.subgraphIndex == 0]
    signature = signatures[0] if signatures else None
    ports = ModelPorts(
        _list_ports(main, main.inputs, signature.inputs if signature else ()),
        _list_ports(main, main.outputs, signature.outputs if signature else ()),
    )

    def run(*feeds: Any) -> list[Any]:
        return [jnp.asarray(value) for value in graph.run(feeds)]

    def answer(feeds: Sequence[Array]) -> list[Array]:
        interpreter = Interpreter(model_content=data, num_threads=1)
        inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
        for detail, value in zip(inputs, feeds, strict=True):
            interpreter.resize_tensor_input(detail["index"], value.shape)
        interpreter.allocate_tensors()
        for detail, value in zip(inputs, feeds, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        return [np.asarray(interpreter.get_tensor(detail["index"])) for detail in outputs]

    return FrameworkModel(ports, lambda: run, answer)


def _list_ports(graph: TfliteSubgraph, numbers: Sequence[int], names: Sequence[Any]) -> tuple[PortInfo, ...]:
    """Return the ports of tensors ``numbers``, called as ``names`` (of a signature) or as the tensors themselves."""
    aliases = {item.tensorIndex: item.name.decode() for item in names}
    visible = make_names_unique([aliases.get(i, graph.tensors[i].name) for i in numbers])
    return tuple(
        PortInfo(name, str(graph.tensors[i].dtype), graph.tensors[i].signature)
        for name, i in zip(visible, numbers, strict=True)
    )
