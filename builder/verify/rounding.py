"""The distance that rounded weights and inputs may move a library's answers from TensorFlow's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from builder.config import WeightType

ROUNDING_SHARE: dict[WeightType, float] = {"float32": 0.0, "float16": 0.02, "bfloat16": 0.1, "int8": 0.25}
"""The distance that rounded weights may move an answer, as a share of the output's largest magnitude over all golden
inputs; the spec's tolerance comes on top.
"""

INPUT_SHARE = 0.25
"""The share that rounded inputs add to ROUNDING_SHARE."""

FLIPPED_SHARE = 0.05
"""The allowed distance from TensorFlow's answer with the same rounded weights and inputs, likewise: a number between
two steps goes to the other one if TensorFlow's sum differs in its last bit, and later steps amplify that.
"""


@dataclass(frozen=True)
class Rounding:
    """Rounding of weights that differ from TensorFlow's own: ``type`` is the coarsest of them.

    ``golden``: TensorFlow's answers to the golden feeds with the same rounding; None, with a ``warning``, if some of
    the weights could not be found in the graph. ``inputs``: layers round their inputs as well.
    """

    type: WeightType
    golden: Path | None
    warning: str = ""
    inputs: bool = False

    @property
    def share(self) -> float:
        """The distance that rounding may move an answer from TensorFlow's own; see ``ROUNDING_SHARE``."""
        return ROUNDING_SHARE[self.type] + (INPUT_SHARE if self.inputs else 0.0)

    @property
    def same_share(self) -> float:
        """The distance allowed between an answer and TensorFlow's with the same rounding."""
        return FLIPPED_SHARE if self.inputs else 0.0
