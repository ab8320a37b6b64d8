"""Reads .onnx files: ports and, for fixed shapes, a JAX function; ONNX Runtime answers for the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.importers.frameworks.framework_model import (
    FrameworkModel,
    decode_strings,
    find_endings,
    make_port,
    number_strings,
)
from builder.importers.frameworks.onnx.class_outputs import ClassOutputs, find_class_outputs, read_answer
from builder.importers.frameworks.onnx.graph_function import GraphRunner, name_domain, read_opsets
from builder.importers.frameworks.onnx.text_codes import TextCodes
from builder.importers.loaded import make_names_unique
from builder.importers.ports import ModelPorts, PortInfo

_OLDEST = 7
"""The first opset whose operators broadcast as NumPy does."""

_MOVES = {"Cast", "Expand", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators that move the elements of their first input, or give them another type."""


def open_onnx(path: Path) -> FrameworkModel:
    """Open the model in ``path``. Feeds and fetches keep their names.

    Raises ImportModelError for a file that is not an ONNX model, or that takes or gives anything but tensors.
    """
    try:
        model = onnx.load(path)
        onnx.checker.check_model(path)
    except Exception as error:  # The file may be no protobuf, break a rule, or have its weights elsewhere.
        raise ImportModelError(f"{path.name} is not a valid ONNX model: {describe_error(error)}") from error
    opsets = read_opsets(model.opset_import)
    if opsets.get("", _OLDEST) < _OLDEST:
        raise ImportModelError(
            f"{path.name} uses opset {opsets['']}, and {_OLDEST} is the oldest that is read: convert it with "
            "onnx.version_converter."
        )
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    makers = {name: node for node in model.graph.node for name in node.output}
    rows = _count_rows(model.graph, makers)
    declared = zip(_list_ports(inputs, path.name), inputs, strict=True)
    choices = _find_choices(model.graph, makers)
    feeds = tuple(replace(port, rows=rows.get(value.name), value=choices.get(value.name)) for port, value in declared)
    classes = find_class_outputs(model.graph, makers)
    outputs = [value for value in model.graph.output if not (classes.derived and value.name == classes.label)]
    fetches = _list_ports(outputs, path.name, classes)
    facts = find_endings(
        {port.name: value.name for port, value in zip(fetches, outputs, strict=True)},
        {name: (node.op_type, next(iter(node.input), "")) for name, node in makers.items()},
        _MOVES | {"QuantizeLinear", "DequantizeLinear"},
    )
    scores = next((port.name for port, value in zip(fetches, outputs, strict=True) if value.name == classes.scores), "")
    facts = replace(
        facts, endings={port: op for port, op in facts.endings.items() if port != scores or op == "Softmax"}
    )
    writer = " ".join(filter(None, (model.producer_name, model.producer_version))) or "an unnamed program"
    versions = ", ".join(f"opset {version}{domain and f' of {domain}'}" for domain, version in opsets.items())
    ports = ModelPorts(feeds, fetches, facts=facts, labels=classes.names, origin=f"written by {writer}, {versions}")
    runner = GraphRunner(opsets, {(name_domain(item.domain), item.name): item for item in model.functions})
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    if missing := sorted(set(runner.list_unsupported(nodes))):
        raise ImportModelError(
            f"{path.name} uses operators that are not supported: {', '.join(missing)}. See `coldforge docs onnx`."
        )
    names, results = [value.name for value in inputs], [value.name for value in outputs]
    compared: dict[str, set[str]] = {port.name: set() for port in feeds if port.dtype == "string"}
    vocabularies: dict[str, tuple[str, ...]] = dict.fromkeys(compared, ())

    def run(*values: Any) -> list[Any]:
        scope = dict(zip(names, values, strict=True))
        for name, port in zip(names, feeds, strict=True):
            if port.name in compared:
                scope[name] = TextCodes(scope[name], vocabularies[port.name], (compared[port.name],))
        runner.run_graph(model.graph, scope)
        return [_read_result(scope[name], classes) for name in results]

    if compared:  # A first run, of shapes alone, finds what strings are compared with.
        fixed = [ports.fix_batch(port, 1) for port in number_strings(ports).feeds]
        sizes = [tuple(size or 1 for size in port.shape or ()) for port in fixed]
        structs = [jax.ShapeDtypeStruct(size, port.dtype) for size, port in zip(sizes, fixed, strict=True)]
        jax.eval_shape(lambda *values: run(*values), *structs)  # Of ``run`` itself, JAX would keep this run.
        vocabularies |= {name: tuple(sorted(texts)) for name, texts in compared.items()}

    def answer(arrays: Sequence[Array]) -> list[Array]:
        session = _open_session(path)
        texts = [
            decode_strings(array, vocabularies[port.name]) if port.name in compared else array
            for array, port in zip(arrays, feeds, strict=True)
        ]
        values = session.run(results, dict(zip(names, texts, strict=True)))
        return [read_answer(value, classes.names) for value in values]

    return FrameworkModel(ports, lambda: run, answer, channels_first=True, vocabularies=vocabularies)


def _open_session(path: Path) -> Any:
    """Return ONNX Runtime's session with the graph as it is written, in one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _read_result(value: Any, classes: ClassOutputs) -> Any:
    """Return an output as an array: a label that is a text as the number of its class, int64."""
    return value.recode_texts(classes.names).astype(np.int64) if isinstance(value, TextCodes) else jnp.asarray(value)


def _list_ports(values: Sequence[Any], file: str, classes: ClassOutputs | None = None) -> tuple[PortInfo, ...]:
    names = make_names_unique([value.name for value in values])
    return tuple(_make_port(name, value, file, classes) for name, value in zip(names, values, strict=True))


def _count_rows(graph: Any, makers: Mapping[str, Any]) -> dict[str, int]:
    """Find the inputs whose elements are looked up in a table, and the rows of the smallest table of each.

    ONNX Runtime raises on an index outside of the table; the program would take the nearest row.
    """
    sizes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    rows: dict[str, int] = {}
    for node in graph.node:
        if node.op_type != "Gather" or not sizes.get(node.input[0]):
            continue
        axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
        name = node.input[1]
        while name in makers and makers[name].op_type in _MOVES:
            name = makers[name].input[0]
        count = sizes[node.input[0]][axis]
        rows[name] = min(count, rows.get(name, count))
    return rows


def _find_choices(graph: Any, makers: Mapping[str, Any]) -> dict[str, Any]:
    """Find the constant with which an input is compared to choose a branch, such as the rate of samples."""
    known = {
        name: numpy_helper.to_array(node.attribute[0].t)
        for name, node in makers.items()
        if node.op_type == "Constant" and node.attribute[0].name == "value"
    }
    choosing = {node.input[0] for node in graph.node if node.op_type == "If"}
    compared = [node.input for node in graph.node if node.op_type == "Equal" and node.output[0] in choosing]
    return {
        name: known[other].item()
        for pair in compared
        for name, other in (pair, pair[::-1])
        if other in known and known[other].size == 1
    }


def _make_port(name: str, value: Any, file: str, classes: ClassOutputs | None) -> PortInfo:
    """Return a port; an open dimension has a name in the file, or nothing."""
    if classes and value.name == classes.scores and value.type.WhichOneof("value") != "tensor_type":
        return make_port(name, "float32", ["", len(classes.names)])
    if classes and value.name == classes.label and value.type.tensor_type.elem_type == TensorProto.STRING:
        return make_port(name, "int64", [""])
    if value.type.WhichOneof("value") != "tensor_type":
        raise ImportModelError(
            f"{file}: {value.name} is a {value.type.WhichOneof('value')}, not a tensor; sequences, maps and optional "
            "values are not supported."
        )
    tensor = value.type.tensor_type
    sizes = [size.dim_value if size.dim_value > 0 else size.dim_param.strip("?") for size in tensor.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return make_port(name, "string" if tensor.elem_type == onnx.TensorProto.STRING else str(dtype), sizes)
