"""A graph of TensorFlow's in float64, where it has kernels for that: nearly the true answer."""

from __future__ import annotations

from typing import Any

from builder.base.tf import tf
from builder.importers.rewrite import all_nodes

LARGEST = 500_000_000
"""Bytes of a graph that is worth its copy, twice as large; a GraphDef holds 2 GB."""

_OTHER_NUMBERS = ("Random", "Bitcast", "Multinomial", "NextAfter", "XlaCallModule")
"""Parts of the names of ops whose answer in float64 is another one, or that have their type inside."""


def convert_to_float64(definition: Any) -> Any | None:
    """``definition``, in place, with float64 wherever it had float32, and complex128 for complex64.

    None where that would be another function. TensorFlow may still lack a kernel: then it refuses to load or to run it.
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
                attribute.list.type[:] = [enums.get(one, one) for one in attribute.list.type]
    for function in definition.library.function:
        for argument in (*function.signature.input_arg, *function.signature.output_arg):
            argument.type = enums.get(argument.type, argument.type)
    return definition
