"""The function on LiteRT: one thread, XNNPACK (the default)."""

from __future__ import annotations

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from pictures import FOLDER, serve

interpreter = Interpreter(f"{FOLDER}/model.tflite", num_threads=1)
interpreter.allocate_tensors()
(feed,) = interpreter.get_input_details()
(fetch,) = interpreter.get_output_details()


def infer(data: bytes) -> list[float]:
    pixels = np.frombuffer(data, np.uint8).reshape(feed["shape"])
    interpreter.set_tensor(feed["index"], (pixels.astype(np.float32) - np.float32(127.5)) * np.float32(1 / 127.5))
    interpreter.invoke()
    return interpreter.get_tensor(fetch["index"])[0].tolist()


lambda_handler = serve(infer)
