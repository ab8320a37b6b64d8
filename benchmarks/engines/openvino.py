"""OpenVINO's CPU plugin on its own format (.xml and .bin)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openvino as ov

from benchmarks.engines.arrays import arrays


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
        self.inputs = {
            port.get_any_name(): (port.get_element_type().to_dtype(), tuple(port.get_shape()))
            for port in compiled.inputs
        }
        self.outputs = len(compiled.outputs)
        self.request = compiled.create_infer_request()

    def feed(self, data: bytes) -> Any:
        # The arrays are copied, since a shared tensor must be writable.
        tensors = arrays(data, self.inputs)
        return [ov.Tensor(tensors[name].copy(), shared_memory=True) for name in self.inputs]

    def run(self, feed: Any) -> Any:
        for number, tensor in enumerate(feed):
            self.request.set_input_tensor(number, tensor)
        self.request.infer()
        return [self.request.get_output_tensor(i).data for i in range(self.outputs)]

    def raw(self, answers: Any) -> list[bytes]:
        return [answer.tobytes() for answer in answers]
