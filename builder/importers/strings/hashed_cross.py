"""Columns of strings that are crossed and hashed, as by Keras' HashedCrossing, with fingerprints in place of strings.

``SparseCross`` uses integers as they are, and FarmHash's Fingerprint64 of strings. So the function computes the
fingerprints of strings (cut_strings.py cuts there), and the rest is compiled as for columns of integers, which may
occur beside them. The fingerprints of integers that ``tf.as_string`` writes are compiled, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from builder.base.tf import dtype_of, tf
from builder.importers.rewrite import copy_message, replace_by_function
from builder.importers.strings.integer_hashing import find_number_writer, fingerprint_numbers


def replace_crossed_strings(graph_def: Any) -> Any:
    """Return ``graph_def`` with fingerprints in place of crossed strings. The argument stays as it is.

    The graph may be any: crosses that differ from those that TensorFlow writes stay as they are.
    """
    crosses = {node.name for node in graph_def.node if _is_string_cross(node)}
    if not crosses:
        return graph_def
    result = copy_message(graph_def)
    nodes = {node.name: node for node in graph_def.node}
    for number, node in enumerate(item for item in result.node if item.name in crosses):
        writers = [find_number_writer(name, nodes) for name in node.input]
        kinds = node.attr["dense_types"].list.type
        dtypes = [dtype_of(item.attr["T"].type if item else kind) for item, kind in zip(writers, kinds, strict=True)]
        inputs = [item.input[0] if item else name for item, name in zip(writers, node.input, strict=True)]
        function = partial(
            _cross_columns, node.attr["num_buckets"].i, node.attr["hash_key"].i, list(map(bool, writers))
        )
        replace_by_function(node, f"crossed_{number}", result.library, function, inputs, dtypes, [tf.int64] * 3)
    return result


def _cross_columns(buckets: int, key: int, written: Sequence[bool], *columns: Any) -> Any:
    """Return the crossed ``columns``. ``written``: whether each is of integers in place of strings."""
    numbers = [
        _fingerprint_strings(x) if x.dtype == tf.string else fingerprint_numbers(x) if as_string else x
        for x, as_string in zip(columns, written, strict=True)
    ]
    crossed = tf.raw_ops.SparseCross(
        indices=[], values=[], shapes=[], dense_inputs=numbers, hashed_output=True, num_buckets=buckets, hash_key=key,
        out_type=tf.int64, internal_type=tf.int64,
    )  # fmt: skip
    return tuple(crossed)


def _is_string_cross(node: Any) -> bool:
    """Return whether ``node`` hashes dense columns alone, at least one of them of strings."""
    if node.op != "SparseCross" or node.attr["N"].i or not node.attr["hashed_output"].b:
        return False
    kinds, strings = list(node.attr["dense_types"].list.type), tf.string.as_datatype_enum
    supported = strings in kinds and set(kinds) <= {strings, tf.int64.as_datatype_enum}
    return supported and len(node.input) == len(kinds) and not any(name.startswith("^") for name in node.input)


def _fingerprint_strings(column: Any) -> Any:
    """Return the fingerprints (int64) of strings of any shape."""
    fingerprints = tf.raw_ops.Fingerprint(data=tf.reshape(column, [-1]), method="farmhash64")
    return tf.reshape(tf.bitcast(fingerprints, tf.int64), tf.shape(column))
