"""The options that a program is lowered with: a spec without open questions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from builder.base.cache import compute_digest
from builder.compiler.lower.geometry import Algorithm
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.config import ModelSpec, to_json
from builder.verify.quantise.precision import PrecisionChoice


@dataclass(frozen=True)
class ResolvedOptions:
    """A ``spec`` in which no type is "auto", with the measured facts about its layers.

    ``quantisations``: those of layers' inputs, by the layer's name in the model. ``kept``: the reasons why some are not
    rounded on demand, by name. ``algorithms``: a tuner's decisions, by ``Geometry.label``; the static rule decides the
    rest. ``choice``: the types tried for "auto", if the spec has that.
    """

    spec: ModelSpec
    quantisations: Mapping[str, Quantisation] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)
    algorithms: Mapping[str, Algorithm] = field(default_factory=dict)
    choice: PrecisionChoice | None = None

    @property
    def key(self) -> str:
        """The digest, for caches, of all that a program depends on."""
        answers = {name: asdict(by) for name, by in self.quantisations.items()}
        measured = [answers, dict(self.kept), dict(self.algorithms)]
        return compute_digest(to_json(self.spec), json.dumps(measured, sort_keys=True))
