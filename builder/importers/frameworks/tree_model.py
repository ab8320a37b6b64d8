"""Reads files of XGBoost and LightGBM: ports and a JAX function; the framework itself answers for the file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from builder.base.arrays import Array
from builder.config import Format
from builder.config.rules import LEAVES
from builder.importers.frameworks.framework_model import FrameworkModel, make_port
from builder.importers.frameworks.tree_sums import run_trees
from builder.importers.ports import GraphFacts, ModelPorts, PortInfo
from builder.importers.trees.ensemble import draw_rows
from builder.importers.trees.lightgbm_file import read_lightgbm
from builder.importers.trees.xgboost_file import find_best_iteration, parse_learner, read_xgboost

FEED, PROBABILITIES, PREDICTION = "input", "probabilities", "prediction"
_SAMPLES = 64
_ENDINGS = {"softmax": "Softmax", "sigmoid": "Sigmoid", "one_against_all": "Sigmoid"}


def open_tree_model(path: Path, form: Format, leaves: bool = False) -> FrameworkModel:
    """Open the model in ``path``, of XGBoost or LightGBM by ``form``. Raises ImportModelError.

    Its feed is a float32 table; its fetch the probabilities of classes, or a prediction [batch, outputs]. With
    ``leaves``, it has a second fetch, LEAVES: the number of the leaf that a row comes to in each tree.
    """
    read, load = (read_xgboost, _load_xgboost) if form == "xgboost" else (read_lightgbm, _load_lightgbm)
    ensemble = read(path.read_bytes())
    load_once = functools.cache(functools.partial(load, path))  # Only a process that answers loads the framework.
    classes = len(ensemble.bases) + (ensemble.transform == "sigmoid" and len(ensemble.bases) == 1)
    classifies = ensemble.transform in _ENDINGS and classes > 1
    name = PROBABILITIES if classifies else PREDICTION
    feed = make_port(FEED, "float32", ["batch", len(ensemble.features)])
    unknown = dict.fromkeys(ensemble.categories)
    feed = replace(feed, columns=ensemble.features, categories=ensemble.categories, unknown=unknown)
    missing = (FEED,) if any(kind != "none" for tree in ensemble.trees for kind in tree.missing) else ()
    facts = GraphFacts((), {name: _ENDINGS[ensemble.transform]} if classifies else {}, missing=missing)
    numbers = [make_port(LEAVES, "int32", ["batch", len(ensemble.trees)])] if leaves else []
    ports = ModelPorts(
        (feed,),
        (make_port(name, ensemble.dtype, ["batch", classes]), *numbers),
        facts=facts,
        labels=tuple(map(str, range(classes))) if classifies else (),
    )

    def answer(feeds: Sequence[Array]) -> list[Array]:
        return [_shape_answer(ask(feeds[0]), fetch) for ask, fetch in zip(load_once(), ports.fetches, strict=False)]

    return FrameworkModel(
        ports, lambda: lambda x: run_trees(ensemble, x, leaves), answer, samples={FEED: draw_rows(ensemble, _SAMPLES)}
    )


def _shape_answer(answer: Any, fetch: PortInfo) -> Array:
    """Return the framework's answer with a column for each output, and for both classes."""
    assert fetch.shape
    columns = np.asarray(answer).reshape(len(answer), -1)
    if columns.shape[1] < (fetch.shape[1] or 0):
        columns = np.concatenate([1 - columns, columns], 1)
    return columns.astype(fetch.dtype)


def _load_xgboost(path: Path) -> tuple[Callable[[Array], Any], ...]:
    """Return functions to XGBoost's own answers, and to the numbers of leaves."""
    import xgboost

    learner = parse_learner(path.read_bytes())
    booster = xgboost.Booster(model_file=path)
    if learner["objective"]["name"] == "multi:softmax":  # It answers with the class alone.
        booster.set_param({"objective": "multi:softprob"})
    best = find_best_iteration(learner)
    used = (0, 0 if best is None else best + 1)
    settings = {"iteration_range": used, "validate_features": False}
    number = functools.partial(booster.predict, pred_leaf=True, **settings)
    return functools.partial(booster.inplace_predict, **settings), lambda x: number(xgboost.DMatrix(x))


def _load_lightgbm(path: Path) -> tuple[Callable[[Array], Any], ...]:
    """Return functions to LightGBM's own answers, and to the numbers of leaves."""
    import lightgbm

    predict = functools.partial(lightgbm.Booster(model_file=path).predict, num_threads=1)
    return predict, functools.partial(predict, pred_leaf=True)
