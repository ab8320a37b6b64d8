"""Operators of com.microsoft, and windows larger than images, held against ONNX Runtime; prints how many agree.

It runs in the environment of ONNX's models.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ |= {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from builder.importers.frameworks.onnx.graph_function import GraphRunner

Case = tuple[str, list[Any], dict[str, Any], tuple[int, ...]]

rng = np.random.default_rng(0)
OPSETS = {"": 17, "com.microsoft": 1}


def floats(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def bytes_(*shape: int) -> Any:
    return rng.integers(0, 200, shape).astype(np.uint8)


def signed(*shape: int) -> Any:
    return rng.integers(-100, 100, shape).astype(np.int8)


def ints(*values: Any) -> Any:
    return np.array(values, np.int32)


def grid(scale: float, zero: int, dtype: Any = np.uint8) -> list[Any]:
    """Return a scale and a zero point."""
    return [np.array(scale, np.float32), np.array(zero, dtype)]


BYTES, SIGNED = grid(0.1, 100), grid(0.02, 1, np.int8)
MASK = ints([1, 1, 0], [1, 1, 1])
IMAGE, KERNEL = floats(1, 3, 6, 6), floats(4, 3, 3, 3)
QKV, WEIGHTS = floats(2, 3, 8), [floats(8, 24), floats(24)]
CROSS = [floats(2, 3, 8), floats(2, 5, 8), floats(2, 5, 8)]
LOW = np.sin(np.arange(36, dtype=np.float32)).reshape(1, 2, 3, 6)
ROW, KERNELS, STATES = [floats(5, 1, 3)], [signed(2, 3, 16), signed(2, 4, 16)], [floats(2, 1, 4), floats(2, 1, 4)]
BOTH = {"direction": "bidirectional", "hidden_size": 4}
BY_LAYER = [floats(2) ** 2 / 100, ints(3, -2).astype(np.int8)] * 2
BY_CHANNEL = [floats(2, 16) ** 2 / 100, np.zeros((2, 16), np.int8)] * 2
FIRST, REFUSED = (0,), ()
ONNX = {"AveragePool", "Conv", "LpPool", "MaxPool", "SimplifiedLayerNormalization"}
CASES: list[Case] = [
    ("FusedMatMul", [floats(2, 3, 4), floats(2, 5, 4)], {"transB": 1, "alpha": 0.5}, FIRST),
    ("FusedMatMul", [floats(3, 2, 4), floats(2, 5, 4)], {"transBatchA": 1, "transB": 1}, FIRST),
    ("BiasGelu", [floats(2, 4), floats(4)], {}, FIRST),
    ("FastGelu", [floats(2, 4), floats(4)], {}, FIRST),
    ("QuickGelu", [floats(2, 4)], {"alpha": 1.2}, FIRST),
    ("Gelu", [floats(2, 4)], {}, FIRST),
    ("FusedConv", [IMAGE, KERNEL, floats(4)], {"activation": "Relu", "pads": [1] * 4}, FIRST),
    ("FusedConv", [IMAGE, KERNEL, floats(4)], {"activation": "LeakyRelu", "activation_params": [0.2]}, FIRST),
    ("FusedConv", [IMAGE, KERNEL, None, floats(1, 4, 4, 4)], {"activation": "Relu"}, FIRST),
    ("FusedConv", [IMAGE, KERNEL], {"activation": "Clip", "activation_params": [0.0, 1.0]}, FIRST),
    ("FusedGemm", [floats(2, 3), floats(3, 4), floats(4)], {"activation": "Relu"}, FIRST),
    ("FusedGemm", [floats(2, 3), floats(3, 4)], {"activation": "LeakyRelu", "activation_alpha": 0.3}, FIRST),
    ("SkipLayerNormalization", [QKV, floats(2, 3, 8), *(floats(8) for _ in range(3))], {"epsilon": 1e-5}, (0, 3)),
    ("SkipSimplifiedLayerNormalization", [QKV, floats(2, 3, 8), floats(8), floats(8)], {"epsilon": 1e-5}, (0, 3)),
    ("SimplifiedLayerNormalization", [QKV, floats(8)], {"axis": -1, "epsilon": 1e-5}, FIRST),
    (
        "EmbedLayerNormalization",
        [
            ints([1, 8, 3], [0, 2, 2]),
            ints([0, 1, 1], [0, 0, 1]),
            *(floats(n, 8) for n in (9, 5, 2)),
            floats(8),
            floats(8),
            MASK,
        ],
        {"epsilon": 1e-5},
        (0, 1),
    ),
    ("Attention", [QKV, *WEIGHTS], {"num_heads": 2}, FIRST),
    ("Attention", [QKV, *WEIGHTS, MASK], {"num_heads": 2}, FIRST),
    ("Attention", [QKV, *WEIGHTS, ints(2, 3)], {"num_heads": 2}, FIRST),
    ("Attention", [QKV, *WEIGHTS], {"num_heads": 2, "unidirectional": 1}, FIRST),
    ("Attention", [QKV[:1, :2], *WEIGHTS, None, floats(2, 1, 2, 3, 4)], {"num_heads": 2, "unidirectional": 1}, (0, 1)),
    ("MultiHeadAttention", [*CROSS, floats(24)], {"num_heads": 2}, FIRST),
    ("MultiHeadAttention", [*CROSS, None, ints([1, 1, 0, 1, 1], [1, 1, 1, 1, 0])], {"num_heads": 2}, FIRST),
    (
        "MultiHeadAttention",
        [*(floats(2, 1, 8) for _ in range(3)), None, None, None, floats(2, 2, 3, 4), floats(2, 2, 3, 4)],
        {"num_heads": 2},
        (0, 1, 2),
    ),
    (
        "RotaryEmbedding",
        [floats(2, 3, 16), np.array([[0, 1, 2], [3, 4, 5]]), floats(8, 4), floats(8, 4)],
        {"num_heads": 2},
        FIRST,
    ),
    ("RotaryEmbedding", [floats(2, 2, 3, 8), np.array([1]), floats(8, 4), floats(8, 4)], {"interleaved": 1}, FIRST),
    ("QLinearAdd", [bytes_(2, 4), *BYTES, bytes_(4), *grid(0.05, 90), *grid(0.12, 95)], {}, FIRST),
    ("QLinearMul", [signed(2, 4), *SIGNED, signed(2, 4), *SIGNED, *grid(0.12, 3, np.int8)], {}, FIRST),
    ("QLinearSigmoid", [bytes_(2, 4), *BYTES, *grid(1 / 256, 0)], {}, FIRST),
    ("QLinearLeakyRelu", [bytes_(2, 4), *BYTES, *grid(0.1, 20)], {"alpha": 0.1}, FIRST),
    (
        "QLinearAveragePool",
        [bytes_(1, 2, 6, 6), *BYTES, *grid(0.1, 99)],
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        FIRST,
    ),
    ("QLinearGlobalAveragePool", [bytes_(1, 2, 6, 6), *BYTES, *grid(0.1, 99)], {"channels_last": 0}, FIRST),
    ("QLinearGlobalAveragePool", [bytes_(1, 6, 6, 3), *BYTES, *grid(0.1, 99)], {"channels_last": 1}, FIRST),
    ("QLinearSoftmax", [bytes_(2, 5), *BYTES, *grid(1 / 256, 0)], {"axis": -1, "opset": 13}, FIRST),
    ("QLinearConcat", [*BYTES, bytes_(2, 3), *grid(0.2, 90), bytes_(2, 2), *grid(0.05, 80)], {"axis": 1}, FIRST),
    (
        "QLinearWhere",
        [np.array([[True, False, True]]), bytes_(2, 3), *BYTES, bytes_(2, 3), *grid(0.2, 90), *grid(0.15, 80)],
        {},
        FIRST,
    ),
    (
        "QGemm",
        [bytes_(2, 3), *BYTES, signed(3, 4), *grid(0.02, 0, np.int8), ints(9, -8, 7, 0), *grid(0.3, 90)],
        {},
        FIRST,
    ),
    ("QGemm", [bytes_(2, 3), *BYTES, signed(4, 3), floats(4) ** 2, np.zeros(4, np.int8)], {"transB": 1}, FIRST),
    (
        "MatMulIntegerToFloat",
        [bytes_(2, 3), signed(3, 4), BYTES[0], SIGNED[0], BYTES[1], SIGNED[1], floats(4)],
        {},
        FIRST,
    ),
    ("DynamicQuantizeMatMul", [floats(2, 3), signed(3, 4), *SIGNED, floats(4)], {}, FIRST),
    ("DynamicQuantizeMatMul", [np.zeros((2, 3), np.float32), signed(3, 4), *SIGNED, floats(4)], {}, FIRST),
    ("DynamicQuantizeLSTM", [*ROW, *KERNELS, floats(2, 32), None, *STATES, floats(2, 12), *BY_LAYER], BOTH, (0, 1, 2)),
    ("DynamicQuantizeLSTM", [*ROW, *KERNELS, *[None] * 5, *BY_CHANNEL], BOTH, (0, 1, 2)),
    ("MatMulNBits", [floats(2, 32), bytes_(4, 2, 8), floats(8)], {"K": 32, "N": 4, "bits": 4, "block_size": 16}, FIRST),
    (
        "MatMulNBits",
        [floats(2, 32), bytes_(4, 2, 8), floats(8), bytes_(4)],
        {"K": 32, "N": 4, "bits": 4, "block_size": 16},
        FIRST,
    ),
    ("MaxPool", [LOW], {"kernel_shape": [4, 2], "strides": [2, 2]}, (0, 1)),
    (
        "AveragePool",
        [LOW],
        {"kernel_shape": [6, 2], "strides": [3, 2], "pads": [1, 0] * 2},
        FIRST,
    ),
    ("LpPool", [LOW], {"kernel_shape": [4, 2], "strides": [3, 2]}, FIRST),
    ("MaxPool", [LOW], {"kernel_shape": [9, 2], "strides": [2, 2]}, REFUSED),
    ("AveragePool", [LOW], {"kernel_shape": [5, 2], "ceil_mode": 1}, REFUSED),
    ("Conv", [LOW, np.ones((4, 2, 4, 2), np.float32)], {"strides": [2, 2]}, REFUSED),
]


def run_case(operator: str, inputs: list[Any], attributes: dict[str, Any], outputs: tuple[int, ...]) -> bool:
    """Say whether the answers agree: floats to 1e-5, integers to one step, since a tie may be rounded either way.

    Where no outputs are named, both must refuse the inputs.
    """
    names = [f"input_{i}" if value is not None else "" for i, value in enumerate(inputs)]
    results = [f"output_{i}" if i in outputs or not outputs else "" for i in range(max(outputs, default=0) + 1)]
    domain = "" if operator in ONNX else "com.microsoft"
    feeds = {name: value for name, value in zip(names, inputs, strict=True) if name}
    kinds = [(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape) for name, value in feeds.items()]
    graph = helper.make_graph(
        [helper.make_node(operator, names, results, domain=domain, **attributes)],
        operator,
        [helper.make_tensor_value_info(*kind) for kind in kinds],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in results if name],
    )
    for output in graph.output:
        output.type.Clear()
    opsets = [helper.make_opsetid(*entry) for entry in OPSETS.items()]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    weights = operator in ("MatMulNBits", "DynamicQuantizeLSTM")
    known = {name: value for name, value in feeds.items() if weights and name != "input_0"}

    def compute(traced: dict[str, Any]) -> list[Any]:
        scope = {**known, **traced}
        GraphRunner(OPSETS, {}).run_graph(graph, scope)
        return [jnp.asarray(scope[name]) for name in results if name]

    traced = {name: value for name, value in feeds.items() if name not in known}
    if not outputs:
        return _refuses(session.run, None, feeds) and _refuses(jax.jit(compute), traced)
    wanted, answers = session.run(None, feeds), jax.jit(compute)(traced)
    return all(_agree(np.asarray(ours), theirs) for ours, theirs in zip(answers, wanted, strict=True))


def _refuses(function: Callable[..., Any], *arguments: Any) -> bool:
    try:
        function(*arguments)
    except Exception:  # Each has errors of its own.
        return True
    return False


def _agree(ours: Any, theirs: Any) -> bool:
    tolerance = 1e-5 if theirs.dtype == np.float32 else 1
    same = ours.shape == theirs.shape and ours.dtype == theirs.dtype
    return same and bool(np.max(np.abs(ours.astype(float) - theirs.astype(float))) <= tolerance)


if __name__ == "__main__":
    failed = [case[0] for case in CASES if not run_case(*case)]
    print(f"{len(CASES) - len(failed)} of {len(CASES)} agree{', not ' if failed else ''}{', '.join(failed)}")
