"""Writes small models of .tflite and .onnx into the folder of the first argument.

``signatures.tflite`` has two signatures, ``encode`` and ``decode``; a file ``signatures-NAME.npz`` for each has an
input and the answer. ``row.tflite`` and ``row.onnx`` are made for a batch of 1, so that they mix the rows of any other.
``open.tflite`` takes images of any size. ``recurrent.tflite`` keeps the state of an LSTM of bytes, and
``recurrent.npz`` has the inputs and the answers of a sequence of runs. ``unsupported.tflite`` has two operators that
are not read. It runs in the environment of ONNX's and LiteRT's models.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from onnx import TensorProto, helper, numpy_helper

from tests.support.frameworks import tflite_integer_cases
from tests.support.frameworks.tflite_files import (
    FileGraph,
    FileOperator,
    FileTensor,
    constant,
    make_options,
    write_model,
)


def make_dense(name: str, kernel: np.ndarray) -> FileGraph:
    """A dense layer with ``kernel`` [outputs, inputs], for any number of rows."""
    outputs, inputs = kernel.shape
    tensors = [FileTensor((1, inputs), signature=(-1, inputs)), constant(kernel), FileTensor((1, outputs))]
    operator = FileOperator("FULLY_CONNECTED", [0, 1, -1], [2], make_options("FullyConnectedOptions"))
    return FileGraph(tensors, [operator], [0], [2], signature=name)


def make_tflite_row() -> bytes:
    """Means over what would be several rows, and sizes that are those of one."""
    tensors = [
        FileTensor((1, 2, 3)), constant([0], np.int32), FileTensor((2, 3)), constant([1, 6], np.int32),
        FileTensor((1, 6)), FileTensor((1, 6)),
    ]  # fmt: skip
    operators = [
        FileOperator("MEAN", [0, 1], [2], make_options("ReducerOptions")),
        FileOperator("RESHAPE", [2, 3], [4], make_options("ReshapeOptions")),
        FileOperator("SOFTMAX", [4], [5], make_options("SoftmaxOptions", beta=1.0)),
    ]
    return write_model(FileGraph(tensors, operators, [0], [5]))


def make_open() -> bytes:
    """The mean of a convolution over images whose sizes the file leaves open."""
    kernel = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    strides = {"strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1}
    operators = [
        FileOperator("CONV_2D", [0, 1, 2], [3], make_options("Conv2DOptions", **strides)),
        FileOperator("MEAN", [3, 4], [5], make_options("ReducerOptions")),
    ]
    tensors = [
        FileTensor((1, 1, 1, 3), signature=(1, -1, -1, 3)), constant(kernel), constant(np.zeros(4, np.float32)),
        FileTensor((1, 1, 1, 4), signature=(1, -1, -1, 4)), constant([1, 2], np.int32), FileTensor((1, 4)),
    ]  # fmt: skip
    return write_model(FileGraph(tensors, operators, [0], [5], signature="serving_default"))


def write_recurrent(folder: Path) -> None:
    """Write a model of one LSTM, and what LiteRT answers to a sequence of runs."""
    make = tflite_integer_cases.CASES["UNIDIRECTIONAL_SEQUENCE_LSTM int8 bits 12"]
    data = tflite_integer_cases.write_case(make())
    (folder / "recurrent.tflite").write_bytes(data)
    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    (feed,), (fetch,) = interpreter.get_input_details(), interpreter.get_output_details()
    feeds = np.random.default_rng(0).integers(-128, 128, (8, *feed["shape"])).astype(np.int8)
    answers = []
    for values in feeds:
        interpreter.set_tensor(feed["index"], values)
        interpreter.invoke()
        answers.append(interpreter.get_tensor(fetch["index"]))
    np.savez(folder / "recurrent.npz", feed=feeds, fetch=answers)


def make_unsupported() -> bytes:
    """A custom operator and random numbers."""
    operators = [
        FileOperator("OurOwn", [0], [1], b""),
        FileOperator("RANDOM_UNIFORM", [2], [3], make_options("RandomOptions")),
        FileOperator("ADD", [1, 3], [4], make_options("AddOptions")),
    ]
    tensors = [FileTensor((2,)), FileTensor((2,)), constant([2], np.int32), FileTensor((2,)), FileTensor((2,))]
    return write_model(FileGraph(tensors, operators, [0], [4]))


def make_onnx_row() -> bytes:
    """The same in ONNX."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=0),
        helper.make_node("Reshape", ["mean", "sizes"], ["row"]),
        helper.make_node("Softmax", ["row"], ["y"], axis=1),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (1, 2, 3)), ("y", (1, 6)))]
    sizes = numpy_helper.from_array(np.array([1, 6]), "sizes")
    graph = helper.make_graph(nodes, "row", ends[:1], ends[1:], [sizes])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9).SerializeToString()


def main(folder: Path) -> None:
    generator = np.random.default_rng(0)
    kernel = generator.standard_normal((3, 6)).astype(np.float32)
    data = write_model(make_dense("encode", kernel), make_dense("decode", kernel.T.copy()))
    (folder / "signatures.tflite").write_bytes(data)
    (folder / "row.tflite").write_bytes(make_tflite_row())
    with zipfile.ZipFile(folder / "row.tflite", "a") as archive:  # as TFLite Metadata appends it
        archive.writestr("labels.txt", "".join(f"class {i}\n" for i in range(6)))
    (folder / "unsupported.tflite").write_bytes(make_unsupported())
    (folder / "open.tflite").write_bytes(make_open())
    write_recurrent(folder)
    (folder / "row.onnx").write_bytes(make_onnx_row())
    interpreter = Interpreter(model_content=data)
    for name, size in (("encode", 6), ("decode", 3)):
        feed = generator.standard_normal((1, size)).astype(np.float32)
        answer = interpreter.get_signature_runner(name)(input0=feed)
        np.savez(folder / f"signatures-{name}.npz", feed_0=feed, fetch_0=answer["output0"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
