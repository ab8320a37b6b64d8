"""Number types of a library that are compared and chosen from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from builder.config import Activations, ActivationType, ModelSpec, WeightType


@dataclass(frozen=True)
class Precision:
    """Number types of a library: that of its weights, and that to which its layers' inputs are rounded."""

    weights: WeightType
    activations: ActivationType = "float32"

    def __str__(self) -> str:
        return f"{self.weights}, {self.activations} activations" if self.activations != "float32" else self.weights

    @property
    def folder(self) -> str:
        """Part of a folder's name that tells its precision."""
        return f"{self.weights}-activations" if self.activations != "float32" else self.weights


FLOAT32 = Precision("float32")

KINDS = (FLOAT32, Precision("float16"), Precision("bfloat16"), Precision("int8"), Precision("int8", "int8"))

SMALLEST_FIRST = (Precision("int8", "int8"), Precision("int8"), Precision("float16"), Precision("bfloat16"))
"""The kinds smaller than float32, which always suffices. float16 is as large as bfloat16, and three bits finer."""


def apply_precision(spec: ModelSpec, kind: Precision) -> ModelSpec:
    """Return ``spec`` with the types of ``kind``; with its own activations, if it has any and ``kind`` allows it."""
    weights, images = replace(spec.weights, type=kind.weights), spec.activations.images or spec.weights.images
    if kind.activations == "float32":
        layers = tuple(replace(layer, activations=None) for layer in spec.layers)
        return replace(spec, weights=weights, activations=Activations(), layers=layers)
    own: ActivationType = spec.activations.type if spec.calibrated else "int8"
    return replace(spec, weights=weights, activations=Activations(own, images))
