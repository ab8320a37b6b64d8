"""Reads .tflite files: ports and a JAX function; LiteRT answers for the file."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from ai_edge_litert.interpreter import Interpreter

from builder.base.arrays import Array
from builder.importers.frameworks.framework_model import FrameworkModel, find_endings
from builder.importers.frameworks.tflite.tflite_graph import TfliteSubgraph, read_graph
from builder.importers.loaded import make_names_unique
from builder.importers.ports import ModelPorts, PortInfo

_ENDINGS = {"LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax", "LOG_SOFTMAX": "LogSoftmax"}


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
        fetches := _list_ports(main, main.outputs, signature.outputs if signature else ()),
        facts=find_endings(
            {port.name: number for port, number in zip(fetches, main.outputs, strict=True)},
            {
                out: (_ENDINGS.get(operator.name, operator.name), next(iter(operator.inputs), -1))
                for operator in main.operators
                for out in operator.outputs
            },
            {"DEQUANTIZE", "QUANTIZE", "RESHAPE", "CAST", "SQUEEZE"},
        ),
        origin=(model.description or b"").decode(errors="replace"),
    )

    first = graph.read_variables(0)
    written = sorted(graph.list_written(0))

    def run(*values: Any) -> list[Any]:
        """Compute the outputs and then the new values of states, from the inputs and the states."""
        count = len(main.inputs)
        variables = first | dict(zip(written, values[count:], strict=True))
        results = graph.run(values[:count], variables)
        return [jnp.asarray(value) for value in (*results, *map(variables.__getitem__, written))]

    @functools.cache
    def open_interpreter(*shapes: Sequence[int]) -> Any:
        """Return an interpreter, which keeps the states, for inputs of these shapes."""
        interpreter = Interpreter(model_content=data, num_threads=1)
        for detail, shape in zip(interpreter.get_input_details(), shapes, strict=True):
            interpreter.resize_tensor_input(detail["index"], shape)
        interpreter.allocate_tensors()
        return interpreter

    def answer(feeds: Sequence[Array]) -> list[Array]:
        interpreter = open_interpreter(*(value.shape for value in feeds))
        for detail, value in zip(interpreter.get_input_details(), feeds, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        return [np.asarray(interpreter.get_tensor(detail["index"])) for detail in interpreter.get_output_details()]

    states = dict(zip(make_names_unique(written), map(first.__getitem__, written), strict=True))
    return FrameworkModel(ports, lambda: run, answer, states=states)


def _list_ports(graph: TfliteSubgraph, numbers: Sequence[int], names: Sequence[Any]) -> tuple[PortInfo, ...]:
    """Return the ports of tensors ``numbers``, called as ``names`` (of a signature) or as the tensors themselves."""
    aliases = {item.tensorIndex: item.name.decode() for item in names}
    visible = make_names_unique([aliases.get(i, graph.tensors[i].name) for i in numbers])
    return tuple(
        PortInfo(
            name, str(graph.tensors[i].dtype), graph.tensors[i].signature, quantised=graph.tensors[i].scale_and_zero
        )
        for name, i in zip(visible, numbers, strict=True)
    )
