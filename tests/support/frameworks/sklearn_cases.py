"""Trains estimators of scikit-learn on the data sets that it ships, and compares our functions with its own answers.

Trees must agree to the last bit before their activation, for rows at thresholds, one unit beside them, and with missing
values where they take them. With a folder as argument, a few of the files are left there. It runs in the environment
of scikit-learn's models.
"""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

import jax
import joblib
import lightgbm
import numpy as np
import pandas
import sklearn
import xgboost
from sklearn import (
    cluster,
    compose,
    datasets,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    impute,
    linear_model,
    model_selection,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)
from skops import io as skops

from builder.importers.frameworks.sklearn_model import open_sklearn
from builder.importers.frameworks.sklearn_trees import ENSEMBLES, NUMBERED, read_trees
from builder.importers.frameworks.tree_sums import add_leaves
from builder.importers.ports import PortInfo
from tests.support.frameworks.agreement import report_agreement, run_in_folder

warnings.simplefilter("ignore")
RANDOM = np.random.default_rng(0)
WINE, WINES = datasets.load_wine(return_X_y=True)
CANCER, MALIGNANT = datasets.load_breast_cancer(return_X_y=True)
DIABETES, PROGRESS = datasets.load_diabetes(return_X_y=True)


def leave_out(x: Any) -> Any:
    return np.where(RANDOM.random(x.shape) < 0.1, np.nan, x)


SETS = {"wine": (WINE, WINES), "cancer": (CANCER, MALIGNANT), "diabetes": (DIABETES, PROGRESS),
        "gaps": (leave_out(WINE), WINES), "real gaps": (leave_out(DIABETES), PROGRESS),
        "names": (WINE, np.array(["red", "rosé", "white"])[WINES])}  # fmt: skip
FOREST = {"n_estimators": 7, "random_state": 0}
BOOSTED = {"n_estimators": 6, "random_state": 0}
BINNED = {"max_iter": 6, "random_state": 0}
TREES: dict[str, tuple[str, Any]] = {
    "tree": ("wine", tree.DecisionTreeClassifier(random_state=0)),
    "tree-real": ("diabetes", tree.DecisionTreeRegressor(max_depth=6, random_state=0)),
    "tree-random": ("wine", tree.ExtraTreeClassifier(random_state=0)),
    "tree-leaf": ("diabetes", tree.DecisionTreeRegressor(min_samples_leaf=1000)),
    "forest": ("names", ensemble.RandomForestClassifier(**FOREST)),
    "forest-gaps": ("gaps", ensemble.RandomForestClassifier(max_depth=4, **FOREST)),
    "forest-real": ("real gaps", ensemble.RandomForestRegressor(**FOREST)),
    "extra": ("cancer", ensemble.ExtraTreesClassifier(**FOREST)),
    "extra-real": ("diabetes", ensemble.ExtraTreesRegressor(**FOREST)),
    "boosted": ("wine", ensemble.GradientBoostingClassifier(**BOOSTED)),
    "boosted-two": ("cancer", ensemble.GradientBoostingClassifier(**BOOSTED)),
    "boosted-exponential": ("cancer", ensemble.GradientBoostingClassifier(loss="exponential", **BOOSTED)),
    "boosted-zero": ("cancer", ensemble.GradientBoostingClassifier(init="zero", **BOOSTED)),
    "boosted-real": ("diabetes", ensemble.GradientBoostingRegressor(loss="huber", **BOOSTED)),
    "binned": ("gaps", ensemble.HistGradientBoostingClassifier(**BINNED)),
    "binned-two": ("cancer", ensemble.HistGradientBoostingClassifier(**BINNED)),
    "binned-real": ("real gaps", ensemble.HistGradientBoostingRegressor(**BINNED)),
    "binned-poisson": ("diabetes", ensemble.HistGradientBoostingRegressor(loss="poisson", **BINNED)),
    "binned-gamma": ("diabetes", ensemble.HistGradientBoostingRegressor(loss="gamma", **BINNED)),
}
SCALED = preprocessing.StandardScaler
CASES: dict[str, tuple[str, Any]] = {
    "logistic": ("cancer", pipeline.make_pipeline(SCALED(), linear_model.LogisticRegression())),
    "logistic-classes": ("names", pipeline.make_pipeline(SCALED(), linear_model.LogisticRegression())),
    "logistic-cv": ("wine", pipeline.make_pipeline(SCALED(), linear_model.LogisticRegressionCV(Cs=2, cv=2))),
    "sgd": ("wine", pipeline.make_pipeline(SCALED(), linear_model.SGDClassifier(loss="log_loss", random_state=0))),
    "sgd-two": ("cancer", pipeline.make_pipeline(SCALED(), linear_model.SGDClassifier(loss="log_loss"))),
    "sgd-scores": ("wine", pipeline.make_pipeline(SCALED(), linear_model.SGDClassifier())),
    "ridge-scores": ("cancer", linear_model.RidgeClassifier()),
    "perceptron": ("wine", pipeline.make_pipeline(SCALED(), linear_model.Perceptron())),
    "linear-svc": ("wine", pipeline.make_pipeline(preprocessing.MaxAbsScaler(), svm.LinearSVC())),
    "svc": ("wine", pipeline.make_pipeline(SCALED(), svm.SVC())),
    "svc-two": ("cancer", pipeline.make_pipeline(SCALED(), svm.SVC(kernel="poly"))),
    "svc-pairs": ("names", pipeline.make_pipeline(SCALED(), svm.SVC(kernel="sigmoid", decision_function_shape="ovo"))),
    "nu-svc": ("wine", pipeline.make_pipeline(SCALED(), svm.NuSVC(kernel="linear"))),
    "rbf-svr": ("diabetes", svm.SVR()),
    "neighbours": ("names", pipeline.make_pipeline(SCALED(), neighbors.KNeighborsClassifier())),
    "neighbours-near": ("wine", pipeline.make_pipeline(SCALED(), neighbors.KNeighborsClassifier(weights="distance"))),
    "neighbours-real": ("diabetes", neighbors.KNeighborsRegressor()),
    "discriminant": ("wine", discriminant_analysis.LinearDiscriminantAnalysis()),
    "discriminant-two": ("cancer", discriminant_analysis.LinearDiscriminantAnalysis()),
    "gaussian-bayes": ("wine", naive_bayes.GaussianNB()),
    "counts-bayes": ("wine", naive_bayes.MultinomialNB()),
    "complement-bayes": ("wine", naive_bayes.ComplementNB()),
    "bits-bayes": ("wine", naive_bayes.BernoulliNB(binarize=2.0)),
    "network": ("wine", pipeline.make_pipeline(SCALED(), neural_network.MLPClassifier((8, 4), max_iter=30))),
    "network-two": ("cancer", pipeline.make_pipeline(SCALED(), neural_network.MLPClassifier(4, max_iter=30))),
    "network-real": ("diabetes", neural_network.MLPRegressor(hidden_layer_sizes=8, activation="tanh", max_iter=30)),
    "linear": ("diabetes", linear_model.LinearRegression()),
    "ridge": ("diabetes", linear_model.RidgeCV()),
    "lasso": ("diabetes", pipeline.make_pipeline(preprocessing.PolynomialFeatures(), linear_model.Lasso())),
    "elastic": ("diabetes", linear_model.ElasticNet()),
    "bayesian": ("diabetes", linear_model.BayesianRidge()),
    "huber": ("diabetes", linear_model.HuberRegressor()),
    "svr": ("diabetes", svm.LinearSVR()),
    "poisson": ("diabetes", linear_model.PoissonRegressor()),
    "gamma": ("diabetes", linear_model.GammaRegressor()),
    "tweedie": ("diabetes", linear_model.TweedieRegressor(power=0)),
    "imputed": ("gaps", pipeline.make_pipeline(impute.SimpleImputer(), SCALED(), linear_model.LogisticRegression())),
    "imputed-forest": ("gaps", pipeline.make_pipeline(impute.SimpleImputer(strategy="median"), TREES["forest"][1])),
    "selected": ("wine", pipeline.make_pipeline(feature_selection.SelectKBest(k=4), naive_bayes.GaussianNB())),
    "projected": ("wine", pipeline.make_pipeline(SCALED(), decomposition.PCA(3, whiten=True))),
    "truncated": ("wine", decomposition.TruncatedSVD(3)),
    "ranges": ("wine", preprocessing.MinMaxScaler((-1, 2), clip=True)),
    "robust": ("wine", preprocessing.RobustScaler()),
    "normalised": ("wine", preprocessing.Normalizer("l1")),
    "bits": ("wine", preprocessing.Binarizer(threshold=2.0)),
    "clusters": ("wine", pipeline.make_pipeline(SCALED(), cluster.KMeans(4, random_state=0))),
    "columns": ("wine", compose.make_column_transformer((SCALED(), [3, 1]), ("drop", [0]), remainder="passthrough")),
    "united": ("wine", pipeline.make_union(SCALED(), decomposition.PCA(2), "passthrough")),
}  # fmt: skip


COUNT = 300
COLOURS, SIZES = np.array(["red", "green", "blue", "grey", "é"]), np.array(["small", "medium", "large"])


def leave_out_some(values: Any) -> Any:
    return pandas.Series(values).where(RANDOM.random(COUNT) >= 0.1)


ROWS = pandas.DataFrame({
    "name": [f"row {i}" for i in range(COUNT)],
    "age": leave_out_some(RANDOM.normal(40, 9, COUNT).astype(np.float32).astype(float)),
    "colour": leave_out_some(RANDOM.choice(COLOURS, COUNT, p=[0.5, 0.3, 0.1, 0.06, 0.04]).astype(object)),
    "month": RANDOM.integers(1, 13, COUNT),
    "size": RANDOM.choice(SIZES, COUNT).astype(object),
    "share": RANDOM.choice([0.1, 0.2, 0.7], COUNT),
    "paid": RANDOM.random(COUNT) < 0.5,
    "shop": [f"shop {number}" for number in RANDOM.integers(0, 40, COUNT)],
    "fee": np.maximum(0, RANDOM.normal(0, 9, COUNT).astype(np.float32)).astype(float),
})  # fmt: skip
ANSWERS = (
    ROWS["colour"].isin(["red", "grey"]).astype(int)
    + (ROWS["size"] == "large")
    + (ROWS["month"] > 6) * (ROWS["fee"] < 9)
).to_numpy()
ONE_HOT, ORDINAL = preprocessing.OneHotEncoder, preprocessing.OrdinalEncoder
FILLED = impute.SimpleImputer(strategy="constant", fill_value="none")
TEXTS = ["colour", "size"]
NUMBERS = pipeline.make_pipeline(impute.SimpleImputer(), SCALED())
LOGISTIC = linear_model.LogisticRegression()


def make_columns(encoder: Any, numbers: Any = NUMBERS, texts: Any = None) -> Any:
    return compose.make_column_transformer((encoder, TEXTS if texts is None else texts), (numbers, ["age"]))


def make_case(encoder: Any, last: Any = LOGISTIC, **options: Any) -> tuple[Any, list[str]]:
    return pipeline.make_pipeline(make_columns(encoder, **options), last), [*ROWS]


IGNORING = ONE_HOT(handle_unknown="ignore")
GROUPING = ONE_HOT(handle_unknown="infrequent_if_exist", min_frequency=30)
GIVEN = ORDINAL(categories=[[*SIZES]], handle_unknown="use_encoded_value", unknown_value=-1)
FREQUENT = impute.SimpleImputer(strategy="most_frequent")
LOGARITHM = pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.FunctionTransformer(np.log1p))
SPARSE = compose.make_column_transformer((IGNORING, ["shop"]), ("passthrough", ["fee", "month"]))
WEIGHTED = compose.ColumnTransformer(
    [("a", SCALED(), ["month"]), ("b", SCALED(), ["fee"])], transformer_weights={"a": 5}
)
NOMINAL = {"min_samples_leaf": 3, **BINNED}
TABLES: dict[str, tuple[Any, list[str]]] = {
    "one-hot": make_case(IGNORING),
    "one-hot-strict": make_case(ONE_HOT(), TREES["forest"][1]),
    "one-hot-grouped": make_case(GROUPING),
    "one-hot-dropped": make_case(ONE_HOT(drop="first", sparse_output=False)),
    "one-hot-numbers": make_case(IGNORING, texts=["month", "share", "paid"]),
    "imputed-texts": make_case(pipeline.make_pipeline(FILLED, IGNORING)),
    "imputed-mixed": make_case(pipeline.make_pipeline(FREQUENT, IGNORING), texts=["colour", "month", "paid"]),
    "imputed-frequent": make_case(pipeline.make_pipeline(FREQUENT, ONE_HOT())),
    "ordinal": make_case(ORDINAL(encoded_missing_value=-2), TREES["forest"][1]),
    "ordinal-given": make_case(GIVEN, TREES["binned"][1], numbers="passthrough", texts=["size"]),
    "target": make_case(preprocessing.TargetEncoder(target_type="continuous"), linear_model.Ridge()),
    "encoded-alone": (pipeline.make_pipeline(IGNORING, LOGISTIC), TEXTS),
    "logarithm": make_case(ONE_HOT(), numbers=LOGARITHM, texts=["size"]),
    "xgboost": make_case(IGNORING, xgboost.XGBClassifier(n_estimators=5)),
    "xgboost-missing": (xgboost.XGBClassifier(n_estimators=5, missing=6), ["age", "month"]),
    "xgboost-early": (
        xgboost.XGBClassifier(n_estimators=60, learning_rate=1.0, early_stopping_rounds=2),
        ["age", "month"],
    ),
    "xgboost-sparse": (pipeline.make_pipeline(SPARSE, xgboost.XGBClassifier(n_estimators=5)), ["shop", "fee", "month"]),
    "weighted": (pipeline.make_pipeline(WEIGHTED, LOGISTIC), ["month", "fee"]),
    "searched": (model_selection.GridSearchCV(LOGISTIC, {"C": [0.1, 1.0]}), ["month", "fee"]),
    "xgboost-numbers": (xgboost.XGBRegressor(n_estimators=5), ["age", "month", "share"]),
    "lightgbm": make_case(ORDINAL(), lightgbm.LGBMClassifier(n_estimators=5, verbose=-1)),
    "binned-texts": (
        ensemble.HistGradientBoostingClassifier(categorical_features=["colour", "size", "month"], **NOMINAL),
        ["age", "colour", "month", "size"],
    ),
    "binned-frame": (ensemble.HistGradientBoostingRegressor(**NOMINAL), ["age", "colour", "share", "size"]),
}


def write_numbers(rows: Any, feed: PortInfo) -> Any:
    """The rows as the feed has them: a text is its place among the categories, -1 is another, NaN a missing one."""

    def number(value: Any, names: Any) -> float:
        return np.nan if value is None or value != value else names.index(value) if value in names else -1

    columns = [
        [number(value, feed.categories[name]) for value in rows[name]] if name in feed.categories else rows[name]
        for name in feed.columns
    ]
    return np.array(columns, np.float32).T


def run_table_case(name: str, folder: Path) -> bool:
    """Say whether the answers to a table of pandas agree, with unknown and missing categories where they are taken."""
    estimator, columns = TABLES[name]
    rows = ROWS[columns]
    if name == "binned-frame":
        rows = rows.astype({"colour": "category", "size": "category"})
    stops = name == "xgboost-early"
    estimator.fit(rows, ANSWERS, **({"eval_set": [(rows, ANSWERS[::-1])], "verbose": False} if stops else {}))
    assert not stops or estimator.best_iteration < estimator.get_booster().num_boosted_rounds() - 1
    path = folder / f"{name}.joblib"
    joblib.dump(estimator, path)
    model = open_sklearn(path, trust=True)
    (feed,) = model.ports.feeds
    rows = rows.astype({text: object for text in TEXTS if text in rows}).copy()
    for column, number in feed.unknown.items():
        assert number == -1
        rows.loc[3, column] = "other"
    method = "predict_proba" if hasattr(estimator, "predict_proba") else "predict"
    wanted = getattr(estimator, method)(rows).reshape(len(rows), -1)
    (answer,) = jax.jit(model.make_function())(write_numbers(rows, feed))
    (own,) = model.answer([write_numbers(rows, feed)])
    np.savez(path.with_suffix(".npz"), feed=write_numbers(rows[:1], feed), fetch=wanted[:1])
    (sampled,) = jax.jit(model.make_function())(model.samples["input"])
    again = np.allclose(sampled, model.answer([model.samples["input"]])[0], rtol=1e-6, atol=1e-6)
    return np.allclose(wanted, answer, rtol=1e-6, atol=1e-6) and np.array_equal(wanted, own) and again


def draw_rows(model: Any, rows: Any) -> Any:
    """Rows with values at thresholds and beside them."""
    rows = rows.astype(np.float32)
    for each in read_trees(model, [""] * rows.shape[1]).trees:
        for feature in np.unique(each.features):
            cuts = each.thresholds[each.features == feature]
            near = np.concatenate([cuts, *(np.nextafter(cuts, np.float32(side)) for side in (-np.inf, np.inf))])
            chosen = (RANDOM.random(len(rows)) < 0.3) & np.isfinite(near).any()
            rows[chosen, feature] = RANDOM.choice(near[np.isfinite(near)], int(chosen.sum()))
    return np.where(np.abs(rows) < np.finfo(np.float32).tiny, 0, rows)  # XLA takes subnormal numbers for zero.


def sum_as_sklearn(model: Any, rows: Any) -> Any:
    """The sums before the activation, scikit-learn's own."""
    if hasattr(model, "_raw_predict"):
        return model._raw_predict(rows.astype(np.float64 if hasattr(model, "_predictors") else np.float32))
    answer = model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows)
    return answer.reshape(len(rows), -1)


def run_case(name: str, folder: Path) -> bool:
    """Say whether the answers agree; those of trees to the last bit."""
    data, estimator = (TREES | CASES)[name]
    x, y = SETS[data]
    estimator.fit(x, y)
    path = folder / f"{name}.{'joblib' if name in TREES else 'skops'}"
    if hasattr(estimator, "n_jobs"):
        estimator.set_params(n_jobs=2)  # which must not change the order of sums
    (joblib.dump if name in TREES else skops.dump)(estimator, path)
    model = open_sklearn(path, trust=True)
    if hasattr(estimator, "n_jobs"):
        estimator.set_params(n_jobs=1)
    if bool(model.ports.facts and model.ports.facts.missing) != (name in TAKE_MISSING):
        return False
    if type(estimator) in ENSEMBLES:
        x = draw_rows(estimator, x)
        if model.ports.facts and model.ports.facts.missing:
            x = leave_out(x).astype(np.float32)
        sums = jax.jit(lambda rows: add_leaves(read_trees(estimator, [""] * x.shape[1]), rows))(x)
        if not np.array_equal(sums, sum_as_sklearn(estimator, x)):
            return False
    x = x.astype(np.float32)
    np.savez(path.with_suffix(".npz"), feed=x[:1], fetch=model.answer([x[:1]])[0])
    if type(estimator) in NUMBERED:
        numbered = open_sklearn(path, trust=True, leaves=True)
        if not np.array_equal(numbered.answer([x])[1], jax.jit(numbered.make_function())(x)[1]):
            return False
        answer, leaves = numbered.answer([x[:1]])
        np.savez(path.with_suffix(".leaves.npz"), feed=x[:1], fetch=answer, fetch_leaves=leaves)
    (wanted,), (answer,) = model.answer([x]), jax.jit(model.make_function())(x)
    return np.allclose(wanted, answer, rtol=1e-9, atol=1e-9) and answer.shape == wanted.shape


def leave_refused(folder: Path) -> None:
    """Leave files that are refused, or warned of, beside those of the cases."""
    skops.dump(TREES["forest-gaps"][1], folder / "forest-gaps.skops")
    skops.dump(discriminant_analysis.QuadraticDiscriminantAnalysis().fit(WINE, WINES), folder / "quadratic.skops")
    skops.dump(linear_model.Ridge(), folder / "unfitted.skops")
    skops.dump({"a": 1}, folder / "other.skops")
    (folder / "damaged.skops").write_bytes((folder / "ridge.skops").read_bytes()[:500])
    with zipfile.ZipFile(folder / "ridge.skops") as old, zipfile.ZipFile(folder / "older.skops", "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(sklearn.__version__.encode(), b"1.2.0"))


TAKE_MISSING = {"tree", "tree-real", "tree-random", "tree-leaf", "forest", "forest-gaps", "forest-real", "extra",
                "extra-real", "binned", "binned-two", "binned-real", "binned-poisson", "binned-gamma", "imputed",
                "imputed-forest"}  # fmt: skip


def main(folder: Path) -> None:
    same = {name: run_case(name, folder) for name in TREES | CASES}
    same |= {name: run_table_case(name, folder) for name in TABLES}
    report_agreement(same)
    leave_refused(folder)


if __name__ == "__main__":
    run_in_folder(main)
