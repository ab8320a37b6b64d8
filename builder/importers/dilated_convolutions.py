"""Dilated convolutions, which TensorFlow writes as SpaceToBatchND, a plain convolution, and BatchToSpaceND.

These make the phases of an image or a sequence a batch. XLA and the kernels of this project take a dilation as it is:
without the copies, and what follows is fused into the convolution.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.tf import tf
from builder.importers.rewrite import copy_message, node_of, source_of

_CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")


@dataclass(frozen=True)
class _Dilated:
    """The nodes of a dilated convolution, from ``entry``, which reads the phases, to ``last``, the BatchToSpaceND.

    ``dilations`` [2] and ``paddings`` [2, 2], before and behind, are of height and width.
    """

    source: str
    entry: Any
    convolution: Any
    last: Any
    dilations: list[int]
    paddings: list[list[int]]


def join_dilated_convolutions(graph_def: Any, ports: Iterable[str]) -> Any:
    """Return a GraphDef with dilations in the place of batches of phases: its argument if it has none of these.

    The tensors ``ports`` are kept.
    """
    if not any(node.op == "BatchToSpaceND" for node in graph_def.node):
        return graph_def
    result = copy_message(graph_def)
    nodes = {node.name: node for node in result.node}
    readers = Counter(node_of(tensor) for tensor in (*ports, *(t for node in result.node for t in node.input)))
    candidates = [_find_dilated(node, nodes, readers) for node in result.node if node.op == "BatchToSpaceND"]
    convolutions = [dilated for dilated in candidates if dilated is not None]
    for dilated in convolutions:
        dilated.entry.input[0] = dilated.source
        attributes, last = dilated.convolution.attr, dilated.last
        attributes["dilations"].list.i[:] = [1, *dilated.dilations, 1]
        attributes["padding"].s = b"EXPLICIT"
        attributes["explicit_paddings"].list.i[:] = [0, 0, *chain(*dilated.paddings), 0, 0]
        last.op, last.input[:] = "Identity", [last.input[0]]
        for name in set(last.attr) - {"T"}:
            del last.attr[name]
    return result if convolutions else graph_def


def _find_dilated(last: Any, nodes: Mapping[str, Any], readers: Mapping[str, int]) -> _Dilated | None:
    """Return the convolution that ends in ``last``; None if it is not one, or if others read its inner nodes."""
    result = nodes[node_of(last.input[0])]
    is_sequence = result.op == "Squeeze"  # It is an image of height 1 to the convolution.
    convolution = nodes[node_of(result.input[0])] if is_sequence else result
    if convolution.op not in _CONVOLUTIONS or not _is_plain(convolution):
        return None
    entry = nodes[node_of(convolution.input[0])] if is_sequence else convolution
    if is_sequence and not _adds_height(entry, result, nodes):
        return None
    first = nodes[node_of(entry.input[0])]
    if first.op != "SpaceToBatchND" or any(readers[name] != 1 for name in (result.name, convolution.name, entry.name)):
        return None
    blocks, paddings, joined, crops = (_read_constant(t, nodes) for t in (*first.input[1:], *last.input[1:]))
    if blocks is None or paddings is None or joined is None or crops is None or not np.array_equal(blocks, joined):
        return None
    rest = paddings - crops
    missing = 2 - len(rest)  # An image may have phases of its rows alone, a sequence has them of columns.
    if missing < is_sequence or rest.min() < 0:
        return None
    before, behind = (missing, 0) if is_sequence else (0, missing)
    dilations = np.pad(blocks, (before, behind), constant_values=1)
    sides = np.pad(rest, ((before, behind), (0, 0)))
    return _Dilated(first.input[0], entry, convolution, last, dilations.tolist(), sides.tolist())


def _is_plain(convolution: Any) -> bool:
    """Return whether a convolution of channels last has neither strides nor padding nor dilations."""
    attributes = convolution.attr
    steps = {step for name in ("strides", "dilations") if name in attributes for step in attributes[name].list.i}
    channels_last = "data_format" not in attributes or attributes["data_format"].s == b"NHWC"
    return channels_last and steps == {1} and attributes["padding"].s == b"VALID"


def _adds_height(entry: Any, result: Any, nodes: Mapping[str, Any]) -> bool:
    """Return whether ``entry`` makes an image of height 1 of a sequence, and ``result`` takes the height away."""
    if entry.op != "ExpandDims" or list(result.attr["squeeze_dims"].list.i) not in ([1], [-3]):
        return False
    axis = _read_constant(entry.input[1], nodes)
    return axis is not None and axis.size == 1 and axis.item() in (1, -3)


def _read_constant(tensor: str, nodes: Mapping[str, Any]) -> NDArray[Any] | None:
    node = nodes.get(source_of(tensor, nodes))
    if node is None or node.op != "Const":
        return None
    value: NDArray[Any] = tf.make_ndarray(node.attr["value"].tensor)
    return value
