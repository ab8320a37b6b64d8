"""Published .onnx and .tflite files as networks, which every engine that reads their format gets as they are.

A network is a model.toml, which says where a file comes from and which sizes are open in it, or the file alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from benchmarks.models import Network
from builder.config import ModelSpec, read_spec

SUFFIXES = (".toml", ".onnx", ".tflite")


def refuse_keras() -> NoReturn:
    raise NotImplementedError("a published file is not made by Keras")


@dataclass(frozen=True)
class ModelFile(Network):
    """The model that ``path`` names, or is."""

    path: Path = Path()
    tolerance: float = 0.02
    """Two steps of an int8 output. Inputs are noise, on which deep networks amplify float32's rounding."""

    @property
    def preparation(self) -> tuple[str, ...]:
        return "benchmarks.prepare_file", f"{self.path}-batch{self.batch}"

    def read_spec(self) -> ModelSpec:
        """Return the spec, with this batch in the place of 1. Raises SpecError."""
        if self.path.suffix == ".toml":
            spec = read_spec(self.path)
        else:
            toml = self.folder / "model.toml"
            toml.parent.mkdir(parents=True, exist_ok=True)
            toml.write_text(f'[model]\nsource = "{self.path}"\n')  # The build reads it again, for its label files.
            spec = read_spec(toml)
        feeds = tuple(replace(f, shape=_with_batch(f.shape, self.batch)) for f in spec.feeds)
        return replace(spec, name=self.key, batch=self.batch, feeds=feeds)


def _with_batch(shape: tuple[int, ...] | None, batch: int) -> tuple[int, ...] | None:
    """Put the batch in the place of the first 1: a state of recurrent layers has their number in front of it."""
    if not shape or 1 not in shape:
        return shape
    place = shape.index(1)
    return (*shape[:place], batch, *shape[place + 1 :])
