"""Changed graphs, whose answers show how exact TensorFlow's own are.

In float64 a graph gives nearly the true answer. If equal scores are moved apart, each order that an unstable sort may
give them shows, and TensorFlow's answer is one of several right ones.
"""

from __future__ import annotations

from typing import Any

from builder.base.tf import tf
from builder.importers.rewrite import all_nodes, replace_by_function

LARGEST = 500_000_000
"""Limit in bytes of a graph that is worth a copy of twice the size; a GraphDef holds 2 GB."""

_OTHER_NUMBERS = ("Random", "Bitcast", "Multinomial", "NextAfter", "XlaCallModule")
"""Parts of the names of ops whose answer differs in float64, or that have their type inside."""


def convert_to_float64(definition: Any) -> Any | None:
    """Replace float32 by float64 and complex64 by complex128 in ``definition``, in place.

    Return None if that would be another function. If TensorFlow lacks a kernel, it still refuses to load or to run it.
    """
    nodes = list(all_nodes(definition))
    if any(part in node.op for node in nodes for part in _OTHER_NUMBERS) or definition.ByteSize() > LARGEST:
        return None
    wider = {tf.float32.as_datatype_enum: tf.float64, tf.complex64.as_datatype_enum: tf.complex128}
    enums = {narrow: wide.as_datatype_enum for narrow, wide in wider.items()}
    for node in nodes:
        for attribute in node.attr.values():
            kind = attribute.WhichOneof("value")
            if kind == "type":
                attribute.type = enums.get(attribute.type, attribute.type)
            elif kind == "tensor" and attribute.tensor.dtype in wider:
                wide = wider[attribute.tensor.dtype].as_numpy_dtype
                attribute.tensor.CopyFrom(tf.make_tensor_proto(tf.make_ndarray(attribute.tensor).astype(wide)))
            elif kind == "list":
                attribute.list.type[:] = [enums.get(enum, enum) for enum in attribute.list.type]
    for function in definition.library.function:
        for argument in (*function.signature.input_arg, *function.signature.output_arg):
            argument.type = enums.get(argument.type, argument.type)
    return definition


UNSTABLE = "CombinedNonMaxSuppression"
"""TensorFlow's op that sorts by ``std::sort``."""

_SCORES = 1
"""Number of the input that has the scores to sort by."""


def break_ties(definition: Any, *, first: bool) -> Any:
    """Move equal scores apart in the last place, in place, for each UNSTABLE op at the top; return ``definition``.

    ``first``: the first of several equal ones stays the greatest; else the last does.
    """
    floats = [tf.float32]
    for number, node in enumerate([node for node in definition.node if node.op == UNSTABLE]):
        apart = definition.node.add(name=f"{node.name}/ties")
        name, scores = f"break_ties_{number}", [node.input[_SCORES]]
        replace_by_function(
            apart, name, definition.library, lambda values: _move_apart(values, first), scores, floats, floats
        )
        node.input[_SCORES] = apart.name
    return definition


def _move_apart(scores: Any, first: bool) -> Any:
    """Lower those of ``scores`` that are equal to others by 0, 1, 2, ... units in the last place."""
    flat = tf.reshape(scores, [-1])
    order = tf.argsort(flat if first else tf.reverse(flat, [0]), stable=True)
    places = order if first else tf.size(flat) - 1 - order
    ordered = tf.gather(flat, places)
    rank = tf.range(tf.size(flat)) - tf.searchsorted(ordered, ordered)
    step = tf.where(tf.math.is_finite(ordered), tf.maximum(tf.abs(ordered) * 2.0**-23, 1e-30), 0.0)
    lower = ordered - tf.cast(rank, scores.dtype) * step
    return tf.reshape(tf.scatter_nd(places[:, None], lower, tf.shape(flat)), tf.shape(scores))
