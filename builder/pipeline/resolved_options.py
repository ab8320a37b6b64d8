"""A spec without open questions: what a program is lowered by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from builder.base.cache import compute_digest
from builder.compiler.lower.geometry import Algorithm
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.config import ModelSpec, to_json
from builder.verify.quantise.choice import PrecisionChoice


@dataclass(frozen=True)
class ResolvedOptions:
    """``spec``, in which no type is "auto", and what only measuring says of its layers.

    ``quantisations``: of layers' inputs, by the layer's name in the model. ``kept``: why others are not rounded where
    that was asked for, by name. ``algorithms``: a tuner's decisions, by ``Geometry.label``; the static rule decides
    where they say nothing. ``choice``: what was tried for "auto", where the spec said that.
    """

    spec: ModelSpec
    quantisations: Mapping[str, Quantisation] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)
    algorithms: Mapping[str, Algorithm] = field(default_factory=dict)
    choice: PrecisionChoice | None = None

    @property
    def key(self) -> str:
        """For caches: of all that a program depends on."""
        answers = {name: asdict(by) for name, by in self.quantisations.items()}
        measured = [answers, dict(self.kept), dict(self.algorithms)]
        return compute_digest(to_json(self.spec), json.dumps(measured, sort_keys=True))
