"""Texts in a graph: numbers that stand for them, with the list of all texts that they may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True, eq=False)
class TextCodes:
    """Texts as integer ``codes``, the number of each among ``texts``.

    Any other number, such as -1, is a text that is none of them. ``compared``: of each feed that the texts come from,
    what the graph has compared it with so far; without a feed, they are always among ``texts``.
    """

    codes: Any
    texts: tuple[str, ...]
    compared: tuple[set[str], ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of texts."""
        return tuple(np.shape(self.codes))

    def look_up(self, table: Mapping[str, Any], default: Any, dtype: Any) -> Any:
        """Return for each text its value in ``table``, or ``default``."""
        for texts in self.compared:
            texts.update(table)
        return self._take_values(table, default, dtype)

    def recode_texts(self, texts: Sequence[str]) -> Any:
        """Return the codes of the same texts among ``texts``."""
        return self.look_up({text: number for number, text in enumerate(texts)}, -1, np.int32)

    def extend_texts(self, texts: Sequence[str]) -> Any:
        """Return the codes among ``texts``, which have all that the array's own have."""
        return self._take_values({text: number for number, text in enumerate(texts)}, -1, np.int32)

    def _take_values(self, table: Mapping[str, Any], default: Any, dtype: Any) -> Any:
        values = np.array([*(table.get(text, default) for text in self.texts), default], dtype)
        known = (self.codes >= 0) & (self.codes < len(self.texts))
        return jnp.asarray(values)[jnp.where(known, self.codes, len(self.texts))]
