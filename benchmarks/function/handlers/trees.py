"""The peers' functions of tables: the engine of the model's file, on one thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from service import FOLDER, answering, settings
from tree_engines import open_engine

_, convert, predict = open_engine(next(Path(FOLDER).glob("model.*")), 1)


def infer(rows: Any) -> float:
    return float(np.ravel(predict(convert(rows)))[-1])


def decode(event: dict[str, Any]) -> Any:
    return np.array(event["inputs"]["input"], np.float32)


lambda_handler = answering(settings(), decode, infer, lambda value: [1 - value, value])
