"""Whole numbers that are written as strings and looked up: they are looked up as the numbers that they are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from builder.base.tf import dtype_of, tf
from builder.importers.loaded import RawGraph
from builder.importers.lookup_tables import LookupTable, search_table
from builder.importers.rewrite import copy_message, replace_by_function
from builder.importers.strings.integer_hashing import find_number_writer
from builder.importers.variables_state import handle_of

_MOST = 2**63


def replace_number_lookups(raw: RawGraph) -> RawGraph:
    """``raw`` with a search for numbers in place of each look-up of written ones, in tables from strings to numbers."""
    nodes = {node.name: node for node in raw.graph_def.node}
    found = {}
    for node in raw.graph_def.node:
        if (
            node.op == "LookupTableFindV2"
            and len(node.input) == 3
            and (source := find_number_writer(node.input[1], nodes))
        ):
            table = _select_number_keys(raw.tables.get(handle_of(node.input[0], nodes)))
            if table is not None:
                found[node.name] = (source, table)
    if not found:
        return raw
    result = copy_message(raw.graph_def)
    for number, node in enumerate(one for one in result.node if one.name in found):
        source, table = found[node.name]
        dtypes = dtype_of(source.attr["T"].type), dtype_of(node.attr["Tout"].type)
        inputs = [source.input[0], node.input[2]]
        replace_by_function(
            node, f"written_{number}", result.library, partial(_search_numbers, table), inputs, dtypes, dtypes[1:]
        )
    return replace(raw, graph_def=result)


def _search_numbers(table: LookupTable, numbers: Any, default: Any) -> Any:
    return search_table(table, tf.cast(numbers, tf.int64), default)


def _select_number_keys(table: LookupTable | None) -> LookupTable | None:
    """Those keys of a table from strings to numbers that ``tf.as_string`` may write."""
    if table is None or table.keys.dtype.kind != "O" or table.values.dtype.kind == "O":
        return None
    keys = [key.encode() if isinstance(key, str) else key for key in table.keys.tolist()]
    written = [(at, int(key)) for at, key in enumerate(keys) if _is_written(key)]
    if not written:
        return None
    places, numbers = zip(*written, strict=True)
    return LookupTable.from_arrays(np.array(numbers, np.int64), table.values[list(places)])


def _is_written(key: bytes) -> bool:
    """Whether it is a whole number of 64 bits, as it is written."""
    digits = key.removeprefix(b"-")
    return digits.isdigit() and len(digits) < 20 and str(int(key)).encode() == key and -_MOST <= int(key) < _MOST
