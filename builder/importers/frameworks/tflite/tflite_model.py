"""Reads .tflite files: ports and a JAX function; LiteRT answers for the file."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
from ai_edge_litert.interpreter import Interpreter

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.importers.frameworks.framework_model import FrameworkModel, find_endings
from builder.importers.frameworks.tflite.tflite_file import Port, TfliteSignature, read_file
from builder.importers.frameworks.tflite.tflite_graph import TfliteSubgraph
from builder.importers.loaded import choose_signature, make_names_unique
from builder.importers.ports import GraphFacts, ModelPorts, PortInfo

_KEEPS_STATES = (
    "its recurrent operators keep their states from run to run, as LiteRT's do until reset_all_variables(): the items "
    "of a request are one sequence"
)
_ENDINGS = {"LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax", "LOG_SOFTMAX": "LogSoftmax"}


def open_tflite(path: Path, signature: str | None = None) -> FrameworkModel:
    """Open ``signature`` of the model in ``path``, or what runs without one: its first subgraph.

    Feeds and fetches have the names of the signature; without one, those of their tensors. Raises ImportModelError for
    a file that is not a .tflite model, or has no such signature.
    """
    data = path.read_bytes()
    file = read_file(data, path.name)
    graph, there = file.graph, tuple(file.signatures)
    if signature is None:
        signature = next((name for name in there if file.signatures[name].number == 0), None)
    named = file.signatures[choose_signature(signature, there, path)] if signature is not None else None
    entry = named or _name_tensors(graph.subgraphs[0])
    number, feeds, fetches = entry.number, entry.feeds, entry.fetches
    main = graph.subgraphs[number]
    first, written = graph.read_variables(number), graph.list_written(number)

    def run(*values: Any) -> list[Any]:
        """Compute the outputs and then the new values of states, from the inputs and the states."""
        variables = first | dict(zip(written, values[len(feeds) :], strict=True))
        results = dict(zip(main.outputs, graph.run(values[: len(feeds)], variables, number), strict=True))
        return [*(jnp.asarray(results[i]) for _, i in fetches), *(jnp.asarray(variables[name]) for name in written)]

    @functools.cache
    def open_interpreter() -> Interpreter:
        interpreter = Interpreter(model_content=data, num_threads=1)
        return interpreter

    def answer(values: Sequence[Array]) -> list[Array]:
        interpreter = open_interpreter()  # It keeps the states.
        if named:
            results = interpreter.get_signature_runner(signature)(**dict(zip(dict(feeds), values, strict=True)))
            return [results[name] for name, _ in fetches]
        for (_, i), value in zip(feeds, values, strict=True):
            interpreter.resize_tensor_input(i, value.shape)
        interpreter.allocate_tensors()
        for (_, i), value in zip(feeds, values, strict=True):
            interpreter.set_tensor(i, value)
        interpreter.invoke()
        return [interpreter.get_tensor(i) for _, i in fetches]

    ports = ModelPorts(
        _describe_ports(main, feeds),
        _describe_ports(main, fetches),
        signature,
        there,
        _find_endings(main, fetches),
        warnings=(_KEEPS_STATES,) if main.states else (),
        labels=file.labels,
        origin=file.description,
    )
    names = make_names_unique([key if isinstance(key, str) else key.name for key in written])
    states = dict(zip(names, map(first.__getitem__, written), strict=True))
    return FrameworkModel(ports, lambda: run, answer, states=states)


def _find_endings(graph: TfliteSubgraph, fetches: Sequence[Port]) -> GraphFacts:
    makers = {
        out: (_ENDINGS.get(operator.name, operator.name), next(iter(operator.inputs), -1))
        for operator in graph.operators
        for out in operator.outputs
    }
    return find_endings(dict(fetches), makers, {"DEQUANTIZE", "QUANTIZE", "RESHAPE", "CAST", "SQUEEZE"})


def _name_tensors(graph: TfliteSubgraph) -> TfliteSignature:
    """Return a signature of the first subgraph with the tensors' own names."""
    sides = (tuple((graph.tensors[i].name, i) for i in numbers) for numbers in (graph.inputs, graph.outputs))
    return TfliteSignature(0, *sides)


def _describe_ports(graph: TfliteSubgraph, ports: Sequence[Port]) -> tuple[PortInfo, ...]:
    """Raises ImportModelError for a tensor that is not of numbers."""
    visible, tensors = make_names_unique([name for name, _ in ports]), [graph.tensors[i] for _, i in ports]
    for tensor in tensors:
        if tensor.dtype is None:
            raise ImportModelError(
                f"{tensor.name!r} is {tensor.kind}, which a .tflite model can neither take nor give here."
            )
    return tuple(
        PortInfo(name, str(tensor.dtype), tensor.signature, quantised=tensor.scale_and_zero)
        for name, tensor in zip(visible, tensors, strict=True)
    )
