"""Engines of trees, by the name of a model's file, for the benchmarks and for the peers' functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np


def open_engine(model: Path, threads: int) -> tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the dtype of rows, their conversion to what ``predict`` takes, and ``predict``, which alone is timed."""
    dtype: Any = np.float32
    convert: Any = np.ascontiguousarray
    match model.suffix:
        case ".txt":
            import lightgbm

            predict = partial(lightgbm.Booster(model_file=str(model)).predict, num_threads=threads)
        case ".json":
            import xgboost

            booster = xgboost.Booster({"nthread": threads}, model_file=str(model))
            predict = partial(booster.inplace_predict, validate_features=False)
        case ".joblib":
            import joblib

            predict = joblib.load(model).set_params(n_jobs=threads).predict_proba
        case ".onnx":
            import onnxruntime as ort

            options = ort.SessionOptions()
            options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
            session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
            feed, fetch = session.get_inputs()[0].name, session.get_outputs()[-1].name  # The label is the first.

            def predict(rows: Any) -> Any:
                return session.run([fetch], {feed: rows})[0]
        case ".bin":
            import lleaves

            compiled = lleaves.Model(str(model.parents[1] / "trained" / "model.txt"))
            compiled.compile(cache=str(model))
            dtype, predict = np.float64, partial(compiled.predict, n_jobs=threads)
        case ".so":
            import tl2cgen

            predictor = tl2cgen.Predictor(str(model), nthread=threads)
            dtype, predict = predictor.threshold_type, predictor.predict
            convert = partial(tl2cgen.DMatrix, dtype=dtype)
        case ".tl":
            import treelite

            trees = treelite.Model.deserialize(str(model))
            dtype, predict = trees.input_type, partial(treelite.gtil.predict, trees, nthread=threads)
    return dtype, convert, predict
