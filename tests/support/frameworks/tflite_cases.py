"""Cases of LiteRT's operators: inputs of many types, and the files that hold them.

``list_cases`` yields them; ``make_file`` gives a case in a type as a file with its feeds, which LiteRT may refuse.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

from tests.support.frameworks.tflite_files import (
    FileGraph,
    FileOperator,
    FileTensor,
    constant,
    make_options,
    write_model,
    write_operator,
)


@dataclass(frozen=True)
class Kind:
    """A type of numbers, and the grids of inputs and outputs where integers stand for real numbers."""

    name: str
    dtype: Any
    scale: float = 0.0
    zero: int = 0
    output: tuple[float, int] = (0.0, 0)

    def quantise(self, scale: float, zero: int) -> dict[str, Any]:
        """Return how a tensor of this kind is quantised, if it is."""
        return {"scale": [scale], "zero": [zero]} if self.scale else {}


_PLAIN = ["float32", "float16", "float64", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"]
_PLAIN += ["uint64", "complex64"]
KINDS = {
    **{name: Kind(name, np.dtype(name)) for name in _PLAIN},
    "bfloat16": Kind("bfloat16", np.dtype(ml_dtypes.bfloat16)),
    "int8 quantised": Kind("int8 quantised", np.dtype(np.int8), 0.04, 3, (0.05, -5)),
    "uint8 quantised": Kind("uint8 quantised", np.dtype(np.uint8), 0.04, 131, (0.05, 120)),
    "int16 quantised": Kind("int16 quantised", np.dtype(np.int16), 0.0002, 0, (0.0003, 0)),
}


@dataclass(frozen=True, eq=False)
class Data:
    """An input in the type of the case; ``role``: a feed, weights, the bias of a sum of products, or a state."""

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    role: str = "feed"


@dataclass(frozen=True, eq=False)
class Feed:
    """An input that depends on a feed and has a type of its own."""

    values: Any


@dataclass(frozen=True, eq=False)
class Case:
    """An operator with inputs (constants are arrays), and the types of its outputs (None: that of the case).

    ``grid`` is how its quantised outputs are: "own" (a grid of their own), "same" (that of the inputs), "unit" (from 0
    to 1) or "signed" (from -1 to 1). ``kinds``: all types in which it makes sense; LiteRT may refuse some of them.
    """

    name: str
    inputs: Sequence[Any]
    options: Any = None
    outputs: Sequence[Any] = (None,)
    grid: str = "own"
    kinds: Sequence[str] = tuple(KINDS)
    version: int = 1
    graphs: Sequence[FileGraph] = ()
    label: str = ""


FLOAT = ("float32",)
PLAIN = tuple(name for name in KINDS if " " not in name)
NUMBERS = tuple(name for name in KINDS if name not in ("bool", "complex64", "int8", "int16", "uint8", "uint16"))
"""Integers of 8 and 16 bits stand for real numbers where an operator computes; without a grid LiteRT's answers mean
nothing."""
UNGRIDDED = tuple(name for name in PLAIN if name not in ("bool", "complex64"))
"""The types of operators that compute with integers of 8 and 16 bits as they are."""


def make_file(case: Case, kind: Kind) -> tuple[bytes, list[Any]]:
    """Return a file of ``case`` in the type of ``kind``, and its feeds. The same case has the same numbers."""
    rng = np.random.default_rng(zlib.crc32(f"{case.name} {case.label} {kind.name}".encode()))
    inputs: list[FileTensor | None] = []
    feeds = []
    for item in case.inputs:
        if isinstance(item, Data):
            tensor, values = _make_data(item, kind, rng)
            inputs.append(tensor)
            feeds += [values] if item.role == "feed" else []
        elif isinstance(item, Feed):
            inputs.append(FileTensor(np.shape(item.values), np.asarray(item.values).dtype))
            feeds.append(np.asarray(item.values))
        else:
            inputs.append(None if item is None else constant(item))
    outputs = [_make_output(dtype, case.grid, kind) for dtype in case.outputs]
    if not case.graphs:
        return write_operator(case.name, inputs, outputs, case.options, case.version), feeds
    tensors = [tensor for tensor in inputs if tensor is not None]
    numbers, made = range(len(tensors)), range(len(tensors), len(tensors) + len(outputs))
    operator = FileOperator(case.name, numbers, made, case.options)
    main = FileGraph([*tensors, *outputs], [operator], [i for i in numbers if tensors[i].data is None], made)
    return write_model(main, *case.graphs), feeds


def _make_output(dtype: Any, grid: str, kind: Kind) -> FileTensor:
    if isinstance(dtype, Kind):
        return FileTensor((), dtype.dtype, **dtype.quantise(*dtype.output))
    if isinstance(dtype, Data):
        return FileTensor(dtype.shape, kind.dtype)
    if dtype is not None:
        return FileTensor((), dtype)
    info = np.iinfo(kind.dtype) if kind.scale else None
    unit = (0.0, 0) if info is None else (1 / 32768, 0) if info.bits == 16 else (1 / 256, int(info.min))
    signed = unit if info is None or info.bits == 16 else (1 / 128, int(info.min) + 128)
    chosen = {"own": kind.output, "same": (kind.scale, kind.zero), "unit": unit, "signed": signed}[grid]
    return FileTensor((), kind.dtype, **kind.quantise(*chosen))


def _make_data(item: Data, kind: Kind, rng: Any) -> tuple[FileTensor, Any]:
    dtype, quantised = kind.dtype, kind.quantise(kind.scale, kind.zero)
    if kind.scale and item.role == "weights":
        dtype = np.dtype(np.uint8 if dtype == np.uint8 else np.int8)
        quantised = kind.quantise(0.02, 120 if dtype == np.uint8 else 0)
    if kind.scale and item.role == "bias":
        dtype = np.dtype(np.int64 if dtype == np.int16 else np.int32)
        values = rng.integers(-500, 500, item.shape).astype(dtype)
        return FileTensor(item.shape, dtype, values, **kind.quantise(kind.scale * 0.02, 0)), values
    values = _draw(item, kind, dtype, rng)
    if item.role == "state":
        return FileTensor(item.shape, dtype, is_variable=True, **quantised), values
    return FileTensor(item.shape, dtype, None if item.role == "feed" else values, **quantised), values


def _draw(item: Data, kind: Kind, dtype: Any, rng: Any) -> Any:
    if kind.scale:
        limits, low, high = np.iinfo(dtype), item.low / kind.scale + kind.zero, item.high / kind.scale + kind.zero
        first = limits.min if item.low == -2 else max(limits.min, round(low))
        last = limits.max if item.high == 2 else min(limits.max, round(high))
        return rng.integers(first, last + 1, item.shape).astype(dtype)
    if dtype.kind == "b":
        return rng.random(item.shape) < 0.5
    if dtype.kind == "c":
        return (rng.uniform(item.low, item.high, item.shape) + 1j * rng.uniform(-2, 2, item.shape)).astype(dtype)
    if dtype.kind in "iu":
        low = max(np.ceil(item.low * 4), 0 if dtype.kind == "u" else -9)
        return rng.integers(int(low), int(item.high * 4) + 1, item.shape).astype(dtype)
    return rng.uniform(item.low, item.high, item.shape).astype(dtype)


def x(*shape: int, low: float = -2.0, high: float = 2.0) -> Data:
    """Return an input that depends on a feed."""
    return Data(shape, low, high)


def w(*shape: int) -> Data:
    """Return weights."""
    return Data(shape, -1, 1, "weights")


def bias(size: int) -> Data:
    """Return a bias."""
    return Data((size,), -1, 1, "bias")


def state(*shape: int) -> Data:
    """Return a state, which is zero at first."""
    return Data(shape, role="state")


def ints(*values: Any) -> Any:
    """Return a constant of int32."""
    return np.array(values, np.int32)


def list_cases() -> Iterator[Case]:
    """Yield all cases, family by family."""
    families = (
        _pointwise, _aggregation, _products, _windows, _arrangement, _resizing, _lookups, _recurrence, _subgraphs,
        _boxes,
    )  # fmt: skip
    for family in families:
        for number, case in enumerate(family()):
            yield replace(case, label=str(number))


_ACTIVATIONS = (schema.ActivationFunctionType.NONE, schema.ActivationFunctionType.RELU6)


def _pointwise() -> Iterator[Case]:
    for name in (
        "ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "NEG", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND",
        "SIGN", "SIN", "SQUARE", "HARD_SWISH", "ZEROS_LIKE", "LOGISTIC", "TANH", "LOG_SOFTMAX",
    ):  # fmt: skip
        grids = {"LOGISTIC": "unit", "TANH": "signed"}
        kinds = UNGRIDDED if name in ("NEG", "SIGN", "ZEROS_LIKE") else NUMBERS
        yield Case(name, [x(2, 3, 5)], grid=grids.get(name, "own"), kinds=kinds)
    for name in ("LOG", "SQRT", "RSQRT"):
        yield Case(name, [x(2, 3, 5, low=0.1)], kinds=NUMBERS)
    for name in ("IMAG", "REAL", "COMPLEX_ABS"):
        yield Case(name, [x(2, 3)], outputs=[np.float32], kinds=["complex64"])
    for name, options in (("ADD", "Add"), ("SUB", "Sub"), ("MUL", "Mul"), ("DIV", "Div")):
        low = 0.5 if name == "DIV" else -2.0
        for activation in _ACTIVATIONS:
            chosen = make_options(options + "Options", fusedActivationFunction=activation)
            yield Case(name, [x(2, 3, 4), x(2, 3, 4, low=low)], chosen, kinds=NUMBERS)
            yield Case(name, [x(2, 3, 4), x(3, 1, low=low)], chosen, kinds=NUMBERS)
            if name != "DIV":
                yield Case(name, [x(4), w(2, 3, 4)], chosen, kinds=[kind for kind in NUMBERS if kind in PLAIN])
    for name, low in (
        ("ATAN2", -2), ("BITWISE_XOR", -2), ("FLOOR_DIV", 0.5), ("FLOOR_MOD", 0.5), ("MAXIMUM", -2), ("MINIMUM", -2),
        ("POW", 0.0), ("RIGHT_SHIFT", 0), ("SQUARED_DIFFERENCE", -2), ("STABLEHLO_ADD", -2), ("STABLEHLO_AND", -2),
        ("STABLEHLO_MAXIMUM", -2), ("STABLEHLO_MINIMUM", -2), ("STABLEHLO_MULTIPLY", -2), ("STABLEHLO_SHIFT_LEFT", 0),
    ):  # fmt: skip
        first = x(2, 3, 4, low=0.1 if name == "POW" else -2)
        same = name in ("MAXIMUM", "MINIMUM")
        kinds = tuple(KINDS) if same else NUMBERS if name in ("SQUARED_DIFFERENCE", "POW", "ATAN2") else PLAIN
        shapes = [(2, 3, 4)] if name.startswith("STABLEHLO") else [(2, 3, 4), (3, 1)]
        for shape in shapes:
            yield Case(name, [first, x(*shape, low=low)], grid="same" if same else "own", kinds=kinds)
    for name in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"):
        kinds = (*NUMBERS, "bool")
        yield Case(name, [x(2, 3, 4), x(2, 3, 4)], outputs=[np.bool_], kinds=kinds)
        yield Case(name, [x(2, 3, 4), x(4)], outputs=[np.bool_], kinds=kinds)
    for name in ("LOGICAL_AND", "LOGICAL_OR"):
        yield Case(name, [x(2, 3), x(3)], outputs=[np.bool_], kinds=["bool"])
    yield Case("LOGICAL_NOT", [x(2, 3)], outputs=[np.bool_], kinds=["bool"])
    yield Case("ADD_N", [x(2, 3), x(2, 3), x(2, 3)], kinds=NUMBERS)
    for approximate in (False, True):
        yield Case("GELU", [x(2, 9)], make_options("GeluOptions", approximate=approximate), kinds=NUMBERS)
    yield Case("LEAKY_RELU", [x(2, 9)], make_options("LeakyReluOptions", alpha=0.1), kinds=NUMBERS)
    yield Case("PRELU", [x(2, 4, 4, 3), w(1, 1, 3)], kinds=NUMBERS)
    for beta, shape in itertools.product((1.0, 0.5), ((2, 5), (2, 2, 2, 3))):
        yield Case("SOFTMAX", [x(*shape)], make_options("SoftmaxOptions", beta=beta), grid="unit", kinds=NUMBERS)
    mask = np.array([[True, False, True], [False, True, False]])
    for name in ("SELECT", "SELECT_V2"):
        yield Case(name, [Feed(mask), x(2, 3), x(2, 3)], grid="same")
    yield Case("SELECT", [Feed(mask[:, 0]), x(2, 3), x(2, 3)], grid="same")
    yield Case("SELECT_V2", [Feed(mask[0]), x(2, 3), x(2, 1)], grid="same")
    for wanted in (*_PLAIN, "bfloat16"):
        yield Case("CAST", [x(2, 5, low=0, high=2)], outputs=[KINDS[wanted].dtype], kinds=(*_PLAIN, "bfloat16"))
    for dtype in (np.float32, np.int32, np.uint32, np.int16, np.int8, np.uint8):
        yield Case("BITCAST", [x(2, 4)], outputs=[dtype], kinds=("float32", "int32", "uint32"))
    yield Case("BUCKETIZE", [x(2, 9)], make_options("BucketizeOptions", boundaries=[-1.0, 0.0, 0.5, 3]), [np.int32])
    for low, high, bits in ((-1.5, 1.0, 8), (0.0, 1.7, 4), (-3, 3, 16)):
        options = make_options("FakeQuantOptions", min=low, max=high, numBits=bits)
        yield Case("FAKE_QUANT", [x(3, 9)], options, kinds=FLOAT)
    yield Case("DEQUANTIZE", [Data((2, 9), role="feed")], outputs=[np.float32], kinds=[k for k in KINDS if " " in k])
    yield Case("DEQUANTIZE", [Data((2, 9), role="feed")], outputs=[np.float32], kinds=["float16"])
    for wanted in ("int8 quantised", "uint8 quantised", "int16 quantised"):
        yield Case("QUANTIZE", [x(2, 9)], outputs=[KINDS[wanted]], kinds=["float32", *(k for k in KINDS if " " in k)])


def _aggregation() -> Iterator[Case]:
    for name in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
        for number, axes in enumerate(([1], [0, 2], [-1, 1, 2], [], [1, 2])):
            options = make_options("ReducerOptions", keepDims=number % 2 == 0)
            grid = "same" if name.startswith("REDUCE_M") else "own"
            yield Case(name, [x(2, 3, 4), ints(*axes)], options, grid=grid, kinds=NUMBERS)
        if name in ("MEAN", "SUM"):
            yield Case(name, [x(2, 5, 4, 3), ints(1, 2)], make_options("ReducerOptions", keepDims=True), kinds=NUMBERS)
    for name, keep in itertools.product(("REDUCE_ANY", "REDUCE_ALL"), (False, True)):
        yield Case(name, [x(2, 3, 2), ints(1, 2)], make_options("ReducerOptions", keepDims=keep), kinds=["bool"])
    for name, dtype in itertools.product(("ARG_MAX", "ARG_MIN"), (np.int32, np.int64)):
        number = schema.TensorType.INT32 if dtype == np.int32 else schema.TensorType.INT64
        options = make_options("ArgMaxOptions" if name == "ARG_MAX" else "ArgMinOptions", outputType=number)
        for axis in (-1, 1):
            yield Case(name, [x(2, 3, 9), ints(axis)[0]], options, [dtype])
    yield Case("TOPK_V2", [x(2, 9), ints(3)], make_options("TopKV2Options"), [None, np.int32], "same")
    yield Case("TOPK_V2", [x(40), ints(40)], make_options("TopKV2Options"), [None, np.int32], "same")
    for exclusive, reverse, axis in itertools.product((False, True), (False, True), (0, -1)):
        options = make_options("CumsumOptions", exclusive=exclusive, reverse=reverse)
        yield Case("CUMSUM", [x(3, 4), ints(axis)[0]], options, kinds=NUMBERS)
    yield Case("L2_NORMALIZATION", [x(2, 3, 4)], make_options("L2NormOptions"), grid="signed", kinds=NUMBERS)
    yield Case("L2_NORMALIZATION", [x(2, 5)], make_options("L2NormOptions"), grid="signed", kinds=NUMBERS)
    for shape, sizes in (((2, 4, 8), (4, 8)), ((4, 8), (2, 4)), ((3, 4), (8, 8))):
        yield Case("RFFT2D", [x(*shape), ints(*sizes)], make_options("Rfft2dOptions"), [np.complex64], kinds=FLOAT)


_PADDINGS = (schema.Padding.SAME, schema.Padding.VALID)


def _products() -> Iterator[Case]:
    for padding, (stride, dilation) in itertools.product(_PADDINGS, ((1, 1), (2, 1), (1, 2))):
        keys = {"padding": padding, "strideH": stride, "strideW": stride}
        keys["fusedActivationFunction"] = _ACTIVATIONS[stride - 1]
        keys |= {"dilationHFactor": dilation, "dilationWFactor": dilation}
        options = make_options("Conv2DOptions", **keys)
        yield Case("CONV_2D", [x(2, 7, 8, 3), w(4, 3, 2, 3), bias(4)], options, kinds=NUMBERS)
        yield Case("CONV_2D", [x(1, 7, 8, 4), w(4, 3, 3, 2), bias(4)], options, kinds=NUMBERS)
        options = make_options("DepthwiseConv2DOptions", **keys, depthMultiplier=2)
        yield Case("DEPTHWISE_CONV_2D", [x(2, 7, 8, 3), w(1, 3, 2, 6), bias(6)], options, kinds=NUMBERS)
    for padding, stride in itertools.product(_PADDINGS, (1, 2, 3)):
        options = make_options("TransposeConvOptions", padding=padding, strideH=stride, strideW=stride)
        size = 5 * stride if padding == schema.Padding.SAME else 4 * stride + 3
        given = [ints(1, size, size, 4), w(4, 3, 3, 2), x(1, 5, 5, 2)]
        yield Case("TRANSPOSE_CONV", [*given, bias(4)], options, kinds=NUMBERS, version=3)
        yield Case("TRANSPOSE_CONV", given, options, kinds=NUMBERS)
    for padding, stride in itertools.product(_PADDINGS, (1, 2)):
        strides = {"strideD": stride, "strideH": stride, "strideW": stride, "padding": padding}
        options = make_options("Conv3DOptions", **strides)
        yield Case("CONV_3D", [x(1, 5, 6, 5, 2), w(2, 3, 2, 2, 4), bias(4)], options, kinds=NUMBERS)
        size = 4 * stride if padding == schema.Padding.SAME else 3 * stride + 2
        given = [ints(1, size, size, size, 3), w(2, 2, 2, 3, 4), x(1, 4, 4, 4, 4), bias(3)]
        yield Case("CONV_3D_TRANSPOSE", given, options, kinds=NUMBERS)
    for keep, activation in itertools.product((False, True), _ACTIVATIONS):
        options = make_options("FullyConnectedOptions", keepNumDims=keep, fusedActivationFunction=activation)
        yield Case("FULLY_CONNECTED", [x(2, 3, 4), w(5, 4), bias(5)], options, kinds=NUMBERS)
        yield Case("FULLY_CONNECTED", [x(6, 8), w(5, 8), None], options, kinds=NUMBERS)
    for adj_x, adj_y in itertools.product((False, True), (False, True)):
        options = make_options("BatchMatMulOptions", adjX=adj_x, adjY=adj_y)
        a, b = (4, 3) if adj_x else (3, 4), (5, 4) if adj_y else (4, 5)
        yield Case("BATCH_MATMUL", [x(2, *a), x(2, *b)], options, kinds=NUMBERS)
        yield Case("BATCH_MATMUL", [x(2, 1, *a), x(3, *b)], options, kinds=NUMBERS)


def _windows() -> Iterator[Case]:
    for name, padding, stride in itertools.product(("MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D"), _PADDINGS, (1, 2)):
        keys = {"padding": padding, "strideH": stride, "strideW": stride}
        keys["fusedActivationFunction"] = _ACTIVATIONS[stride - 1]
        options = make_options("Pool2DOptions", filterHeight=3, filterWidth=2, **keys)
        yield Case(name, [x(2, 7, 6, 3)], options, grid="same", kinds=NUMBERS)
    for radius, power in ((1, 0.75), (2, 0.5), (2, 1.0)):
        options = make_options("LocalResponseNormalizationOptions", radius=radius, bias=1.5, alpha=0.3, beta=power)
        yield Case("LOCAL_RESPONSE_NORMALIZATION", [x(1, 3, 3, 7)], options, kinds=NUMBERS)
    functions = schema.ReduceWindowFunction
    for function, kinds in (
        (functions.ADD, NUMBERS), (functions.MUL, NUMBERS), (functions.MINIMUM, NUMBERS), (functions.MAXIMUM, NUMBERS),
        (functions.ALL, ["bool"]), (functions.ANY, ["bool"]),
    ):  # fmt: skip
        options = make_options("ReduceWindowOptions", reduceFunction=function)
        sizes = [np.array(values, np.int64) for values in ((1, 2, 3), (1, 2, 1), (1, 2, 1))]
        plain = [kind for kind in kinds if " " not in kind]
        yield Case("REDUCE_WINDOW", [x(2, 7, 6), Data((), role="weights"), *sizes], options, kinds=plain)


def _arrangement() -> Iterator[Case]:
    yield Case("SHAPE", [x(2, 3)], make_options("ShapeOptions", outType=schema.TensorType.INT32), [np.int32])
    yield Case("SHAPE", [x(2, 3)], make_options("ShapeOptions", outType=schema.TensorType.INT64), [np.int64])
    yield Case("RANK", [x(2, 3)], make_options("RankOptions"), [np.int32])
    for axis in (0, -1):
        yield Case("EXPAND_DIMS", [x(2, 3), ints(axis)], make_options("ExpandDimsOptions"), grid="same")
    yield Case("TRANSPOSE", [x(2, 3, 4), ints(2, 0, 1)], make_options("TransposeOptions"), grid="same")
    yield Case("TRANSPOSE", [x(2, 3, 1, 2, 2), ints(4, 1, 0, 3, 2)], make_options("TransposeOptions"), grid="same")
    for axis in (0, 1, -1):
        options = make_options("ConcatenationOptions", axis=axis)
        yield Case("CONCATENATION", [x(2, 3, 2), x(2, 3, 2), x(2, 3, 2)], options, grid="same")
        yield Case("PACK", [x(2, 3), x(2, 3)], make_options("PackOptions", valuesCount=2, axis=axis), grid="same")
    options = make_options("UnpackOptions", num=3, axis=1)
    yield Case("UNPACK", [x(2, 3, 2)], options, [None] * 3, "same")
    yield Case("SPLIT", [ints(1)[0], x(2, 6)], make_options("SplitOptions", numSplits=3), [None] * 3, "same")
    options = make_options("SplitVOptions", numSplits=3)
    yield Case("SPLIT_V", [x(2, 6), ints(1, -1, 2), ints(1)[0]], options, [None] * 3, "same")
    yield Case("TILE", [x(2, 3), ints(2, 3)], make_options("TileOptions"), grid="same")
    yield Case("FILL", [ints(2, 3), x()], make_options("FillOptions"), grid="same")
    yield Case("BROADCAST_TO", [x(3, 1), ints(2, 3, 4)], make_options("BroadcastToOptions"), grid="same", version=2)
    yield Case("BROADCAST_ARGS", [ints(3, 1), ints(2, 1, 4)], outputs=[np.int32], kinds=FLOAT)
    for dtype in (np.int32, np.float32, np.int64):
        bounds = [np.asarray(value, dtype) for value in (1, 8, 2)]
        yield Case("RANGE", bounds, make_options("RangeOptions"), [dtype], kinds=FLOAT)
    yield Case("REVERSE_V2", [x(2, 3, 4), ints(1)], make_options("ReverseV2Options"), grid="same")
    yield Case("REVERSE_V2", [x(2, 3, 4), ints(2, 1)], make_options("ReverseV2Options"), grid="same")
    yield Case("RESHAPE", [x(2, 6), ints(3, -1)], make_options("ReshapeOptions"), grid="same")
    yield Case("RESHAPE", [x(2, 6)], make_options("ReshapeOptions", newShape=[4, 3]), grid="same")
    yield Case("SQUEEZE", [x(1, 2, 1, 3)], make_options("SqueezeOptions"), grid="same")
    yield Case("SQUEEZE", [x(1, 2, 1, 3)], make_options("SqueezeOptions", squeezeDims=[-2]), grid="same")
    yield Case("SLICE", [x(3, 4, 5), ints(1, 0, 2), ints(2, -1, 2)], make_options("SliceOptions"), grid="same")
    yield Case("SLICE", [x(3, 4, 5), Feed(ints(1, 0, 2)), ints(2, 4, 2)], make_options("SliceOptions"), grid="same")
    for masks, begin, end, strides in (
        ({}, (0, 1, 4), (2, 4, 0), (1, 2, -2)), ({"beginMask": 5, "endMask": 2}, (1, 1, 1), (2, 2, 4), (1, 1, 1)),
        ({"shrinkAxisMask": 3}, (1, -1, 0), (2, 0, 3), (1, 1, 1)), ({"ellipsisMask": 1}, (0, 1), (0, 3), (1, 1)),
        ({"newAxisMask": 2}, (0, 0, 1), (2, 0, 3), (1, 1, 1)), ({"offset": True}, (0, 1, 2), (2, 3, 2), (1, 1, 1)),
        ({"beginMask": 4, "endMask": 4}, (0, 0, 0), (1, 2, 0), (1, 1, -1)), ({}, (-2, 0), (10, -1), (1, 1)),
    ):  # fmt: skip
        bounds = [ints(*begin), ints(*end), ints(*strides)]
        yield Case("STRIDED_SLICE", [x(2, 4, 5), *bounds], make_options("StridedSliceOptions", **masks), grid="same")
    yield Case("PAD", [x(2, 3), ints([1, 0], [2, 1])], make_options("PadOptions"), grid="same")
    yield Case("PAD", [x(1, 3, 2, 2), ints([0, 0], [1, 1], [0, 2], [0, 0])], make_options("PadOptions"), grid="same")
    yield Case("PADV2", [x(2, 3), ints([1, 0], [2, 1]), w()], make_options("PadV2Options"), grid="same", kinds=PLAIN)
    for mode in (schema.MirrorPadMode.REFLECT, schema.MirrorPadMode.SYMMETRIC):
        options = make_options("MirrorPadOptions", mode=mode)
        yield Case("MIRROR_PAD", [x(3, 4), ints([1, 2], [0, 3])], options, grid="same")
    yield Case("DILATE", [x(3, 2), ints(2, 3), w()], make_options("DilateOptions"), grid="same", kinds=PLAIN)
    pads = {"edgePaddingLow": [1, -1], "edgePaddingHigh": [0, 2], "interiorPadding": [1, 2]}
    yield Case("STABLEHLO_PAD", [x(3, 4), w()], make_options("StablehloPadOptions", **pads), kinds=PLAIN)
    for seq, batch in ((1, 0), (0, 1), (2, 0)):
        options = make_options("ReverseSequenceOptions", seqDim=seq, batchDim=batch)
        lengths = np.array([2, 1, 2][: (2, 3, 4)[batch]], np.int32)
        yield Case("REVERSE_SEQUENCE", [x(2, 3, 4), Feed(lengths)], options, grid="same")
    diagonal = ("float32", "int8", "int16", "int32", "int64", "uint8")
    yield Case("MATRIX_DIAG", [x(2, 3)], make_options("MatrixDiagOptions"), kinds=diagonal)
    yield Case("MATRIX_SET_DIAG", [x(2, 3, 4), x(2, 3)], make_options("MatrixSetDiagOptions"), kinds=diagonal)
    yield Case("DEPTH_TO_SPACE", [x(2, 3, 2, 8)], make_options("DepthToSpaceOptions", blockSize=2), grid="same")
    yield Case("SPACE_TO_DEPTH", [x(2, 4, 6, 3)], make_options("SpaceToDepthOptions", blockSize=2), grid="same")
    block = [ints(2, 3), ints([0, 1], [2, 1])]
    yield Case("SPACE_TO_BATCH_ND", [x(2, 3, 3, 2), *block], make_options("SpaceToBatchNDOptions"), grid="same")
    yield Case("BATCH_TO_SPACE_ND", [x(12, 3, 3, 2), *block], make_options("BatchToSpaceNDOptions"), grid="same")
    one = [ints(2), ints([0, 1])]
    yield Case("SPACE_TO_BATCH_ND", [x(2, 3, 4), *one], make_options("SpaceToBatchNDOptions"), grid="same")
    yield Case("BATCH_TO_SPACE_ND", [x(4, 3, 4), *one], make_options("BatchToSpaceNDOptions"), grid="same")


def _resizing() -> Iterator[Case]:
    for align, half, size in itertools.product((False, True), (False, True), ((8, 6), (3, 2), (7, 9), (1, 1))):
        if align and half:
            continue
        for name, kind in (("RESIZE_BILINEAR", "Bilinear"), ("RESIZE_NEAREST_NEIGHBOR", "NearestNeighbor")):
            options = make_options(f"Resize{kind}Options", alignCorners=align, halfPixelCenters=half)
            yield Case(name, [x(2, 4, 5, 3), ints(*size)], options, grid="same", kinds=NUMBERS)


def _lookups() -> Iterator[Case]:
    for axis in (-1, 0, 1):
        given = [Feed(ints([0, 2], [1, 4])), ints(3)[0], w(), w()]
        yield Case("ONE_HOT", given, make_options("OneHotOptions", axis=axis), grid="same", kinds=PLAIN)
    for axis, batch, indices in ((0, 0, [1, 0, 1]), (1, 0, [[2, 0], [1, 1]]), (1, 1, [[2, 0], [1, 1]]), (-1, 0, [3])):
        options = make_options("GatherOptions", axis=axis, batchDims=batch)
        for dtype in (np.int32, np.int64):
            yield Case("GATHER", [x(2, 3, 4), Feed(np.array(indices, dtype))], options, grid="same")
    for indices in ([[0, 1], [1, 2]], [[[1]], [[0]]]):
        yield Case("GATHER_ND", [x(2, 3, 4), Feed(ints(*indices))], make_options("GatherNdOptions"), grid="same")
    yield Case("EMBEDDING_LOOKUP", [Feed(ints(2, 0, 2)), Data((4, 3), role="weights")], kinds=PLAIN)
    for combiner in (schema.CombinerType.SUM, schema.CombinerType.MEAN, schema.CombinerType.SQRTN):
        options = make_options("EmbeddingLookupSparseOptions", combiner=combiner)
        given = [Feed(ints(1, 3, 0)), Feed(ints([0, 0], [2, 0], [2, 1])), ints(3, 2), x(3, low=0.5), w(4, 3)]
        yield Case("EMBEDDING_LOOKUP_SPARSE", given, options, kinds=FLOAT)
    given = [Feed(ints(4, 5, -1, 9)), ints(-1, 2, 4, 9), w(4, 3)]
    yield Case("HASHTABLE_LOOKUP", given, outputs=[None, np.uint8], kinds=["float32", "int32"])
    given = [Feed(ints([1], [3], [1])), x(3, 2), ints(5, 2)]
    yield Case("SCATTER_ND", given, make_options("ScatterNdOptions"), kinds=PLAIN)
    given = [Feed(ints([1, 0], [2, 1])), x(2, 2), ints(3, 2, 2)]
    yield Case("SCATTER_ND", given, make_options("ScatterNdOptions"), kinds=PLAIN)
    for indices, sizes, values in (
        (ints(1, 3), ints(5), x(2)),
        (ints([0, 1], [2, 0]), ints(3, 2), x(2)),
        (ints(2), ints(4), x()),
    ):
        given = [Feed(indices), sizes, values, w()]
        yield Case("SPARSE_TO_DENSE", given, make_options("SparseToDenseOptions"), kinds=PLAIN)
    for start in ([1, 1], [3, 0], [-1, 9]):
        given = [x(4, 3), x(2, 2), Feed(ints(*start))]
        yield Case("DYNAMIC_UPDATE_SLICE", given, make_options("DynamicUpdateSliceOptions"), grid="same")
    yield Case("SEGMENT_SUM", [x(4, 2), ints(0, 0, 1, 2)], make_options("SegmentSumOptions"), kinds=NUMBERS)
    for name in ("Sum", "Prod", "Min", "Max"):
        for ids, shape in ((ints(2, 0, -1, 2), (4, 2)), (ints([1, 0], [1, 3]), (2, 2, 3))):
            options = make_options(f"UnsortedSegment{name}Options")
            given = [x(*shape), Feed(ids), ints(5)[0]]
            yield Case(f"UNSORTED_SEGMENT_{name.upper()}", given, options, kinds=NUMBERS)
    yield Case("WHERE", [np.array([[True, False], [True, True]])], outputs=[np.int64], kinds=FLOAT)
    for dtype in (np.int32, np.float32, np.int64):
        options = make_options("UniqueOptions", idxOutType=schema.TensorType.INT32)
        yield Case("UNIQUE", [np.array([3, 1, 3, 2, 1], dtype)], options, [dtype, np.int32], kinds=FLOAT)
    keys = {"offsetDims": [2], "collapsedSliceDims": [0], "startIndexMap": [1, 0], "indexVectorDim": 2}
    options = make_options("StablehloGatherOptions", **keys, sliceSizes=[1, 2])
    yield Case("STABLEHLO_GATHER", [x(3, 4), Feed(ints([[0, 1], [2, 2]]))], options, [x(1, 2, 2)], kinds=PLAIN)
    for operator in ("STABLEHLO_ADD", "STABLEHLO_MULTIPLY", "STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM", ""):
        for kind in ("float32", "int32"):
            scalars = [FileTensor((), KINDS[kind].dtype) for _ in range(3)]
            inner = [FileOperator(operator, [0, 1], [2])] if operator else []
            graph = FileGraph(scalars, inner, [0, 1], [2 if operator else 1])
            keys = {"updateWindowDims": [1], "insertedWindowDims": [0], "scatterDimsToOperandDims": [0]}
            keys |= {"indexVectorDim": 1, "updateComputationSubgraphIndex": 1}
            options = make_options("StablehloScatterOptions", **keys)
            given = [x(4, 2), Feed(ints([1], [3], [1])), x(3, 2)]
            yield Case("STABLEHLO_SCATTER", given, options, kinds=[kind], graphs=[graph])


def _lstm_parts(cells: int, outputs: int, inputs: int, *, full: bool, projected: bool) -> list[Any]:
    """Return the weights of an LSTM without those of its states; without ``full`` there is no input gate."""
    first = w(cells, inputs) if full else None
    kernels = [first, *(w(cells, inputs) for _ in range(3))]
    recurrent = [w(cells, outputs) if full else None, *(w(cells, outputs) for _ in range(3))]
    peepholes = [w(cells) if full else None, w(cells), w(cells)]
    biases = [w(cells) if full else None, *(w(cells) for _ in range(3))]
    return [
        *kernels,
        *recurrent,
        *peepholes,
        *biases,
        *([w(outputs, cells), w(outputs)] if projected else [None, None]),
    ]


def _recurrence() -> Iterator[Case]:
    tanh = {"fusedActivationFunction": schema.ActivationFunctionType.TANH}
    for activation in (schema.ActivationFunctionType.TANH, schema.ActivationFunctionType.RELU):
        chosen = {"fusedActivationFunction": activation}
        given = [x(2, 3), w(4, 3), w(4, 4), w(4), state(2, 4)]
        yield Case("RNN", given, make_options("RNNOptions", **chosen), kinds=FLOAT)
        for major in (False, True):
            given = [x(2, 5, 3), w(4, 3), w(4, 4), w(4), state(5 if major else 2, 4)]
            options = make_options("SequenceRNNOptions", timeMajor=major, **chosen)
            yield Case("UNIDIRECTIONAL_SEQUENCE_RNN", given, options, kinds=FLOAT)
    for major, merge in itertools.product((False, True), (False, True)):
        count = 5 if major else 2
        both = [*(w(4, 3), w(4, 4), w(4), state(count, 4)), *(w(4, 3), w(4, 4), w(4), state(count, 4))]
        options = make_options("BidirectionalSequenceRNNOptions", timeMajor=major, mergeOutputs=merge, **tanh)
        given = [x(2, 5, 3), *both, None, None, None]
        yield Case("BIDIRECTIONAL_SEQUENCE_RNN", given, options, [None] if merge else [None, None], kinds=FLOAT)
    for major, full, projected, norm in itertools.product((False, True), (False, True), (False, True), (False, True)):
        count, outputs = 5 if major else 2, 3 if projected else 4
        parts = _lstm_parts(4, outputs, 3, full=full, projected=projected)
        norms = [w(4) if full else None, w(4), w(4), w(4)] if norm else []
        keys = {"timeMajor": major, "cellClip": 0.9 if norm else 0.0, "projClip": 0.4 if full else 0.0}
        options = make_options("UnidirectionalSequenceLSTMOptions", **keys, **tanh)
        given = [x(2, 5, 3), *parts, state(count, outputs), state(count, 4), *norms]
        yield Case("UNIDIRECTIONAL_SEQUENCE_LSTM", given, options, kinds=FLOAT)
        if not major and not norm:
            given = [x(2, 3), *parts, state(2, outputs), state(2, 4)]
            yield Case("LSTM", given, make_options("LSTMOptions", **tanh), kinds=FLOAT)
    options = make_options("LSTMOptions", kernelType=schema.LSTMKernelType.BASIC, **tanh)
    given = [x(2, 3), x(2, 4), w(16, 7), w(16), x(2, 4)]
    yield Case("LSTM", given, options, [None] * 4, kinds=FLOAT)
    for major, full, merge in itertools.product((False, True), (False, True), (False, True)):
        batch = 1 if merge else 2  # LiteRT mixes the states of examples up where it joins the outputs.
        count = 5 if major else batch
        parts = [part for _ in range(2) for part in _lstm_parts(4, 4, 3, full=full, projected=False)]
        options = make_options("BidirectionalSequenceLSTMOptions", timeMajor=major, mergeOutputs=merge, **tanh)
        given = [x(batch, 5, 3), *parts, *(state(count, 4) for _ in range(4)), *[None] * 9]
        yield Case("BIDIRECTIONAL_SEQUENCE_LSTM", given, options, [None] if merge else [None, None], kinds=FLOAT)
    for rank in (1, 2):
        options = make_options("SVDFOptions", rank=rank, **tanh)
        given = [x(2, 3), w(4, 3), w(4, 5), w(4 // rank), state(2, 20)]
        yield Case("SVDF", given, options, kinds=FLOAT)


def _make_chain(shape: tuple[int, ...], names: Sequence[str]) -> FileGraph:
    """Return a graph that applies unary operators one after the other."""
    tensors = [FileTensor(shape) for _ in range(len(names) + 1)]
    return FileGraph(tensors, [FileOperator(name, [i], [i + 1]) for i, name in enumerate(names)], [0], [len(names)])


def _subgraphs() -> Iterator[Case]:
    chains = [_make_chain((2, 3), names) for names in (["TANH"], ["ABS", "SQRT"], ["NEG"])]
    options = make_options("IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    for condition in (True, False):
        yield Case("IF", [Feed(np.array([condition])), x(2, 3)], options, kinds=FLOAT, graphs=chains)
    options = make_options("StablehloCaseOptions", branchSubgraphIndices=[1, 2, 3])
    for number in (0, 1, 2):
        yield Case("STABLEHLO_CASE", [Feed(ints(number)), x(2, 3)], options, kinds=FLOAT, graphs=chains)
    options = make_options("StableHLOCompositeOptions", name="test.absolute_root", decompositionSubgraphIndex=2)
    options.compositeAttributes = list(flexbuffers.Dumps({}))
    yield Case("STABLEHLO_COMPOSITE", [x(2, 3)], options, kinds=FLOAT, graphs=chains)
    counter = [FileTensor(()), FileTensor((2, 3)), constant(np.float32(4)), FileTensor((), np.bool_)]
    condition = FileGraph(counter, [FileOperator("LESS", [0, 2], [3])], [0, 1], [3])
    values = [FileTensor(()), FileTensor((2, 3)), constant(np.float32(1.5)), FileTensor(()), FileTensor((2, 3))]
    add = make_options("AddOptions")
    steps = [FileOperator("ADD", [0, 2], [3], add), FileOperator("ADD", [1, 3], [4], add)]
    body = FileGraph(values, steps, [0, 1], [3, 4])
    options = make_options("WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2)
    yield Case("WHILE", [Feed(np.float32(0.5)), x(2, 3)], options, [None, None], kinds=FLOAT, graphs=[condition, body])
    for operator, start in (("ADD", 0), ("MULTIPLY", 1), ("MAXIMUM", -np.inf), ("MINIMUM", np.inf)):
        scalars = [FileTensor(()), FileTensor(()), FileTensor(())]
        graph = FileGraph(scalars, [FileOperator(f"STABLEHLO_{operator}", [0, 1], [2])], [0, 1], [2])
        keys = {"windowDimensions": [2, 3], "windowStrides": [2, 1], "padding": [1, 0, 0, 2], "bodySubgraphIndex": 1}
        keys |= {"baseDilations": [2, 1], "windowDilations": [1, 2]}
        options = make_options("StablehloReduceWindowOptions", **keys)
        yield Case("STABLEHLO_REDUCE_WINDOW", [x(5, 6), np.float32(start)], options, kinds=FLOAT, graphs=[graph])


def _draw_boxes(count: int) -> Any:
    rng = np.random.default_rng(count)
    corner = rng.uniform(0, 0.7, (count, 2))
    return np.concatenate([corner, corner + rng.uniform(0.05, 0.4, (count, 2))], 1).astype(np.float32)


def _boxes() -> Iterator[Case]:
    for count, limit, most, least in ((12, 5, 0.3, 0.2), (40, 20, 0.5, -9), (6, 9, 0.6, 0.5)):
        thresholds = [np.float32(most), np.float32(least)]
        given = [Feed(_draw_boxes(count)), x(count, low=0, high=1), ints(limit)[0], *thresholds]
        options = make_options("NonMaxSuppressionV4Options")
        yield Case("NON_MAX_SUPPRESSION_V4", given, options, [np.int32, np.int32], kinds=FLOAT)
        for sigma in (0.0, 0.5):
            options = make_options("NonMaxSuppressionV5Options")
            outputs = [np.int32, np.float32, np.int32]
            yield Case("NON_MAX_SUPPRESSION_V5", [*given, np.float32(sigma)], options, outputs, kinds=FLOAT)
    for regular, classes, each in ((False, 3, 1), (False, 3, 2), (True, 3, 1), (True, 2, 1)):
        keys = {
            "max_detections": 6,
            "max_classes_per_detection": each,
            "num_classes": classes,
            "use_regular_nms": regular,
        }
        keys |= {"nms_score_threshold": 0.1, "nms_iou_threshold": 0.4, "detections_per_class": 4}
        keys |= {"y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}
        corners = _draw_boxes(30)
        anchors = np.concatenate([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]], 1)
        given = [x(1, 30, 4), x(1, 30, classes + 1, low=0, high=1), anchors]
        options = bytes(flexbuffers.Dumps(keys))
        yield Case("TFLite_Detection_PostProcess", given, options, [np.float32] * 4, kinds=FLOAT)
