"""LiteRT (formerly TensorFlow Lite) on a .tflite file, with XNNPACK."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ai_edge_litert.interpreter import Interpreter

from benchmarks.engines.arrays import arrays

SIZES = "sizes.json"
"""The file beside a published one that has the sizes of its inputs for this batch."""


class LiteRt:
    def __init__(self, model: Path, threads: int) -> None:
        self.interpreter = Interpreter(str(model), num_threads=threads)
        sizes = model.with_name(SIZES)
        if sizes.exists():
            for detail, shape in zip(self.interpreter.get_input_details(), json.loads(sizes.read_text()), strict=True):
                self.interpreter.resize_tensor_input(detail["index"], shape)
        self.interpreter.allocate_tensors()
        self.inputs = {detail["name"]: detail for detail in self.interpreter.get_input_details()}
        self.outputs = [detail["index"] for detail in self.interpreter.get_output_details()]

    def feed(self, data: bytes) -> Any:
        tensors = arrays(data, {name: (info["dtype"], tuple(info["shape"])) for name, info in self.inputs.items()})
        return [(self.inputs[name]["index"], array) for name, array in tensors.items()]

    def run(self, feed: Any) -> Any:
        for index, array in feed:
            self.interpreter.set_tensor(index, array)
        self.interpreter.invoke()
        return [self.interpreter.get_tensor(index) for index in self.outputs]

    def raw(self, answers: Any) -> list[bytes]:
        return [answer.tobytes() for answer in answers]
