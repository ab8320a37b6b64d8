"""One model of a list, and how it is made."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builder.config import Source


@dataclass(frozen=True)
class Case:
    """``save(folder, seed)`` writes a model, and says what it wrote. ``group``: the list that it is of."""

    group: str
    name: str
    save: Callable[[Path, int], Source] = field(repr=False)

    @property
    def slug(self) -> str:
        """A name for its folder, and for the model."""
        return "".join(c if c.isalnum() else "_" for c in f"{self.group}_{self.name}".lower())

    @property
    def seed(self) -> int:
        return zlib.crc32(self.slug.encode())


def of_keras(group: str, name: str, make: Callable[[], Any]) -> Case:
    """The model that ``make`` gives, as a file of Keras; as a SavedModel where it is no graph of layers."""

    def save(folder: Path, seed: int) -> Source:
        import keras

        keras.utils.clear_session()
        keras.utils.set_random_seed(seed)
        model = make()
        if not getattr(model, "inputs", None):
            model.export(folder / "model", verbose=False)
            return Source("saved_model", folder / "model")
        model.save(folder / "model.keras")
        return Source("keras", folder / "model.keras")

    return Case(group, name, save)
