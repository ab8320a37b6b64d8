"""The inputs of a model of scikit-learn that takes texts: a text alone, or the columns of a table, an input each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from builder.base.arrays import Array
from builder.importers.frameworks.framework_model import decode_strings, make_port
from builder.importers.frameworks.sklearn_inputs import SklearnTable
from builder.importers.frameworks.sklearn_texts import (
    Texts,
    count_texts,
    draw_texts,
    list_terms,
    spread_counts,
)
from builder.importers.ports import PortInfo
from builder.importers.strings.counted_terms import TermSteps
from builder.importers.strings.string_ops import Recipe, encode_constant


@dataclass(frozen=True, eq=False)
class TextInputs:
    """The inputs, whose ``names`` are by the position of the column. ``table``: that of all columns, if there is one.

    A feed is float32 [rows], of ``texts`` the pairs [rows, most, 2] of terms and counts, and of another column of
    strings int64 [rows], the numbers of its categories.
    """

    names: Mapping[int, str]
    texts: Texts
    table: SklearnTable | None

    @property
    def _categories(self) -> Mapping[int, Mapping[str, int]]:
        return self.table.categories.texts if self.table else {}

    def make_ports(self) -> tuple[PortInfo, ...]:
        """Return an input for each column."""
        strings = self.texts.keys() | self._categories.keys()
        kinds = {column: "string" if column in strings else "float32" for column in self.names}
        return tuple(make_port(name, kinds[column], ["batch"]) for column, name in self.names.items())

    def describe_steps(self, samples: Mapping[str, Array]) -> TermSteps:
        """Return the steps from strings to feeds, with examples that become ``samples``."""
        columns = [column for column in self.names if column in self.texts or column in self._categories]
        axis, unknown = len(columns), len(columns) + 1
        recipe = Recipe(
            [{"name": self.names[column], "shape": [1]} for column in columns],
            [encode_constant(np.array(1)), encode_constant(np.array(-1))],
        )
        examples = {}
        for at, column in enumerate(columns):
            name, value, steps = self.names[column], unknown + 1 + len(recipe.steps), recipe.steps
            if column in self.texts:
                parts = self.texts[column]
                for part in parts:
                    steps.append({**part.step, "of": [at], "table": len(recipe.tables)})
                    keys = list_terms(part.vectorizer)
                    recipe.tables.append({"strings": False, "keys": keys, "first": part.first})
                if len(parts) > 1:
                    steps.append({"op": "ConcatV2", "of": [*range(value, value + len(parts)), axis]})
                recipe.outputs.append({"feed": name, "value": unknown + len(steps), "pad": 0})
                examples[name] = draw_texts(parts)
            else:
                steps.append({"op": "LookupTableFindV2", "of": [at, unknown], "table": len(recipe.tables)})
                recipe.tables.append({"strings": True, "keys": [*self._categories[column]], "first": 0})
                recipe.outputs.append({"feed": name, "value": value})
                recipe.checks += [value] if self.table and column in self.table.categories.strict else []
                examples[name] = tuple(decode_strings(samples[name], [*self._categories[column]]).tolist())
        terms = {self.names[column]: parts[-1].end for column, parts in self.texts.items()}
        return TermSteps(recipe.to_bytes().decode("ascii"), terms, examples)

    def draw_samples(self, rows: Array) -> dict[str, Array]:
        """Return examples of each feed. ``rows``: examples [count, columns] of a table, which begin anew at the end."""
        samples = {self.names[column]: count_texts(parts, draw_texts(parts)) for column, parts in self.texts.items()}
        count = len(next(iter(samples.values())))
        for at, column in enumerate(self.names):
            if column not in self.texts:
                values = rows[np.arange(count) % len(rows), at]
                if column in self._categories:
                    values = np.nan_to_num(values).astype(np.int64)  # No string is a missing one.
                samples[self.names[column]] = values
        return {name: samples[name] for name in self.names.values()}

    def spread_feeds(self, feeds: Sequence[Any]) -> Any:
        """Return rows, float64: all columns of the table, with any values for texts, and then the counts of texts."""
        given = dict(zip(self.names, feeds, strict=True))
        counts = [spread_counts(parts, given[column]) for column, parts in self.texts.items()]
        if self.table is None:
            return counts[0]
        nothing = jnp.zeros(len(feeds[0]), jnp.float64)
        numbers = [nothing if column in self.texts else given[column].astype(jnp.float64) for column in given]
        return jnp.concatenate([self.table.spread_columns(jnp.stack(numbers, 1)), *counts], 1)

    def restore_rows(self, feeds: Sequence[Any]) -> Any:
        """Return the rows of ``feeds`` as scikit-learn takes them; columns of texts may have anything."""
        given = dict(zip(self.names, feeds, strict=True))
        cells = {}
        for column in self.texts:
            cells[column] = np.empty(len(given[column]), object)
            for at, value in enumerate(given[column]):
                cells[column][at] = value
        if self.table is None:
            return [*cells[0]]
        nothing = np.zeros(len(feeds[0]), np.float32)
        numbers = [nothing if column in self.texts else np.asarray(given[column], np.float32) for column in given]
        rows = self.table.restore_rows(np.stack(numbers, 1))
        if hasattr(rows, "assign"):
            return rows.assign(**{self.table.model.feature_names_in_[column]: own for column, own in cells.items()})
        rows = rows.astype(object)
        for column, own in cells.items():
            rows[:, column] = own
        return rows
