"""OpenVINO's CPU plugin on its own format (.xml and .bin)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov


class OpenVino:
    def __init__(self, model: Path, threads: int) -> None:
        compiled = ov.Core().compile_model(
            str(model),
            "CPU",
            {
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_NUM_THREADS": threads,
                "NUM_STREAMS": 1,
                "INFERENCE_PRECISION_HINT": "f32",
            },
        )
        self.shape = tuple(compiled.inputs[0].shape)
        self.outputs = len(compiled.outputs)
        self.request = compiled.create_infer_request()

    def feed(self, data: bytes) -> Any:
        # A copy of our own: a shared tensor must be writable.
        return ov.Tensor(np.frombuffer(data, np.float32).reshape(self.shape).copy(), shared_memory=True)

    def run(self, feed: Any) -> Any:
        self.request.set_input_tensor(feed)
        self.request.infer()
        return [self.request.get_output_tensor(i).data for i in range(self.outputs)]

    def raw(self, answers: Any) -> list[bytes]:
        return [answer.tobytes() for answer in answers]
