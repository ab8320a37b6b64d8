"""Columns of strings that are crossed and hashed, as Keras' HashedCrossing does it: their fingerprints are, instead.

``SparseCross`` takes whole numbers as they are, and of strings FarmHash's Fingerprint64. So the function makes that of
the strings (words.py cuts there), and the rest is compiled as with columns of numbers, which may stand beside them.
"""

from __future__ import annotations

from typing import Any

from builder.importers.rewrite import stand_in
from builder.importers.tf import dtype_of, tensorflow


def crossed_fingerprints(graph_def: Any) -> Any:
    """``graph_def`` with fingerprints in the place of strings that are crossed. Leaves its argument alone.

    The graph may be any: what is not as TensorFlow writes it, stays as it is.
    """
    found = [node.name for node in graph_def.node if _of_strings(node)]
    if not found:
        return graph_def
    tf = tensorflow()
    result = type(graph_def)()
    result.CopyFrom(graph_def)
    for number, node in enumerate(one for one in result.node if one.name in set(found)):
        buckets, key = node.attr["num_buckets"].i, node.attr["hash_key"].i

        def function(*columns: Any, buckets: int = buckets, key: int = key) -> Any:
            return tuple(
                tf.raw_ops.SparseCross(
                    indices=[], values=[], shapes=[],
                    dense_inputs=[_fingerprints(one) if one.dtype == tf.string else one for one in columns],
                    hashed_output=True, num_buckets=buckets, hash_key=key, out_type=tf.int64, internal_type=tf.int64,
                )
            )  # fmt: skip

        dtypes = list(map(dtype_of, node.attr["dense_types"].list.type))
        stand_in(node, f"crossed_{number}", result.library, function, node.input, dtypes, [tf.int64] * 3)
    return result


def _of_strings(node: Any) -> bool:
    """Whether it hashes dense columns alone, and one of them is of strings."""
    tf = tensorflow()
    if node.op != "SparseCross" or node.attr["N"].i or not node.attr["hashed_output"].b:
        return False
    kinds, strings = list(node.attr["dense_types"].list.type), tf.string.as_datatype_enum
    known = strings in kinds and set(kinds) <= {strings, tf.int64.as_datatype_enum}
    return known and len(node.input) == len(kinds) and not any(given.startswith("^") for given in node.input)


def _fingerprints(column: Any) -> Any:
    """Of strings of any shape, int64."""
    tf = tensorflow()
    found = tf.raw_ops.Fingerprint(data=tf.reshape(column, [-1]), method="farmhash64")
    return tf.reshape(tf.bitcast(found, tf.int64), tf.shape(column))
