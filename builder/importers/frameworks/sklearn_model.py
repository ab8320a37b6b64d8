"""Reads models of scikit-learn, from .skops or pickled files: ports and a JAX function; scikit-learn itself answers.

Texts are numbers to the function: their places in the ``categories`` of the feed, or the counts of their terms.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import joblib
import numpy as np
import sklearn
from sklearn.base import BaseEstimator, is_classifier, is_clusterer, is_regressor
from sklearn.exceptions import InconsistentVersionWarning, NotFittedError
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils.validation import check_is_fitted
from skops import io as skops

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.config.rules import LEAVES
from builder.importers.frameworks.framework_model import FrameworkModel, make_port
from builder.importers.frameworks.sklearn_categories import CategoryColumns, list_used_columns, number_categories
from builder.importers.frameworks.sklearn_inputs import SklearnTable, draw_inputs, note_sparse_rows
from builder.importers.frameworks.sklearn_steps import explain_unsupported, run_ensemble, run_method
from builder.importers.frameworks.sklearn_text_inputs import TextInputs
from builder.importers.frameworks.sklearn_texts import Texts, replace_vectorizers
from builder.importers.frameworks.sklearn_trees import NUMBERED
from builder.importers.loaded import HOW_TO_TRUST, make_names_unique
from builder.importers.ports import GraphFacts, ModelPorts, PortInfo

FEED, TEXT = "input", "text"
_METHODS = {"probabilities": "predict_proba", "scores": "decision_function", "prediction": "predict",
            "distances": "transform", "transformed": "transform", LEAVES: "apply"}  # fmt: skip
"""The method of an estimator that gives a fetch."""

_HARMLESS = ("numpy.dtype",)
"""Types that skops does not trust, and that no data of a file can harm: imputers have them."""


def open_sklearn(path: Path, trust: bool, leaves: bool = False) -> FrameworkModel:
    """Open the fitted estimator in ``path``. Raises ImportModelError.

    Its feed is a float32 table, or a text; its fetch, named by a key of ``_METHODS``, has a row for each row. With
    ``leaves``, it has a second one, LEAVES: the number of the leaf that a row comes to in each tree.
    """
    model, notes = _load_estimator(path, trust)
    if leaves and type(model) not in NUMBERED:
        raise ImportModelError(
            f'{type(model).__name__} has no signature "{LEAVES}", since scikit-learn does not tell its leaves. These '
            f"have it: {', '.join(kind.__name__ for kind in NUMBERED)}."
        )
    for step in (model, *(step for _, step in getattr(model, "steps", ()))):
        if getattr(step, "n_jobs", None) not in (None, 1):
            step.set_params(n_jobs=1)  # The order of sums must not depend on the processors.
    fetch, texts = _choose_fetch(model), Texts()
    counted = replace_vectorizers(model, texts)
    if texts:
        opened = _open_texts(model, counted, fetch, texts)
    elif hasattr(model, "n_features_in_"):
        opened = _open_table(model, fetch, leaves)
    else:
        raise ImportModelError(
            f"{path.name} holds {type(model).__name__}, which is not supported: models of tables of numbers and "
            "categories are, and pipelines that begin with CountVectorizer or TfidfVectorizer."
        )
    ports = replace(
        opened.ports,
        labels=tuple(map(str, model.classes_)) if is_classifier(model) else (),
        warnings=tuple(notes),
        origin=f"read by scikit-learn {sklearn.__version__}",
    )
    return replace(opened, ports=ports)


def _open_table(model: Any, fetch: str, leaves: bool) -> FrameworkModel:
    features, categories = int(model.n_features_in_), CategoryColumns()
    numbered = number_categories(model, range(features), categories)
    table = SklearnTable(model, categories, list_used_columns(model, features))
    samples = draw_inputs(numbered, features, categories)[:, table.used]
    noted = note_sparse_rows(numbered, model, table.restore_rows(samples))
    if noted is not numbered:
        numbered, samples = noted, draw_inputs(noted, features, categories)[:, table.used]
    refused = _list_refusing_missing(model, fetch, table.restore_rows, samples[:1])

    def run(x: Any) -> list[Any]:
        rows = table.spread_columns(x)
        return run_ensemble(numbered, rows, True) if leaves else [_run(numbered, fetch, rows)]

    shapes = jax.eval_shape(run, np.zeros((1, len(table.used)), np.float32))
    names = (fetch, LEAVES)[: len(shapes)]
    missing = len(refused) < len(table.used)
    feed = table.describe_feed(make_port(FEED, "float32", ["batch", len(table.used)]), refused if missing else [])
    return FrameworkModel(
        _make_ports([feed], names, shapes, [FEED] if missing else []), lambda: run,
        lambda feeds: [_answer_rows(model, name, table.restore_rows(feeds[0])) for name in names],
        samples={FEED: samples},
    )  # fmt: skip


def _open_texts(model: Any, counted: Any, fetch: str, texts: Texts) -> FrameworkModel:
    """Return ``model``, which takes texts, alone or beside other columns. ``counted``: the same for counts of terms."""
    features, categories = getattr(model, "n_features_in_", 0), CategoryColumns()
    numbered = number_categories(counted, range(features), categories)
    used = list_used_columns(model, features)
    known = getattr(model, "feature_names_in_", [f"x{column}" for column in range(features)])
    names = dict(zip(used, make_names_unique([str(known[column]) for column in used]), strict=True)) or {0: TEXT}
    inputs = TextInputs(names, texts, SklearnTable(model, categories, used) if features else None)
    rows = draw_inputs(numbered, features, categories)[:, used]
    samples = inputs.draw_samples(rows)
    numbered = note_sparse_rows(numbered, counted, inputs.restore_rows([*samples.values()]))
    steps = inputs.describe_steps(samples)

    def answer(feeds: Sequence[Array]) -> list[Array]:
        return [_answer_rows(counted, fetch, inputs.restore_rows(feeds))]

    def run(*feeds: Any) -> list[Any]:
        return [_run(numbered, fetch, inputs.spread_feeds(feeds))]

    (own,) = answer([*samples.values()])
    plain = [steps.texts[name] if name in steps.terms else values for name, values in samples.items()]
    whole = _answer_rows(model, fetch, inputs.restore_rows(plain))
    if not np.allclose(own, whole, rtol=1e-9, atol=1e-9, equal_nan=True):
        raise ImportModelError("The model does more with a text than to count its terms, which is not supported.")
    first = [values[:1] for values in samples.values()]

    def restore_rows(row: Array) -> Any:
        return inputs.restore_rows([first[at] if column in texts else row[:, at] for at, column in enumerate(names)])

    ports = _make_ports(inputs.make_ports(), (fetch,), jax.eval_shape(run, *first))
    if features:
        refused = _list_refusing_missing(counted, fetch, restore_rows, rows[:1])
        missing = (port.name for at, port in enumerate(ports.feeds) if port.dtype == "float32" and at not in refused)
        ports = replace(ports, facts=replace(ports.facts or GraphFacts(()), missing=tuple(missing)))
    return FrameworkModel(ports, lambda: run, answer, samples=samples, terms=steps)


def _make_ports(
    feeds: Sequence[PortInfo], names: Sequence[str], shapes: Sequence[Any], missing: Sequence[str] = ()
) -> ModelPorts:
    """Return the ports of a model whose fetches, ``names``, have ``shapes`` for a single row."""
    fetches = (make_port(name, str(s.dtype), ["batch", *s.shape[1:]]) for name, s in zip(names, shapes, strict=True))
    endings = {"probabilities": "Softmax"} if "probabilities" in names else {}
    return ModelPorts(tuple(feeds), tuple(fetches), facts=GraphFacts((), endings, missing=tuple(missing)))


def _load_estimator(path: Path, trust: bool) -> tuple[Any, list[str]]:
    """Return the estimator of a file, and what is to be said of its version. Raises ImportModelError."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = _load_skops(path, trust) if path.suffix.lower() == ".skops" else joblib.load(path)
        except ImportModelError:
            raise
        except Exception as error:  # The file may be of no such kind, or of a version with other classes.
            raise ImportModelError(
                f"{path.name} cannot be loaded by scikit-learn {sklearn.__version__}: {describe_error(error)}. It has "
                "to be saved by skops.io.dump or joblib.dump, and to need no package beside XGBoost and LightGBM."
            ) from error
    if not isinstance(model, BaseEstimator):
        raise ImportModelError(f"{path.name} holds {type(model).__name__}, and no estimator of scikit-learn.")
    versions = {w.message.original_sklearn_version for w in caught if isinstance(w.message, InconsistentVersionWarning)}
    notes = [
        f"{path.name} was saved by scikit-learn {version} and is read by {sklearn.__version__}, which may answer "
        "differently: compare some answers, or train and save it again with this version."
        for version in sorted(versions)
    ]
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise ImportModelError(f"{path.name} is not fitted: call its fit, and save it again.") from error
    return (model.best_estimator_ if isinstance(model, BaseSearchCV) else model), notes


def _load_skops(path: Path, trust: bool) -> Any:
    types = skops.get_untrusted_types(file=path)
    if not trust and (types := [name for name in types if name not in _HARMLESS]):
        raise ImportModelError(
            f"{path.name} has types that skops does not trust: {', '.join(types)}. If you trust where it comes from, "
            f"{HOW_TO_TRUST}."
        )
    return skops.load(path, trusted=skops.get_untrusted_types(file=path))


def _choose_fetch(model: Any) -> str:
    """Return the fetch that tells most of what ``model`` answers."""
    if is_classifier(model):
        return "probabilities" if hasattr(model, "predict_proba") else "scores"
    if is_regressor(model):
        return "prediction"
    if hasattr(model, "transform"):
        return "distances" if is_clusterer(model) else "transformed"
    raise ImportModelError(explain_unsupported(model, "predict"))


def _run(model: Any, fetch: str, x: Any) -> Any:
    return jnp.asarray(run_method(model, _METHODS[fetch], jnp.asarray(x, jnp.float64)), jnp.float64)


def _answer_rows(model: Any, fetch: str, rows: Any) -> Array:
    """Return scikit-learn's own answer [rows, columns] to rows as it takes them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It wants names for the columns.
        answer = getattr(model, _METHODS[fetch])(rows)
    answer = np.asarray(answer.toarray() if hasattr(answer, "toarray") else answer)
    answer = answer.reshape(len(answer), -1).astype(np.int32 if fetch == LEAVES else np.float64)
    return np.concatenate([-answer, answer], 1) if fetch == "scores" and answer.shape[1] == 1 else answer


_MOST_PROBES = 200
"""The most columns of which each is asked for alone whether a value may be missing."""


def _list_refusing_missing(model: Any, fetch: str, restore_rows: Callable[[Array], Any], row: Array) -> list[int]:
    """Return the columns of ``row`` [1, columns] in which NaN is a mistake or a number, rather than a missing value.

    ``restore_rows``: a function that returns rows as scikit-learn takes them.
    """

    def refuses_missing(missing: Any) -> bool:
        try:
            answer = _answer_rows(model, fetch, restore_rows(np.where(missing, np.float32(np.nan), row)))
        except (ValueError, TypeError):
            return True
        return bool(np.isnan(answer).any())

    if not refuses_missing(np.ones_like(row, bool)):
        return []
    columns = np.arange(row.shape[1])
    single = not hasattr(model, "transformers_") and not hasattr(model, "steps")
    if single or len(columns) > _MOST_PROBES or refuses_missing(np.zeros_like(row, bool)):
        return columns.tolist()
    return [column for column in columns.tolist() if refuses_missing(columns == column)]
