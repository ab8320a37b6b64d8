"""Look-ups of integers that are written as strings, replaced by look-ups of the integers themselves."""

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
    """Return ``raw`` with searches for integers in place of look-ups of their strings in tables of numbers."""
    nodes = {node.name: node for node in raw.graph_def.node}
    lookups = {}
    for node in raw.graph_def.node:
        if (
            node.op == "LookupTableFindV2"
            and len(node.input) == 3
            and (source := find_number_writer(node.input[1], nodes))
        ):
            table = _select_number_keys(raw.tables.get(handle_of(node.input[0], nodes)))
            if table is not None:
                lookups[node.name] = (source, table)
    if not lookups:
        return raw
    result = copy_message(raw.graph_def)
    for number, node in enumerate(item for item in result.node if item.name in lookups):
        source, table = lookups[node.name]
        dtypes = dtype_of(source.attr["T"].type), dtype_of(node.attr["Tout"].type)
        inputs = [source.input[0], node.input[2]]
        replace_by_function(
            node, f"written_{number}", result.library, partial(_search_numbers, table), inputs, dtypes, dtypes[1:]
        )
    return replace(raw, graph_def=result)


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
