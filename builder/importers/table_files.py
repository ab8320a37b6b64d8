"""Files among a SavedModel's assets that fill tables, such as vocabularies, read as TensorFlow reads them.

TensorFlow's own op reads the file in a graph that is made here. The model's op is not run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from builder.base.tf import import_tensorflow, tf
from builder.importers.rewrite import node_of

FILE_FILL = "InitializeTableFromTextFileV2"
"""The documentation of this op: https://www.tensorflow.org/api_docs/python/tf/raw_ops/InitializeTableFromTextFileV2."""

_ASSETS, _LIST = "assets", "saved_model_assets"
_LARGEST = 100_000_000
"""The most bytes of a file."""


def find_assets(meta: Any, folder: Path) -> dict[str, Path]:
    """Return the asset files of the SavedModel in ``folder``, by the nodes that hold the name of each.

    These nodes are the one that loading feeds with the name, and reads of the variable that stores it. Only regular
    files in the folder of assets count: no links, and no names that lead out of it.
    """
    files = {}
    for asset in (*meta.asset_file_def, *_iterate_v1_assets(meta)):
        path = folder / _ASSETS / asset.filename
        is_within = folder / _ASSETS in path.parents and ".." not in path.parts
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

    listed = meta.collection_def[_LIST].any_list.value if _LIST in meta.collection_def else ()
    for packed in listed:
        try:
            yield meta_graph_pb2.AssetFileDef.FromString(packed.value)
        except DecodeError:
            continue  # It is damaged, so its table stays unknown.


def read_table_file(table: Any, fill: Any, path: Path | None) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Read keys and values of the file at ``path`` as the node ``fill`` would put them into the node ``table``.

    They are in the order of the values. Returns None if there is no such file, or TensorFlow rejects its contents.
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
    order = sorted(range(len(keys)), key=lambda at: (values[at], keys[at]))  # A table has no order.
    return keys[order], values[order]


def _read_attributes(attr: Mapping[str, Any]) -> dict[str, Any]:
    """Return the op's other attributes, where the model sets them, and otherwise leave the op's defaults."""
    attributes: dict[str, Any] = {"key_index": attr["key_index"].i, "value_index": attr["value_index"].i}
    if "vocab_size" in attr:
        attributes["vocab_size"] = attr["vocab_size"].i
    if "delimiter" in attr:
        attributes["delimiter"] = attr["delimiter"].s
    if "offset" in attr:
        attributes["offset"] = attr["offset"].i
    return attributes
