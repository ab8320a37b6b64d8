"""The ensembles that are measured, and the rows that they are trained on and asked about: the same every time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engines import TREES
from benchmarks.model_files import refuse_keras
from benchmarks.models import Network
from builder.base.project import cache_folder

ROWS, SINGLE = 10_000, 50
"""The rows of a sample that is one run, and of one whose rows are runs of their own."""
PIECE = 2500
"""The rows of a run of ours, where other engines take a whole sample: a bundle has at most 4,096."""
FEATURES, CLASSES, CATEGORICAL, CATEGORIES = 28, 10, 4, 40
NAMES = (
    *("lightgbm-100x63-binary", "lightgbm-1000x63-binary", "lightgbm-100x255-regression"),
    *("lightgbm-1000x255-regression", "lightgbm-1000x63-classes", "lightgbm-100x63-mixed", "xgboost-100x6-regression"),
    *("xgboost-1000x6-binary", "xgboost-100x10-binary", "xgboost-1000x10-regression", "xgboost-1000x6-classes"),
    *("xgboost-100x6-mixed", "forest-300x0-binary", "forest-300x0-classes"),
)
"""Framework; trees x leaves, or XGBoost's levels, 0 for no limit; task. ``mixed``: binary, with categories, missing."""


@dataclass(frozen=True)
class TreeCase(Network):
    """A case whose samples are of ``SINGLE`` rows for a batch of 1, and of ``ROWS`` otherwise."""

    framework: str = ""
    trees: int = 0
    size: int = 0
    task: str = ""
    tolerance: float = 0.02  # Converters round thresholds, so that some rows reach other leaves.

    @property
    def folder(self) -> Path:
        return cache_folder() / "benchmarks" / "trees" / self.name / "trained" / ("row" if self.batch == 1 else "rows")

    @property
    def shape(self) -> tuple[int, int]:
        """The rows of a sample, and the numbers of each answer."""
        return SINGLE if self.batch == 1 else ROWS, CLASSES if self.task == "classes" else 1

    @property
    def categorical(self) -> list[int]:
        return list(range(FEATURES - CATEGORICAL, FEATURES)) if self.task == "mixed" else []

    def draw_rows(self, count: int, seed: int) -> tuple[Any, Any]:
        """Return float32 [count, FEATURES] and targets [count]."""
        import numpy as np

        fixed, rng = np.random.default_rng(0), np.random.default_rng([1, seed])
        x = rng.standard_normal((count, FEATURES), np.float32)
        score = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + np.abs(x[:, 3]) + rng.normal(0, 0.5, count)
        score += x[:, 4:] @ fixed.normal(0, 0.3, FEATURES - 4)
        if self.categorical:
            chosen = rng.integers(0, CATEGORIES, (count, CATEGORICAL))
            x[:, self.categorical], score = chosen, score + fixed.normal(0, 0.5, CATEGORIES)[chosen].sum(1)
            x[rng.random(x.shape) < 0.1] = np.nan
        classes = max(2, self.shape[1])
        return x, score if self.task == "regression" else np.argsort(np.argsort(score)) * classes // count


def find_case(name: str, batch: int = 1) -> TreeCase:
    """Return the case that is called ``name``, as in NAMES."""
    framework, shape, task = name.split("-")
    trees, size = map(int, shape.split("x"))
    return TreeCase(name, "", refuse_keras, (1, 1), batch=batch, framework=framework, trees=trees, size=size, task=task)


def find_model(name: str, engine: str) -> Path:
    """Return the file of an engine's model."""
    return (find_case(name).folder / TREES[engine].model).resolve()
