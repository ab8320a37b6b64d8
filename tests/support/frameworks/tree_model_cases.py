"""Trains ensembles of XGBoost and LightGBM, and compares the sums of their files with the frameworks' own.

The sums must be equal to the last bit, and the numbers of leaves the same, for rows at thresholds and one unit beside
them, with missing values and categories. With a folder as argument, a few of the files are left there, and for each a
``.npz`` with rows and the framework's answers. It runs in the environment of ONNX's and LiteRT's models.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import lightgbm
import numpy as np
import pandas
import xgboost

from builder.importers.frameworks.tree_model import open_tree_model
from builder.importers.frameworks.tree_sums import add_leaves
from builder.importers.trees.ensemble import Ensemble
from builder.importers.trees.lightgbm_file import read_lightgbm
from builder.importers.trees.xgboost_file import read_xgboost
from tests.support.frameworks.agreement import report_agreement, run_in_folder

ROWS, FEATURES, CATEGORIES = 1500, 5, 40
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(ROWS, FEATURES)).astype(np.float32)
X[RANDOM.random(X.shape) < 0.1] = np.nan
X[RANDOM.random(X.shape) < 0.1] = 0
X[:, 4] = RANDOM.integers(0, CATEGORIES, ROWS)
FILLED = np.nan_to_num(X)
REAL = FILLED[:, 0] * FILLED[:, 1] + np.sin(FILLED[:, 2] * 3) + (FILLED[:, 4] % 3)
TARGETS = {"real": REAL, "binary": (np.nanmedian(REAL) < REAL).astype(int), "positive": np.exp(REAL / 2),
           "classes": np.digitize(REAL, [-0.5, 0.5, 1.5]), "share": 1 / (1 + np.exp(-REAL))}  # fmt: skip

XGBOOST: dict[str, tuple[str, dict[str, Any]]] = {
    "xgboost-binary": ("binary", {"objective": "binary:logistic"}),
    "xgboost-classes": ("classes", {"objective": "multi:softprob", "num_class": 4}),
    "xgboost-real": ("real", {"objective": "reg:squarederror", "max_depth": 8}),
    "xgboost-base": ("real", {"objective": "reg:absoluteerror", "base_score": 0.25}),
    "xgboost-poisson": ("positive", {"objective": "count:poisson"}),
    "xgboost-dart": ("binary", {"objective": "binary:logistic", "booster": "dart", "rate_drop": 0.3}),
    "xgboost-forest": ("binary", {"objective": "binary:logistic", "num_parallel_tree": 4, "subsample": 0.7}),
    "xgboost-exact": ("real", {"objective": "reg:squarederror", "tree_method": "exact"}),
    "xgboost-categories": ("real", {"max_cat_to_onehot": 1}),
    "xgboost-one-hot": ("real", {"max_cat_to_onehot": 100}),
    "xgboost-pruned": ("real", {"objective": "reg:squarederror", "tree_method": "exact", "gamma": 2}),
    "xgboost-leaf": ("real", {"gamma": 1e9}),
}
LIGHTGBM: dict[str, tuple[str, dict[str, Any]]] = {
    "lightgbm-binary": ("binary", {"objective": "binary"}),
    "lightgbm-slope": ("binary", {"objective": "binary", "sigmoid": 2.5}),
    "lightgbm-classes": ("classes", {"objective": "multiclass", "num_class": 4}),
    "lightgbm-each": ("classes", {"objective": "multiclassova", "num_class": 4}),
    "lightgbm-real": ("real", {"objective": "regression", "num_leaves": 200, "min_data_in_leaf": 2}),
    "lightgbm-poisson": ("positive", {"objective": "poisson"}),
    "lightgbm-entropy": ("share", {"objective": "cross_entropy"}),
    "lightgbm-lambda": ("share", {"objective": "cross_entropy_lambda"}),
    "lightgbm-zero": ("real", {"objective": "regression", "zero_as_missing": True}),
    "lightgbm-none": ("real", {"objective": "regression", "use_missing": False}),
    "lightgbm-forest": (
        "real",
        {"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
    ),
    "lightgbm-leaf": ("real", {"objective": "regression", "min_data_in_leaf": ROWS}),
    "lightgbm-dart": ("binary", {"objective": "binary", "boosting": "dart"}),
    "lightgbm-categories": ("real", {"objective": "regression", "min_data_per_group": 5, "cat_smooth": 1}),
}
LEFT = ("xgboost-binary", "xgboost-classes", "xgboost-categories", "lightgbm-classes", "lightgbm-categories")


def train_xgboost(name: str, path: Path) -> Callable[[Any], Any]:
    target, settings = XGBOOST[name]
    kinds = None
    if "categories" in name or "one-hot" in name:
        kinds = ["float"] * (FEATURES - 1) + ["c"]
    data = xgboost.DMatrix(X, TARGETS[target], feature_types=kinds, enable_categorical=kinds is not None)
    xgboost.train({"max_depth": 5, "seed": 1, **settings}, data, 12).save_model(path)
    booster = xgboost.Booster(model_file=path)

    def predict(rows: Any) -> Any:
        data = xgboost.DMatrix(rows, feature_types=kinds, enable_categorical=kinds is not None)
        return booster.predict(data, output_margin=True)

    return predict


def train_lightgbm(name: str, path: Path) -> Callable[[Any], Any]:
    target, settings = LIGHTGBM[name]
    categories = [FEATURES - 1] if name.endswith("categories") else "auto"
    data = lightgbm.Dataset(X, TARGETS[target], categorical_feature=categories)
    lightgbm.train({"verbose": -1, "seed": 1, "num_leaves": 20, **settings}, data, 12).save_model(path)
    booster = lightgbm.Booster(model_file=path)
    return lambda rows: booster.predict(rows, raw_score=True, num_threads=1)


def draw_rows(ensemble: Ensemble) -> Any:
    """Rows of values at thresholds, beside them, missing, and categories that no tree has."""
    rows = X.copy()
    for feature in range(FEATURES):
        at = [tree.thresholds[tree.features == feature] for tree in ensemble.trees]
        cuts = np.concatenate([*at, np.zeros(1, np.float32)])  # Trees may be single leaves.
        near = np.concatenate([cuts, np.nextafter(cuts, np.float32(np.inf)), np.nextafter(cuts, np.float32(-np.inf))])
        near = np.where(np.abs(near) < np.finfo(np.float32).tiny, 0, near)  # XLA takes subnormal numbers for zero.
        chosen = RANDOM.random(ROWS) < 0.6
        rows[chosen, feature] = RANDOM.choice(near, int(chosen.sum()))
        rows[RANDOM.random(ROWS) < 0.1, feature] = np.nan
    rows[:, 4] = RANDOM.choice([*range(CATEGORIES + 3), 2.5, 1000.0, np.nan], ROWS)
    return rows


def run_case(name: str, folder: Path) -> bool:
    """Say whether the sums and leaves are equal."""
    xgboosts = name in XGBOOST
    path = folder / f"{name}.{'json' if xgboosts and name != 'xgboost-classes' else 'ubj' if xgboosts else 'txt'}"
    predict = (train_xgboost if xgboosts else train_lightgbm)(name, path)
    read = read_xgboost if xgboosts else read_lightgbm
    ensemble = replace(read(path.read_bytes()), divisor=1)  # The raw score of LightGBM's forest is a sum, no mean.
    rows = draw_rows(ensemble)
    if name in ("xgboost-categories", "xgboost-one-hot"):  # XGBoost refuses categories that it does not know.
        rows[:, 4] = RANDOM.choice([*range(CATEGORIES), np.nan], ROWS)
    wanted = predict(rows)
    sums = np.asarray(jax.jit(lambda x: add_leaves(ensemble, x))(rows)).reshape(wanted.shape)
    model = open_tree_model(path, "xgboost" if xgboosts else "lightgbm", leaves=True)
    if name in LEFT:
        answer, leaves = model.answer([rows[:1]])
        np.savez(path.with_suffix(".npz"), feed=rows[:1], fetch=answer)
        np.savez(path.with_suffix(".leaves.npz"), feed=rows[:1], fetch=answer, fetch_leaves=leaves)
    same = np.array_equal(model.answer([rows])[1], jax.jit(model.make_function())(rows)[1])
    return bool(same and np.array_equal(sums, wanted, equal_nan=True))


def run_answers(folder: Path) -> bool:
    """Say whether answers agree for a model that stopped early, and for one whose own answer is a class."""
    halves, target = slice(None, ROWS // 2), TARGETS["binary"]
    early = xgboost.XGBClassifier(n_estimators=200, early_stopping_rounds=2, learning_rate=1.0)
    rest = slice(ROWS // 2, None)
    early.fit(X[halves], target[halves], eval_set=[(X[rest], target[rest])], verbose=False)
    early.save_model(folder / "early.json")
    settings = {"objective": "multi:softmax", "num_class": 4}
    xgboost.train(settings, xgboost.DMatrix(X, TARGETS["classes"]), 3).save_model(folder / "class.json")
    same = True
    for name in ("early", "class"):
        model = open_tree_model(folder / f"{name}.json", "xgboost", leaves=True)
        (wanted, leaves), (answer, found) = model.answer([X]), jax.jit(model.make_function())(X)
        same &= np.allclose(wanted, answer, rtol=0, atol=1e-6) and np.array_equal(leaves, found)
        same &= name == "class" or np.array_equal(wanted, early.predict_proba(X))
        same &= name == "class" or np.array_equal(leaves, early.apply(X))
    return bool(same)


def run_names(folder: Path) -> bool:
    """Say whether the names of the categories of a table of pandas are read, in their order."""
    values = {"colour": ["red", "blue", "green"], "size": [5, 10, -2], "same": ["x"]}
    columns = {name: pandas.Categorical(RANDOM.choice(some, ROWS)) for name, some in values.items()}
    table = pandas.DataFrame({"real": REAL, **columns})
    lightgbm.train({"verbose": -1}, lightgbm.Dataset(table, REAL), 2).save_model(folder / "names.txt")
    xgboost.train({}, xgboost.DMatrix(table, REAL, enable_categorical=True), 2).save_model(folder / "names.json")
    wanted = {"colour": ("blue", "green", "red"), "size": ("-2", "5", "10"), "same": ("x",)}
    return all(
        open_tree_model(folder / f"names.{extension}", form).ports.feeds[0].categories == wanted
        for extension, form in (("txt", "lightgbm"), ("json", "xgboost"))
    )


def main(folder: Path) -> None:
    same = {name: run_case(name, folder) for name in (*XGBOOST, *LIGHTGBM)}
    same |= {"answers": run_answers(folder), "names": run_names(folder)}
    report_agreement(same)


if __name__ == "__main__":
    run_in_folder(main)
