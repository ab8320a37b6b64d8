"""Quantised operators of LiteRT, each as a JAX function held against LiteRT's bytes; prints how many cases agree.

It runs in the environment of ONNX's and LiteRT's models. Scales, zero points and values are random, the least and
the largest integer among them, and each case runs several times. Arguments are beginnings of names of cases.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

os.environ |= {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}

import jax
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from builder.importers.frameworks.tflite.tflite_file import read_file
from tests.support.frameworks.tflite_files import FileTensor, constant, make_options, run_interpreter, write_operator

TURNS = 2
IMAGE = (2, 5, 6, 8)
I8, U8, I16 = np.dtype(np.int8), np.dtype(np.uint8), np.dtype(np.int16)
ALL, BYTES = (I8, U8, I16), (I8, U8)
rng = np.random.default_rng(0)
Case = tuple[str, Sequence[FileTensor | None], FileTensor, Any]
CASES: dict[str, Callable[[], Case]] = {}


def quantised(dtype: Any, shape: Sequence[int] = IMAGE, scale: float = 0, zero: int | None = None) -> FileTensor:
    """Return a tensor with a scale (random if it is 0) and a zero point (random if it is None; 0 for 16 bits)."""
    limits = np.iinfo(dtype)
    scale = scale or float((2.0**-6 if dtype != I16 else 2.0**-13) * 2 ** rng.uniform(-1, 1))
    zero = int(rng.integers(limits.min // 2, limits.max // 2)) if zero is None else zero
    return FileTensor(tuple(shape), dtype, scale=[scale], zero=[0 if dtype == I16 else zero])


def like(tensor: FileTensor, shape: Sequence[int]) -> FileTensor:
    """Return a tensor with the scale and zero point of another."""
    return FileTensor(tuple(shape), tensor.dtype, scale=tensor.scale, zero=tensor.zero)


def between(low: float, high: float) -> float:
    """Return a random number."""
    return float(rng.uniform(low, high))


def define(name: str, dtypes: Sequence[Any] = ALL, **choices: Sequence[Any]) -> Callable[[Callable[..., Case]], Any]:
    """Return a decorator that enters a maker of a case for each type, and each choice of one keyword."""

    def enter(make: Callable[..., Case]) -> Callable[..., Case]:
        (keyword, values), *_ = [*choices.items(), ("", [None])]
        for dtype in dtypes:
            for value in values:
                arguments = {keyword: value} if keyword else {}
                label = f"{name} {dtype}" + (f" {keyword} {value}" if keyword else "")
                CASES[label] = functools.partial(make, dtype, **arguments)
        return make

    return enter


def axes(*values: int) -> FileTensor:
    """Return a constant of int32."""
    return constant(np.array(values, np.int32))


def fused(kind: str, activation: int = 0, **options: Any) -> Any:
    """Return options with a fused activation."""
    return make_options(kind, fusedActivationFunction=activation, **options)


_ARITHMETIC = {"ADD": {"potScaleInt16": False}, "SUB": {"potScaleInt16": False}, "MUL": {}}
for _name, _extra in _ARITHMETIC.items():
    _kind = _name.title() + "Options"

    @define(_name, activation=(0, 1, 3))
    def make_sum(dtype: Any, activation: int, name: str = _name, kind: str = _kind, extra: Any = _extra) -> Case:
        second = quantised(dtype, (1, 1, 1, 8) if activation == 1 else IMAGE)
        return name, [quantised(dtype), second], quantised(dtype), fused(kind, activation, **extra)

    if _name != "MUL":

        @define(f"{_name} of scales far apart")
        def make_far_sum(dtype: Any, name: str = _name, kind: str = _kind, extra: Any = _extra) -> Case:
            inputs = [quantised(dtype, scale=2.0**-6), quantised(dtype, scale=20.0)]
            return name, inputs, quantised(dtype, scale=0.1), fused(kind, **extra)


def define_unary(name: str, dtypes: Sequence[Any] = ALL, low: float = 0, high: float = 0, **output: Any) -> None:
    """Enter cases of a function of one tensor whose bytes have a scale between ``low`` and ``high``."""

    @define(name, dtypes)
    def make(dtype: Any) -> Case:
        scale = between(low, high) if low and dtype != I16 else 0
        result = quantised(dtype, scale=output.get("scale", 0) if dtype != I16 else output.get("wide", 0))
        if "zero" in output:
            result = quantised(dtype, scale=result.scale[0], zero=output["zero"] + (128 if dtype == U8 else 0))
        zero = -128 if name == "SQRT" else None
        options = {
            "LEAKY_RELU": lambda: make_options("LeakyReluOptions", alpha=between(0.01, 0.5)),
            "GELU": lambda: make_options("GeluOptions", approximate=bool(rng.integers(2))),
        }.get(name, lambda: None)
        return name, [quantised(dtype, scale=scale, zero=zero)], result, options()


for _name in ("RELU", "RELU6", "LEAKY_RELU"):
    define_unary(_name)
for _name in ("RELU_N1_TO_1", "RELU_0_TO_1"):
    define_unary(_name, BYTES)
for _name in ("ABS", "NEG"):
    define_unary(_name, (I8, I16))
define_unary("LOG", (I8,))  # Of int16, LOG and GELU may be a step off: the C library does not find the nearest float32.
define_unary("HARD_SWISH", BYTES, 0.04, 0.1)
define_unary("GELU", BYTES, 0.04, 0.1)
define_unary("ELU", (I8,), 0.04, 0.1)
define_unary("EXP", (I8, I16), 0.04, 0.1, scale=0.05)
define_unary("SQRT", (I8,))
define_unary("TANH", ALL, 0.02, 0.1, scale=1 / 128, wide=1 / 32768, zero=0)
define_unary("LOGISTIC", ALL, 0.02, 0.1, scale=1 / 256, wide=1 / 32768, zero=-128)


@define("power of two", (I16,), operator=("LOGISTIC", "TANH"))
def make_power_of_two(dtype: Any, operator: str) -> Case:
    scale = 2.0**-12 if operator == "LOGISTIC" else 2.0 ** -int(rng.integers(11, 13))
    return operator, [quantised(dtype, scale=scale)], quantised(dtype, scale=2.0**-15), None


@define("QUANTIZE", ALL, source=(I8, U8, I16, np.dtype(np.float32)))
def make_quantise(dtype: Any, source: Any) -> Case:
    source = I8 if (source, dtype) == (I16, U8) else source
    return "QUANTIZE", [FileTensor(IMAGE) if source.kind == "f" else quantised(source)], quantised(dtype), None


@define("DEQUANTIZE")
def make_dequantise(dtype: Any) -> Case:
    return "DEQUANTIZE", [quantised(dtype)], FileTensor(IMAGE), None


@define("L2_NORMALIZATION", BYTES)
def make_l2_normalisation(dtype: Any) -> Case:
    shape = (3, int(rng.integers(2, 300)))
    result = quantised(dtype, shape, 1 / 128, 128 if dtype == U8 else 0)
    return "L2_NORMALIZATION", [quantised(dtype, shape)], result, fused("L2NormOptions")


@define("RSQRT", (I8, I16))
def make_reciprocal_root(dtype: Any) -> Case:
    tensor = quantised(dtype, zero=-128)
    return "RSQRT", [tensor], quantised(dtype, scale=0.05 if dtype == I8 else 2**-8), None


@define("PRELU")
def make_prelu(dtype: Any) -> Case:
    return "PRELU", [quantised(dtype), quantised(I8 if dtype == I16 else dtype, (1, 1, 8))], quantised(dtype), None


@define("SQUARED_DIFFERENCE", (I8,))
def make_squared_difference(dtype: Any) -> Case:
    return "SQUARED_DIFFERENCE", [quantised(dtype), quantised(dtype)], quantised(dtype, scale=0.05), None


@define("comparison", operator=("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"))
def make_comparison(dtype: Any, operator: str) -> Case:
    return operator, [quantised(dtype), quantised(dtype)], FileTensor(IMAGE, np.bool_), None


@define("choice", operator=("MINIMUM", "MAXIMUM"))
def make_choice(dtype: Any, operator: str) -> Case:
    tensor = quantised(dtype)
    return operator, [tensor, like(tensor, (1, 1, 6, 8))], like(tensor, IMAGE), None


for _name in ("MEAN", "SUM"):

    @define(_name, over=((1, 2), (3,), (1,), (0, 1, 2, 3)))
    def make_mean(dtype: Any, over: tuple[int, ...], name: str = _name) -> Case:
        keep = len(over) % 2 == 0
        shape = [1 if i in over else size for i, size in enumerate(IMAGE) if keep or i not in over]
        scale = between(0.5, 1) * (1 if dtype != I16 else 2**-8) if name == "SUM" else 0
        options = make_options("ReducerOptions", keepDims=keep)
        return name, [quantised(dtype), axes(*over)], quantised(dtype, shape, scale), options


@define("reduction", operator=("REDUCE_MAX", "REDUCE_MIN"))
def make_extreme(dtype: Any, operator: str) -> Case:
    tensor = quantised(dtype)
    return operator, [tensor, axes(1, 2)], like(tensor, (2, 8)), make_options("ReducerOptions", keepDims=False)


for _name in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):

    @define(_name, activation=(0, 1, 3))
    def make_pool(dtype: Any, activation: int, name: str = _name) -> Case:
        size = {"strideW": 2, "strideH": 2, "filterWidth": 3, "filterHeight": 3, "padding": activation and 1}
        tensor = quantised(dtype)
        shape = (2, 2, 2, 8) if activation else (2, 3, 3, 8)
        return name, [tensor], like(tensor, shape), fused("Pool2DOptions", activation, **size)


@define("SOFTMAX", beta=(1.0, 0.5))
def make_softmax(dtype: Any, beta: float) -> Case:
    scale = 0 if dtype == I16 else between(0.02, 0.2)
    result = quantised(dtype, (3, 20), 1 / 32768 if dtype == I16 else 1 / 256, 0 if dtype == U8 else -128)
    return "SOFTMAX", [quantised(dtype, (3, 20), scale)], result, make_options("SoftmaxOptions", beta=beta)


@define("LOG_SOFTMAX", BYTES)
def make_log_softmax(dtype: Any) -> Case:
    result = quantised(dtype, (3, 20), 1 / 16, 255 if dtype == U8 else 127)
    return "LOG_SOFTMAX", [quantised(dtype, (3, 20), between(0.02, 0.2))], result, None


for _name, _kind in {"RESIZE_BILINEAR": "Bilinear", "RESIZE_NEAREST_NEIGHBOR": "NearestNeighbor"}.items():

    @define(_name, places=("", "alignCorners", "halfPixelCenters"))
    def make_resize(dtype: Any, places: str, name: str = _name, kind: str = _kind) -> Case:
        tensor, sizes = quantised(dtype), [(10, 12), (7, 3)][rng.integers(2)]
        options = make_options(f"Resize{kind}Options", **({places: True} if places else {}))
        return name, [tensor, axes(*sizes)], like(tensor, (2, *sizes, 8)), options


@define("CONCATENATION")
def make_concatenation(dtype: Any) -> Case:
    tensor = quantised(dtype)
    return (
        "CONCATENATION",
        [tensor, like(tensor, IMAGE)],
        like(tensor, (2, 5, 6, 16)),
        fused("ConcatenationOptions", axis=3),
    )


@define("RESHAPE")
def make_reshape(dtype: Any) -> Case:
    tensor = quantised(dtype)
    return "RESHAPE", [tensor, axes(2, -1)], like(tensor, (2, 240)), None


@define("PAD", (I8, U8))
def make_pad(dtype: Any) -> Case:
    tensor = quantised(dtype)
    pads = constant(np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32))
    return "PAD", [tensor, pads], like(tensor, (2, 8, 7, 8)), None


def make_weights(dtype: Any, shape: Sequence[int], axis: int, *, per_channel: bool) -> FileTensor:
    """Return constant integers with a scale for each channel, or one."""
    limits, count = np.iinfo(dtype), shape[axis] if per_channel else 1
    values = rng.integers(max(limits.min, -127), limits.max + 1, tuple(shape)).astype(dtype)
    zeros = [int(rng.integers(100, 150)) if dtype == U8 else 0] * count
    return constant(
        values, scale=[between(0.002, 0.02) for _ in range(count)], zero=zeros, axis=axis if per_channel else 0
    )


def make_bias(x: FileTensor, kernel: FileTensor, count: int, variant: str = "") -> FileTensor:
    """Return constant integers with the scale of products."""
    scales = [float(np.float32(x.scale[0]) * np.float32(scale)) for scale in kernel.scale]
    dtype = np.int64 if x.dtype == I16 and variant != NARROW else np.int32
    return constant(rng.integers(-3000, 3000, count).astype(dtype), scale=scales, zero=[0] * len(scales))


def pack_weights(kernel: FileTensor) -> FileTensor:
    """Return weights of 4 bits."""
    assert kernel.dtype == np.int8
    return dataclasses.replace(kernel, data=(kernel.data >> 4).astype(np.int8), kind="INT4")


def choose_bias_type(variant: str) -> dict[str, Any]:
    """Return the options that say that the bias has 32 bits."""
    return {"quantizedBiasType": schema.TensorType.INT32} if variant == NARROW else {}


def make_factors(dtype: Any, shape: Sequence[int] = IMAGE) -> FileTensor:
    """Return an input whose products do not overflow."""
    return quantised(dtype, shape, 0.02 if dtype != I16 else 2**-11 * between(1, 2))


def make_sums(dtype: Any, shape: Sequence[int], scale: float) -> FileTensor:
    """Return an output of products of which few are cut off."""
    return quantised(dtype, shape, between(0.5, 2) * scale * (1 if dtype != I16 else 2**-6))


NARROW, NIBBLES = "bias of 32 bits", "weights of 4 bits"
STEP = {"strideH": 1, "strideW": 1}
VARIANTS = ("plain", "one scale", "valid, dilated, relu6", "relu")


def describe_window(variant: str) -> tuple[Any, tuple[int, int]]:
    """Return the options of a convolution of windows of 3 × 3, and the size of its output."""
    dilation, valid = (2, 1) if "dilated" in variant else (1, 0)
    options = {**STEP, "padding": valid, "dilationHFactor": dilation, "dilationWFactor": dilation}
    activation = 3 if "relu6" in variant else int("relu" in variant)
    return {**options, "activation": activation}, (1, 2) if valid else (5, 6)


@define("CONV_2D", variant=(*VARIANTS, "grouped", NARROW, NIBBLES))
def make_convolution(dtype: Any, variant: str) -> Case:
    options, size = describe_window(variant)
    groups = 2 if variant == "grouped" and dtype != U8 else 1
    per_channel = variant != "one scale" and dtype != U8
    x = make_factors(dtype)
    kernel = make_weights(U8 if dtype == U8 else I8, (6, 3, 3, 8 // groups), 0, per_channel=per_channel)
    kernel = pack_weights(kernel) if variant == NIBBLES and dtype != U8 else kernel
    result = make_sums(dtype, (2, *size, 6), 0.03 if variant == NIBBLES else 0.3)
    options = fused("Conv2DOptions", **options, **choose_bias_type(variant))
    return "CONV_2D", [x, kernel, make_bias(x, kernel, 6, variant)], result, options


@define("DEPTHWISE_CONV_2D", variant=(*VARIANTS, "doubled"))
def make_depthwise(dtype: Any, variant: str) -> Case:
    options, size = describe_window(variant)
    count = 16 if variant == "doubled" else 8
    x = make_factors(dtype)
    kernel = make_weights(
        U8 if dtype == U8 else I8, (1, 3, 3, count), 3, per_channel=variant != "one scale" and dtype != U8
    )
    result = make_sums(dtype, (2, *size, count), 0.1)
    options = fused("DepthwiseConv2DOptions", depthMultiplier=count // 8, **options)
    return "DEPTHWISE_CONV_2D", [x, kernel, make_bias(x, kernel, count)], result, options


@define("FULLY_CONNECTED", variant=(*VARIANTS, "without a bias", NARROW, NIBBLES))
def make_dense(dtype: Any, variant: str) -> Case:
    keep, per_channel = variant == "relu", variant != "one scale" and dtype != U8
    x = make_factors(dtype, (3, 2, 20))
    kernel = make_weights(U8 if dtype == U8 else I8, (12, 20), 0, per_channel=per_channel)
    kernel = pack_weights(kernel) if variant == NIBBLES and dtype != U8 else kernel
    bias = None if variant == "without a bias" else make_bias(x, kernel, 12, variant)
    options = {"activation": describe_window(variant)[0]["activation"], "keepNumDims": keep}
    options = fused("FullyConnectedOptions", **options, **choose_bias_type(variant))
    return "FULLY_CONNECTED", [x, kernel, bias], make_sums(dtype, (3, 2, 12) if keep else (6, 12), 0.1), options


@define("TRANSPOSE_CONV", variant=("plain", "one scale", "valid", "without a bias", NARROW))
def make_transposed(dtype: Any, variant: str) -> Case:
    x = make_factors(dtype)
    kernel = make_weights(
        U8 if dtype == U8 else I8, (6, 3, 3, 8), 0, per_channel=variant != "one scale" and dtype != U8
    )
    shape = (2, 11, 13, 6) if variant == "valid" else (2, 10, 12, 6)
    bias = [] if variant == "without a bias" else [make_bias(x, kernel, 6, variant)]
    options = {"padding": int(variant == "valid"), "strideH": 2, "strideW": 2, **choose_bias_type(variant)}
    options = make_options("TransposeConvOptions", **options)
    return "TRANSPOSE_CONV", [axes(*shape), kernel, x, *bias], make_sums(dtype, shape, 0.3), options


@define("BATCH_MATMUL", (I8, I16), variant=("plain", "zero point", "transposed"))
def make_matrix_product(dtype: Any, variant: str) -> Case:
    swap = variant == "transposed"
    first = make_factors(dtype, (2, 7, 4) if swap else (2, 4, 7))
    second = quantised(dtype, (2, 5, 7) if swap else (2, 7, 5), first.scale[0], 5 if variant == "zero point" else 0)
    options = make_options("BatchMatMulOptions", adjX=swap, adjY=swap)
    return "BATCH_MATMUL", [first, second], make_sums(dtype, (2, 4, 5), 0.1), options


@define("UNIDIRECTIONAL_SEQUENCE_LSTM", (I8,), bits=(9, 12))
def make_lstm(dtype: Any, bits: int) -> Case:
    x, hidden = quantised(dtype, (2, 5, 6), 0.02), quantised(dtype, (2, 7), 1 / 128, 0)
    cell = dataclasses.replace(quantised(I16, (2, 7), 2.0**-bits), is_variable=True)
    kernels = [make_weights(dtype, (7, count), 0, per_channel=False) for count in (6, 6, 6, 6, 7, 7, 7, 7)]
    biases = [make_bias(x, kernel, 7) for kernel in kernels[:4]]
    absent = [None] * 3
    state = dataclasses.replace(hidden, is_variable=True)
    inputs = [x, *kernels, *absent, *biases, *absent[:2], state, cell]
    options = fused("UnidirectionalSequenceLSTMOptions", schema.ActivationFunctionType.TANH)
    return "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, like(hidden, (2, 5, 7)), options


@define("SVDF", (I8,))
def make_svdf(dtype: Any) -> Case:
    x, features = quantised(dtype, (2, 6), 0.02), make_weights(dtype, (8, 6), 0, per_channel=False)
    times = constant(rng.integers(-9999, 9999, (8, 3)).astype(np.int16), scale=[2.0**-12], zero=[0])
    bias = constant(rng.integers(-99999, 99999, 4).astype(np.int32), scale=[2.0**-24], zero=[0])
    state = dataclasses.replace(quantised(I16, (2, 24), 2.0**-10), is_variable=True)
    options = fused("SVDFOptions", 1, rank=2)
    return "SVDF", [x, features, times, bias, state], quantised(dtype, (2, 4), 0.3), options


def make_dynamic_weights(shape: Sequence[int], axis: int, variant: str) -> FileTensor:
    """Return weights of 8 or 4 bits for real inputs."""
    kernel = make_weights(I8, shape, axis, per_channel=variant != "one scale")
    return pack_weights(kernel) if variant == NIBBLES else kernel


def make_real(count: int) -> FileTensor:
    """Return a constant bias of real numbers."""
    return constant(rng.standard_normal(count).astype(np.float32))


@define("CONV_2D of real inputs", (I8,), variant=("plain", "one scale"))
def make_dynamic_convolution(_: Any, variant: str) -> Case:
    kernel, options = make_dynamic_weights((6, 3, 3, 8), 0, variant), describe_window("relu")[0]
    result = FileTensor((2, 1, 2, 6))
    return "CONV_2D", [FileTensor(IMAGE), kernel, make_real(6)], result, fused("Conv2DOptions", **options)


@define("DEPTHWISE_CONV_2D of real inputs", (I8,))
def make_dynamic_depthwise(_: Any) -> Case:
    kernel, options = make_dynamic_weights((1, 3, 3, 8), 3, "plain"), describe_window("plain")[0]
    options = fused("DepthwiseConv2DOptions", depthMultiplier=1, **options)
    return "DEPTHWISE_CONV_2D", [FileTensor(IMAGE), kernel, make_real(8)], FileTensor(IMAGE), options


@define("FULLY_CONNECTED of real inputs", (I8,), variant=("plain", "one scale", NIBBLES))
def make_dynamic_dense(_: Any, variant: str) -> Case:
    kernel = make_dynamic_weights((12, 20), 0, variant)
    options = make_options("FullyConnectedOptions", asymmetricQuantizeInputs=True)
    return "FULLY_CONNECTED", [FileTensor((3, 20)), kernel, make_real(12)], FileTensor((3, 12)), options


@define("TRANSPOSE_CONV of real inputs", (I8,))
def make_dynamic_transposed(_: Any) -> Case:
    kernel, options = make_dynamic_weights((6, 3, 3, 8), 0, "plain"), {"padding": 0, "strideH": 2, "strideW": 2}
    inputs = [axes(2, 10, 12, 6), kernel, FileTensor(IMAGE), make_real(6)]
    return "TRANSPOSE_CONV", inputs, FileTensor((2, 10, 12, 6)), make_options("TransposeConvOptions", **options)


@define("BATCH_MATMUL of real inputs", (I8,))
def make_dynamic_product(_: Any) -> Case:
    kernel = make_dynamic_weights((2, 7, 5), 2, "one scale")
    return "BATCH_MATMUL", [FileTensor((2, 4, 7)), kernel], FileTensor((2, 4, 5)), make_options("BatchMatMulOptions")


def is_feed(tensor: FileTensor | None) -> bool:
    """Say whether an input gets a value in each call."""
    return tensor is not None and tensor.data is None and not tensor.is_variable


def make_feed(tensor: FileTensor, *, positive: bool = False) -> Any:
    """Return random values, the least and the largest among them."""
    if np.dtype(tensor.dtype).kind == "f":
        return (3 * rng.standard_normal(tensor.shape)).astype(tensor.dtype)
    limits = np.iinfo(tensor.dtype)
    least = 1 if positive and tensor.dtype == I16 else limits.min
    values = rng.integers(least, limits.max + 1, tensor.shape)
    values.reshape(-1)[:2] = least, limits.max
    return values.astype(tensor.dtype)


def write_case(case: Case) -> bytes:
    """Return the file of a case."""
    name, inputs, output, options = case
    version = 3 if name == "TRANSPOSE_CONV" and len(inputs) == 4 else 1
    inner = [FileTensor((), I16)] * 4 + [output] if "LSTM" in name else []
    return write_operator(name, inputs, [output], options, version, inner)


def compare_case(make: Callable[[], Case]) -> str:
    """Return how the answers to a random case differ, or nothing."""
    case = name, inputs, output, _ = make()
    data = write_case(case)
    feeds = [make_feed(tensor, positive=name == "RSQRT") for tensor in inputs if is_feed(tensor)]
    (wanted,) = run_interpreter(data, feeds)
    graph = read_file(data, name).graph
    ours = np.asarray(jax.jit(lambda *values: graph.run(values, {}))(*feeds)[0])
    if (ours.dtype, ours.shape) != (wanted.dtype, wanted.shape):
        return f"{ours.dtype}{list(ours.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
    if np.dtype(output.dtype).kind == "f":
        far = np.max(np.abs(ours - wanted)) / np.max(np.abs(wanted))
        return f"{far:.1e} off" if far > 1e-5 else ""
    count = np.count_nonzero(ours != wanted)
    return f"{count} of {wanted.size} differ" if count else ""


def main(prefixes: Sequence[str]) -> None:
    """Print how many cases agree, and those that do not."""
    chosen = [name for name in CASES if not prefixes or name.startswith(tuple(prefixes))]
    failed = []
    for name in chosen:
        reasons = [compare_case(CASES[name]) for _ in range(TURNS)]
        failed += [f"{name}: {reason}" for reason in reasons if reason][:1]
    print(f"{len(chosen) - len(failed)} of {len(chosen)} agree")
    print(*failed, sep="\n", end="\n" if failed else "")


if __name__ == "__main__":
    main(sys.argv[1:])
