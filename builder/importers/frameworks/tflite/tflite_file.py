"""The contents of a .tflite file, checked so that a damaged file is refused here."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ai_edge_litert import schema_py_generated as schema

from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.importers.frameworks.tflite.tflite_graph import (
    TfliteGraph,
    TfliteOperator,
    TfliteSubgraph,
    list_subgraphs,
)
from builder.importers.frameworks.tflite.tflite_tensors import read_tensor

_OPERATOR_NAMES = {number: name for name, number in vars(schema.BuiltinOperator).items() if isinstance(number, int)}
_LONGEST_LABELS = 1 << 20
"""The largest list of labels in bytes."""

Port = tuple[str, int]
"""The name of an input or output, and the number of its tensor."""


@dataclass(frozen=True, eq=False)
class TfliteSignature:
    """The number of a subgraph, and its inputs and outputs, in its own order."""

    number: int
    feeds: tuple[Port, ...]
    fetches: tuple[Port, ...]


@dataclass(frozen=True, eq=False)
class TfliteFile:
    """The graph and the signatures of a file, by name. ``description`` says where it is from.

    ``labels``: the names of classes that were appended to it.
    """

    graph: TfliteGraph
    signatures: Mapping[str, TfliteSignature]
    description: str
    labels: tuple[str, ...]


def read_file(data: bytes, name: str) -> TfliteFile:
    """Return what is in ``data``, the bytes of the file ``name``.

    Raises ImportModelError for what is not a .tflite file, or is damaged, or has operators that are not read.
    """
    if data[4:8] != b"TFL3":
        raise ImportModelError(f"{name} is not a TensorFlow Lite model: its identifier TFL3 is missing.")
    try:
        model = schema.ModelT.InitFromPackedBuf(data, 0)
        graph = TfliteGraph(tuple(_read_subgraph(model, item) for item in model.subgraphs))
        _require_known(graph, name)
        _require_order(graph.subgraphs)
        signatures = {item.signatureKey.decode(): _read_signature(graph, item) for item in model.signatureDefs or ()}
        description = (model.description or b"").decode(errors="replace")
    except ImportModelError:
        raise
    except Exception as error:  # A damaged flatbuffer fails in many ways.
        raise ImportModelError(f"{name} is not a valid TensorFlow Lite model: {describe_error(error)}") from error
    return TfliteFile(graph, signatures, description, _read_labels(data))


def _read_labels(data: bytes) -> tuple[str, ...]:
    """Return the lines of the only list of labels in the zip archive that TFLite Metadata appends to a file.

    Specification: https://ai.google.dev/edge/litert/models/metadata. No list, several, or a damaged one give none.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            (entry,) = (item for item in archive.infolist() if re.search(r"label.*\.txt$", item.filename))
            lines = archive.read(entry).decode().splitlines() if entry.file_size <= _LONGEST_LABELS else []
    except Exception:  # The file may have no archive, which is usual, and one may fail in many ways.
        return ()
    labels = tuple(line.strip() for line in lines)
    return labels if all(labels) and len(set(labels)) == len(labels) else ()


def _read_subgraph(model: Any, graph: Any) -> TfliteSubgraph:
    tensors = tuple(read_tensor(model, tensor) for tensor in graph.tensors)
    operators = tuple(_read_operator(model, item) for item in _list(graph.operators))
    return TfliteSubgraph(tensors, operators, _read_numbers(graph.inputs), _read_numbers(graph.outputs))


def _read_operator(model: Any, item: Any) -> TfliteOperator:
    code = model.operatorCodes[item.opcodeIndex]
    name = _OPERATOR_NAMES[max(code.builtinCode, code.deprecatedBuiltinCode)]
    name = (code.customCode or b"").decode() if name == "CUSTOM" else name
    options = item.builtinOptions if item.builtinOptions is not None else item.builtinOptions2
    options = item.customOptions if options is None else options
    return TfliteOperator(name, options, _read_numbers(item.inputs), _read_numbers(item.outputs))


def _read_numbers(values: Any) -> tuple[int, ...]:
    return tuple(map(int, _list(values)))


def _list(values: Any) -> Any:
    return () if values is None else values


def _read_signature(graph: TfliteGraph, item: Any) -> TfliteSignature:
    main = graph.subgraphs[item.subgraphIndex]
    sides = (main.inputs, item.inputs), (main.outputs, item.outputs)
    return TfliteSignature(item.subgraphIndex, *(_read_ports(numbers, _list(names)) for numbers, names in sides))


def _read_ports(numbers: Sequence[int], names: Sequence[Any]) -> tuple[Port, ...]:
    """Return the tensors ``numbers`` in this order, by ``names``. Raises ValueError if one has no name."""
    ports = [(item.name.decode(), int(item.tensorIndex)) for item in names]
    if {i for _, i in ports} != set(numbers):
        raise ValueError("a signature does not name all inputs and outputs")
    return tuple(sorted(ports, key=lambda port: numbers.index(port[1])))


def _require_known(graph: TfliteGraph, name: str) -> None:
    """Raise ImportModelError with all operators that are not read."""
    if unsupported := graph.list_unsupported():
        listed = ", ".join(f"{operator} ({why})" if why else operator for operator, why in unsupported.items())
        raise ImportModelError(f"{name} uses operators that are not supported: {listed}. See `coldforge docs tflite`.")


def _require_order(graphs: Sequence[TfliteSubgraph]) -> None:
    """Raise ValueError unless each tensor is made once, and before it is read, and no subgraph is part of itself."""
    done: set[int] = set()

    def visit(number: int, callers: frozenset[int]) -> None:
        if number in callers:
            raise ValueError(f"subgraph {number} calls itself")
        if number not in done and number >= 0:
            for operator in graphs[number].operators:
                for called in list_subgraphs(operator.options):
                    visit(called, callers | {number})
            done.add(number)

    for number, graph in enumerate(graphs):
        visit(number, frozenset())
        numbers = range(len(graph.tensors))
        made = {i for i in numbers if graph.tensors[i].data is not None} | set(graph.inputs)
        for operator in graph.operators:
            unmade, again = {i for i in operator.inputs if i >= 0} - made, made.intersection(operator.outputs)
            if unmade or again:
                raise ValueError(f"{operator.name} reads or writes tensors out of order: {sorted(unmade | again)}")
            made.update(operator.outputs)
        if not made.issuperset(graph.outputs) or not made.issubset(numbers):
            raise ValueError(f"a tensor of subgraph {number} is missing")
