"""The importer of frozen GraphDefs, whose ports the spec or a tf2xla.Config text file names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from builder.base.commands import did_you_mean
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.base.tf import dtype_name, import_tensorflow, tf
from builder.config import FeedSpec, FetchSpec, Source
from builder.importers.allowed_ops import UnsupportedOpsError, admit_graph, may_admit, output_type
from builder.importers.constant_feeds import propose_values
from builder.importers.loaded import LoadedModel, RawGraph, Shape, tensor_name
from builder.importers.ports import ModelPorts, OpenShape, PortInfo, read_shape
from builder.importers.rewrite import node_of, output_number

_VARIABLES = {"VariableV2", "Variable", "VarHandleOp", "VarIsInitializedOp"}
_NO_RESULT = {"NoOp", "Assert", "Print", "PrintV2", "SaveV2", "MergeV2Checkpoints", "Placeholder", "Const"}
_END_OF_COND = re.compile("(^|/)(pred_id|switch_[tf])$")


def open_graph_def(source: Source, path: Path, feeds: Sequence[FeedSpec], fetches: Sequence[FetchSpec]) -> LoadedModel:
    """Read the graph with the named ports; ports that are not named are guessed, but only to describe the model.

    Raises ImportModelError if the file is not a GraphDef, still has variables, or lacks a named node.
    """
    graph_def = _read_graph(path)
    config_feeds, config_fetches = _read_config(source.config) if source.config else ({}, {})
    feed_tensors = {name: tensor for name, (tensor, _) in config_feeds.items()}
    # A spec may name feeds of the config, to give a shape.
    feed_tensors |= {f.name: feed_tensors.get(f.name, tensor_name(f.name)) for f in feeds}
    fetch_tensors = {f.name: config_fetches.get(f.name, tensor_name(f.name)) for f in fetches} or config_fetches
    shapes = {name: shape for name, (_, shape) in config_feeds.items()}
    _check_nodes(graph_def, path, {"feed": feed_tensors, "fetch": fetch_tensors})
    shown_feeds, shown_fetches = _guess_ports(graph_def, feed_tensors, fetch_tensors)
    # TensorFlow need not know training ops, savers and other leftovers.
    admitted, kept_feeds = graph_def, shown_feeds
    try:
        admitted, kept_feeds = admit_graph(graph_def, [*shown_fetches.values()], shown_feeds)
        infos = _describe_ports(admitted, path, kept_feeds, shown_fetches, shapes)
        values = propose_values(admitted, [*shown_fetches.values()], kept_feeds)
        infos = replace(infos, feeds=tuple(replace(port, value=values.get(port.name)) for port in infos.feeds))
    except UnsupportedOpsError:  # Freezing the graph raises it again.
        infos = ModelPorts(
            _read_declared_ports(graph_def, shown_feeds, shapes), _read_declared_ports(graph_def, shown_fetches, {})
        )

    def freeze(chosen: Mapping[str, Shape]) -> RawGraph:
        if not feed_tensors or not fetch_tensors:
            raise ImportModelError(_explain_missing_ports(path, infos, bool(feed_tensors), bool(fetch_tensors)))
        return RawGraph(admitted, kept_feeds, fetch_tensors)

    return LoadedModel(infos, freeze)


def _read_graph(path: Path) -> Any:
    import_tensorflow()
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError

    data = path.read_bytes()
    graph_def = tf.compat.v1.GraphDef()
    try:
        graph_def.ParseFromString(data)
    except DecodeError:
        try:
            text_format.Parse(data.decode(), graph_def)
        except (UnicodeDecodeError, text_format.ParseError) as error:
            raise ImportModelError(f"{path.name} is not a GraphDef, neither binary nor text.") from error
    if not graph_def.node:
        raise ImportModelError(f"{path.name} is not a GraphDef, or it has no nodes.")
    variables = sorted({n.name for n in graph_def.node if n.op in _VARIABLES})
    if variables:
        raise ImportModelError(
            f"{path.name} is not frozen: it still reads {len(variables)} variables ({', '.join(variables[:5])}"
            f"{', ...' if len(variables) > 5 else ''}). Freeze it, or use the SavedModel."
        )
    return graph_def


def _read_config(path: Path) -> tuple[dict[str, tuple[str, Shape | None]], dict[str, str]]:
    """Read the feeds (tensor and shape) and fetches (tensor) of a tf2xla.Config, by port or node name."""
    import_tensorflow()
    from google.protobuf import text_format
    from tensorflow.compiler.tf2xla import tf2xla_pb2

    try:
        config = text_format.Parse(path.read_text(), tf2xla_pb2.Config())
    except OSError as error:
        raise ImportModelError(f"{path.name} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, text_format.ParseError) as error:
        raise ImportModelError(f"{path.name} is not a tf2xla.Config text file: {error}") from error
    if config.variable:
        raise ImportModelError(
            f"{path.name} declares variables ({config.variable[0].node_name} ...); freeze the graph instead."
        )
    feeds = {}
    for feed in config.feed:
        shape = tuple(d.size for d in feed.shape.dim) if feed.HasField("shape") else None
        feeds[feed.name or _shorten_name(feed.id)] = (f"{feed.id.node_name}:{feed.id.output_index}", shape)
    fetches = {f.name or _shorten_name(f.id): f"{f.id.node_name}:{f.id.output_index}" for f in config.fetch}
    return feeds, fetches


def _shorten_name(identity: Any) -> str:
    name = str(identity.node_name)
    return f"{name}:{identity.output_index}" if identity.output_index else name


def _check_nodes(graph_def: Any, path: Path, ports: Mapping[str, Mapping[str, str]]) -> None:
    nodes = {n.name for n in graph_def.node}
    problems = []
    for kind, tensors in ports.items():
        for name, tensor in tensors.items():
            if node_of(tensor) not in nodes:
                hint = did_you_mean(node_of(tensor), nodes, 3)
                problems.append(f"{path.name} has no node {node_of(tensor)} for the {kind} {name!r}.{hint}")
    if problems:
        raise ImportModelError("\n".join(problems))


def _guess_ports(
    graph_def: Any, feeds: Mapping[str, str], fetches: Mapping[str, str]
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return ``feeds`` and ``fetches``, or in place of empty ones those that ``coldforge init`` proposes.

    These are all placeholders, and the unread nodes: those that can be compiled, if any can.
    """
    read = {node_of(i) for n in graph_def.node for i in n.input}
    feeds = feeds or {n.name: f"{n.name}:0" for n in graph_def.node if n.op == "Placeholder"}
    if fetches:
        return feeds, fetches
    unread = [n for n in graph_def.node if n.name not in read and n.op not in _NO_RESULT]
    ends = {n.name: f"{n.name}:0" for n in unread if not _END_OF_COND.search(n.name)}
    return feeds, {name: end for name, end in ends.items() if may_admit(graph_def, end, feeds)} or ends


def _describe_ports(
    graph_def: Any,
    path: Path,
    feeds: Mapping[str, str],
    fetches: Mapping[str, str],
    shapes: Mapping[str, Shape | None],
) -> ModelPorts:
    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(graph_def, name="")
        except (ValueError, TypeError, tf.errors.OpError) as error:  # TypeError is raised for unknown types.
            raise ImportModelError(
                f"{path.name} cannot be read by TensorFlow {tf.__version__}: {describe_error(error)}"
            ) from error

        def info(name: str, tensor: str, kind: str) -> PortInfo:
            try:
                port = graph.get_tensor_by_name(tensor)
            except (KeyError, ValueError) as error:
                raise ImportModelError(f"{path.name} has no tensor {tensor} for the {kind} {name!r}.") from error
            dims = None if port.shape.rank is None else tuple(port.shape.as_list())
            # In a tf2xla.Config, a scalar looks like a missing shape, so the graph decides.
            shape = shapes.get(name)
            return PortInfo(name, dtype_name(port.dtype), shape if shape or dims is None else dims)

        return ModelPorts(
            tuple(info(n, t, "feed") for n, t in feeds.items()),
            tuple(info(n, t, "fetch") for n, t in fetches.items()),
        )


def _read_declared_ports(
    graph_def: Any, ports: Mapping[str, str], shapes: Mapping[str, Shape | None]
) -> tuple[PortInfo, ...]:
    """Read the ports of a graph that TensorFlow must not load from their nodes alone."""
    nodes = {node.name: node for node in graph_def.node}
    infos = []
    for name, tensor in ports.items():
        node = nodes[node_of(tensor)]
        shape: OpenShape | None = shapes.get(name)
        if shape is None and "shape" in node.attr:
            shape = read_shape(node.attr["shape"].shape)
        infos.append(PortInfo(name, dtype_name(output_type(node, output_number(tensor))), shape))
    return tuple(infos)


def _explain_missing_ports(path: Path, infos: ModelPorts, has_feeds: bool, has_fetches: bool) -> str:
    lines = [f"A frozen graph does not say what goes in and out. Name it in model.toml ({path.name} suggests):"]
    if not has_feeds:
        for port in infos.feeds:
            lines += ["", "[[feeds]]", f'name = "{port.name}"']
    if not has_fetches:
        for port in infos.fetches[:8]:
            lines += ["", "[[fetches]]", f'name = "{port.name}"']
    return "\n".join(lines)
