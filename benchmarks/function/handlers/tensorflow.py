"""The function on TensorFlow: the frozen graph as an eager function (Grappler, oneDNN), one thread."""

from __future__ import annotations

import json

import numpy as np
import tensorflow as tf
from pictures import FOLDER, serve

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
with open(f"{FOLDER}/graph.pb", "rb") as file:  # noqa: PTH123
    definition = tf.compat.v1.GraphDef.FromString(file.read())
with open(f"{FOLDER}/ports.json") as file:  # noqa: PTH123
    ports = json.load(file)
wrapped = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(definition, name=""), [])
model = wrapped.prune([feed["tensor"] for feed in ports["feeds"]], [fetch["tensor"] for fetch in ports["fetches"]])
shape = ports["feeds"][0]["spec"]["shape"]


def infer(data: bytes) -> list[float]:
    pixels = np.frombuffer(data, np.uint8).reshape(shape)
    scaled = (pixels.astype(np.float32) - np.float32(127.5)) * np.float32(1 / 127.5)
    return model(tf.constant(scaled))[0].numpy()[0].tolist()


lambda_handler = serve(infer)
