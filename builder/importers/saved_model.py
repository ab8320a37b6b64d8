"""The importer of SavedModels, which reads their MetaGraph and checkpoint.

The object graph is not loaded: that fails for models whose classes, optimizers or slot variables this TensorFlow no
longer knows, while the MetaGraph beside it holds all that inference needs. This works for TensorFlow 1 and 2. Nothing
of the MetaGraph runs: variables are read from the checkpoint, and init ops run only for a model that is trusted and
needs them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error, escape_invisible
from builder.base.tf import dtype_name, import_tensorflow, tf
from builder.config import Source
from builder.importers.allowed_ops import admit_graph
from builder.importers.checkpoint import find_captured_variables, find_saved_variables, read_checkpoint
from builder.importers.constant_feeds import propose_values
from builder.importers.loaded import (
    DEFAULT_SIGNATURE,
    HOW_TO_TRUST,
    LoadedModel,
    RawGraph,
    choose_signature,
    describe_renames,
    make_names_unique,
)
from builder.importers.lookup_tables import TABLES, LookupTable, find_assets, find_filled_tables, replace_lookups
from builder.importers.ports import ModelPorts, PortInfo, read_shape
from builder.importers.rewrite import called_by, inline_calls, keep_reachable, node_of, without_side_effects
from builder.importers.strings.frontier import HOST_OPS
from builder.importers.strings.string_ops import STRING_STEPS
from builder.importers.strings.tf_examples import PARSE_OPS
from builder.importers.strings.written_numbers import HASHES
from builder.importers.variables_state import Variable, state_of

_INIT_ONLY = "__saved_model_init_op"
_READ = "/Read/ReadVariableOp"
"""The end of the name of the node that reads a variable behind a handle."""

_VARIABLES = ("VarHandleOp", "VariableV2", "Variable")


def open_saved_model(source: Source, path: Path) -> LoadedModel:
    """Read the signature ``source.signature``, or ``serving_default``, or the only one.

    Raises ImportModelError if the folder is not a SavedModel or has no such signature.
    """
    meta = read_meta_graph(path)
    signatures = {
        name: definition
        for name, definition in sorted(meta.signature_def.items())
        if name != _INIT_ONLY and definition.outputs
    }
    if not signatures:
        raise ImportModelError(f"{path.name} has no signature. Save it with signatures, as model.export(folder) does.")
    only = DEFAULT_SIGNATURE if DEFAULT_SIGNATURE in signatures or len(signatures) > 1 else next(iter(signatures))
    name = choose_signature(source.signature or only, tuple(signatures), path)
    definition = signatures[name]
    inputs, renamed_inputs = _name_ports(definition.inputs, _order_inputs(meta.graph_def, definition), "input")
    outputs, renamed_outputs = _name_ports(definition.outputs, sorted(definition.outputs, key=_natural_key), "output")
    feeds = {key: info.name for key, info in inputs.items()}
    fetches = {key: info.name for key, info in outputs.items()}
    values = propose_values(meta.graph_def, [*fetches.values()], feeds)
    ports = ModelPorts(
        tuple(replace(_describe_port(key, info, path), value=values.get(key)) for key, info in inputs.items()),
        tuple(_describe_port(key, info, path) for key, info in outputs.items()),
        name,
        tuple(signatures),
        warnings=(*renamed_inputs, *renamed_outputs),
    )
    taken = HOST_OPS | STRING_STEPS | PARSE_OPS if ports.have_strings else frozenset()
    return LoadedModel(ports, lambda _: freeze_saved_model(path, meta, feeds, fetches, trust=source.trust, taken=taken))


def read_meta_graph(path: Path) -> Any:
    """Read the MetaGraph that is tagged ``serve``, or the only one."""
    import_tensorflow()
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    file = path / "saved_model.pb"
    if not file.is_file():
        raise ImportModelError(f"{path.name} is not a SavedModel: it has no saved_model.pb.")
    try:
        metas = list(saved_model_pb2.SavedModel.FromString(file.read_bytes()).meta_graphs)
    except DecodeError as error:
        raise ImportModelError(f"{path.name}/saved_model.pb is damaged: it is not a SavedModel protobuf.") from error
    serving = [m for m in metas if list(m.meta_info_def.tags) == ["serve"]] or metas
    if len(serving) != 1:
        tags = "; ".join(",".join(m.meta_info_def.tags) or "(none)" for m in metas) or "none"
        raise ImportModelError(f"{path.name} has no MetaGraph tagged `serve` (its tags: {tags}).")
    return serving[0]


def _name_ports(infos: Mapping[str, Any], keys: list[str], kind: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Give ``infos`` distinct names, in the order of ``keys``, and describe the changed names."""
    names = make_names_unique(keys)
    return {name: infos[key] for name, key in zip(names, keys, strict=True)}, describe_renames(kind, keys, names)


def _describe_port(key: str, info: Any, path: Path) -> PortInfo:
    if not info.name:
        raise ImportModelError(
            f"{path.name}: {key!r} is a sparse or composite tensor; coldforge takes dense ones. "
            "Export a signature that builds it from dense inputs."
        )
    return PortInfo(key, dtype_name(info.dtype), read_shape(info.tensor_shape))


def freeze_saved_model(
    path: Path,
    meta: Any,
    feeds: Mapping[str, str],
    fetches: Mapping[str, str],
    *,
    trust: bool = False,
    taken: Collection[str] = (),
) -> RawGraph:
    """Turn every variable that the fetches read into a constant with its value in the checkpoint.

    Variables that the graph writes, and that the fetches depend on, stay. ``trust``: the model's init op may run if a
    variable is not in the checkpoint. ``taken``: further ops, which the caller removes.
    Raises ImportModelError, and UnsupportedOpsError for ops that cannot be compiled.
    """
    tensors = [*fetches.values()]
    tables = find_filled_tables(meta.graph_def, _find_init_ops(meta), find_assets(meta, path))
    source, feeds = admit_graph(meta.graph_def, tensors, feeds, {*taken, *HASHES, *(TABLES if tables else ())})
    variables = {node.name for node in source.node if node.op in _VARIABLES}
    saved = {node: where for node, where in find_saved_variables(meta).items() if node in variables}
    saved |= find_captured_variables(meta, path, variables - set(saved))
    missing = variables - set(saved)
    if missing and not trust:
        raise ImportModelError(_explain_init(path, meta, source, missing))
    values = _CheckpointValues(read_checkpoint(path, saved))
    for node in source.node:
        node.device = ""
    try:
        with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
            if missing:
                tf.compat.v1.saved_model.load(session, list(meta.meta_info_def.tags), str(path))
            else:
                _check_values(source.node, values)
                tf.import_graph_def(source, name="", producer_op_list=meta.meta_info_def.stripped_op_list)
            return _freeze_variables(session if missing else values, graph, feeds, fetches, tables)
    except Exception as error:
        raise ImportModelError(f"{escape_invisible(path.name)} cannot be restored: {describe_error(error)}") from error


class _CheckpointValues(dict[str, Array]):
    """Values of variables, by node, to be read from as from a session, which would hold a second copy of them."""

    def run(self, tensors: list[str]) -> list[Array]:
        return [self[node_of(tensor).removesuffix(_READ)] for tensor in tensors]


def _check_values(nodes: Iterable[Any], values: Mapping[str, Array]) -> None:
    """Raise ValueError for a value that its variable, one of ``nodes``, cannot have."""
    for node in nodes:
        if (value := values.get(node.name)) is None:
            continue
        dtype, shape = tf.dtypes.as_dtype(node.attr["dtype"].type), tf.TensorShape(node.attr["shape"].shape)
        if tf.dtypes.as_dtype(value.dtype) != dtype or not shape.is_compatible_with(value.shape):
            raise ValueError(
                f"its checkpoint has {value.dtype} {list(value.shape)} for the variable {_variable_name(node)}, which "
                f"is {dtype.name} {shape}"
            )


def _freeze_variables(
    reader: Any, graph: Any, feeds: Mapping[str, str], fetches: Mapping[str, str], tables: Mapping[str, LookupTable]
) -> RawGraph:
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_from_session_graph

    tensors = [*fetches.values()]
    # Calls are inlined first, as the conversion loses track of variables that nested functions pass on.
    flat = keep_reachable(graph.as_graph_def(), tensors, feeds.values())
    flat = replace_lookups(inline_calls(flat, [*tensors, *feeds.values()]), lambda node, *_: tables.get(node))
    kept = sorted(state_of(flat, tensors))
    if not kept:
        flat = keep_reachable(without_side_effects(flat), tensors, feeds.values())
    for node in flat.node:
        node.attr.pop("_class", None)  # It names a node to be placed beside, which may be gone.
    names = {n.name: _variable_name(n) for n in flat.node if n.op in _VARIABLES}
    values = dict(zip(kept, reader.run([f"{node}{_READ}:0" for node in kept]), strict=True)) if kept else {}
    # Feeds are kept, too, since one that no fetch reads is still an input of the model.
    nodes = sorted({node_of(tensor) for tensor in (*tensors, *feeds.values())})
    frozen = convert_variables_to_constants_from_session_graph(reader, flat, nodes, variable_names_denylist=kept)
    states = {node: Variable(names[node], np.asarray(value)) for node, value in values.items()}
    return RawGraph(frozen, feeds, fetches, {n: v for n, v in names.items() if n not in kept}, states, tables)


def _explain_init(path: Path, meta: Any, source: Any, missing: set[str]) -> str:
    """Describe the op that would set the missing variables, and how to allow it."""
    names = sorted(_variable_name(node) for node in source.node if node.name in missing)
    shown = ", ".join(map(escape_invisible, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    init = _find_init_ops(meta)
    lacks = f"{escape_invisible(path.name)}: the checkpoint lacks {shown}, and"
    if not init:
        return f"{lacks} nothing sets them. Save the model with its variables."
    return (
        f"{lacks} only the model's init op {', '.join(map(escape_invisible, init))} sets them. An init op may do "
        f"anything. If you trust where the model comes from, {HOW_TO_TRUST}. Otherwise save the model with its "
        "variables."
    )


def _find_init_ops(meta: Any) -> list[str]:
    """List the ops that TensorFlow would run when it loads the model."""
    signatures, collections = meta.signature_def, meta.collection_def
    init_ops = [info.name for info in signatures[_INIT_ONLY].outputs.values()] if _INIT_ONLY in signatures else []
    for key in ("saved_model_main_op", "legacy_init_op"):
        init_ops += collections[key].node_list.value if key in collections else ()
    return init_ops


def _variable_name(node: Any) -> str:
    """Return a variable's shared name, which the model gave it, or the node's if it has none."""
    return node.attr["shared_name"].s.decode(errors="replace") or str(node.name)


def _order_inputs(graph_def: Any, signature: Any) -> list[str]:
    """Sort the names of a signature's inputs by the arguments of the function it calls, if any, or by name."""
    keys = {node_of(info.name): key for key, info in signature.inputs.items()}
    places: dict[str, int] = {}
    for node in _passed_inputs(graph_def, {node_of(info.name) for info in signature.outputs.values()}):
        if node in keys:
            places.setdefault(keys[node], len(places))
    return sorted(signature.inputs, key=lambda key: (places.get(key, len(places)), _natural_key(key)))


def _passed_inputs(graph_def: Any, results: set[str]) -> Iterator[str]:
    """Yield the inputs that wrappers, called by the nodes ``results``, pass on, in the order of arguments."""
    functions = {f.signature.name: f for f in graph_def.library.function}
    for call in (node for node in graph_def.node if node.name in results):
        for wrapper in (functions[name] for name in called_by(call) if name in functions):
            inputs = dict(zip((a.name for a in wrapper.signature.input_arg), map(node_of, call.input), strict=False))
            for inner in wrapper.node_def:
                if any(name in functions for name in called_by(inner)):
                    yield from (inputs[name] for name in map(node_of, inner.input) if name in inputs)


def _natural_key(name: str) -> list[tuple[int, str]]:
    """Return a sort key that compares digits as numbers, so that ``output_2`` is before ``output_10``."""
    return [(len(part) if i % 2 else 0, part) for i, part in enumerate(re.split("([0-9]+)", name))]
