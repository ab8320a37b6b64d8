"""The rows of an estimator of scikit-learn: a table of numbers, as scikit-learn takes it, and golden ones.

Golden rows are like those to which the estimator was fitted, as far as its steps tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray
from scipy import sparse
from sklearn import compose, impute, pipeline, preprocessing

from builder.importers.frameworks.framework_model import decode_strings
from builder.importers.frameworks.sklearn_categories import OTHER, CategoryColumns, copy_with, is_category
from builder.importers.frameworks.sklearn_trees import has_trees, is_xgboost, list_missing, read_trees
from builder.importers.ports import PortInfo
from builder.importers.trees.ensemble import draw_rows

_COUNT = 64
_MISSING_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class SklearnTable:
    """The input columns of ``model``. ``used``: the positions of those that it does not drop."""

    model: Any
    categories: CategoryColumns
    used: Sequence[int]

    def describe_feed(self, feed: PortInfo, required: Sequence[int]) -> PortInfo:
        """Return ``feed`` with the columns, of which those at ``required`` refuse missing values."""
        features, texts = self.model.n_features_in_, self.categories.texts
        known = getattr(self.model, "feature_names_in_", [f"x{i}" for i in range(features)] if texts else ())
        names = {i: str(name) for i, name in enumerate(known) if i in self.used}
        return replace(
            feed,
            columns=tuple(names.values()),
            categories={names[column]: tuple(numbers) for column, numbers in texts.items()},
            unknown={names[column]: OTHER for column in texts if column not in self.categories.strict},
            required=tuple(names[self.used[i]] for i in required) if names else (),
        )

    def spread_columns(self, x: Any) -> Any:
        """Return ``x`` [rows, used columns] with all columns; those that are dropped have any values."""
        positions = {column: i for i, column in enumerate(self.used)}
        return x[:, np.array([positions.get(column, 0) for column in range(self.model.n_features_in_)])]

    def restore_rows(self, x: NDArray[np.float32]) -> Any:
        """Return the rows of ``x`` [rows, used columns] as scikit-learn takes them, with texts for their numbers."""
        numbers = self.spread_columns(x).astype(np.float64)
        for i, known in self.categories.numbers.items():
            for category in known:
                numbers[is_category(numbers[:, i], category), i] = category
        texts = {i: self._restore_texts(numbers[:, i], i) for i in self.categories.texts}
        if not hasattr(self.model, "feature_names_in_"):
            numbers = numbers.astype(object) if texts else numbers
            for i, column in texts.items():
                numbers[:, i] = column
            return numbers
        frame = pandas.DataFrame(numbers, columns=self.model.feature_names_in_)
        return frame.assign(**{self.model.feature_names_in_[i]: column for i, column in texts.items()})

    def _restore_texts(self, numbers: NDArray[np.float64], column: int) -> NDArray[np.object_]:
        nearest = np.rint(np.nan_to_num(numbers, nan=OTHER))
        known = np.where(is_category(numbers, nearest), nearest, OTHER).astype(int)
        texts = decode_strings(known, [*self.categories.texts[column]])
        texts[np.isnan(numbers)] = None if column in self.categories.none else np.nan
        return texts


def draw_inputs(model: Any, features: int, categories: CategoryColumns) -> NDArray[np.float32]:
    """Return rows [64, features]: of values between the thresholds of trees, or spread as the columns were.

    Columns of ``categories`` have these, and sometimes another one where the model takes that.
    """
    random = np.random.Generator(np.random.PCG64(features))
    if has_trees(model) and getattr(model, "_preprocessor", None) is None:
        rows = draw_rows(read_trees(model, [""] * features), _COUNT)
    else:
        centre, spread = _describe_columns(model, features)
        rows = (centre + spread * random.standard_normal((_COUNT, features))).astype(np.float32)
    for number in list_missing(model.steps[-1][1] if isinstance(model, pipeline.Pipeline) else model):
        rows[random.random(rows.shape) < _MISSING_SHARE] = number
    for column in categories.texts.keys() | categories.numbers.keys():
        known = {*map(float, categories.texts.get(column, {}).values()), *categories.numbers.get(column, ())}
        others = set() if column in categories.strict else {OTHER}
        rows[:, column] = random.choice(sorted(known | others), _COUNT)
    return rows


def note_sparse_rows(numbered: Any, model: Any, rows: Any) -> Any:
    """Return ``numbered``, or a copy whose last step has ``misses_zeros``: it is XGBoost's, and gets sparse rows.

    XGBoost takes what such rows do not store, which are zeros, for missing. ``model``: the same with texts as they are;
    ``rows``: some, as it takes them.
    """
    if not isinstance(model, pipeline.Pipeline) or not is_xgboost(model.steps[-1][1]):
        return numbered
    for _, step in model.steps[:-1]:
        rows = rows if isinstance(step, str) else step.transform(rows)
    if not sparse.issparse(rows):
        return numbered
    *others, (name, last) = numbered.steps
    return copy_with(numbered, steps=[*others, (name, copy_with(last, misses_zeros=True))])


def _describe_columns(model: Any, features: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the centre and the spread [features] of the columns that went into ``model``: 0 and 1 if it has none."""
    centre, spread = np.zeros(features), np.ones(features)
    match model:
        case pipeline.Pipeline(steps=[(_, impute.SimpleImputer()), (_, second), *_]) if getattr(
            second, "n_features_in_", None
        ) == features and not isinstance(second, preprocessing.FunctionTransformer):
            centre, spread = _describe_columns(second, features)
        case pipeline.Pipeline(steps=[(_, first), *_]):
            centre, spread = _describe_columns(first, features)
        case compose.ColumnTransformer():
            for name, step, _ in model.transformers_:
                columns = np.array(model._transformer_to_input_indices[name], int)
                if len(columns):
                    centre[columns], spread[columns] = _describe_columns(step, len(columns))
        case impute.SimpleImputer():
            centre = np.nan_to_num(np.asarray(model.statistics_, np.float64))
        case _ if getattr(model, "data_range_", None) is not None:
            centre, spread = model.data_min_ + model.data_range_ / 2, model.data_range_ / 2
        case preprocessing.RobustScaler(with_centering=True, with_scaling=True):
            centre, spread = model.center_, model.scale_
        case _ if hasattr(model, "theta_"):
            centre, spread = model.theta_.mean(0), np.sqrt(model.var_.mean(0)) + model.theta_.std(0)
        case _ if hasattr(model, "cluster_centers_"):
            centre, spread = model.cluster_centers_.mean(0), model.cluster_centers_.std(0)
        case _:
            middle, scale = (np.asarray(getattr(model, name, 0)) for name in ("mean_", "scale_"))
            centre, spread = (
                value if value.shape == (features,) else default
                for value, default in ((middle, centre), (scale, spread))
            )
    return centre, spread
