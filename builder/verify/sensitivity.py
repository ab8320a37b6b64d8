"""Sensitivity of TensorFlow's own answers to weights and inputs that move by one unit in the last place (ulp).

float32 sums come out differently in another order, and TensorFlow's order depends on the processor. In a deep network
such differences of one ulp grow, in some a thousandfold, so TensorFlow's answer has that uncertainty. One more run
measures it: every weight and every input moves up or down by one ulp, at random. If the graph rounds it to half
precision before it computes, that is an ulp of that type, since rounding would swallow a smaller one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import ml_dtypes  # noqa: F401 (NumPy knows bfloat16 by it)
import numpy as np

from builder.base.arrays import Array
from builder.base.tf import tf
from builder.config import Tolerance
from builder.importers.rewrite import copy_message
from builder.verify.agreement import MOST_SENSITIVE, allowed_sensitivity, measure_errors
from builder.verify.expected_answers import ExpectedOutput
from builder.verify.reference_graph import HALVES, WHOLE, ReferenceGraph, read_types

FLOATS = ("float16", "float32", "float64")
_MOVABLE = (*FLOATS, "bfloat16")
_SEED = 1

ArraysByCase = Mapping[str, Mapping[str, Array]]
"""Arrays by case, and by feed or fetch."""


def nudge_constants(reference: ReferenceGraph) -> ReferenceGraph:
    """Return ``reference`` with every floating-point constant of more than one element moved by one ulp.

    Constants of one element are rather thresholds and epsilons than weights. Zeros stay zero.
    """
    definition, weights = copy_message(reference.definition), dict[str, Array]()
    random = np.random.Generator(np.random.PCG64(_SEED))
    enums = {tf.dtypes.as_dtype(name).as_datatype_enum for name in FLOATS}
    for nodes in (definition.node, *(function.node_def for function in definition.library.function)):
        types = read_types(nodes, definition.library)
        for node in nodes:
            read_as = types.get(node.name, "")
            own = node.op == "Placeholder" and f"{node.name}:0" in reference.weights
            if not (own or node.op == "Const") or (node.attr["dtype"].type not in enums and read_as not in HALVES):
                continue
            values = reference.weights[f"{node.name}:0"] if own else tf.make_ndarray(node.attr["value"].tensor)
            if own:
                weights[node.name] = nudge_values(values, random, read_as)
            elif values.size > 1:
                node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(nudge_values(values, random, read_as)))
    return reference.replace_weights(definition, lambda node, value: weights.pop(node, value))


def nudge_calls(calls: ArraysByCase, types: Mapping[str, str]) -> dict[str, dict[str, Array]]:
    """Move floating-point inputs of ``calls``, by case and feed, by one ulp; ``types``: ``Reading.feeds``."""
    random = np.random.Generator(np.random.PCG64(_SEED))
    return {
        case: {name: nudge_values(value, random, types.get(name, "")) for name, value in feeds.items()}
        for case, feeds in calls.items()
    }


def move_zeros(calls: ArraysByCase, types: Mapping[str, str]) -> dict[str, dict[str, Array]]:
    """Move each floating-point input that is 0 throughout as far from 0 as 1 is from its neighbour.

    Leave out ``calls`` without such an input: zeros among other numbers may be a mask. ``types``: ``Reading.feeds``.
    """
    random = np.random.Generator(np.random.PCG64(_SEED))
    moved: dict[str, dict[str, Array]] = {}
    for case, feeds in calls.items():
        blank = {
            n: nudge_values(np.ones_like(v), random) - 1
            for n, v in feeds.items()
            if v.dtype.name in FLOATS and v.size and not v.any() and types.get(n) != WHOLE
        }
        if blank:
            moved[case] = {**feeds, **blank}
    return moved


def nudge_values(values: Array, random: np.random.Generator, read_as: str = "") -> Array:
    """Move each number to the next one up or down, except zeros, infinities and whole numbers.

    ``read_as``: the type that the graph rounds to. For one of HALVES, numbers move by its ulp; WHOLE ones stay.
    """
    if values.dtype.name not in _MOVABLE or read_as == WHOLE:
        return values
    with np.errstate(over="ignore"):
        rounded = values.astype(read_as) if read_as in HALVES else values
    up, down = np.array([np.inf, -np.inf], rounded.dtype)
    ends = np.where(random.integers(0, 2, values.shape, dtype=np.int8), up, down)  # in a type no wider than needed
    moved: Array = np.nextafter(rounded, ends, out=ends).astype(values.dtype, copy=False)
    np.copyto(moved, values, where=(values == 0) | np.isinf(rounded))
    return moved


def measure_sensitivity(
    answers: ArraysByCase, nudged_answers: ArraysByCase, *, joint: bool = False
) -> dict[str, float]:
    """Return each floating-point fetch's largest change over all cases, as a share of its case's largest magnitude.

    ``nudged_answers`` may miss some. Elements that are not finite in either do not count, and neither does an answer
    that gets another size. ``joint``: as a share of the largest magnitude over all cases: no small answer excuses
    large ones.
    """
    pairs: dict[str, list[tuple[Array, Array]]] = defaultdict(list)
    for case, moved in nudged_answers.items():
        for name, after in moved.items():
            values = answers[case][name]
            if values.dtype.name in FLOATS and values.shape == after.shape:
                pairs[name].append((values.ravel(), after.ravel()))
    if joint:
        pairs = {n: [(np.concatenate([b for b, _ in p]), np.concatenate([a for _, a in p]))] for n, p in pairs.items()}
    return {name: max(_measure_share(*pair) for pair in own) for name, own in pairs.items()}


def _measure_share(values: Array, moved: Array) -> float:
    finite = np.isfinite(values) & np.isfinite(moved)
    before, after = values[finite].astype(np.float64), moved[finite].astype(np.float64)
    largest = float(np.abs(before).max(initial=0.0))
    return float(np.abs(after - before).max(initial=0.0)) / largest if largest else 0.0


ENOUGH = 3
"""Number of cases that must be left if TensorFlow is undecided on others."""
MOST_ALLOWED = allowed_sensitivity(MOST_SENSITIVE)
"""Share of the largest magnitude of an answer that a library may be off, whatever the sensitivity."""


def find_unstable_cases(
    outputs: Sequence[ExpectedOutput],
    answers: ArraysByCase,
    moved: ArraysByCase,
    when: str,
    share: float = MOST_ALLOWED,
) -> dict[str, str]:
    """Return the cases whose answer moves further than any library may be off, with the reason in words.

    ``moved`` may lack cases. ``when``: the cause, in words.
    ``share``: the share of the largest magnitude of an answer that a library may be off.
    """
    reasons = {case: _describe_instability(outputs, answers[case], after, share) for case, after in moved.items()}
    return {case: f"{text} {when}" for case, text in reasons.items() if text}


def _describe_instability(
    outputs: Sequence[ExpectedOutput], before: Mapping[str, Array], after: Mapping[str, Array], most: float
) -> str:
    """Describe where TensorFlow's answer moves furthest beyond the allowed error; the text is empty if nowhere."""
    for output in outputs:
        name = output.fetch.name
        if after[name].shape != before[name].shape:
            sizes = f"{list(before[name].shape)} to {list(after[name].shape)}"
            return f"the size of TensorFlow's own {output.name} goes from {sizes}"
        exact = not output.fetch.dtype.startswith("float")
        tolerance = Tolerance(0.0, 0.0) if exact else loosen_to_default(output.tolerance)
        error, allowed = measure_errors(after[name], before[name], tolerance, 0.0 if exact else most)
        beyond = ~(error <= allowed)
        if beyond.any():
            at = np.unravel_index(int(np.where(beyond, error, -1.0).argmax()), error.shape)
            return f"TensorFlow's own {output.name} goes from {before[name][at]:.6g} to {after[name][at]:.6g}"
    return ""


def loosen_to_default(tolerance: Tolerance) -> Tolerance:
    """Return the most that a library may be off: a tolerance narrower than the default puts no case in doubt."""
    default = Tolerance()
    return Tolerance(max(tolerance.absolute, default.absolute), max(tolerance.relative, default.relative))
