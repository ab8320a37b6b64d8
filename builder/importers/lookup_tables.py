"""Look-up tables of whole numbers, whose contents become constants and whose look-ups become binary searches.

TensorFlow fills a table with an op that runs when the model is loaded. Here nothing of the model runs: the op's keys
and values are read as data. TensorFlow's own op reads a file among a SavedModel's assets (a vocabulary, say), in a
graph that is made here. Tables with string keys stay as they are, for ``builder.importers.strings``, and so do tables
that a graph inserts into, which are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.tf import dtype_of, import_tensorflow, tf
from builder.importers.rewrite import (
    called_by,
    copy_message,
    find_reachable,
    map_node_inputs,
    node_of,
    replace_by_function,
    source_of,
)
from builder.importers.variables_state import handle_of
from builder.importers.xla_ops import constant_size

TABLES = frozenset({"HashTableV2", "LookupTableFindV2"})
"""Ops of tables that this module removes."""

_FIND = "LookupTableFindV2"
_FILE_FILL = "InitializeTableFromTextFileV2"
_FILE_ATTRIBUTES = {"key_index": "i", "value_index": "i", "vocab_size": "i", "delimiter": "s", "offset": "i"}
"""Attributes of this op: https://www.tensorflow.org/api_docs/python/tf/raw_ops/InitializeTableFromTextFileV2."""
_FILL = {"InitializeTableV2", "LookupTableImportV2", _FILE_FILL}
_CALLS = {"PartitionedCall", "StatefulPartitionedCall"}

_LARGEST = 100_000_000
"""The most bytes of keys, of values, or of a file, as a constant may declare any size and hold one value."""


@dataclass(frozen=True)
class LookupTable:
    """A table of unique ``keys``, ascending whole numbers or strings, with a number or string each in ``values``."""

    keys: NDArray[Any]
    values: NDArray[Any]

    @classmethod
    def from_arrays(cls, keys: NDArray[Any], values: NDArray[Any]) -> LookupTable | None:
        """Return the table with these arrays, or None if it is empty, has other types, or has a key twice."""
        kinds = keys.dtype.kind in "iO" and values.dtype.kind in "iufO"
        if keys.ndim != 1 or keys.shape != values.shape or not kinds:
            return None
        if keys.dtype.kind == "O":
            return cls(keys, values) if 0 < len(set(keys.tolist())) == len(keys) else None
        ascending, first = np.unique(keys, return_index=True)
        return cls(ascending, values[first]) if 0 < len(ascending) == len(keys) else None

    @property
    def of_numbers(self) -> bool:
        """True for a table from numbers to numbers, whose look-ups become a search in the graph."""
        return "O" not in (self.keys.dtype.kind, self.values.dtype.kind)


def find_filled_tables(graph_def: Any, init_ops: Iterable[str], files: Mapping[str, Path]) -> dict[str, LookupTable]:
    """Return the tables that ``init_ops`` fill just once from constants or files, by the node of the table.

    ``files``: the paths, by the node with the name of each file. Runs nothing of the graph.
    """
    nodes = {node.name: node for node in graph_def.node}
    functions = {f.signature.name: f for f in graph_def.library.function}
    tables = {name for name, node in nodes.items() if node.op == "HashTableV2"}
    fills: dict[str, list[tuple[Any, tuple[str, ...]]]] = {}
    start = find_reachable(map(node_of, init_ops), map_node_inputs(graph_def.node))
    todo: list[tuple[Any, Mapping[str, str]]] = [([nodes[name] for name in start], {name: name for name in nodes})]
    seen: set[tuple[str, ...]] = set()
    while todo:
        body, arguments = todo.pop()
        own = {node.name: node for node in body}
        for node in body:
            sources = tuple(arguments.get(source_of(t, own), "") for t in node.input if not t.startswith("^"))
            called = next((name for name in called_by(node) if name in functions), None)
            if called is not None and node.op in {*_CALLS, called}:
                if (called, *sources) not in seen:
                    seen.add((called, *sources))
                    names = [a.name for a in functions[called].signature.input_arg]
                    todo.append((functions[called].node_def, dict(zip(names, sources, strict=False))))
            elif node.op != "Identity":  # The function source_of follows Identity.
                for table in tables.intersection(sources):
                    fills.setdefault(table, []).append((node, sources[1:] if node.op in _FILL else ()))
    contents = {
        table: _read_table(nodes[table], *fill[0], nodes, files) for table, fill in fills.items() if len(fill) == 1
    }
    return {name: table for name, table in contents.items() if table is not None}


def _read_table(
    table: Any, fill: Any, sources: Sequence[str], nodes: Mapping[str, Any], files: Mapping[str, Path]
) -> LookupTable | None:
    """Return the table that the values of two nodes fill, or the file that one node names."""
    if fill.op == _FILE_FILL:
        pair = _read_file(table, fill, files.get(sources[0])) if len(sources) == 1 else None
        return LookupTable.from_arrays(*pair) if pair else None
    arrays = [_read_constant(nodes.get(name), nodes) for name in sources]
    if len(arrays) != 2 or arrays[0] is None or arrays[1] is None:
        return None
    return LookupTable.from_arrays(arrays[0], arrays[1])


def _read_constant(node: Any, nodes: Mapping[str, Any], depth: int = 5) -> NDArray[Any] | None:
    """Return the value of a constant, or of a range over constants, such as the keys of a list of labels."""
    from tensorflow.python.framework import tensor_util

    if node is None or not depth or abs(constant_size(node)) > _LARGEST:
        return None
    try:
        if node.op == "Const":
            value: NDArray[Any] = tensor_util.MakeNdarray(node.attr["value"].tensor)
            return value
        if node.op not in ("Range", "Cast", "Size", "Identity"):
            return None
        inputs = [
            _read_constant(nodes.get(node_of(tensor)), nodes, depth - 1) for tensor in node.input if tensor[:1] != "^"
        ]
        arrays = [array for array in inputs if array is not None]
        if not arrays or len(arrays) != len(inputs):
            return None
        if node.op == "Range":
            start, limit, delta = (int(array) for array in arrays)
            return np.arange(start, limit, delta) if 0 < len(range(start, limit, delta)) < _LARGEST // 8 else None
        if node.op == "Size":
            return np.array(arrays[0].size)
        dtype = dtype_of(node.attr["DstT"].type).as_numpy_dtype if node.op == "Cast" else arrays[0].dtype
        return arrays[0].astype(dtype)
    except (TypeError, ValueError):  # The tensor is invalid.
        return None


def replace_lookups(
    graph_def: Any, table_of: Callable[[str, Any, Any], LookupTable | None], *, into_strings: bool = False
) -> Any:
    """Return ``graph_def`` with searches in place of its top-level look-ups in known tables.

    ``table_of`` returns a table by its node and the DTypes of keys and values. ``into_strings``: replace look-ups from
    numbers to strings, too, for a graph whose strings are cut off.
    """
    result = copy_message(graph_def)
    nodes = {node.name: node for node in result.node}
    for number, node in enumerate(n for n in result.node if n.op == _FIND):
        dtypes = dtype_of(node.attr["Tin"].type), dtype_of(node.attr["Tout"].type)
        table = table_of(handle_of(node.input[0], nodes), *dtypes)
        if table is not None and (table.of_numbers or (into_strings and table.keys.dtype.kind == "i")):
            name = f"{'labels' if into_strings else 'looked_up'}_{number}"
            replace_by_function(
                node, name, result.library, partial(search_table, table), node.input[1:], dtypes, dtypes[1:]
            )
    return result


def search_table(table: LookupTable, keys: Any, default: Any) -> Any:
    """Return the values of ``keys``, a tensor of any shape, with ``default`` for keys that the table lacks."""
    steps = (len(table.keys) - 1).bit_length()
    padding = (0, 2**steps - len(table.keys))
    # The last key pads the table to a power of two, so that no step leaves it.
    sorted_keys, values = (tf.constant(np.pad(a, padding, "edge")) for a in (table.keys, table.values))
    place = tf.zeros_like(keys, tf.int32)
    for step in reversed(range(steps)):
        ahead = place + 2**step
        place = tf.where(tf.gather(sorted_keys, ahead) <= keys, ahead, place)
    return tf.where(tf.equal(tf.gather(sorted_keys, place), keys), tf.gather(values, place), default)


def find_assets(meta: Any, folder: Path) -> dict[str, Path]:
    """Return the asset files of the SavedModel in ``folder``, by the nodes that hold the name of each.

    These nodes are the one that loading feeds with the name, and reads of the variable that stores it. Only regular
    files in the folder of assets count: no links, and no names that lead out of it.
    """
    files = {}
    for asset in (*meta.asset_file_def, *_iterate_v1_assets(meta)):
        path = folder / "assets" / asset.filename
        is_within = folder / "assets" in path.parents and ".." not in path.parts
        if asset.filename.isprintable() and is_within and not path.is_symlink() and path.is_file():
            files[node_of(asset.tensor_info.name)] = path
    nodes = meta.graph_def.node
    writes = [
        (node_of(node.input[0]), node_of(node.input[1]))
        for node in nodes
        if node.op == "AssignVariableOp" and len(node.input) > 1
    ]
    stored = {variable: files[name] for variable, name in writes if name in files}
    reads = {node.name: node_of(node.input[0]) for node in nodes if node.op == "ReadVariableOp" and node.input}
    return files | {name: stored[variable] for name, variable in reads.items() if variable in stored}


def _iterate_v1_assets(meta: Any) -> Iterator[Any]:
    """Yield the assets that a SavedModel of TensorFlow 1 lists in a separate collection."""
    import_tensorflow()
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import meta_graph_pb2

    key = "saved_model_assets"
    listed = meta.collection_def[key].any_list.value if key in meta.collection_def else ()
    for packed in listed:
        try:
            yield meta_graph_pb2.AssetFileDef.FromString(packed.value)
        except DecodeError:
            continue  # It is damaged, so its table stays unknown.


def _read_file(table: Any, fill: Any, path: Path | None) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Read keys and values of the file at ``path`` as the node ``fill`` would put them into the node ``table``.

    They are in the order of the values. Returns None if there is no such file, or TensorFlow rejects its contents.
    """
    if path is None or not 0 < path.stat().st_size <= _LARGEST:
        return None
    attributes = {key: getattr(fill.attr[key], kind) for key, kind in _FILE_ATTRIBUTES.items() if key in fill.attr}
    try:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            keys, values = (tf.dtypes.as_dtype(table.attr[key].type) for key in ("key_dtype", "value_dtype"))
            handle = tf.raw_ops.HashTableV2(key_dtype=keys, value_dtype=values)
            session.run(tf.raw_ops.InitializeTableFromTextFileV2(table_handle=handle, filename=str(path), **attributes))
            keys, values = session.run(tf.raw_ops.LookupTableExportV2(table_handle=handle, Tkeys=keys, Tvalues=values))
    except (tf.errors.OpError, TypeError, ValueError):
        return None
    return sort_entries(keys, values)


def sort_entries(keys: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what was exported from a table in the order of the values, as a table has no order."""
    order = sorted(range(len(keys)), key=lambda at: (values[at], keys[at]))
    return keys[order], values[order]
