"""Trains estimators of scikit-learn on counted texts, the paragraphs of docs/, and compares our answers with its own.

The texts go through the function's own steps. With a folder as argument, the files are left there, each with texts and
scikit-learn's answers in a .json beside it. It runs in the environment of scikit-learn's models.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import jax
import joblib
import numpy as np
import pandas
import xgboost
from sklearn import (
    cluster,
    compose,
    decomposition,
    ensemble,
    feature_selection,
    impute,
    linear_model,
    naive_bayes,
    neural_network,
    pipeline,
    preprocessing,
    svm,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from skops import io as skops

from builder.importers.frameworks.sklearn_model import _METHODS, open_sklearn
from builder.importers.strings.probe_strings import ODD
from handler.text.words import StringProgram, parse_program
from tests.support.frameworks.agreement import report_agreement, run_in_folder

warnings.simplefilter("ignore")
DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("tables", "strings", "onnx", "text")
TEXTS, CLASSES = zip(
    *((part, page) for page in PAGES for part in (DOCS / f"{page}.md").read_text("utf-8").split("\n\n")), strict=True
)
LOGISTIC = linear_model.LogisticRegression()
CHARACTERS = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), max_features=500)
WORDS = TfidfVectorizer(ngram_range=(1, 2))


def chain(*steps: Any) -> Any:
    return pipeline.make_pipeline(*steps)


NUMBERS = [sorted({*CLASSES}).index(name) for name in CLASSES]
CASES: dict[str, Any] = {
    "logistic": chain(TfidfVectorizer(), LOGISTIC),
    "vectors": chain(
        CountVectorizer(ngram_range=(1, 2), stop_words="english"), TfidfTransformer(sublinear_tf=True, norm="l1"),
        svm.LinearSVC(),
    ),
    "bits": chain(CountVectorizer(binary=True), naive_bayes.MultinomialNB()),
    "parts": chain(CountVectorizer(analyzer="char_wb", ngram_range=(2, 4)), naive_bayes.ComplementNB()),
    "ascii": chain(TfidfVectorizer(strip_accents="ascii", use_idf=False), naive_bayes.BernoulliNB()),
    "group": chain(
        TfidfVectorizer(strip_accents="unicode", token_pattern=r"\b(\w)\w*\b"),
        linear_model.SGDClassifier(loss="log_loss", random_state=0),
    ),
    "kernel": chain(TfidfVectorizer(norm=None), preprocessing.MaxAbsScaler(), svm.SVC()),
    "scores": chain(TfidfVectorizer(max_df=0.5, min_df=2), linear_model.RidgeClassifier()),
    "forest": chain(TfidfVectorizer(), ensemble.RandomForestClassifier(5, random_state=0)),
    "boosted": (chain(TfidfVectorizer(max_features=99), xgboost.XGBClassifier(n_estimators=5)), NUMBERS),
    "network": chain(TfidfVectorizer(max_features=99), neural_network.MLPClassifier(5, max_iter=9, random_state=0)),
    "topics": chain(TfidfVectorizer(), decomposition.TruncatedSVD(5), preprocessing.Normalizer()),
    "clusters": chain(TfidfVectorizer(max_features=99), cluster.KMeans(3, random_state=0)),
    "selected": chain(TfidfVectorizer(), feature_selection.SelectKBest(feature_selection.chi2, k=50), LOGISTIC),
    "given": chain(CountVectorizer(vocabulary={"model": 1, "text": 0, "a": 2}), LOGISTIC),
    "alone": TfidfVectorizer(lowercase=False, token_pattern=r"[A-Za-z]{2,}"),
    "united": chain(pipeline.make_union(WORDS, chain(CHARACTERS, decomposition.TruncatedSVD(4))), LOGISTIC),
    "weighed": chain(pipeline.FeatureUnion([("w", WORDS), ("c", CHARACTERS)], transformer_weights={"c": 2}), LOGISTIC),
    "length": (chain(TfidfVectorizer(), linear_model.Ridge()), [float(len(text)) for text in TEXTS]),
}  # fmt: skip
RANDOM = np.random.default_rng(0)
ROWS = pandas.DataFrame({
    "id": range(len(TEXTS)),
    "comment": TEXTS,
    "size": pandas.Series([float(len(text)) for text in TEXTS]).where(RANDOM.random(len(TEXTS)) > 0.1),
    "first letter": [text[:1] for text in TEXTS],
    "last": pandas.Series([text[-1:] for text in TEXTS]).where(RANDOM.random(len(TEXTS)) > 0.1),
    "title": [text[:30] for text in TEXTS],
    "month": RANDOM.integers(1, 13, len(TEXTS)),
})  # fmt: skip
NUMBERS = chain(impute.SimpleImputer(), preprocessing.StandardScaler())
LETTERS = preprocessing.OneHotEncoder(handle_unknown="ignore")
BINNED = ensemble.HistGradientBoostingClassifier(max_iter=3, random_state=0)


def make_columns(*steps: Any, rest: str = "drop") -> Any:
    return compose.make_column_transformer(*steps, remainder=rest, sparse_threshold=0)


TABLES: dict[str, tuple[Any, Any]] = {
    "beside": (chain(make_columns(
        (WORDS, "comment"), (NUMBERS, ["size"]), (LETTERS, ["first letter", "last"]),
        (chain(CHARACTERS, decomposition.TruncatedSVD(4)), "comment"), (CountVectorizer(), "title"),
    ), LOGISTIC), ROWS),
    "strict": (chain(make_columns(
        (TfidfVectorizer(max_features=40), "comment"), (preprocessing.OrdinalEncoder(), ["first letter"]),
        rest="passthrough",
    ), BINNED), ROWS[["size", "comment", "first letter"]]),
    "array": (chain(
        make_columns((TfidfVectorizer(), 1), (preprocessing.StandardScaler(), [0])), LOGISTIC,
    ), ROWS[["id", "comment"]].to_numpy()),
}  # fmt: skip
REFUSED: dict[str, Any] = {
    "tokenizer": TfidfVectorizer(tokenizer=str.split),
    "slow": TfidfVectorizer(token_pattern=r"\w*\w*\w*!", vocabulary=["a!"]),
    "files": CountVectorizer(vocabulary=["a"]),
}


def run_table_case(name: str, folder: Path) -> bool:
    """Say whether the answers agree, to rows that go through the function's own steps, and to the examples."""
    estimator, rows = TABLES[name]
    estimator.fit(rows, CLASSES)
    path = folder / f"{name}.joblib"
    joblib.dump(estimator, path)
    model = open_sklearn(path, trust=True)
    assert model.terms
    words = parse_program(model.terms.recipe.encode())
    table = rows if name != "array" else pandas.DataFrame(rows, columns=["x0", "x1"])
    table = table[[port.name for port in model.ports.feeds]]
    if name == "beside":
        table = table.fillna({"last": "unknown"})
    strings = [table[source] for source in words.inputs]
    arrays = [words.compute_arrays([[text.encode()] for text in row]) for row in zip(*strings, strict=True)]
    feeds = []
    for port in model.ports.feeds:
        if port.name in model.terms.terms:
            feeds.append(pack_pairs([array[port.name].values for array in arrays]))
        elif port.dtype == "string":
            feeds.append(np.array([array[port.name].scalar for array in arrays]))
        else:
            feeds.append(table[port.name].to_numpy(np.float32))
    given = rows if name == "array" else rows.assign(**table)
    wanted = estimator.predict_proba(given)
    run, samples = jax.jit(model.make_function()), [*model.samples.values()]
    table = table.astype(object).where(table.notna(), None)
    recorded = {"rows": table.to_dict("records"), "answers": wanted.tolist()}
    path.with_suffix(".json").write_text(json.dumps(recorded))
    return all(
        np.allclose(ours, theirs, rtol=1e-6, atol=1e-6)
        for ours, theirs in ((run(*feeds)[0], wanted), (run(*samples)[0], model.answer(samples)[0]))
    )


def pack_pairs(rows: Any) -> Any:
    pairs = np.zeros((len(rows), max(map(len, rows)) // 2, 2), np.int32)
    for number, row in enumerate(rows):
        pairs[number, : len(row) // 2] = np.reshape(row, (-1, 2))
    return pairs


def count_pairs(words: StringProgram, texts: Any) -> Any:
    """The feed of ``texts`` by the function's own steps."""
    return pack_pairs([words.compute_arrays([[text.encode()]])["text"].values for text in texts])


def run_case(name: str, folder: Path) -> bool:
    """Say whether the answers agree, to texts and to the examples that golden inputs are made of."""
    case = CASES[name]
    estimator, targets = case if isinstance(case, tuple) else (case, CLASSES)
    estimator.fit(TEXTS, targets)
    path = folder / f"{name}.{'joblib' if name in ('forest', 'united') else 'skops'}"
    (joblib.dump if path.suffix == ".joblib" else skops.dump)(estimator, path)
    model = open_sklearn(path, trust=True)
    assert model.terms
    texts = [*TEXTS[::3], *ODD]
    wanted = getattr(estimator, _METHODS[model.ports.fetches[0].name])(texts)
    wanted = np.asarray(wanted.toarray() if hasattr(wanted, "toarray") else wanted, float).reshape(len(texts), -1)
    pairs = count_pairs(parse_program(model.terms.recipe.encode()), texts)
    run = jax.jit(model.make_function())
    (answer,), (sampled,) = run(pairs), run(model.samples["text"])
    (size,) = (min(count, 16_384) for count in model.terms.terms.values())
    feed = np.zeros((1, size, 2), np.int32)
    feed[:, : pairs.shape[1]] = pairs[:1, :size]
    np.savez(path.with_suffix(".npz"), feed=feed, fetch=wanted[:1])
    path.with_suffix(".json").write_text(json.dumps({"texts": texts, "answers": wanted.tolist()}))
    error = 1e-6 if name == "boosted" else 1e-9  # XGBoost's probabilities are float32.
    return all(
        np.allclose(ours, theirs, rtol=error, atol=error)
        for ours, theirs in ((answer, wanted), (sampled, model.answer([model.samples["text"]])[0]))
    )


def main(folder: Path) -> None:
    same = {name: run_case(name, folder) for name in CASES} | {name: run_table_case(name, folder) for name in TABLES}
    for name, vectorizer in REFUSED.items():
        fitted = chain(vectorizer, linear_model.SGDClassifier()).fit(TEXTS, CLASSES)
        vectorizer.set_params(input="filename" if name == "files" else "content")
        joblib.dump(fitted, folder / f"{name}.joblib")
    report_agreement(same)


if __name__ == "__main__":
    run_in_folder(main)
