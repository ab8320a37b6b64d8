"""Special functions by others that XLA has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builder.importers.rewrites.op import Op, Rewrite
from builder.importers.tf import tensorflow


def bessel(op: Op, x: Any) -> Any:
    """From the one that is scaled by exp(-|x|). Off by a few units in the last place."""
    tf = tensorflow()
    scaled = {"BesselI0": tf.math.bessel_i0e, "BesselI1": tf.math.bessel_i1e}[op.type]
    return tf.exp(tf.abs(x)) * scaled(x)


REWRITES: Mapping[str, Rewrite] = {"BesselI0": bessel, "BesselI1": bessel}
