"""Trains estimators of scikit-learn on counted texts, the paragraphs of docs/, and compares our answers with its own.

The texts go through the function's own steps. With a folder as argument, the files are left there, each with texts and
scikit-learn's answers in a .json beside it. It runs in the environment of scikit-learn's models.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import joblib
import numpy as np
from sklearn import (
    cluster,
    decomposition,
    ensemble,
    feature_selection,
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
REFUSED: dict[str, Any] = {
    "tokenizer": TfidfVectorizer(tokenizer=str.split),
    "slow": TfidfVectorizer(token_pattern=r"\w*\w*\w*!", vocabulary=["a!"]),
    "files": CountVectorizer(vocabulary=["a"]),
}


def count_pairs(words: StringProgram, texts: Any) -> Any:
    """The feed of ``texts`` by the function's own steps."""
    rows = [words.compute_arrays([[text.encode()]])["text"].values for text in texts]
    pairs = np.zeros((len(rows), max(map(len, rows)) // 2, 2), np.int32)
    for number, row in enumerate(rows):
        pairs[number, : len(row) // 2] = np.reshape(row, (-1, 2))
    return pairs


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
    return all(
        np.allclose(ours, theirs, rtol=1e-9, atol=1e-9)
        for ours, theirs in ((answer, wanted), (sampled, model.answer([model.samples["text"]])[0]))
    )


def main(folder: Path) -> None:
    same = {name: run_case(name, folder) for name in CASES}
    for name, vectorizer in REFUSED.items():
        fitted = chain(vectorizer, linear_model.SGDClassifier()).fit(TEXTS, CLASSES)
        vectorizer.set_params(input="filename" if name == "files" else "content")
        joblib.dump(fitted, folder / f"{name}.joblib")
    for name, agrees in same.items():
        if not agrees:
            print(f"{name} differs")
    print(f"{sum(same.values())} of {len(same)} agree")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with TemporaryDirectory() as scratch:
            main(Path(scratch))
