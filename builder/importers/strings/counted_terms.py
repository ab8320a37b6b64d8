"""Texts whose terms are counted before the library runs: the steps for the function, and the feeds of counts.

Such a feed is int32 [batch, length, 2]: numbers of terms and how often each occurs, filled up with zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.config import FeedSpec
from builder.config.tensor import IndexRange
from builder.importers.graph import WORDS, StringPort
from builder.importers.ports import ModelPorts

Shape = tuple[int, ...]

LONGEST = 16_384
"""The most terms of a text that are counted, if model.toml does not say it."""
_MOST = (1 << 31) - 1


@dataclass(frozen=True)
class TermSteps:
    """The steps from a model's texts to the counts of their terms.

    ``recipe``: the file model.words. ``terms``: how many different terms each input of texts has. ``texts``: examples
    for each.
    """

    recipe: str
    terms: Mapping[str, int]
    texts: Mapping[str, tuple[str, ...]]

    @property
    def ranges(self) -> dict[str, tuple[IndexRange, ...]]:
        """The ranges of the numbers of terms, and of counts, by feed."""
        return {
            name: (IndexRange(0, 1, 2, 0, count - 1), IndexRange(1, 1, 2, 0, _MOST))
            for name, count in self.terms.items()
        }

    def pin_feeds(
        self, ports: ModelPorts, shapes: Mapping[str, Shape], feeds: Sequence[FeedSpec]
    ) -> tuple[ModelPorts, dict[str, Shape]]:
        """Return ``ports`` and ``shapes`` with feeds of counts in the place of texts, as long as ``feeds`` say.

        Raises ImportModelError where these ask to cut texts off.
        """
        if truncated := [feed.name for feed in feeds if feed.truncate]:
            raise ImportModelError(
                f"[[feeds]] has truncate for {truncated[0]!r}, a text that is counted as a whole: delete it, and give "
                "larger lengths."
            )
        lengths = {feed.name: feed.lengths[0] for feed in feeds if feed.lengths}
        sizes = {name: lengths.get(name, min(count, LONGEST)) for name, count in self.terms.items()}
        numbers = (replace(port, dtype="int32") if port.name in sizes else port for port in ports.feeds)
        counted = {name: (shapes[name][0], size, 2) for name, size in sizes.items()}
        return replace(ports, feeds=tuple(numbers)), {**shapes, **counted}

    def make_ports(self, batch: int) -> tuple[StringPort, ...]:
        """Return the inputs of strings."""
        return tuple(StringPort(name, (batch,), (name,)) for name in self.texts)

    def write_steps(self, samples: Mapping[str, Array], folder: Path) -> None:
        """Write ``model.words`` into ``folder``.

        Raises ImportModelError if the function counts otherwise in the examples than ``samples`` say, which are the
        framework's own counts.
        """
        from handler.text.words import parse_program

        program = parse_program(self.recipe.encode("ascii"))
        for number, texts in enumerate(zip(*self.texts.values(), strict=True)):
            arrays = program.compute_arrays([[text.encode()] for text in texts])
            for name in self.texts:
                width = 2 if name in self.terms else 1
                found, wanted = (_list_rows(array, width) for array in (arrays[name].values, samples[name][number]))
                if found != wanted:
                    raise ImportModelError(
                        f"The function counts other terms than the framework in {name!r}, where the texts are "
                        f"{[text[:60] for text in texts]}: {sorted(found ^ wanted)[:5]}. Please report this model."
                    )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / WORDS).write_bytes(self.recipe.encode("ascii"))

    def fit_samples(self, samples: Mapping[str, Array], shapes: Mapping[str, Shape]) -> dict[str, Array]:
        """Return those of ``samples`` whose terms fit into feeds of ``shapes``, filled up to their lengths."""
        fitting = np.all([(samples[name][:, shapes[name][1] :] == 0).all((1, 2)) for name in self.terms], 0)
        fitted = {name: values[fitting] for name, values in samples.items()}
        for name in self.terms:
            short = fitted[name][:, : shapes[name][1]]
            fitted[name] = np.pad(short, [(0, 0), (0, shapes[name][1] - short.shape[1]), (0, 0)])
        return fitted


def _list_rows(values: Any, width: int) -> set[tuple[int, ...]]:
    """Return the numbers that a feed has for an item in rows of ``width``, without terms that do not occur."""
    return {tuple(row) for row in np.reshape(values, (-1, width)).tolist() if row[-1] or width == 1}
