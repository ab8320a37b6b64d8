"""Conversion of the frozen graph that coldforge compiles to each peer's own format: all run the same network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from builder.importers.graph import FrozenGraph

OPSET = 20  # the first with Gelu


def to_onnx(graph: FrozenGraph, keras_model: Path, name: str, target: Path) -> str:
    """Write ``target``; returns how it was made."""
    if name == "lstm":
        _lstm_onnx(keras_model, target, graph.feeds[0].spec.shape[0])
        return "ONNX's own LSTM operator with the layer's weights (tf2onnx leaves a Loop, several times slower)"
    if name.startswith("minilm"):
        return _minilm_onnx(keras_model, target, graph.feeds[0].spec.shape)
    import onnx
    import tf2onnx

    model, _ = tf2onnx.convert.from_graph_def(
        _definition(graph),
        input_names=[port.tensor for port in graph.feeds],
        output_names=[port.tensor for port in graph.fetches],
        opset=18,
    )
    how = "tf2onnx"
    if any(node.op_type == "Erfc" for node in model.graph.node):
        _restore_gelu(model)
        for domain in model.opset_import:
            if not domain.domain:
                # tf2onnx stops at 18; 19 and 20 only add types and operators to what it emits.
                domain.version = OPSET
        how = "tf2onnx, with Keras' erfc form of GELU put back to ONNX's Gelu operator"
    onnx.checker.check_model(model)
    onnx.save(model, str(target))
    return how


def to_openvino(graph: FrozenGraph, onnx_model: Path, name: str, target: Path) -> str:
    """Write ``target`` (.xml, with .bin beside it) in f32; returns how it was made."""
    import openvino as ov

    if name == "lstm":
        model = ov.convert_model(str(onnx_model))
    else:
        loose = ov.convert_model(str(graph.graph_path))
        # OpenVINO sorts the outputs in an order of its own; the network's order is needed.
        results = [loose.output(port.tensor).get_node() for port in graph.fetches]
        model = ov.Model(results, loose.get_parameters(), name)
    ov.save_model(model, str(target), compress_to_fp16=False)
    return "from the ONNX LSTM" if name == "lstm" else "openvino.convert_model of the frozen graph"


def to_litert(graph: FrozenGraph, target: Path) -> str:
    """Write ``target``; returns how it was made."""
    target.write_bytes(lite_converter(graph).convert())
    return "TensorFlow's own TFLiteConverter on the frozen graph, no quantisation"


def lite_converter(graph: FrozenGraph) -> Any:
    """Return TensorFlow's converter for the frozen graph, with its default options."""
    import tensorflow as tf

    definition = _definition(graph)
    wrapped = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(definition, name=""), [])
    frozen = wrapped.prune([p.tensor for p in graph.feeds], [p.tensor for p in graph.fetches])
    return tf.lite.TFLiteConverter.from_concrete_functions([frozen])


def _definition(graph: FrozenGraph) -> Any:
    import tensorflow as tf

    return tf.compat.v1.GraphDef.FromString(graph.graph_path.read_bytes())


def _restore_gelu(model: Any) -> None:
    """Replace 0.5 * x * erfc(-x / sqrt(2)), for which ONNX has no operator, by Gelu(x)."""
    from onnx import helper

    graph = model.graph
    makers = {output: node for node in graph.node for output in node.output}

    def users(tensor: str) -> list[Any]:
        return [node for node in graph.node if tensor in node.input]

    for number, erfc in enumerate([node for node in graph.node if node.op_type == "Erfc"]):
        scaled = makers[erfc.input[0]]
        x = next(name for name in _leaves(scaled, makers))
        (last,) = users(erfc.output[0])
        while last.op_type == "Mul" and len(users(last.output[0])) == 1 and users(last.output[0])[0].op_type == "Mul":
            last = users(last.output[0])[0]
        position = list(graph.node).index(last)
        graph.node.remove(last)
        graph.node.insert(position, helper.make_node("Gelu", [x], list(last.output), name=f"gelu{number}"))
    _drop_unused(graph)


def _leaves(node: Any, makers: Any) -> list[str]:
    """Return the tensors at which the negation and scaling in front of erfc begin."""
    leaves = []
    for name in node.input:
        maker = makers.get(name)
        if maker is not None and maker.op_type in ("Neg", "Mul", "Div"):
            leaves += _leaves(maker, makers)
        elif maker is not None and maker.op_type != "Constant":
            leaves.append(name)
    return leaves


def _drop_unused(graph: Any) -> None:
    while True:
        wanted = {name for node in graph.node for name in node.input} | {output.name for output in graph.output}
        unused = [node for node in graph.node if not wanted.intersection(node.output)]
        if not unused:
            return
        for node in unused:
            graph.node.remove(node)


def _minilm_onnx(keras_model: Path, target: Path, shape: tuple[int, ...]) -> str:
    from benchmarks import bert_onnx

    plain = target.with_name("plain.onnx")
    width = bert_onnx.write(keras_model, plain, bert_onnx.Form((shape[0], shape[1])))
    fused = bert_onnx.optimise(plain, target, width)
    plain.unlink()
    counts = ", ".join(f"{count} {name}" for name, count in sorted(fused.items()))
    return f"the operators of Hugging Face's export, then onnxruntime.transformers.optimizer ({counts})"


def _lstm_onnx(keras_model: Path, target: Path, batch: int) -> None:
    import keras
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = keras.saving.load_model(keras_model, compile=False)
    lstm, dense = (layer for layer in model.layers if layer.weights)
    kernel, recurrent, bias = (np.asarray(weight) for weight in lstm.get_weights())
    units, (_, steps, features) = lstm.units, model.inputs[0].shape

    def gates(weight: Any) -> Any:
        """Reorder and transpose Keras' gates (input, forget, cell, output) to ONNX's (input, output, forget, cell)."""
        i, f, c, o = np.split(weight, 4, axis=-1)
        return np.ascontiguousarray(np.concatenate([i, o, f, c], axis=-1).T)[None]

    constants = {
        "W": gates(kernel),
        "R": gates(recurrent),
        "B": np.concatenate([gates(bias), np.zeros((1, 4 * units), np.float32)], axis=1),
        "kernel": np.asarray(dense.kernel),
        "bias": np.asarray(dense.bias),
        "axis": np.array([0], np.int64),
    }
    nodes = [
        helper.make_node("Transpose", ["x"], ["xt"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["xt", "W", "R", "B"], ["", "h"], hidden_size=units),
        helper.make_node("Squeeze", ["h", "axis"], ["last"]),
        helper.make_node("Gemm", ["last", "kernel", "bias"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["y"], axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "lstm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, steps, features])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, dense.units])],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()],
    )
    onnx_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    onnx.checker.check_model(onnx_model)
    onnx.save(onnx_model, str(target))
