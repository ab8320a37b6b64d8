"""Writes small .tflite files, operator by operator, for tests that hold our answers against LiteRT's.

It needs ``ai_edge_litert``, so it runs in the environment of ONNX's and LiteRT's models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from builder.importers.frameworks.tflite.tflite_tensors import DTYPES

_TYPE_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


@dataclass(frozen=True, eq=False)
class FileTensor:
    """A tensor of a file; ``data`` makes it constant, ``scale`` and ``zero`` quantise it (along ``axis``).

    ``kind`` is the name of its type where NumPy has none ("INT4", "RESOURCE"); ``data`` of 4 bits is given as int8.
    """

    shape: tuple[int, ...]
    dtype: Any = np.float32
    data: Any = None
    scale: Sequence[float] = ()
    zero: Sequence[int] = ()
    axis: int = 0
    kind: str = ""
    signature: tuple[int, ...] | None = None
    is_variable: bool = False


@dataclass(frozen=True, eq=False)
class FileOperator:
    """An operator on tensors by their numbers (-1: none); ``options`` are of ``make_options`` or a custom one's bytes.

    ``name`` is that of a builtin operator, or else of a custom one.
    """

    name: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: Any = None
    version: int = 1
    intermediates: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class FileGraph:
    """A subgraph of a file; its inputs and outputs are numbers of its tensors."""

    tensors: Sequence[FileTensor]
    operators: Sequence[FileOperator]
    inputs: Sequence[int]
    outputs: Sequence[int]
    signature: str = ""


@dataclass
class _FileParts:
    buffers: list[Any] = field(default_factory=lambda: [schema.BufferT()])
    codes: list[Any] = field(default_factory=list)
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)


def constant(values: Any, dtype: Any = None, **quantisation: Any) -> FileTensor:
    """Return a tensor that holds ``values``."""
    data = np.asarray(values, dtype)
    return FileTensor(data.shape, data.dtype, data, **quantisation)


def make_options(kind: str, **values: Any) -> Any:
    """Return the options of a builtin operator, such as ``make_options("Pool2DOptions", strideW=2)``."""
    options = getattr(schema, kind + "T")()
    for name, value in values.items():
        assert hasattr(options, name), name
        setattr(options, name, value)
    return options


def write_model(*graphs: FileGraph) -> bytes:
    """Return a .tflite file of ``graphs``; the first is the model, the others are those that operators call."""
    model, parts = schema.ModelT(), _FileParts()
    model.version, model.description = 3, "test"
    model.subgraphs = [_make_graph(graph, f"graph{i}", parts) for i, graph in enumerate(graphs)]
    model.buffers, model.operatorCodes = parts.buffers, parts.codes
    model.signatureDefs = [_make_signature(graph, i) for i, graph in enumerate(graphs) if graph.signature]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def write_operator(
    name: str,
    inputs: Sequence[FileTensor | None],
    outputs: Sequence[FileTensor],
    options: Any = None,
    version: int = 1,
    intermediates: Sequence[FileTensor] = (),
) -> bytes:
    """Return a file of one operator: its ``inputs`` without data are the inputs of the model (None: left out)."""
    tensors = [tensor for tensor in inputs if tensor is not None]
    numbers = [-1 if tensor is None else tensors.index(tensor) for tensor in inputs]
    made = range(len(tensors), len(tensors) + len(outputs))
    feeds = [i for i, tensor in enumerate(tensors) if tensor.data is None and not tensor.is_variable]
    inner = range(made.stop, made.stop + len(intermediates))
    operator = FileOperator(name, numbers, made, options, version, inner)
    return write_model(FileGraph([*tensors, *outputs, *intermediates], [operator], feeds, made))


def run_interpreter(data: bytes, feeds: Sequence[Any], *, reference: bool = False) -> list[Any]:
    """Return LiteRT's outputs of a file, by its default kernels (XNNPACK's too) or by its reference kernels."""
    resolver = OpResolverType.BUILTIN_REF if reference else OpResolverType.AUTO
    interpreter = Interpreter(model_content=data, num_threads=1, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), feeds, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [np.asarray(interpreter.get_tensor(detail["index"])) for detail in interpreter.get_output_details()]


def _make_graph(graph: FileGraph, name: str, parts: _FileParts) -> Any:
    made = schema.SubGraphT()
    made.name = name
    made.tensors = [_make_tensor(tensor, f"t{i}", parts) for i, tensor in enumerate(graph.tensors)]
    made.inputs, made.outputs = list(graph.inputs), list(graph.outputs)
    made.operators = [_make_operator(operator, parts) for operator in graph.operators]
    return made


def _make_tensor(tensor: FileTensor, name: str, parts: _FileParts) -> Any:
    made = schema.TensorT()
    made.name, made.shape, made.hasRank, made.isVariable = name, list(tensor.shape), True, tensor.is_variable
    made.type = getattr(schema.TensorType, tensor.kind) if tensor.kind else _TYPE_NUMBERS[np.dtype(tensor.dtype)]
    made.shapeSignature = None if tensor.signature is None else list(tensor.signature)
    if tensor.data is not None:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(_pack(tensor), np.uint8)
        made.buffer = len(parts.buffers)
        parts.buffers.append(buffer)
    if len(tensor.scale):
        made.quantization = schema.QuantizationParametersT()
        made.quantization.scale = [float(value) for value in tensor.scale]
        made.quantization.zeroPoint = [int(value) for value in tensor.zero] or [0] * len(tensor.scale)
        made.quantization.quantizedDimension = tensor.axis
    return made


def _pack(tensor: FileTensor) -> bytes:
    data = np.asarray(tensor.data)
    if tensor.kind != "INT4":
        return data.astype(tensor.dtype).tobytes()
    halves = np.append(data.reshape(-1), np.zeros(data.size % 2)).astype(np.int8).view(np.uint8) & 15
    return (halves[::2] | halves[1::2] << 4).tobytes()


def _make_operator(operator: FileOperator, parts: _FileParts) -> Any:
    made = schema.OperatorT()
    made.opcodeIndex = _enter_code(operator, parts)
    made.inputs, made.outputs = list(map(int, operator.inputs)), list(map(int, operator.outputs))
    made.intermediates = list(operator.intermediates)
    if isinstance(operator.options, bytes):
        made.customOptions = list(operator.options)
    elif operator.options is not None:
        kind = type(operator.options).__name__.removesuffix("T")
        if hasattr(schema.BuiltinOptions, kind):
            made.builtinOptionsType, made.builtinOptions = getattr(schema.BuiltinOptions, kind), operator.options
        else:
            made.builtinOptions2Type, made.builtinOptions2 = getattr(schema.BuiltinOptions2, kind), operator.options
    return made


def _enter_code(operator: FileOperator, parts: _FileParts) -> int:
    key = operator.name, operator.version
    if key not in parts.numbers:
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, operator.name, schema.BuiltinOperator.CUSTOM)
        code.customCode = None if hasattr(schema.BuiltinOperator, operator.name) else operator.name
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = operator.version
        parts.numbers[key] = len(parts.codes)
        parts.codes.append(code)
    return parts.numbers[key]


def _make_signature(graph: FileGraph, number: int) -> Any:
    made = schema.SignatureDefT()
    made.signatureKey, made.subgraphIndex = graph.signature, number
    made.inputs = [_make_name(f"input{i}", tensor) for i, tensor in enumerate(graph.inputs)]
    made.outputs = [_make_name(f"output{i}", tensor) for i, tensor in enumerate(graph.outputs)]
    return made


def _make_name(name: str, number: int) -> Any:
    made = schema.TensorMapT()
    made.name, made.tensorIndex = name, int(number)
    return made
