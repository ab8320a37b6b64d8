"""Columns of strings that are crossed and hashed, as Keras' HashedCrossing does it: their fingerprints are, instead.

``SparseCross`` takes whole numbers as they are, and of strings FarmHash's Fingerprint64. So the function makes that of
the strings (words.py cuts there), and the rest is compiled as with columns of numbers, which may stand beside them. The
fingerprints of numbers which ``tf.as_string`` writes are compiled, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from builder.base.tf import dtype_of, tf
from builder.importers.rewrite import copy_message, replace_by_function
from builder.importers.strings.integer_hashing import find_number_writer, fingerprint_numbers


def replace_crossed_strings(graph_def: Any) -> Any:
    """``graph_def`` with fingerprints in the place of strings that are crossed. Leaves its argument alone.

    The graph may be any: what is not as TensorFlow writes it, stays as it is.
    """
    found = {node.name for node in graph_def.node if _is_string_cross(node)}
    if not found:
        return graph_def
    result = copy_message(graph_def)
    nodes = {node.name: node for node in graph_def.node}
    for number, node in enumerate(one for one in result.node if one.name in found):
        written = [find_number_writer(given, nodes) for given in node.input]
        kinds = node.attr["dense_types"].list.type
        dtypes = [dtype_of(one.attr["T"].type if one else kind) for one, kind in zip(written, kinds, strict=True)]
        inputs = [one.input[0] if one else given for one, given in zip(written, node.input, strict=True)]
        function = partial(
            _cross_columns, node.attr["num_buckets"].i, node.attr["hash_key"].i, list(map(bool, written))
        )
        replace_by_function(node, f"crossed_{number}", result.library, function, inputs, dtypes, [tf.int64] * 3)
    return result


def _cross_columns(buckets: int, key: int, written: Sequence[bool], *columns: Any) -> Any:
    """``written``: which of ``columns`` are numbers that would be strings."""
    numbers = [
        _fingerprint_strings(one) if one.dtype == tf.string else fingerprint_numbers(one) if as_string else one
        for one, as_string in zip(columns, written, strict=True)
    ]
    found = tf.raw_ops.SparseCross(
        indices=[], values=[], shapes=[], dense_inputs=numbers, hashed_output=True, num_buckets=buckets, hash_key=key,
        out_type=tf.int64, internal_type=tf.int64,
    )  # fmt: skip
    return tuple(found)


def _is_string_cross(node: Any) -> bool:
    """Whether it hashes dense columns alone, and one of them is of strings."""
    if node.op != "SparseCross" or node.attr["N"].i or not node.attr["hashed_output"].b:
        return False
    kinds, strings = list(node.attr["dense_types"].list.type), tf.string.as_datatype_enum
    known = strings in kinds and set(kinds) <= {strings, tf.int64.as_datatype_enum}
    return known and len(node.input) == len(kinds) and not any(given.startswith("^") for given in node.input)


def _fingerprint_strings(column: Any) -> Any:
    """Of strings of any shape, int64."""
    found = tf.raw_ops.Fingerprint(data=tf.reshape(column, [-1]), method="farmhash64")
    return tf.reshape(tf.bitcast(found, tf.int64), tf.shape(column))
