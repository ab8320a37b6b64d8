"""The function on ONNX Runtime: CPU, every graph optimisation, one thread."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
from pictures import FOLDER, serve

options = ort.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
options.log_severity_level = 3
session = ort.InferenceSession(f"{FOLDER}/model.onnx", options, providers=["CPUExecutionProvider"])
(feed,) = session.get_inputs()


def infer(data: bytes) -> list[float]:
    pixels = np.frombuffer(data, np.uint8).reshape(feed.shape)
    scaled = (pixels.astype(np.float32) - np.float32(127.5)) * np.float32(1 / 127.5)
    return session.run(None, {feed.name: scaled})[0][0].tolist()


lambda_handler = serve(infer)
