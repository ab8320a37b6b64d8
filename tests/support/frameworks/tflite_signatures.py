"""Writes ``signatures.tflite`` with two signatures, ``encode`` and ``decode``, into the folder of the first argument.

It runs in the environment of LiteRT's models. A file ``signatures-NAME.npz`` for each has an input and the answer.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter

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


def main(folder: Path) -> None:
    generator = np.random.default_rng(0)
    kernel = generator.standard_normal((3, 6)).astype(np.float32)
    data = write_model(make_dense("encode", kernel), make_dense("decode", kernel.T.copy()))
    (folder / "signatures.tflite").write_bytes(data)
    interpreter = Interpreter(model_content=data)
    for name, size in (("encode", 6), ("decode", 3)):
        feed = generator.standard_normal((1, size)).astype(np.float32)
        answer = interpreter.get_signature_runner(name)(input0=feed)
        np.savez(folder / f"signatures-{name}.npz", feed_0=feed, fetch_0=answer["output0"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
