"""Integers that a graph writes as strings, hashed, crossed and looked up without the strings.

Keras' Hashing, HashedCrossing and StringLookup use ``tf.as_string`` on integers. Arithmetic takes the place of their
hashes, and a search for the integers themselves that of a look-up. ``SparseCross`` uses integers as they are, and
FarmHash's Fingerprint64 of strings. So the function computes the fingerprints of columns that are strings
(cut_strings.py cuts there), and the rest is compiled as for columns of integers, which may occur beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from builder.base.tf import dtype_of, tf
from builder.importers.loaded import RawGraph
from builder.importers.lookup_tables import LookupTable, search_table
from builder.importers.rewrite import copy_message, replace_by_function, source_of
from builder.importers.rewrites.bits import compute_remainder
from builder.importers.strings.decimal_hashes import farmhash_numbers, siphash_numbers
from builder.importers.variables_state import handle_of

_MOST = 2**63

_HASHES = {"StringToHashBucketFast", "StringToHashBucketStrong"}

HASHES = frozenset({"AsString", *_HASHES})
"""Ops that this module replaces. Each depends on its inputs alone, and accesses nothing outside."""


class _Call(NamedTuple):
    """A call of ``function`` with ``inputs``, from the DTypes ``given`` to the DTypes ``made``."""

    function: Callable[..., Any]
    inputs: Sequence[str]
    given: Sequence[Any]
    made: Sequence[Any]


def replace_written_numbers(raw: RawGraph) -> RawGraph:
    """Return ``raw`` with arithmetic and searches in place of strings that integers are written as.

    The graph may be any: ops that differ from those that TensorFlow writes stay as they are.
    """
    definition = _replace_nodes(raw.graph_def, "hashed", _plan_hash)
    definition = _replace_nodes(definition, "crossed", _plan_cross)
    return replace(raw, graph_def=_replace_nodes(definition, "written", partial(_plan_lookup, raw.tables)))


def _replace_nodes(graph_def: Any, name: str, plan: Callable[[Any, Mapping[str, Any]], _Call | None]) -> Any:
    """Return ``graph_def`` with the calls that ``plan`` gives for nodes in their place; it may give None.

    Functions have numbers behind their ``name``.
    """
    nodes = {node.name: node for node in graph_def.node}
    calls = {node.name: call for node in graph_def.node if (call := plan(node, nodes))}
    if not calls:
        return graph_def
    result = copy_message(graph_def)
    for number, node in enumerate(node for node in result.node if node.name in calls):
        call = calls[node.name]
        replace_by_function(node, f"{name}_{number}", result.library, *call)
    return result


def _plan_hash(node: Any, nodes: Mapping[str, Any]) -> _Call | None:
    """Return the arithmetic in place of a hash of written integers."""
    if node.op not in _HASHES or not node.input or node.attr["num_buckets"].i < 1:
        return None
    key = [word % 2**64 for word in node.attr["key"].list.i] if node.op == "StringToHashBucketStrong" else []
    writer = _find_number_writer(node.input[0], nodes)
    if writer is None or (node.op == "StringToHashBucketStrong" and len(key) != 2):
        return None
    inputs = [writer.input[0], *(name for name in node.input if name.startswith("^"))]
    function = partial(_hash_numbers, node.attr["num_buckets"].i, key)
    return _Call(function, inputs, [dtype_of(writer.attr["T"].type)], [tf.int64])


def _hash_numbers(buckets: int, key: Sequence[int], numbers: Any) -> Any:
    numbers = tf.cast(numbers, tf.int64)
    return compute_remainder(siphash_numbers(numbers, key) if key else farmhash_numbers(numbers), buckets)


def _find_number_writer(tensor: str, nodes: Mapping[str, Any]) -> Any | None:
    """Return the node that writes integers as ``tensor`` without padding, or None."""
    node = nodes.get(source_of(tensor, nodes))
    if node is None or node.op != "AsString" or not node.input:
        return None
    integer_types = {
        dtype.as_datatype_enum for dtype in (tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64)
    }
    width = node.attr["width"].i if "width" in node.attr else -1
    return node if width == -1 and not node.attr["fill"].s and node.attr["T"].type in integer_types else None


def _plan_cross(node: Any, nodes: Mapping[str, Any]) -> _Call | None:
    """Return the cross of fingerprints in place of one that hashes dense columns alone, at least one of strings."""
    if node.op != "SparseCross" or node.attr["N"].i or not node.attr["hashed_output"].b:
        return None
    kinds, strings = list(node.attr["dense_types"].list.type), tf.string.as_datatype_enum
    supported = strings in kinds and set(kinds) <= {strings, tf.int64.as_datatype_enum}
    if not supported or len(node.input) != len(kinds) or any(name.startswith("^") for name in node.input):
        return None
    writers = [_find_number_writer(name, nodes) for name in node.input]
    written = list(map(bool, writers))
    function = partial(_cross_columns, node.attr["num_buckets"].i, node.attr["hash_key"].i, written)
    inputs = [writer.input[0] if writer else name for writer, name in zip(writers, node.input, strict=True)]
    types = [writer.attr["T"].type if writer else kind for writer, kind in zip(writers, kinds, strict=True)]
    return _Call(function, inputs, list(map(dtype_of, types)), [tf.int64] * 3)


def _cross_columns(buckets: int, key: int, written: Sequence[bool], *columns: Any) -> Any:
    """Return the crossed ``columns``. ``written``: whether each is of integers in place of strings."""
    numbers = [
        _fingerprint_strings(x) if x.dtype == tf.string else _fingerprint_numbers(x) if as_string else x
        for x, as_string in zip(columns, written, strict=True)
    ]
    crossed = tf.raw_ops.SparseCross(
        indices=[], values=[], shapes=[], dense_inputs=numbers, hashed_output=True, num_buckets=buckets, hash_key=key,
        out_type=tf.int64, internal_type=tf.int64,
    )  # fmt: skip
    return tuple(crossed)


def _fingerprint_numbers(x: Any) -> Any:
    """Return Fingerprint64 of FarmHash (the bits as int64) of the decimal form of integers."""
    return tf.bitcast(farmhash_numbers(tf.cast(x, tf.int64)), tf.int64)


def _fingerprint_strings(column: Any) -> Any:
    """Return the fingerprints (int64) of strings of any shape."""
    fingerprints = tf.raw_ops.Fingerprint(data=tf.reshape(column, [-1]), method="farmhash64")
    return tf.reshape(tf.bitcast(fingerprints, tf.int64), tf.shape(column))


def _plan_lookup(tables: Mapping[str, LookupTable], node: Any, nodes: Mapping[str, Any]) -> _Call | None:
    """Return the search for integers in place of a look-up of their strings in a table of numbers."""
    if node.op != "LookupTableFindV2" or len(node.input) != 3:
        return None
    writer = _find_number_writer(node.input[1], nodes)
    table = _select_number_keys(tables.get(handle_of(node.input[0], nodes))) if writer else None
    if writer is None or table is None:
        return None
    made = dtype_of(node.attr["Tout"].type)
    inputs = [writer.input[0], node.input[2]]
    return _Call(partial(_search_numbers, table), inputs, [dtype_of(writer.attr["T"].type), made], [made])


def _search_numbers(table: LookupTable, numbers: Any, default: Any) -> Any:
    return search_table(table, tf.cast(numbers, tf.int64), default)


def _select_number_keys(table: LookupTable | None) -> LookupTable | None:
    """Return the part of a table from strings to numbers whose keys ``tf.as_string`` can write, or None."""
    if table is None or table.keys.dtype.kind != "O" or table.values.dtype.kind == "O":
        return None
    keys = [key.encode() if isinstance(key, str) else key for key in table.keys.tolist()]
    entries = [(at, int(key)) for at, key in enumerate(keys) if _is_written(key)]
    if not entries:
        return None
    places, numbers = zip(*entries, strict=True)
    return LookupTable.from_arrays(np.array(numbers, np.int64), table.values[list(places)])


def _is_written(key: bytes) -> bool:
    """Return whether ``key`` is a 64-bit integer in its usual decimal form."""
    digits = key.removeprefix(b"-")
    return digits.isdigit() and len(digits) < 20 and str(int(key)).encode() == key and -_MOST <= int(key) < _MOST
