"""The methods of scikit-learn's fitted estimators as JAX functions, in float64 as scikit-learn computes them.

A method is found by the estimator's own class: a subclass may do anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn import (
    cluster,
    compose,
    decomposition,
    discriminant_analysis,
    feature_selection,
    impute,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
)
from sklearn.feature_extraction.text import TfidfTransformer

from builder.base.errors import ImportModelError
from builder.importers.frameworks.sklearn_categories import CategoryEncoder
from builder.importers.frameworks.sklearn_points import ask_neighbours, predict_by_vectors, score_by_vectors
from builder.importers.frameworks.sklearn_texts import TermCounts
from builder.importers.frameworks.sklearn_trees import ENSEMBLES, has_trees, list_missing, read_trees
from builder.importers.frameworks.tree_sums import run_trees

Step = Callable[[Any, Any], Any]
"""A function of an estimator and its rows, float64 [rows, features]."""


def run_method(model: Any, method: str, x: Any) -> Any:
    """Return what ``method`` of ``model`` answers to ``x`` [rows, features]: [rows, columns].

    ``decision_function`` has a column for each class. Raises ImportModelError for an estimator that is not supported.
    """
    if isinstance(model, str):
        return x  # "passthrough"
    if isinstance(model, pipeline.Pipeline):
        for _, step in model.steps[:-1]:
            x = run_method(step, "transform", x)
        return run_method(model.steps[-1][1], method, x)
    if has_trees(model):
        return run_ensemble(model, x, False)[0]
    known = _METHODS[method].get(type(model))
    if known is None:
        raise ImportModelError(explain_unsupported(model, method))
    return known(model, x)


def explain_unsupported(model: Any, method: str) -> str:
    """Say that ``method`` of ``model`` has no step here, and what has."""
    kinds = {*ENSEMBLES, *(kind for steps in _METHODS.values() for kind in steps)} - {CategoryEncoder, TermCounts}
    supported = ", ".join(sorted(kind.__name__ for kind in kinds))
    return (
        f"{type(model).__name__}.{method} of scikit-learn is not supported. Use estimators that are: {supported}, and "
        "pipelines of them. Others may be brought as ONNX by skl2onnx: see `coldforge docs tables`."
    )


def run_ensemble(model: Any, x: Any, numbered: bool) -> list[Any]:
    """Return what a ``model`` that ``has_trees`` answers and, if ``numbered``, the numbers of leaves."""
    if getattr(model, "_preprocessor", None) is not None:
        x = run_method(model._preprocessor, "transform", x)
    ensemble = read_trees(model, [str(i) for i in range(model.n_features_in_)])
    x = x.astype(np.float32)
    for number in list_missing(model):
        x = jnp.where(x == np.float32(number), np.float32(np.nan), x)
    return run_trees(ensemble, x, numbered)


def _compute_sums(model: Any, x: Any) -> Any:
    """Return the sums [rows, outputs] of a linear model."""
    return x @ np.atleast_2d(model.coef_).T + model.intercept_


def _spread_scores(scores: Any) -> Any:
    """Return a score for each class where a single one is that of the second class."""
    return jnp.concatenate([-scores, scores], 1) if scores.shape[1] == 1 else scores


def _complete_probabilities(ones: Any) -> Any:
    return jnp.concatenate([1 - ones, ones], 1) if ones.shape[1] == 1 else ones


def _run_logistic(model: Any, x: Any) -> Any:
    sums = _compute_sums(model, x)
    return _complete_probabilities(jax.nn.sigmoid(sums)) if sums.shape[1] == 1 else jax.nn.softmax(sums, 1)


def _run_sgd(model: Any, x: Any) -> Any:
    if model.loss != "log_loss":
        raise ImportModelError(f"SGDClassifier with loss={model.loss!r} has no probabilities that are read: train it "
                               'with loss="log_loss".')  # fmt: skip
    ones = jax.nn.sigmoid(_compute_sums(model, x))
    return _complete_probabilities(ones) if ones.shape[1] == 1 else ones / ones.sum(1, keepdims=True)


def _run_generalised(model: Any, x: Any) -> Any:
    sums = _compute_sums(model, x)
    return jnp.exp(sums) if type(model._base_loss.link).__name__ == "LogLink" else sums


def _run_gaussian_bayes(model: Any, x: Any) -> Any:
    distances = ((x[:, None] - model.theta_) ** 2 / model.var_).sum(2)
    spread = np.log(2 * np.pi * model.var_).sum(1)
    return jax.nn.softmax(np.log(model.class_prior_) - 0.5 * (spread + distances), 1)


def _run_counts_bayes(model: Any, x: Any) -> Any:
    prior = model.class_log_prior_
    if isinstance(model, naive_bayes.ComplementNB) and len(model.classes_) > 1:
        prior = 0
    return jax.nn.softmax(x @ model.feature_log_prob_.T + prior, 1)


def _run_bits_bayes(model: Any, x: Any) -> Any:
    x = x if model.binarize is None else (x > model.binarize).astype(x.dtype)
    without = np.log(1 - np.exp(model.feature_log_prob_))
    sums = x @ (model.feature_log_prob_ - without).T + model.class_log_prior_ + without.sum(1)
    return jax.nn.softmax(sums, 1)


_ACTIVATIONS: Mapping[str, Callable[[Any], Any]] = {
    "identity": lambda x: x,
    "logistic": jax.nn.sigmoid,
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "softmax": lambda x: jax.nn.softmax(x, 1),
}


def _run_network(model: Any, x: Any) -> Any:
    *hidden, last = zip(model.coefs_, model.intercepts_, strict=True)
    for weights, bias in hidden:
        x = _ACTIVATIONS[model.activation](x @ weights + bias)
    if model.out_activation_ not in _ACTIVATIONS:
        raise ImportModelError(f"{type(model).__name__} with loss={model.loss!r} is not supported.")
    return _complete_network(model, _ACTIVATIONS[model.out_activation_](x @ last[0] + last[1]))


def _complete_network(model: Any, answers: Any) -> Any:
    return _complete_probabilities(answers) if hasattr(model, "classes_") else answers


def _scale_columns(model: Any, x: Any) -> Any:
    x = x if model.mean_ is None or not model.with_mean else x - model.mean_
    return x if model.scale_ is None or not model.with_std else x / model.scale_


def _scale_range(model: Any, x: Any) -> Any:
    x = x * model.scale_ + model.min_
    return jnp.clip(x, *model.feature_range) if model.clip else x


def _scale_robust(model: Any, x: Any) -> Any:
    x = x - model.center_ if model.with_centering else x
    return x / model.scale_ if model.with_scaling else x


def _normalise_rows(model: Any, x: Any) -> Any:
    orders = {"l1": 1, "l2": 2, "max": np.inf}
    norms = jnp.linalg.norm(x, orders[model.norm], 1, keepdims=True)
    return x / jnp.where(norms == 0, 1, norms)


def _weigh_terms(model: Any, x: Any) -> Any:
    if model.sublinear_tf:
        x = jnp.where(x == 0, 0, 1 + jnp.log(jnp.where(x == 0, 1, x)))
    x = x * model.idf_ if model.use_idf else x
    return _normalise_rows(model, x) if model.norm else x


def _take_terms(model: TermCounts, x: Any) -> Any:
    x = x[:, model.first : model.end]
    x = (x > 0).astype(x.dtype) if model.vectorizer.binary else x
    return _weigh_terms(model.vectorizer._tfidf, x) if hasattr(model.vectorizer, "_tfidf") else x


def _impute_values(model: Any, x: Any) -> Any:
    if model.add_indicator or not isinstance(model.missing_values, float) or not np.isnan(model.missing_values):
        raise ImportModelError("SimpleImputer is read without add_indicator, and for NaN as the missing value.")
    statistics = np.asarray(model.statistics_, np.float64)
    kept = np.arange(len(statistics)) if model.keep_empty_features else np.flatnonzero(~np.isnan(statistics))
    x = x[:, kept]
    return jnp.where(jnp.isnan(x), statistics[kept], x)


def _project_rows(model: Any, x: Any) -> Any:
    x = (x - model.mean_) @ model.components_.T
    least = np.finfo(np.float64).eps
    return x / np.maximum(np.sqrt(model.explained_variance_), least) if model.whiten else x


def _measure_distances(model: Any, x: Any) -> Any:
    return jnp.sqrt(((x[:, None] - model.cluster_centers_) ** 2).sum(2))


def _make_polynomials(model: Any, x: Any) -> Any:
    return jnp.prod(x[:, None] ** model.powers_, 2)


def _apply_function(model: Any, x: Any) -> Any:
    if model.func is None:
        return x
    if not isinstance(model.func, np.ufunc) or not hasattr(jnp, model.func.__name__) or model.kw_args:
        raise ImportModelError("FunctionTransformer is read with a function of NumPy, such as np.log1p.")
    return getattr(jnp, model.func.__name__)(x)


def _transform_columns(model: Any, x: Any) -> Any:
    parts, weights = [], model.transformer_weights or {}
    for name, transformer, _ in model.transformers_:
        columns = model._transformer_to_input_indices[name]
        if len(columns) and transformer != "drop":
            places = getattr(model, "counted", {}).get(name, np.array(columns))
            parts.append(run_method(transformer, "transform", x[:, places]) * weights.get(name, 1))
    return jnp.concatenate(parts, 1)


def _unite_transformers(model: Any, x: Any) -> Any:
    weights = model.transformer_weights or {}
    kept = [(name, transformer) for name, transformer in model.transformer_list if transformer != "drop"]
    return jnp.concatenate([run_method(step, "transform", x) * weights.get(name, 1) for name, step in kept], 1)


_LINEAR_CLASSIFIERS = (
    linear_model.LogisticRegression, linear_model.LogisticRegressionCV, linear_model.SGDClassifier,
    linear_model.RidgeClassifier, linear_model.RidgeClassifierCV, linear_model.Perceptron,
    linear_model.PassiveAggressiveClassifier, svm.LinearSVC,
    discriminant_analysis.LinearDiscriminantAnalysis,
)  # fmt: skip
_LINEAR_REGRESSORS = (
    linear_model.LinearRegression, linear_model.Ridge, linear_model.RidgeCV, linear_model.Lasso, linear_model.LassoCV,
    linear_model.ElasticNet, linear_model.ElasticNetCV, linear_model.Lars, linear_model.LassoLars,
    linear_model.BayesianRidge, linear_model.ARDRegression, linear_model.HuberRegressor, linear_model.SGDRegressor,
    linear_model.QuantileRegressor, linear_model.TheilSenRegressor, linear_model.OrthogonalMatchingPursuit,
    svm.LinearSVR,
)  # fmt: skip
_SELECTORS = (
    feature_selection.SelectKBest, feature_selection.SelectPercentile, feature_selection.VarianceThreshold,
    feature_selection.SelectFromModel, feature_selection.RFE, feature_selection.RFECV,
)  # fmt: skip

_METHODS: Mapping[str, Mapping[type, Step]] = {
    "predict_proba": {
        linear_model.LogisticRegression: _run_logistic,
        linear_model.LogisticRegressionCV: _run_logistic,
        linear_model.SGDClassifier: _run_sgd,
        discriminant_analysis.LinearDiscriminantAnalysis: _run_logistic,
        naive_bayes.GaussianNB: _run_gaussian_bayes,
        naive_bayes.MultinomialNB: _run_counts_bayes,
        naive_bayes.ComplementNB: _run_counts_bayes,
        naive_bayes.BernoulliNB: _run_bits_bayes,
        neighbors.KNeighborsClassifier: ask_neighbours,
        neural_network.MLPClassifier: _run_network,
    },
    "decision_function": {
        **{kind: lambda model, x: _spread_scores(_compute_sums(model, x)) for kind in _LINEAR_CLASSIFIERS},
        svm.SVC: score_by_vectors,
        svm.NuSVC: score_by_vectors,
    },
    "predict": {
        **dict.fromkeys(_LINEAR_REGRESSORS, _compute_sums),
        linear_model.PoissonRegressor: _run_generalised,
        linear_model.GammaRegressor: _run_generalised,
        linear_model.TweedieRegressor: _run_generalised,
        neighbors.KNeighborsRegressor: ask_neighbours,
        neural_network.MLPRegressor: _run_network,
        svm.SVR: predict_by_vectors,
        svm.NuSVR: predict_by_vectors,
    },
    "transform": {
        compose.ColumnTransformer: _transform_columns,
        pipeline.FeatureUnion: _unite_transformers,
        preprocessing.StandardScaler: _scale_columns,
        preprocessing.MinMaxScaler: _scale_range,
        preprocessing.MaxAbsScaler: lambda model, x: x / model.scale_,
        preprocessing.RobustScaler: _scale_robust,
        preprocessing.Normalizer: _normalise_rows,
        preprocessing.Binarizer: lambda model, x: (x > model.threshold).astype(x.dtype),
        preprocessing.PolynomialFeatures: _make_polynomials,
        impute.SimpleImputer: _impute_values,
        CategoryEncoder: CategoryEncoder.encode_rows,
        TermCounts: _take_terms,
        TfidfTransformer: _weigh_terms,
        preprocessing.FunctionTransformer: _apply_function,
        decomposition.PCA: _project_rows,
        decomposition.TruncatedSVD: lambda model, x: x @ model.components_.T,
        cluster.KMeans: _measure_distances,
        cluster.MiniBatchKMeans: _measure_distances,
        **{kind: lambda model, x: x[:, np.flatnonzero(model.get_support())] for kind in _SELECTORS},
    },
}
"""The estimators of each method."""
