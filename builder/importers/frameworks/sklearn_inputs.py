"""Rows like those to which an estimator of scikit-learn was fitted, as far as its steps tell: golden inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import compose, impute, pipeline, preprocessing

from builder.importers.frameworks.sklearn_trees import ENSEMBLES, read_trees
from builder.importers.trees.ensemble import draw_rows

_COUNT = 64


def draw_inputs(model: Any, features: int) -> NDArray[np.float32]:
    """Return rows [64, features]: of values between the thresholds of trees, or spread as the columns were."""
    if type(model) in ENSEMBLES:
        return draw_rows(read_trees(model, [""] * features), _COUNT)
    centre, spread = _describe_columns(model, features)
    random = np.random.Generator(np.random.PCG64(features))
    return (centre + spread * random.standard_normal((_COUNT, features))).astype(np.float32)


def _describe_columns(model: Any, features: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the centre and the spread [features] of the columns that went into ``model``: 0 and 1 if it has none."""
    centre, spread = np.zeros(features), np.ones(features)
    match model:
        case pipeline.Pipeline(steps=[(_, impute.SimpleImputer()), (_, second), *_]) if (
            getattr(second, "n_features_in_", None) == features
        ):
            centre, spread = _describe_columns(second, features)
        case pipeline.Pipeline(steps=[(_, first), *_]):
            centre, spread = _describe_columns(first, features)
        case compose.ColumnTransformer():
            for name, step, _ in model.transformers_:
                columns = np.array(model._transformer_to_input_indices[name], int)
                if len(columns):
                    centre[columns], spread[columns] = _describe_columns(step, len(columns))
        case impute.SimpleImputer():
            centre = np.nan_to_num(model.statistics_.astype(np.float64))
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
