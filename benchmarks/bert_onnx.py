"""MiniLM in ONNX with the operators of an export of Hugging Face's BertModel, which ONNX Runtime's tools expect.

tf2onnx writes Keras' layer norms as a dozen small operators each, and no tool puts them together again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HEADS = 12
EPSILON = 1e-12
OPSET = 18


@dataclass(frozen=True)
class Form:
    """The inputs' ``shape``, int32 [batch, tokens]; None for int64 of any shape, as Hugging Face's files take.

    ``pooled``: whether the output is the mean [batch, width], or every token's vector [batch, tokens, width].
    """

    shape: tuple[int, int] | None = None
    pooled: bool = True


class _Graph:
    """The nodes and constants that have been added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def constant(self, name: str, value: Any) -> str:
        self.constants[name] = np.asarray(value)
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator, and return the name of its output."""
        from onnx import helper

        output = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=f"{output}/{kind}", **attributes))
        return output

    def dense(self, x: str, layer: Any) -> str:
        kernel, bias = (self.constant(f"{layer.name}.{i}", weight) for i, weight in enumerate(layer.get_weights()))
        return self.add("Add", self.add("MatMul", x, kernel), bias)

    def normalised(self, x: str, layer: Any) -> str:
        parts = [self.constant(f"{layer.name}.{i}", weight) for i, weight in enumerate(layer.get_weights())]
        return self.add("LayerNormalization", x, *parts, axis=-1, epsilon=EPSILON)

    def gelu(self, x: str) -> str:
        """Add GELU as PyTorch exports it; ONNX Runtime has an operator of its own for it."""
        erf = self.add("Erf", self.add("Div", x, self.constant("root_of_two", np.float32(2**0.5))))
        one, half = self.constant("one", np.float32(1)), self.constant("half", np.float32(0.5))
        return self.add("Mul", self.add("Mul", x, self.add("Add", erf, one)), half)


def write(keras_model: Path, target: Path, form: Form) -> int:
    """Write ``target`` with the weights of the example's model, or of one that has it as a layer. Returns the width."""
    import keras
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    saved = keras.saving.load_model(keras_model, compile=False)
    trained = next((inner for inner in saved.layers if inner.name == "minilm"), saved)
    graph, layer = _Graph(), trained.get_layer
    words = graph.add("Gather", graph.constant("words", layer("words").get_weights()[0]), "input_ids")
    table = layer("positions").get_weights()[0]
    positions = graph.add("Gather", graph.constant("positions", table), _places(graph, form, len(table)))
    x = graph.normalised(graph.add("Add", words, positions), layer("embeddings.normalised"))
    width = trained.output.shape[-1]
    hidden = _hidden(graph)
    for number in range(sum(part.name.endswith(".inner") for part in trained.layers)):
        x = _block(graph, x, hidden, layer, f"layer{number}", width)
    if form.pooled:
        x = _mean(graph, x, graph.add("Cast", "attention_mask", to=TensorProto.FLOAT))
    shape = list(form.shape or ("batch", "tokens"))
    kind = TensorProto.INT32 if form.shape else TensorProto.INT64
    inputs = [helper.make_tensor_value_info(name, kind, shape) for name in ("input_ids", "attention_mask")]
    output_shape = [shape[0], width] if form.pooled else [*shape, width]
    onnx_graph = helper.make_graph(
        graph.nodes,
        "minilm",
        inputs,
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, output_shape)],
        [numpy_helper.from_array(value, name) for name, value in graph.constants.items()],
    )
    model = helper.make_model(onnx_graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, str(target))
    return int(width)


def optimise(source: Path, target: Path, width: int, kind: str = "bert") -> dict[str, int]:
    """Optimise ``source`` with ONNX Runtime's tool for transformers, and return how often each fusion was made."""
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions

    options = FusionOptions(kind)
    optimised = optimizer.optimize_model(
        str(source), kind, num_heads=HEADS, hidden_size=width, optimization_options=options, opt_level=0
    )
    optimised.save_model_to_file(str(target))
    return {name: count for name, count in optimised.get_fused_operator_statistics().items() if count}


def _places(graph: _Graph, form: Form, longest: int) -> str:
    """Add the tokens' positions 0, 1, 2, ... [1, tokens]."""
    if form.shape:
        return graph.constant("places", np.arange(form.shape[1], dtype=np.int64)[None])
    everything = graph.constant("places", np.arange(longest, dtype=np.int64)[None])
    first, axis = graph.constant("first", np.array([0], np.int64)), graph.constant("axis1", np.array([1], np.int64))
    return graph.add("Slice", everything, first, graph.add("Shape", "input_ids", start=1), axis)


def _hidden(graph: _Graph) -> str:
    """Add the mask that the scores get [batch, 1, 1, tokens]: 0, or for padding far below any score."""
    from onnx import TensorProto

    mask = "attention_mask"
    for axis in (1, 2):  # the tool looks for PyTorch's pattern, which is an operator for each axis
        mask = graph.add("Unsqueeze", mask, graph.constant(f"axis{axis}", np.array([axis], np.int64)))
    real = graph.add("Cast", mask, to=TensorProto.FLOAT)
    padding = graph.add("Sub", graph.constant("one", np.float32(1)), real)
    return graph.add("Mul", padding, graph.constant("least", np.float32(np.finfo(np.float32).min)))


def _block(graph: _Graph, x: str, hidden: str, layer: Any, name: str, width: int) -> str:
    split = graph.constant("split", np.array([0, 0, HEADS, width // HEADS], np.int64))  # 0: as before
    joined = graph.constant("joined", np.array([0, 0, width], np.int64))

    def heads(part: str, order: list[int]) -> str:
        dense = graph.dense(x, layer(f"{name}.{part}"))
        return graph.add("Transpose", graph.add("Reshape", dense, split), perm=order)

    query, key, value = heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]), heads("value", [0, 2, 1, 3])
    root = graph.constant("root", np.float32((width // HEADS) ** 0.5))
    scores = graph.add("Add", graph.add("Div", graph.add("MatMul", query, key), root), hidden)
    mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value)
    mixed = graph.add("Reshape", graph.add("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
    attended = graph.dense(mixed, layer(f"{name}.attended"))
    x = graph.normalised(graph.add("Add", attended, x), layer(f"{name}.attention"))
    outer = graph.dense(graph.gelu(graph.dense(x, layer(f"{name}.inner"))), layer(f"{name}.outer"))
    return graph.normalised(graph.add("Add", outer, x), layer(f"{name}.output"))


def _mean(graph: _Graph, x: str, real: str) -> str:
    axis, last = (graph.constant(f"axis{number}", np.array([number], np.int64)) for number in (1, 2))
    weight = graph.add("Unsqueeze", real, last)
    total = graph.add("ReduceSum", graph.add("Mul", x, weight), axis, keepdims=0)
    count = graph.add("ReduceSum", weight, axis, keepdims=0)
    least = graph.constant("tiny", np.float32(1e-9))
    return graph.add("Div", total, graph.add("Max", count, least))
