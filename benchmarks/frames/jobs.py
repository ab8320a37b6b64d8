"""The job that is measured: files of pictures in, answers out, with the engine as the one difference.

Imported by Ray's and Spark's processes, with the network's package on their path.
"""

from __future__ import annotations

import functools
import importlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np


class Ours:
    """``Predictor`` as it comes."""

    def __init__(self, network: str, model: str) -> None:
        self.predict = importlib.import_module(f"{network}.predictor").Predictor(pictures="bytes")

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self.predict(batch)
        return answer


class OnnxRuntime:
    """The same decoding, then ONNX Runtime, one picture at a time, for which the graph is made."""

    def __init__(self, network: str, model: str) -> None:
        self.network, self.model = network, model

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        session, decoded, image = _opened(self.network, self.model)
        pixels, _ = decoded([bytes(file) for file in batch["bytes"]], image)
        pixels = pixels.reshape(-1, image.height, image.width, 1 if image.mode == "grey" else 3)
        name = session.get_inputs()[0].name
        found = [session.run(None, {name: pixels[row : row + 1]}) for row in range(len(pixels))]
        outputs = importlib.import_module(f"{self.network}.predictor").OUTPUTS
        return {output: np.concatenate(parts) for output, parts in zip(outputs, zip(*found, strict=True), strict=True)}


@functools.cache
def _opened(network: str, model: str) -> tuple[Any, Any, Any]:
    """The session of this process, and what decodes pictures for it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    package = importlib.import_module(network)
    text = Path(str(package.__file__)).with_name("model.json").read_text()
    image = importlib.import_module(f"{network}.function.description").parse(text).image
    return session, importlib.import_module(f"{network}.pictures").decoded, image


ENGINES: Mapping[str, type[Ours] | type[OnnxRuntime]] = {"coldforge": Ours, "ONNX Runtime": OnnxRuntime}


class Timed:
    """An engine, and columns with its processor's time for each row (ms) and its process."""

    def __init__(self, engine: str, network: str, model: str) -> None:
        self.job = ENGINES[engine](network, model)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        begin = time.process_time()
        answer = self.job(batch)
        rows = len(batch["path"])
        milliseconds = 1e3 * (time.process_time() - begin) / rows
        more = {"path": batch["path"], "ms": np.full(rows, milliseconds), "process": np.full(rows, os.getpid())}
        return more | {name: values[:, 0] for name, values in answer.items()}

    def arrow(self, batches: Iterable[Any]) -> Iterator[Any]:
        """For Spark's mapInArrow: the batches' columns ``path`` and ``content``."""
        import pyarrow

        for batch in batches:
            columns = {"path": batch["path"].to_pylist(), "bytes": batch["content"].to_pylist()}
            found = self({name: np.array([None, *cells], object)[1:] for name, cells in columns.items()})
            yield pyarrow.RecordBatch.from_pydict({name: list(values) for name, values in found.items()})
