"""Small networks in .onnx files of kinds that exporters write, with seeded weights.

    python onnx_networks.py FOLDER

writes ``FOLDER/<name>.onnx`` for each, and ``<name>.npz`` with inputs and what ONNX Runtime answers to them. It runs in
the environment that coldforge makes for ONNX.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

RANDOM = np.random.default_rng(0)
OPSETS = [helper.make_opsetid("", 17)]


def make_weights(*shape: int, dtype: Any = np.float32) -> Any:
    """Return weights as a layer with so many inputs begins with them."""
    return (RANDOM.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(dtype)


def make_model(nodes: list[Any], weights: dict[str, Any], x: Any, y: list[Any]) -> Any:
    """Return a model with these inputs and outputs, as ``make_tensor_value_info`` takes them."""
    initializers = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    ports = [[helper.make_tensor_value_info(*port) for port in side] for side in ([x], y)]
    graph = helper.make_graph(nodes, "network", *ports, initializers)
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=9)


def make_convolutions(dtype: Any) -> Any:
    """Return two convolutions, a pooling and a dense layer in a type, whose input and output have it too."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    shapes: dict[str, tuple[int, ...]] = {"w1": (16, 3, 3, 3), "b1": (16,), "w2": (32, 16, 3, 3), "w3": (32, 10)}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1] * 4),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("GlobalAveragePool", ["r2"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w3"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"], axis=-1),
    ]
    weights = {name: make_weights(*shape, dtype=dtype) for name, shape in shapes.items()}
    return make_model(nodes, weights, ("x", kind, ["batch", 3, 16, 16]), [("y", kind, ["batch", 10])])


def write(folder: Path, name: str, model: Any, feeds: dict[str, Any], **options: Any) -> None:
    """Write the model and what ONNX Runtime answers; an input or output of 16 bits is recorded as float32."""
    onnx.save(model, folder / f"{name}.onnx", **options)
    record(folder, name, feeds)


def record(folder: Path, name: str, feeds: dict[str, Any]) -> None:
    """Write what ONNX Runtime answers to ``feeds``, without operators of its own in place of the model's."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    answers = onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), options).run(None, feeds)
    arrays = {f"feed_{i}": value for i, value in enumerate(feeds.values())}
    arrays |= {f"fetch_{i}": value for i, value in enumerate(answers)}
    wide = {key: a.astype(np.float32) if a.dtype == np.float16 else a for key, a in arrays.items()}
    np.savez(folder / f"{name}.npz", **wide)


class Images(CalibrationDataReader):
    """Random images, by which ONNX Runtime's quantiser finds ranges."""

    def __init__(self) -> None:
        """Draw eight images."""
        self._images = iter(RANDOM.standard_normal((8, 1, 3, 16, 16)).astype(np.float32))

    def get_next(self) -> dict[str, Any] | None:
        """Return the next image, or None."""
        image = next(self._images, None)
        return None if image is None else {"x": image}


def main(folder: Path) -> None:
    """Write all models."""
    image = RANDOM.standard_normal((1, 3, 16, 16)).astype(np.float32)
    beside = {"save_as_external_data": True, "location": "beside.data", "size_threshold": 0}
    write(folder, "beside", make_convolutions(np.float32), {"x": image}, **beside)
    for name, form in (("qdq", QuantFormat.QDQ), ("qoperator", QuantFormat.QOperator)):
        paths = folder / "beside.onnx", folder / f"{name}.onnx"
        quantize_static(*paths, Images(), quant_format=form, activation_type=QuantType.QUInt8, per_channel=True)
        record(folder, name, {"x": image})
    for name, operator, x, y in (  # The size of y depends on the values of x.
        ("choose", "NonMaxSuppression", ("x", TensorProto.FLOAT, [1, 2, 6]), ("y", TensorProto.INT64, ["found", 3])),
        ("shape_it", "Reshape", ("x", TensorProto.INT64, [2]), ("y", TensorProto.FLOAT, ["rows", "columns"])),
    ):
        node = helper.make_node(operator, ["boxes", "x"], ["y"], name)
        onnx.save(make_model([node], {"boxes": make_weights(1, 6, 4)}, x, [y]), folder / f"{name}.onnx")
    write(folder, "half", make_convolutions(np.float16), {"x": image.astype(np.float16)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
