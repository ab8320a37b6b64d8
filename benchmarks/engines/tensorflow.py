"""TensorFlow on the frozen graph: as an eager function, and compiled by XLA at its first call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tensorflow as tf

from benchmarks.engines.arrays import arrays


class TensorFlow:
    jit = False

    def __init__(self, model: Path, threads: int) -> None:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        definition = tf.compat.v1.GraphDef.FromString(model.read_bytes())
        ports = json.loads(model.with_name("ports.json").read_text())
        specs = [feed["spec"] for feed in ports["feeds"]]
        self.inputs = {spec["name"]: (spec["dtype"], spec["shape"]) for spec in specs}
        wrapped = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(definition, name=""), [])
        frozen = wrapped.prune(
            [feed["tensor"] for feed in ports["feeds"]], [fetch["tensor"] for fetch in ports["fetches"]]
        )
        self.function = tf.function(frozen, jit_compile=True, autograph=False) if self.jit else frozen

    def feed(self, data: bytes) -> Any:
        tensors = arrays(data, self.inputs)
        return [tf.constant(tensors[name]) for name in self.inputs]

    def run(self, feed: Any) -> Any:
        return [answer.numpy() for answer in self.function(*feed)]

    def raw(self, answers: Any) -> list[bytes]:
        return [answer.tobytes() for answer in answers]


class TensorFlowXla(TensorFlow):
    jit = True
