"""What a library's numbers can be stored as: the kinds that are compared and chosen from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from builder.config import Activations, ActivationType, ModelSpec, WeightType


@dataclass(frozen=True)
class Precision:
    """What a library is made with: the type of its weights, and what its layers' inputs are rounded to."""

    weights: WeightType
    activations: ActivationType = "float32"

    def __str__(self) -> str:
        return f"{self.weights}, {self.activations} activations" if self.activations != "float32" else self.weights

    @property
    def folder(self) -> str:
        """What tells the folders that are made for it from those of others."""
        return f"{self.weights}-activations" if self.activations != "float32" else self.weights


FLOAT32 = Precision("float32")

KINDS = (FLOAT32, Precision("float16"), Precision("bfloat16"), Precision("int8"), Precision("int8", "int8"))

SMALLEST_FIRST = (Precision("int8", "int8"), Precision("int8"), Precision("float16"), Precision("bfloat16"))
"""Those smaller than float32, which always holds. float16 before bfloat16, which is as large and three bits coarser."""


def apply_precision(spec: ModelSpec, kind: Precision) -> ModelSpec:
    """``spec`` with the types of ``kind``; with its own activations, if it has some and ``kind`` does not forbid it."""
    weights, images = replace(spec.weights, type=kind.weights), spec.activations.images or spec.weights.images
    if kind.activations == "float32":
        layers = tuple(replace(layer, activations=None) for layer in spec.layers)
        return replace(spec, weights=weights, activations=Activations(), layers=layers)
    own: ActivationType = spec.activations.type if spec.calibrated else "int8"
    return replace(spec, weights=weights, activations=Activations(own, images))
