"""Files among a SavedModel's assets that tables are filled from, such as vocabularies: read as TensorFlow reads them.

TensorFlow's own op reads the file, one that is made here and does nothing else. The model's op is not run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from builder.base.tf import import_tensorflow, tf
from builder.importers.rewrite import node_of

FILE_FILL = "InitializeTableFromTextFileV2"
"""The op: https://www.tensorflow.org/api_docs/python/tf/raw_ops/InitializeTableFromTextFileV2."""

_ASSETS, _LIST = "assets", "saved_model_assets"
_LARGEST = 100_000_000
"""Bytes of a file."""


def find_assets(meta: Any, folder: Path) -> dict[str, Path]:
    """The files among the assets of the SavedModel in ``folder``, by the nodes that hold the name of each.

    Those are the one that loading feeds with the name, and reads of the variable that it is put into. Only regular
    files in the folder of assets: no link, and nothing that a name leads out to.
    """
    found = {}
    for one in (*meta.asset_file_def, *_iterate_v1_assets(meta)):
        path = folder / _ASSETS / one.filename
        inside = folder / _ASSETS in path.parents and ".." not in path.parts
        if one.filename.isprintable() and inside and not path.is_symlink() and path.is_file():
            found[node_of(one.tensor_info.name)] = path
    nodes = meta.graph_def.node
    writes = [
        (node_of(node.input[0]), node_of(node.input[1]))
        for node in nodes
        if node.op == "AssignVariableOp" and len(node.input) > 1
    ]
    held = {variable: found[name] for variable, name in writes if name in found}
    reads = {node.name: node_of(node.input[0]) for node in nodes if node.op == "ReadVariableOp" and node.input}
    return found | {name: held[variable] for name, variable in reads.items() if variable in held}


def _iterate_v1_assets(meta: Any) -> Iterator[Any]:
    """The assets that a SavedModel of TensorFlow 1 lists in a collection of its own."""
    import_tensorflow()
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import meta_graph_pb2

    listed = meta.collection_def[_LIST].any_list.value if _LIST in meta.collection_def else ()
    for packed in listed:
        try:
            yield meta_graph_pb2.AssetFileDef.FromString(packed.value)
        except DecodeError:
            continue  # damaged: its table is one that nobody knows


def read_table_file(table: Any, fill: Any, path: Path | None) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Keys and values of the file at ``path``, as the node ``fill`` would put them into the node ``table``.

    In the order of the values; None where there is no such file, or TensorFlow refuses what is in it.
    """
    if path is None or not 0 < path.stat().st_size <= _LARGEST:
        return None
    try:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            dtypes = {key: tf.dtypes.as_dtype(table.attr[key].type) for key in ("key_dtype", "value_dtype")}
            handle = tf.raw_ops.HashTableV2(**dtypes)
            done = tf.raw_ops.InitializeTableFromTextFileV2(
                table_handle=handle, filename=str(path), **_read_attributes(fill.attr)
            )
            session.run(done)
            exported = tf.raw_ops.LookupTableExportV2(
                table_handle=handle, Tkeys=dtypes["key_dtype"], Tvalues=dtypes["value_dtype"]
            )
            keys, values = session.run(exported)
    except (tf.errors.OpError, TypeError, ValueError):
        return None
    order = sorted(range(len(keys)), key=lambda at: (values[at], keys[at]))  # a table has no order of its own
    return keys[order], values[order]


def _read_attributes(attr: Mapping[str, Any]) -> dict[str, Any]:
    """What the op is told besides, with its own defaults where a model says nothing."""
    found: dict[str, Any] = {"key_index": attr["key_index"].i, "value_index": attr["value_index"].i}
    if "vocab_size" in attr:
        found["vocab_size"] = attr["vocab_size"].i
    if "delimiter" in attr:
        found["delimiter"] = attr["delimiter"].s
    if "offset" in attr:
        found["offset"] = attr["offset"].i
    return found
