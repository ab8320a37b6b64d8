"""ONNX Runtime on an .onnx file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from benchmarks.engines.arrays import arrays

DTYPES = {
    "tensor(float)": np.float32,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
}


class OnnxRuntime:
    def __init__(self, model: Path, threads: int) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        options.log_severity_level = 3
        self.session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.inputs = {feed.name: (DTYPES[feed.type], feed.shape) for feed in self.session.get_inputs()}

    def feed(self, data: bytes) -> Any:
        return arrays(data, self.inputs)

    def run(self, feed: Any) -> Any:
        return self.session.run(None, feed)

    def raw(self, answers: Any) -> list[bytes]:
        return [answer.tobytes() for answer in answers]
