"""Columns of categories in models of scikit-learn: a text becomes its number, and encoders look numbers up.

scikit-learn's own encoders say what they make of each category, so that groups of infrequent categories, dropped ones
and encoders of targets need no rules of their own.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from sklearn import compose, impute, pipeline, preprocessing

from builder.base.errors import ImportModelError
from builder.importers.frameworks.sklearn_trees import BINNED

OTHER = -1.0
"""The number of a text that is none of a column's categories."""

_CLOSE = 1e-6
"""The largest distance of a value from the category that it stands for, absolute or relative: float32 rounds it."""


def is_category(values: Any, numbers: Any) -> Any:
    """Return whether ``values`` are the categories ``numbers``, except for missing ones."""
    return abs(values - numbers) <= _CLOSE * np.maximum(1, abs(numbers))


@dataclass(frozen=True, eq=False)
class CategoryTable:
    """The codes that an encoder has for the categories of one column.

    ``numbers``: the categories [count]; NaN is a missing value. ``codes``: what each becomes, and last any other value,
    [count + 1]: a number, or with a ``width`` which of so many columns is 1, where -1 is none of them.
    """

    numbers: NDArray[np.float64]
    codes: NDArray[np.float64]
    width: int | None = None

    def encode_values(self, values: Any) -> Any:
        """Return the columns [rows, columns] of float64 ``values`` [rows]."""
        same = is_category(values[:, None], self.numbers) | (jnp.isnan(values)[:, None] & np.isnan(self.numbers))
        known = self.codes if self.width is None else self.codes.astype(np.int32)  # Whole ones are compared.
        codes = jnp.asarray(known)[jnp.where(same.any(1), same.argmax(1), len(self.numbers))]
        return codes[:, None] if self.width is None else (codes[:, None] == np.arange(self.width)).astype(values.dtype)


@dataclass(frozen=True, eq=False)
class CategoryEncoder:
    """Takes the place of an encoder of categories, with a table for each column."""

    tables: tuple[CategoryTable, ...]

    def encode_rows(self, x: Any) -> Any:
        """Return what becomes of ``x`` [rows, columns]."""
        return jnp.concatenate([table.encode_values(x[:, i]) for i, table in enumerate(self.tables)], 1)


@dataclass(eq=False)
class CategoryColumns:
    """The input columns of a model that hold categories, by their positions.

    ``texts``: the number of each text. ``numbers``: the categories of columns of numbers. ``strict``: columns in which
    the model refuses other categories. ``none``: columns whose missing value is None, and not NaN.
    """

    texts: dict[int, dict[str, int]] = field(default_factory=dict)
    numbers: dict[int, set[float]] = field(default_factory=dict)
    strict: set[int] = field(default_factory=set)
    none: set[int] = field(default_factory=set)

    def number_value(self, value: Any, column: int | None) -> float:
        """Return the number of a value in an input column, or in a computed one (None). Raises ImportModelError."""
        if not isinstance(value, str):
            return float("nan") if value is None else float(value)
        if column is None:
            raise ImportModelError(f'"{value}" is a category of a column that is computed: such columns are not read.')
        own = self.texts.setdefault(column, {})
        return own.setdefault(value, len(own))

    def number_category(self, category: Any, column: int | None) -> float:
        """Return the number of a category like ``number_value``, and note it."""
        number = self.number_value(category, column)
        if column is not None and not isinstance(category, str):
            self.numbers.setdefault(column, set()).add(number)
            if category is None:
                self.none.add(column)
        return number


def number_categories(model: Any, columns: Sequence[int], categories: CategoryColumns) -> Any:
    """Return a copy of ``model`` for numbers in the place of texts, and note its ``categories``.

    ``columns``: the input column that each column of the model's rows is; none where they are computed. Raises
    ImportModelError.
    """
    match model:
        case pipeline.Pipeline():
            before = [columns]
            for _, step in model.steps[:-1]:
                before.append(_follow_columns(step, before[-1]))
            steps = [
                (name, number_categories(step, own, categories))
                for (name, step), own in reversed([*zip(model.steps, before, strict=True)])
            ]  # Imputers come last: what they insert may be no category of the encoder behind them.
            return copy_with(model, steps=steps[::-1])
        case compose.ColumnTransformer():
            return _number_transformers(model, columns, categories)
        case pipeline.FeatureUnion():
            steps = [(name, number_categories(step, columns, categories)) for name, step in model.transformer_list]
            return copy_with(model, transformer_list=steps)
        case impute.SimpleImputer() if model.statistics_.dtype == object:
            values = [
                categories.number_value(value, _find_column(columns, i)) for i, value in enumerate(model.statistics_)
            ]
            return copy_with(model, statistics_=np.array(values), missing_values=np.nan)
        case preprocessing.OneHotEncoder() | preprocessing.OrdinalEncoder() | preprocessing.TargetEncoder():
            return _number_encoder(model, columns, categories)
        case _ if isinstance(model, BINNED) and model.is_categorical_ is not None:
            preprocessor = number_categories(model._preprocessor, columns, categories)
            name, encoder, selected = preprocessor.transformers_[0]
            encoder = _forget_unseen(encoder, model._bin_mapper)
            parts = [(name, encoder, selected), ("numerical", "passthrough", preprocessor.transformers_[1][2])]
            return copy_with(model, _preprocessor=copy_with(preprocessor, transformers_=parts))
    return model


def list_used_columns(model: Any, count: int) -> list[int]:
    """Return the positions of the input columns, ``count`` in all, that ``model`` does not drop."""
    first = model.steps[0][1] if isinstance(model, pipeline.Pipeline) else model
    if not isinstance(first, compose.ColumnTransformer):
        return [*range(count)]
    kept = [name for name, step, _ in first.transformers_ if step != "drop"]
    return sorted({column for name in kept for column in first._transformer_to_input_indices[name]})


def _follow_columns(step: Any, columns: Sequence[int]) -> Sequence[int]:
    """Return the input columns that the columns behind ``step`` are; none where it computes others."""
    if isinstance(step, impute.SimpleImputer) and not step.add_indicator:
        empty = [] if step.keep_empty_features else [i for i, value in enumerate(step.statistics_) if value != value]
        return [column for i, column in enumerate(columns) if i not in empty]
    return columns if isinstance(step, str) else ()


def _find_column(columns: Sequence[int], position: int) -> int | None:
    return columns[position] if columns else None


def _number_transformers(model: Any, columns: Sequence[int], categories: CategoryColumns) -> Any:
    parts = []
    for name, step, selected in model.transformers_:
        indices = model._transformer_to_input_indices[name]
        if len(indices):
            step = number_categories(step, [columns[i] for i in indices] if columns else (), categories)
        parts.append((name, step, selected))
    return copy_with(model, transformers_=parts)


def copy_with(model: Any, **attributes: Any) -> Any:
    """Return a copy of an estimator with other ``attributes``."""
    changed = copy.copy(model)
    for name, value in attributes.items():
        setattr(changed, name, value)
    return changed


def _number_encoder(encoder: Any, columns: Sequence[int], categories: CategoryColumns) -> CategoryEncoder:
    if getattr(encoder, "target_type_", "") == "multiclass":
        raise ImportModelError("TargetEncoder is read for two classes, and for numbers.")
    if getattr(encoder, "handle_unknown", "") == "error":
        categories.strict.update(columns)
    lenient = _make_lenient(encoder)
    tables = []
    for i, values in enumerate(encoder.categories_):
        numbers = [categories.number_category(value, _find_column(columns, i)) for value in values]
        tables.append(CategoryTable(np.array(numbers, np.float64), *_ask_encoder(lenient, i)))
    return CategoryEncoder(tuple(tables))


def _make_lenient(encoder: Any) -> Any:
    """Return ``encoder`` as one that takes other categories, and answers with arrays: sparse ones for one-hot."""
    match encoder:
        case preprocessing.OneHotEncoder():
            unknown = "ignore" if encoder.handle_unknown == "error" else encoder.handle_unknown
            changed = copy_with(encoder, handle_unknown=unknown, sparse_output=True)
        case preprocessing.OrdinalEncoder() if encoder.handle_unknown == "error":
            changed = copy_with(encoder, handle_unknown="use_encoded_value", unknown_value=np.nan, dtype=np.float64)
        case _:
            changed = copy.copy(encoder)
    return changed.set_output(transform="default")


def _ask_encoder(encoder: Any, column: int) -> tuple[NDArray[np.float64], int | None]:
    """Return the codes and the width of a CategoryTable for ``column``: what scikit-learn answers to each category."""
    others = [_make_other(categories) for categories in encoder.categories_]
    own = [*encoder.categories_[column], others[column]]
    rows = np.array([[*others[:column], value, *others[column + 1 :]] for value in own], object)
    answer = encoder.transform(rows)
    if not isinstance(encoder, preprocessing.OneHotEncoder):
        return np.asarray(answer, np.float64)[:, column], None
    begin, width = sum(encoder._n_features_outs[:column]), encoder._n_features_outs[column]
    ones = answer.tocsr()[:, begin : begin + width]
    codes = np.full(len(own), -1.0)
    codes[np.diff(ones.indptr) > 0] = ones.indices
    return codes, width


def _make_other(categories: Any) -> Any:
    """Return a value that is none of ``categories``."""
    if any(isinstance(category, str) for category in categories):
        return "?" * (1 + max(len(category) for category in categories if isinstance(category, str)))
    return 1 + max((float(c) for c in categories if c is not None and c == c), default=0)


def _forget_unseen(encoder: CategoryEncoder, mapper: Any) -> CategoryEncoder:
    """Return ``encoder`` with NaN for categories that are of the column's type, and were in no row of the training."""
    bits, positions = mapper.make_known_categories_bitsets()
    tables = []
    for feature, table in enumerate(encoder.tables):
        known = np.unpackbits(bits[positions[feature]].view(np.uint8), bitorder="little").astype(bool)
        valid = ~np.isnan(table.codes)
        valid[valid] = known[table.codes[valid].astype(np.uint8)]
        tables.append(CategoryTable(table.numbers, np.where(valid, table.codes, np.nan)))
    return CategoryEncoder(tuple(tables))
