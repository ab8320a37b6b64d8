"""Ensembles of trees on every engine: a sample of many rows in one run, one of a few rows in a run for each.

These rows differ, since a repeated row has all its branches predicted, which flatters engines that walk down trees.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engines.coldforge import Coldforge
from benchmarks.function.handlers.tree_engines import open_engine
from benchmarks.tree_cases import FEATURES, SINGLE


class Trees:
    def __init__(self, model: Path, threads: int) -> None:
        opened = open_coldforge if model.name == "libmodel.so" else open_engine
        self.dtype, self.convert, self.predict = opened(model, threads)

    def feed(self, data: bytes) -> Any:
        rows = np.frombuffer(data, np.float32).reshape(-1, FEATURES).astype(self.dtype)
        return [self.convert(part) for part in (np.split(rows, len(rows)) if len(rows) == SINGLE else [rows])]

    def run(self, feed: Any) -> Any:
        predict = self.predict
        return [predict(rows) for rows in feed]

    def raw(self, answers: Any) -> list[bytes]:
        """Return float32 numbers; of two probabilities the second alone."""
        columns = np.concatenate(answers).astype(np.float32)
        return [(columns[..., 1] if columns.ndim > 1 and columns.shape[-1] == 2 else columns).tobytes()]


def open_coldforge(model: Path, threads: int) -> Any:
    """Open the library of one row, and that of a batch beside it."""
    engines = [Coldforge(path, threads) for path in (model, model.with_name("batch.so"))]
    (fetch,) = json.loads(engines[0].library.cf_describe())["fetches"]

    def convert(rows: Any) -> Any:
        engine = engines[len(rows) > 1]
        data, size = rows.tobytes(), engine.feeds[0][1]
        return engine.run, [engine.feed(data[begin : begin + size]) for begin in range(0, len(data), size)]

    def predict(feed: Any) -> Any:  # Answers are copied, since the next run overwrites them.
        run, pieces = feed
        answers = b"".join([run(piece)[0].raw for piece in pieces])
        return np.frombuffer(answers, fetch["dtype"]).reshape(-1, fetch["shape"][-1])

    return np.float32, convert, predict
