"""Rewrites of every family in one graph: one build, for targets on which a build or a run takes long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tensorflow as tf

from tests.support.days import share, today

from .case import CASES, Case, Function

PARTS = (
    "resized", "counts", "crops_and_windows", "segments_and_selections", "sparse_and_ragged", "elimination",
    "decoded_and_scattered", "speech_of_tensorflow_1",
)  # fmt: skip
"""Cases of the zoo. Steps of the runtime (Fourier transforms, suppression) have cases that run on all targets."""


def _together(names: tuple[str, ...]) -> Case:
    """The feeds of all; all that each answers as one row of floats, and what has no fixed size by itself."""
    parts = [next(case for case in CASES if case.name == name) for name in names]

    def build() -> Function:
        functions = [part.build() for part in parts]

        def run(*values: Any) -> list[Any]:
            given, fetches = iter(values), []
            for part, function in zip(parts, functions, strict=True):
                found = function(*(next(given) for _ in part.feeds))
                fixed = [answer for answer in found if answer.shape.is_fully_defined()]
                fetches.append(tf.concat([tf.reshape(tf.cast(answer, tf.float32), [-1]) for answer in fixed], 0))
                fetches += [answer for answer in found if not answer.shape.is_fully_defined()]
            return fetches

        return run

    return Case(
        "rewrites_together",
        build,
        tuple(replace(feed, name=f"{part.name}_{feed.name}") for part in parts for feed in part.feeds),
        absolute=max(part.absolute for part in parts),
        ranges={f"{part.name}_{name}": limits for part in parts for name, limits in part.ranges.items()},
    )


TOGETHER = _together(PARTS)
"""Not among CASES: its parts are."""

(TURN,) = share(("arm64", "wasm32"), 2, today())
"""The target that builds it today."""
