"""What may be decided about a program before it is lowered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from builder.compiler.lower.compress import WeightRules
from builder.compiler.lower.geometry import Algorithm
from builder.compiler.lower.layers import Core
from builder.compiler.lower.steps.quantisation import Quantisation


@dataclass(frozen=True)
class LoweringOptions:
    """``algorithms``: decisions of a tuner, by ``Geometry.label``; the static rule decides where it says nothing.

    ``share``: equal weights are kept once. Without, where each lies does not depend on what they are. ``weights``: the
    type of each layer's. ``quantisations``: of the inputs of layers whose sums are of integers, by ``Core.name``.
    ``whole``: every value of a layer is in memory, as floats, to be looked at. Otherwise layers store such an input as
    bytes where another of ours makes it, run in cascades, and multiply weights by factors of channels. Only the last
    changes any bit of an answer.
    """

    allow_winograd: bool = True
    algorithms: Mapping[str, Algorithm] = field(default_factory=dict)
    share: bool = True
    weights: WeightRules = field(default_factory=WeightRules)
    quantisations: Mapping[str, Quantisation] = field(default_factory=dict)
    whole: bool = False

    def is_product_wanted(self, core: Core) -> bool:
        """Whether a layer's input is wanted as it is, also where that is a product with factors of its channels."""
        return self.whole or core.name in self.quantisations
