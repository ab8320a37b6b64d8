"""Compare what Keras 2 and Keras 3 answer with the model of one file, and find the first layer where they differ."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from builder.importers.keras_reader import Reader
from builder.importers.shapes import STRING

_SIDES = (8, 32, 128, 224)
"""Sizes for dimensions that a model leaves open, of which the first that runs is taken."""

_ABSOLUTE, _RELATIVE = 1e-4, 1e-3
"""How far rounding takes answers apart, with room to spare; another formula takes them further."""


def find_difference(models: Sequence[tuple[Reader, Any]]) -> str:
    """Run both models on random inputs. Return in words at which layer they first differ, and "" where they agree."""
    for side in _SIDES:
        feeds = [_draw_input(tensor, side) for tensor in models[0][1].inputs]
        try:
            answers = [reader.call(model, feeds) for reader, model in models]
        except Exception:  # whatever either says: open dimensions of that size don't run
            continue
        if _agree(*answers):
            return ""
        for layer in models[0][1].layers:
            # A layer that is not in both, or is called more than once, has no one output.
            with contextlib.suppress(KeyError, AttributeError, ValueError):
                inner = [
                    reader.call(reader.package.Model(model.inputs, model.get_layer(layer.name).output), feeds)
                    for reader, model in models
                ]
                if not _agree(*inner):
                    return f"they differ first at the layer {layer.name!r}"
        return "their answers differ"
    return "they do not run on the same inputs"


def _draw_input(tensor: Any, side: int) -> Any:
    random = np.random.default_rng(17)
    dtype = str(getattr(tensor.dtype, "name", tensor.dtype))
    shape = [size or (side if at else 2) for at, size in enumerate(tensor.shape)]
    if dtype == STRING:
        return np.full(shape, "a")
    if dtype.startswith("float") or dtype == "bfloat16":
        return random.normal(size=shape).astype("float32")
    return random.integers(0, 2, shape).astype(dtype)


def _agree(first: Sequence[Any], second: Sequence[Any]) -> bool:
    return len(first) == len(second) and all(
        one.shape == other.shape
        and np.allclose(np.asarray(one, "float64"), np.asarray(other, "float64"), _RELATIVE, _ABSOLUTE, equal_nan=True)
        for one, other in zip(first, second, strict=True)
    )
