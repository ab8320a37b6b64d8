"""A sentence encoder on ONNX Runtime: CPU, every graph optimisation, one thread; tokens by ``tokenizers``."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
from texts import FOLDER, serve
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file(f"{FOLDER}/tokenizer.json")
tokenizer.enable_truncation(256)
tokenizer.no_padding()
options = ort.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
options.log_severity_level = 3
session = ort.InferenceSession(f"{FOLDER}/model.onnx", options, providers=["CPUExecutionProvider"])


def infer(text: str) -> Any:
    encoded = tokenizer.encode(text)
    feeds = {"input_ids": [encoded.ids], "attention_mask": [encoded.attention_mask]}
    (vector,) = session.run(None, {name: np.array(rows, np.int64) for name, rows in feeds.items()})[0]
    return vector / np.linalg.norm(vector)


lambda_handler = serve(infer)
