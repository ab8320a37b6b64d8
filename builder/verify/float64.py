"""A TensorFlow graph in float64, if it has kernels for that: nearly the true answer."""

from __future__ import annotations

from typing import Any

from builder.base.tf import tf
from builder.importers.rewrite import all_nodes

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
