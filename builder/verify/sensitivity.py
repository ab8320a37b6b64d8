"""How far TensorFlow's own answers move when its weights and inputs do by one unit in the last place (ulp).

float32 sums come out differently in another order, and TensorFlow's order depends on the processor. In a deep network
such differences of one ulp grow, in some a thousandfold, so an answer of TensorFlow's is only so certain. One more
run measures how certain: every weight and every input moves up or down by one ulp, at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.importers.tf import tensorflow
from builder.importers.walk import walk

Array = NDArray[Any]

FLOATS = ("float16", "float32", "float64")
_SEED = 1


def nudge_constants(definition: Any) -> Any:
    """Move every floating-point constant of more than one element by one ulp, in place; returns ``definition``.

    Those of one element are rather thresholds and epsilons than weights. Zeros stay zero.
    """
    tf, random = tensorflow(), np.random.Generator(np.random.PCG64(_SEED))
    enums = {tf.dtypes.as_dtype(name).as_datatype_enum for name in FLOATS}
    for _, node in walk(definition):
        if node.op == "Const" and (tensor := node.attr["value"].tensor).dtype in enums:
            values = tf.make_ndarray(tensor)
            if values.size > 1:
                tensor.CopyFrom(tf.make_tensor_proto(nudged(values, random)))
    return definition


def nudged_calls(calls: Mapping[str, Mapping[str, Array]]) -> dict[str, dict[str, Array]]:
    """``calls``, by case and feed, with every floating-point input moved by one ulp."""
    random = np.random.Generator(np.random.PCG64(_SEED))
    return {case: {name: nudged(value, random) for name, value in feeds.items()} for case, feeds in calls.items()}


def moved_zeros(calls: Mapping[str, Mapping[str, Array]]) -> dict[str, dict[str, Array]]:
    """``calls`` with each floating-point input that is 0 throughout as far from 0 as 1 is from its neighbour.

    Without those that have no such input: zeros among other numbers may be a mask.
    """
    random = np.random.Generator(np.random.PCG64(_SEED))
    found: dict[str, dict[str, Array]] = {}
    for case, feeds in calls.items():
        blank = {
            n: nudged(np.ones_like(v), random) - 1
            for n, v in feeds.items()
            if v.dtype.name in FLOATS and v.size and not v.any()
        }
        if blank:
            found[case] = {**feeds, **blank}
    return found


def nudged(values: Array, random: np.random.Generator) -> Array:
    """``values`` with each number the next one up or down; zeros, and arrays that are not of FLOATS, as they are."""
    if values.dtype.name not in FLOATS:
        return values
    ends = np.where(random.integers(0, 2, values.shape, dtype=np.int8), np.inf, -np.inf).astype(values.dtype)
    moved: Array = np.where(values == 0, values, np.nextafter(values, ends))
    return moved


def sensitivity(
    answers: Mapping[str, Mapping[str, Array]], nudged_answers: Mapping[str, Mapping[str, Array]]
) -> dict[str, float]:
    """The largest change of each floating-point fetch over all cases, as a share of the largest magnitude in its case.

    Both arguments are arrays by case and fetch. What is not finite in either counts for nothing, nor does an answer
    that gets another size.
    """
    found: dict[str, float] = {}
    for case, moved in nudged_answers.items():
        for name, values in answers[case].items():
            if values.dtype.name in FLOATS and values.shape == moved[name].shape:
                found[name] = max(found.get(name, 0.0), _share(values, moved[name]))
    return found


def _share(values: Array, moved: Array) -> float:
    finite = np.isfinite(values) & np.isfinite(moved)
    before, after = values[finite].astype(np.float64), moved[finite].astype(np.float64)
    largest = float(np.abs(before).max(initial=0.0))
    return float(np.abs(after - before).max(initial=0.0)) / largest if largest else 0.0
