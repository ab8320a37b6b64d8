"""Writes a .tflite model again, with what it assigns to variables as further outputs, and what LiteRT answers to it.

Usage: ``expose_states.py MODEL FOLDER``. The new model, of one input, is ``exposed.tflite``, and ``exposed.npz`` has
the inputs of a sequence of runs (``feed`` [n, ...]) and the answers (``fetch_0`` [n, ...], ...). The inputs change
slowly, as those of a recording do. It runs in the environment of LiteRT's models.
"""

from __future__ import annotations

import sys
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

RUNS = 60


def main(path: Path, folder: Path) -> None:
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    graph, model.signatureDefs = model.subgraphs[0], None
    codes = [code.builtinCode for code in model.operatorCodes]
    assigned = [
        op.inputs[1] for op in graph.operators if codes[op.opcodeIndex] == schema.BuiltinOperator.ASSIGN_VARIABLE
    ]
    graph.outputs = [*graph.outputs, *assigned]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    data = bytes(builder.Output())
    (folder / "exposed.tflite").write_bytes(data)

    interpreter = Interpreter(model_content=data, num_threads=1)
    interpreter.allocate_tensors()
    (feed,), fetches = interpreter.get_input_details(), interpreter.get_output_details()
    limits, generator = np.iinfo(feed["dtype"]), np.random.default_rng(0)
    steps = generator.normal(0, 40, (RUNS, *feed["shape"])).cumsum(0)
    feeds = np.clip(np.round(steps), limits.min, limits.max).astype(feed["dtype"])
    answers = []
    for value in feeds:
        interpreter.set_tensor(feed["index"], value)
        interpreter.invoke()
        answers.append([np.array(interpreter.get_tensor(fetch["index"])) for fetch in fetches])
    columns = {f"fetch_{i}": np.stack(column) for i, column in enumerate(zip(*answers, strict=True))}
    np.savez(folder / "exposed.npz", feed=feeds, **columns)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
