"""LiteRT (formerly TensorFlow Lite) on a .tflite file, with XNNPACK."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter


class LiteRt:
    def __init__(self, model: Path, threads: int) -> None:
        self.interpreter = Interpreter(str(model), num_threads=threads)
        self.interpreter.allocate_tensors()
        (self.input,) = self.interpreter.get_input_details()
        self.outputs = [detail["index"] for detail in self.interpreter.get_output_details()]

    def feed(self, data: bytes) -> Any:
        return np.frombuffer(data, np.float32).reshape(self.input["shape"])

    def run(self, feed: Any) -> Any:
        self.interpreter.set_tensor(self.input["index"], feed)
        self.interpreter.invoke()
        return [self.interpreter.get_tensor(index) for index in self.outputs]

    def raw(self, answers: Any) -> list[bytes]:
        return [answer.tobytes() for answer in answers]
