"""Replaces a model's encoded images by pixels, and its labels by numbers.

The ops before and after become settings of a spec (``builder.importers.images``), which the function carries out.
Strings that are not images stay: cut_strings.py cuts them off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from builder.base.errors import ImportModelError
from builder.base.tf import load_graph, tf
from builder.config import ModelSpec
from builder.importers.loaded import LoadedModel, RawGraph, Shape, tensor_name
from builder.importers.lookup_tables import replace_lookups
from builder.importers.loops import split_image_loops
from builder.importers.ports import ModelPorts, PortInfo
from builder.importers.rewrite import become_constant, copy_message, keep_reachable, node_of, output_number
from builder.importers.shapes import pin_shapes
from builder.importers.strings.frontier import (
    IMAGE_OPS,
    Frontier,
    Tail,
    find_frontier,
    find_tail,
    fix_string_sizes,
    is_read,
)
from builder.importers.strings.string_graph import add_placeholder, redirect_inputs

PROBES = ((400, 300), (210, 350), (333, 333), (640, 200))
"""Widths and heights of the images that show which tensors have the same shape for all."""

_LEAST = 64
"""The least number of values in an image."""


@dataclass(frozen=True)
class EncodedImages:
    """A feed of encoded images: ``strings`` is its shape, [] or with the batch first.

    ``size``: height, width and channels of each image as the model decodes it.
    """

    frontier: Frontier
    strings: Shape
    size: tuple[int, int, int]


@dataclass(frozen=True)
class StringCut:
    """A model's graph with strings (``raw``), and the tensors where they end.

    ``unread``: feeds of strings that no number depends on.
    """

    raw: RawGraph
    images: EncodedImages | None
    tails: tuple[Tail, ...]
    unread: tuple[str, ...] = ()


def find_cut(loaded: LoadedModel, spec: ModelSpec) -> StringCut:
    """Return the tensors where the strings of ``loaded`` end, for the fetches of ``spec``.

    Raises ImportModelError, with the ops before the numbers, if they cannot be cut off, and UnsupportedOpsError for ops
    that are neither compiled nor known on strings.
    """
    ports = loaded.ports
    names = [fetch.name for fetch in spec.fetches] or [port.name for port in ports.fetches]
    kinds = {port.name: port.dtype for port in ports.fetches}
    numbers = tuple(port for port in ports.feeds if port.dtype != "string")
    texts = {port.name: _choose_shape(port, spec) for port in ports.feeds if port.dtype == "string"}
    plain = replace(spec, image=None, audio=None, text=None, feeds=tuple(f for f in spec.feeds if f.name not in texts))
    shapes = pin_shapes(ModelPorts(numbers, ()), plain) if numbers else {}
    raw = loaded.freeze(shapes | texts)
    searched = replace_lookups(raw.graph_def, lambda node, *_: raw.tables.get(node), into_strings=True)
    raw = remove_identity_nodes(replace(raw, graph_def=searched))
    if _list_ops(raw.graph_def) & IMAGE_OPS:
        raw = replace(raw, graph_def=split_image_loops(raw.graph_def, _make_probes(raw.graph_def), _LEAST))
    tails = tuple(find_tail(raw.graph_def, name, raw.fetches[name]) for name in names if kinds.get(name) == "string")
    tensors = {name: raw.fetches[name] for name in names if kinds.get(name, "string") != "string"}
    ends = [*tensors.values(), *(tail.tensor for tail in tails if tail.tensor)]
    graph_def = keep_reachable(raw.graph_def, ends, raw.feeds.values())
    unread = tuple(name for name in texts if not is_read(graph_def, raw.feeds[name], ends))
    relevant = [name for name in texts if name not in unread]
    if not _list_ops(graph_def) & IMAGE_OPS:  # These may be texts, which cut_strings.py cuts off.
        return StringCut(raw, None, tails, unread)
    if len(relevant) > 1:
        raise ImportModelError(
            f"The inputs {', '.join(map(repr, relevant))} are strings; coldforge takes images in one input."
        )
    images = None
    if relevant:
        shape = _fix_shape(next(port for port in ports.feeds if port.name == relevant[0]), spec.batch)
        images = _find_images(graph_def, relevant[0], raw.feeds[relevant[0]], ends, shape)
    return StringCut(raw, images, tails, unread)


def _choose_shape(port: PortInfo, spec: ModelSpec) -> Shape:
    """Return the spec's shape of a feed of strings, or else the model's, with one string for an open size."""
    configured = next((feed.shape for feed in spec.feeds if feed.name == port.name), None)
    return configured or _close_shape(port, spec.batch)


def _close_shape(port: PortInfo, batch: int) -> Shape:
    if port.shape is None:
        return (batch,)
    return tuple(size or (1 if at else batch) for at, size in enumerate(port.shape))


def _list_ops(graph_def: Any) -> set[str]:
    return {node.op for node in graph_def.node} | {n.op for f in graph_def.library.function for n in f.node_def}


def without_strings(loaded: LoadedModel, spec: ModelSpec) -> LoadedModel:
    """Return ``loaded`` with pixels [batch, height, width, channels] for images, and integers for labels.

    Raises as ``find_cut`` does, and if a fetch of strings depends on no number.
    """
    cut = find_cut(loaded, spec)
    definition, feeds = cut.raw.graph_def, dict(cut.raw.feeds)
    fetches = dict(cut.raw.fetches)
    fixed_ports: dict[str, PortInfo] = {}
    graph = load_graph(definition)
    for tail in cut.tails:
        if tail.tensor is None:
            raise ImportModelError(
                f"The output {tail.fetch!r} is strings that no number chooses: leave it out by [[fetches]]."
            )
        tensor = graph.get_tensor_by_name(tail.tensor)
        shape = None if tensor.shape.rank is None else tuple(tensor.shape.as_list())
        fetches[tail.fetch], fixed_ports[tail.fetch] = tensor.name, PortInfo(tail.fetch, tensor.dtype.name, shape)
    if (images := cut.images) is not None:
        name, (height, width, channels) = images.frontier.feed, images.size
        count = int(np.prod(images.strings, dtype=np.int64))
        definition = fix_string_sizes(definition, feeds[name], images.strings)
        shape = (count, height, width, channels)
        feeds[name], definition = _insert_placeholder(definition, images, shape)
        fixed_ports[name] = PortInfo(name, images.frontier.dtype, shape)
    feeds = {name: tensor for name, tensor in feeds.items() if name not in cut.unread}
    ports = replace(
        loaded.ports,
        feeds=tuple(fixed_ports.get(port.name, port) for port in loaded.ports.feeds if port.name in feeds),
        fetches=tuple(fixed_ports.get(port.name, port) for port in loaded.ports.fetches),
    )
    raw = replace(cut.raw, graph_def=definition, feeds=feeds, fetches=fetches)
    return LoadedModel(ports, lambda _: raw)


def remove_identity_nodes(raw: RawGraph) -> RawGraph:
    """Return ``raw`` without IdentityN at its top, which joins all outputs in one op, and without device placement."""
    result = copy_message(raw.graph_def)
    nodes = {node.name: node for node in result.node if node.op == "IdentityN"}

    def past(tensor: str) -> str:
        while (node := nodes.get(node_of(tensor))) is not None and not tensor.startswith("^"):
            tensor = tensor_name(node.input[output_number(tensor)])
        return tensor

    for node in result.node:
        node.attr.pop("_class", None)
        node.input[:] = [past(source) for source in node.input]
    fetches = {name: past(tensor_name(tensor)) for name, tensor in raw.fetches.items()}
    return replace(raw, graph_def=result, fetches=fetches)


def _fix_shape(port: PortInfo, batch: int) -> Shape:
    """Return the shape of a feed of strings in a library with that batch. Raises ImportModelError."""
    shape = _close_shape(port, batch)
    count = int(np.prod(shape, dtype=np.int64))
    if count != batch:
        raise ImportModelError(
            f"The input {port.name!r} takes {count} strings at a time, {list(shape)}: set batch = {count} under "
            "[model]."
        )
    return shape


def _find_images(graph_def: Any, feed: str, source: str, ends: Sequence[str], strings: Shape) -> EncodedImages:
    count = int(np.prod(strings, dtype=np.int64))
    probes = [np.full(strings, data, object) for data in _make_probes(graph_def)]
    frontier = find_frontier(graph_def, feed, source, ends, probes, least=_LEAST * count)
    size = _find_image_size(frontier.shape, count, scalar=not strings)
    if size is None or size[2] not in (1, 3):
        raise ImportModelError(
            f"The input {feed!r} becomes {frontier.tensor} {list(frontier.shape)} for {count} strings, which is no "
            "image of height, width and 1 or 3 channels: decode in the caller, and feed numbers."
        )
    return EncodedImages(frontier, strings, size)


def _make_probes(graph_def: Any) -> list[bytes]:
    coded = "DecodeBase64" in _list_ops(graph_def)
    return [encode_jpeg(make_probe_image(*size), coded) for size in PROBES]


def make_probe_image(width: int, height: int) -> Any:
    """Return an image of that size: uint8 [height, width, 3]."""
    rows, columns = np.mgrid[0:height, 0:width]
    return np.stack([rows % 256, columns % 256, (rows + columns) % 256], -1).astype(np.uint8)


def encode_jpeg(pixels: Any, base64: bool = False) -> bytes:
    """Return a JPEG of uint8 [height, width, 3], or its web-safe base64, which ``tf.io.decode_base64`` reads."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        data = tf.io.encode_jpeg(pixels, quality=100, chroma_downsampling=False)
        encoded: bytes = session.run(tf.io.encode_base64(data) if base64 else data)
        return encoded


def _find_image_size(shape: Shape, count: int, *, scalar: bool) -> tuple[int, int, int] | None:
    if not scalar and shape[:1] != (count,):
        return None
    dims = shape if scalar else shape[1:]
    while len(dims) > 3 and dims[0] == 1:
        dims = dims[1:]
    if len(dims) == 2:
        dims = (*dims, 1)
    return (dims[0], dims[1], dims[2]) if len(dims) == 3 else None


def _insert_placeholder(graph_def: Any, images: EncodedImages, shape: Shape) -> tuple[str, Any]:
    """Return a placeholder of ``shape``, and the graph with it in place of the frontier."""
    frontier = images.frontier
    dtype = tf.dtypes.as_dtype(frontier.dtype)
    result = copy_message(graph_def)
    scope = "pictures"
    while any(node.name.startswith(f"{scope}/") for node in result.node):
        scope += "_"
    redirect_inputs(result, {frontier.tensor: f"{scope}/shaped"})
    pixels = add_placeholder(result, f"{scope}/pixels", dtype, shape)
    become_constant(result.node.add(name=f"{scope}/shape"), np.array(frontier.shape, np.int32))
    shaped = result.node.add(name=f"{scope}/shaped", op="Reshape", input=[f"{scope}/pixels", f"{scope}/shape"])
    shaped.attr["T"].type = dtype.as_datatype_enum
    shaped.attr["Tshape"].type = tf.int32.as_datatype_enum
    return pixels, result
