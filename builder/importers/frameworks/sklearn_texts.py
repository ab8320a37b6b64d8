"""Texts in models of scikit-learn: the function counts the terms that vectorizers know, and the model takes counts.

The terms of all vectorizers of one input are numbered one after the other.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import sparse
from sklearn import compose, pipeline
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.importers.frameworks.sklearn_categories import copy_with
from builder.importers.strings.probe_strings import ODD, strings_like
from builder.importers.text.patterns import search_cost

_INSTEAD = {
    "tokenizer": "token_pattern, a regular expression",
    "preprocessor": "lowercase and strip_accents, or with texts that it prepared, and send such texts",
    "analyzer": '"word", "char" or "char_wb"',
}
_DRAWN = 96
"""Examples of texts beside unusual ones."""
_KNOWN = 400


@dataclass(frozen=True, eq=False)
class TermCounts:
    """Takes the place of ``vectorizer``, whose terms are numbered from ``first`` on among those of its text.

    ``step``: how the function counts them.
    """

    vectorizer: Any
    first: int
    step: Mapping[str, Any]

    @property
    def end(self) -> int:
        """The number behind the last one."""
        return self.first + len(self.vectorizer.vocabulary_)

    def transform(self, pairs: Sequence[Array]) -> Any:
        """Return what the vectorizer makes of texts for whose terms ``pairs`` [most, 2] have numbers and counts."""
        numbers, counts = np.moveaxis(np.stack([*pairs]), 2, 0)
        own = (counts != 0) & (numbers >= self.first) & (numbers < self.end)
        matrix = sparse.csr_matrix(
            (counts[own], (np.nonzero(own)[0], numbers[own] - self.first)), (len(pairs), self.end - self.first)
        ).astype(self.vectorizer.dtype)
        if self.vectorizer.binary:
            matrix.data.fill(1)
        weighs = isinstance(self.vectorizer, TfidfVectorizer)
        return self.vectorizer._tfidf.transform(matrix, copy=False) if weighs else matrix


Texts = dict[int, list[TermCounts]]
"""The vectorizers of each column of texts, by its position."""


def replace_vectorizers(model: Any, texts: Texts, column: int = 0) -> Any:
    """Return a copy of ``model`` with TermCounts in the place of vectorizers of ``column``, and note them in ``texts``.

    A ColumnTransformer gets ``counted``: the places of a transformer's counts, which stand behind all columns of rows.
    Raises ImportModelError.
    """
    match model:
        case pipeline.Pipeline(steps=[(name, first), *others]):
            return copy_with(model, steps=[(name, replace_vectorizers(first, texts, column)), *others])
        case pipeline.FeatureUnion():
            steps = [(name, replace_vectorizers(step, texts, column)) for name, step in model.transformer_list]
            return copy_with(model, transformer_list=steps)
        case compose.ColumnTransformer():
            replaced, columns = [], {}
            for name, step, selected in model.transformers_:
                first, before = next(iter(model._transformer_to_input_indices[name]), 0), _count_parts(texts)
                replaced.append((name, replace_vectorizers(step, texts, first), selected))
                if _count_parts(texts) > before:
                    columns[name] = first
            places = locate_counts(texts, model.n_features_in_)
            counted = {name: places[column] for name, column in columns.items()}
            return copy_with(model, transformers_=replaced, counted=counted)
        case CountVectorizer():
            parts = texts.setdefault(column, [])
            parts.append(TermCounts(model, parts[-1].end if parts else 0, _make_step(model)))
            return parts[-1]
    return model


def _count_parts(texts: Texts) -> int:
    return sum(map(len, texts.values()))


def locate_counts(texts: Texts, features: int) -> dict[int, slice]:
    """Return the places of the counts of each text behind ``features`` other columns."""
    ends = [*accumulate((parts[-1].end for parts in texts.values()), initial=features)]
    return {column: slice(*places) for column, places in zip(texts, pairwise(ends), strict=True)}


def draw_texts(parts: Sequence[TermCounts]) -> tuple[str, ...]:
    """Return texts of known terms and others, and unusual ones."""
    known = [term for part in parts for term in list_terms(part.vectorizer)]
    chosen = [known[int(at)] for at in np.linspace(0, len(known) - 1, min(len(known), _KNOWN))]
    return (*strings_like(chosen, _DRAWN, "text", 0), *ODD)


def count_texts(parts: Sequence[TermCounts], texts: Sequence[str]) -> Array:
    """Return the terms of ``texts`` and their counts, int32 [texts, most, 2], by scikit-learn's own analyzers."""
    analyzers = [(part.first, part.vectorizer.vocabulary_, part.vectorizer.build_analyzer()) for part in parts]
    rows = []
    for text in texts:
        terms = [first + known[term] for first, known, cut in analyzers for term in cut(text) if term in known]
        rows.append([*Counter(terms).items()])
    pairs = np.zeros((len(rows), max(map(len, rows)), 2), np.int32)
    for number, row in enumerate(rows):
        pairs[number, : len(row)] = np.reshape(row, (-1, 2))
    return pairs


def spread_counts(parts: Sequence[TermCounts], pairs: Any) -> Any:
    """Return the counts [rows, terms] of ``pairs`` [rows, most, 2] as JAX computes them, float64."""
    rows = jnp.arange(pairs.shape[0])[:, None]
    counts = jnp.zeros((pairs.shape[0], parts[-1].end), jnp.float64)
    return counts.at[rows, pairs[..., 0]].add(pairs[..., 1].astype(jnp.float64), mode="promise_in_bounds")


def list_terms(vectorizer: Any) -> list[str]:
    """Return the terms of a vectorizer in the order of their numbers."""
    return sorted(vectorizer.vocabulary_, key=vectorizer.vocabulary_.__getitem__)


def _make_step(vectorizer: Any) -> dict[str, Any]:
    """Return the step that counts the terms of ``vectorizer``. Raises ImportModelError if it has code of its own."""
    name = type(vectorizer).__name__
    for option, instead in _INSTEAD.items():
        value = getattr(vectorizer, option)
        if callable(value):
            own = getattr(value, "__name__", type(value).__name__)
            raise ImportModelError(
                f"{name} has {option}={own}, which is code that the function does not have: train it with {instead}."
            )
    if type(vectorizer) not in (CountVectorizer, TfidfVectorizer) or callable(vectorizer.strip_accents):
        raise ImportModelError(f"{name} may do anything to a text, or its strip_accents: use TfidfVectorizer itself.")
    if vectorizer.input != "content":
        raise ImportModelError(f'{name} has input="{vectorizer.input}", and the function takes texts: input="content".')
    cost, slope = _bound_pattern(vectorizer) if vectorizer.analyzer == "word" else (0, 0)
    return {
        "op": "CountTerms",
        "analyzer": vectorizer.analyzer,
        "ngrams": list(vectorizer.ngram_range),
        "lowercase": bool(vectorizer.lowercase),
        "accents": vectorizer.strip_accents,
        "token_pattern": vectorizer.token_pattern,
        "cost": cost,
        "slope": slope,
        "stop_words": sorted((vectorizer.analyzer == "word" and vectorizer.get_stop_words()) or ()),
    }


def _bound_pattern(vectorizer: Any) -> tuple[int, int]:
    """Return the cost and slope of the pattern of words. Raises ImportModelError if its time has no bound."""
    pattern = vectorizer.token_pattern.removeprefix("(?u)")
    # A repeat of \w ends at a boundary of words, wherever it ends, so that it never tries again.
    plain = re.sub(r"(\\w[+*])\\b(\)?)$", r"\1\2", pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Of what later versions of Python may read as a set in a set.
            re.compile(vectorizer.token_pattern)
        return search_cost(plain, nested=False)
    except (ValueError, FutureWarning, re.error) as error:
        raise ImportModelError(f"{type(vectorizer).__name__}: {error}.") from error
