"""The decisions about a program that are made before it is lowered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from builder.compiler.lower.compress import WeightRules
from builder.compiler.lower.geometry import Algorithm
from builder.compiler.lower.layers import Core
from builder.compiler.lower.steps.quantisation import Quantisation


@dataclass(frozen=True)
class LoweringOptions:
    """The options of lowering. ``algorithms``: a tuner's choices by ``Geometry.label``; a static rule makes the others.

    ``share``: whether equal weights are kept once; if not, their offsets do not depend on their values. ``weights``:
    the type of each layer's weights. ``quantisations``: the rounding of inputs of integer layers, by ``Core.name``.
    ``whole``: whether every value of a layer is in memory, as floats, for inspection. If not, layers store the inputs
    of integer layers as bytes, run in cascades, and multiply weights by factors of channels. Only the last of these
    changes any bit of an answer.
    """

    allow_winograd: bool = True
    algorithms: Mapping[str, Algorithm] = field(default_factory=dict)
    share: bool = True
    weights: WeightRules = field(default_factory=WeightRules)
    quantisations: Mapping[str, Quantisation] = field(default_factory=dict)
    whole: bool = False

    def is_product_wanted(self, core: Core) -> bool:
        """Return whether a layer needs its input itself, even where it is a product with factors of its channels."""
        return self.whole or core.name in self.quantisations
