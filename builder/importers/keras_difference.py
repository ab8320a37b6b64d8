"""The first layer at which Keras 2 and Keras 3 give different answers with the model of one file."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from builder.importers.keras_reader import Reader
from builder.importers.shapes import STRING

_SIDES = (8, 32, 128, 224)
"""Sizes for dimensions that a model leaves open; the first size that runs is used."""

_SCALES = (1, 16, 256, 0)
"""Sizes of random numbers: a clipping function may differ only at the values of a model for pixels of 0..255.

0 stands for zeros and ones, which may be indices.
"""

_ABSOLUTE, _RELATIVE = 1e-4, 1e-3
"""Generous limits for differences by rounding; those of another formula are larger.

The first is relative to the largest number of an answer, where that is above 1.
"""


def find_difference(models: Sequence[tuple[Reader, Any]]) -> str:
    """Run both models on random inputs, and describe the first layer where they differ ("" if none does)."""
    for side in _SIDES:
        runs = False
        for scale in _SCALES:
            feeds = [_draw_input(tensor, side, scale) for tensor in models[0][1].inputs]
            try:
                answers = [reader.call_model(model, feeds) for reader, model in models]
            except Exception:  # Any error means that such sizes or indices do not run.
                continue
            if not _agree(*answers):
                return _find_layer(models, feeds)
            runs = True
        if runs:
            return ""
    return "they do not run on the same inputs"


def _find_layer(models: Sequence[tuple[Reader, Any]], feeds: Sequence[Any]) -> str:
    for layer in models[0][1].layers:
        # A layer that is not in both, or is called more than once, has no single output.
        with contextlib.suppress(KeyError, AttributeError, ValueError):
            inner = [
                reader.call_model(reader.package.Model(model.inputs, model.get_layer(layer.name).output), feeds)
                for reader, model in models
            ]
            if not _agree(*inner):
                return f"they differ first at the layer {layer.name!r}"
    return "their answers differ"


def _draw_input(tensor: Any, side: int, scale: int) -> Any:
    random = np.random.default_rng(17)
    dtype = str(getattr(tensor.dtype, "name", tensor.dtype))
    shape = [size or (side if at else 2) for at, size in enumerate(tensor.shape)]
    if dtype == STRING:
        return np.full(shape, "a")
    if scale and (dtype.startswith("float") or dtype == "bfloat16"):
        return (scale * random.normal(size=shape)).astype("float32")
    return random.integers(0, 2, shape).astype("float32" if dtype == "bfloat16" else dtype)


def _agree(first: Sequence[Any], second: Sequence[Any]) -> bool:
    return len(first) == len(second) and all(map(_is_close, first, second))


def _is_close(one: Any, other: Any) -> bool:
    if one.shape != other.shape:
        return False
    values, others = np.asarray(one, "float64"), np.asarray(other, "float64")
    largest = np.abs(values[np.isfinite(values)]).max(initial=1.0)
    return np.allclose(values, others, _RELATIVE, _ABSOLUTE * largest, equal_nan=True)
