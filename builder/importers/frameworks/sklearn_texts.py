"""Texts in models of scikit-learn: the function counts the terms that vectorizers know, and the model takes counts.

The counts of all vectorizers stand side by side, as columns of rows.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import sparse
from sklearn import pipeline
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.importers.frameworks.sklearn_categories import copy_with
from builder.importers.strings.counted_terms import TermSteps
from builder.importers.strings.probe_strings import ODD, strings_like
from builder.importers.strings.string_ops import Recipe, encode_constant
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
    """Takes the place of ``vectorizer``, whose terms are counted from the column ``first`` on."""

    vectorizer: Any
    first: int

    @property
    def end(self) -> int:
        """The column behind the last one."""
        return self.first + len(self.vectorizer.vocabulary_)

    def transform(self, counts: Any) -> Any:
        """Return what the vectorizer itself makes of a sparse matrix of ``counts`` of all terms."""
        own = counts[:, self.first : self.end].astype(self.vectorizer.dtype)
        if self.vectorizer.binary:
            own.data.fill(1)
        weighs = isinstance(self.vectorizer, TfidfVectorizer)
        return self.vectorizer._tfidf.transform(own, copy=False) if weighs else own


@dataclass(eq=False)
class TextColumns:
    """The vectorizers of a model's text."""

    parts: list[TermCounts] = field(default_factory=list)

    @property
    def terms(self) -> int:
        """The number of different terms."""
        return self.parts[-1].end

    def describe_steps(self, feed: str) -> TermSteps:
        """Return the steps from the text ``feed`` to its terms. Raises ImportModelError."""
        tables = [{"strings": False, "keys": _list_terms(part.vectorizer), "first": part.first} for part in self.parts]
        steps = [_make_step(part.vectorizer) | {"of": [0], "table": at} for at, part in enumerate(self.parts)]
        recipe = Recipe([{"name": feed, "shape": [1]}], [encode_constant(np.array(1))], tables, steps)
        if len(steps) > 1:
            steps.append({"op": "ConcatV2", "of": [*range(2, 2 + len(steps)), 1]})
        recipe.outputs.append({"feed": feed, "value": 1 + len(steps), "pad": 0})
        return TermSteps(recipe.to_bytes().decode("ascii"), {feed: self.terms}, {feed: self._draw_texts()})

    def _draw_texts(self) -> tuple[str, ...]:
        """Return texts of known terms and others, and unusual ones."""
        known = [term for part in self.parts for term in _list_terms(part.vectorizer)]
        chosen = [known[int(at)] for at in np.linspace(0, len(known) - 1, min(len(known), _KNOWN))]
        return (*strings_like(chosen, _DRAWN, "text", 0), *ODD)

    def count_texts(self, texts: Sequence[str]) -> Array:
        """Return the terms of ``texts`` and their counts, int32 [texts, most, 2], by scikit-learn's own analyzers."""
        analyzers = [(part.first, part.vectorizer.vocabulary_, part.vectorizer.build_analyzer()) for part in self.parts]
        rows = []
        for text in texts:
            terms = [first + known[term] for first, known, cut in analyzers for term in cut(text) if term in known]
            rows.append([*Counter(terms).items()])
        pairs = np.zeros((len(rows), max(map(len, rows)), 2), np.int32)
        for number, row in enumerate(rows):
            pairs[number, : len(row)] = np.reshape(row, (-1, 2))
        return pairs

    def restore_counts(self, pairs: Array) -> Any:
        """Return the sparse counts [rows, terms] of ``pairs`` [rows, most, 2]."""
        numbers, counts = pairs[..., 0], pairs[..., 1]
        rows = np.broadcast_to(np.arange(len(pairs))[:, None], numbers.shape)
        matrix = sparse.csr_matrix((counts.ravel(), (rows.ravel(), numbers.ravel())), (len(pairs), self.terms))
        matrix.eliminate_zeros()
        return matrix

    def spread_counts(self, pairs: Any) -> Any:
        """Return the counts [rows, terms] of ``pairs`` [rows, most, 2] as JAX computes them, float64."""
        rows = jnp.arange(pairs.shape[0])[:, None]
        counts = jnp.zeros((pairs.shape[0], self.terms), jnp.float64)
        return counts.at[rows, pairs[..., 0]].add(pairs[..., 1].astype(jnp.float64), mode="promise_in_bounds")


def replace_vectorizers(model: Any, columns: TextColumns) -> Any:
    """Return a copy of ``model`` with TermCounts in the place of vectorizers, and note them in ``columns``."""
    match model:
        case pipeline.Pipeline(steps=[(name, first), *others]):
            return copy_with(model, steps=[(name, replace_vectorizers(first, columns)), *others])
        case pipeline.FeatureUnion():
            steps = [(name, replace_vectorizers(step, columns)) for name, step in model.transformer_list]
            return copy_with(model, transformer_list=steps)
        case CountVectorizer():
            columns.parts.append(TermCounts(model, columns.terms if columns.parts else 0))
            return columns.parts[-1]
    return model


def _list_terms(vectorizer: Any) -> list[str]:
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
