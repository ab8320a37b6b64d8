"""How far rounded weights and inputs may move a library's answers from TensorFlow's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from builder.config import WeightType

ROUNDING_SHARE: dict[WeightType, float] = {"float32": 0.0, "float16": 0.02, "bfloat16": 0.1, "int8": 0.25}
"""How far rounded weights may move an answer, as a share of the output's largest magnitude over all golden inputs;
the spec's tolerance comes on top."""

INPUT_SHARE = 0.25
"""What rounded inputs add to that."""

FLIPPED_SHARE = 0.05
"""How far an answer may be from TensorFlow's with the same rounded weights and inputs, likewise: a number between two
steps goes to the other one where TensorFlow's sum differs in its last bit, and the steps after it amplify that."""


@dataclass(frozen=True)
class Rounding:
    """Weights that are not TensorFlow's own: ``type`` is the coarsest of them.

    ``golden``: TensorFlow's answers to the golden feeds with the same rounding; None, and a ``warning``, where
    some of them could not be found in the graph. ``inputs``: layers round their inputs as well.
    """

    type: WeightType
    golden: Path | None
    warning: str = ""
    inputs: bool = False

    @property
    def share(self) -> float:
        """How far it may move an answer from TensorFlow's own; see ``ROUNDING_SHARE``."""
        return ROUNDING_SHARE[self.type] + (INPUT_SHARE if self.inputs else 0.0)

    @property
    def same_share(self) -> float:
        """How far an answer may be from TensorFlow's with the same rounding."""
        return FLIPPED_SHARE if self.inputs else 0.0
