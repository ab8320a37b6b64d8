"""Loops over encoded images that compute with a whole image (``per_image_standardization``), as two loops.

``tf.map_fn`` decodes, resizes and normalises one image after the other. The function decodes and resizes, and the rest
has to be compiled. So the first loop ends with pixels of one size, and the second begins with them: the graph can be
cut between them. A loop that only scales pixels stays one, as the function can do that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from builder.base.errors import ImportModelError
from builder.base.tf import tf
from builder.importers.rewrite import (
    become_constant,
    copy_message,
    keep_called_functions,
    prune_function,
    source_of,
)
from builder.importers.strings.frontier import IMAGE_OPS, find_inner_frontier

_LOOPS = {"While", "StatelessWhile"}
_WHOLE = {"Max", "Mean", "Min", "Prod", "Sum"}
"""Ops that reduce many numbers to one."""


@dataclass(frozen=True)
class _Map:
    """A loop over strings. ``read`` and ``write`` are the nodes of its body that read an item and store a result.

    ``items`` and ``results`` are the numbers of the loop's variables with the lists of items and results.
    """

    node: Any
    body: Any
    read: Any
    write: Any
    items: int
    results: int


def split_image_loops(graph_def: Any, probes: Sequence[bytes], least: int) -> Any:
    """Return a copy of ``graph_def`` with two loops in the place of each that computes with whole images.

    ``probes``: encoded images of different sizes; ``least``: the count of numbers in the smallest image.
    """
    result = copy_message(graph_def)
    changed = False
    for node in [n for n in result.node if n.op in _LOOPS]:
        functions = {f.signature.name: f for f in result.library.function}
        loop = _find_map(node, functions)
        if loop is None or not any(n.op in IMAGE_OPS for n in loop.body.node_def):
            continue
        try:
            front = find_inner_frontier(
                result, _copy_without_controls(loop.body), f"{loop.read.name}:0", loop.write.input[2], probes, least
            )
        except ImportModelError:  # It does not run alone; it may need values from outside the loop.
            continue
        if front is not None and front.behind & _WHOLE:
            _split_loop(result, loop, front.tensor, front.dtype, front.shape)
            changed = True
    return keep_called_functions(result) if changed else graph_def


def _find_map(node: Any, functions: Mapping[str, Any]) -> _Map | None:
    """Return the loop of ``node`` if it is a map over strings."""
    strings = tf.string.as_datatype_enum
    body = functions.get(node.attr["body"].func.name)
    if body is None:
        return None
    reads = [n for n in body.node_def if n.op == "TensorListGetItem" and n.attr["element_dtype"].type == strings]
    writes = [n for n in body.node_def if n.op == "TensorListSetItem"]
    if len(reads) != 1 or len(writes) != 1 or len(reads[0].input) < 3 or len(writes[0].input) < 3:
        return None
    places = {argument.name: number for number, argument in enumerate(body.signature.input_arg)}
    nodes = {n.name: n for n in body.node_def}
    items, results = (places.get(source_of(step.input[0], nodes)) for step in (reads[0], writes[0]))
    if items is None or results is None or max(items, results) >= len(node.input):
        return None
    return _Map(node, body, reads[0], writes[0], items, results)


def _split_loop(graph_def: Any, loop: _Map, tensor: str, dtype: Any, shape: tuple[int, ...]) -> None:
    """Split ``loop`` after ``tensor`` of its body, which the second loop reads."""
    scope, old = f"{loop.node.name}/pixels", loop.node
    size = f"{scope}/shape"
    become_constant(graph_def.node.add(name=size), np.array(shape, np.int32))
    first = _copy_body(graph_def, loop, "first")
    write = next(n for n in first.node_def if n.name == loop.write.name)
    write.input[2] = tensor
    write.attr["element_dtype"].type = dtype
    prune_function(first)

    nodes = {n.name: n for n in graph_def.node}
    reserved = graph_def.node.add()
    reserved.CopyFrom(nodes[source_of(old.input[loop.results], nodes)])
    reserved.name = f"{scope}/reserved"
    reserved.input[0] = size
    reserved.attr["element_dtype"].type = dtype
    before = graph_def.node.add()
    before.CopyFrom(old)
    before.name = f"{scope}/loop"
    before.attr["body"].func.name = first.signature.name
    before.input[loop.results] = reserved.name
    stacked = graph_def.node.add(
        name=f"{scope}/stacked", op="TensorListStack", input=[f"{before.name}:{loop.results}", size]
    )
    stacked.attr["element_dtype"].type = dtype
    stacked.attr["num_elements"].i = -1
    listed = graph_def.node.add(name=f"{scope}/listed", op="TensorListFromTensor", input=[stacked.name, size])
    listed.attr["element_dtype"].type = dtype
    listed.attr["shape_type"].type = tf.int32.as_datatype_enum

    second = _copy_body(graph_def, loop, "second")
    read = next(n for n in second.node_def if n.name == loop.read.name)
    for node in second.node_def:
        node.input[:] = [f"{read.name}:item:0" if source == tensor else source for source in node.input]
    become_constant(second.node_def.add(name=f"{read.name}/shape"), np.array(shape, np.int32))
    read.input[2] = f"{read.name}/shape:output:0"
    read.attr["element_dtype"].type = dtype
    prune_function(second)
    old.attr["body"].func.name = second.signature.name
    old.input[loop.items] = listed.name


def _copy_body(graph_def: Any, loop: _Map, which: str) -> Any:
    """Add a copy of the loop's body to the library."""
    function = graph_def.library.function.add()
    function.CopyFrom(_copy_without_controls(loop.body))
    function.signature.name = f"{loop.body.signature.name}_{which}"
    return function


def _copy_without_controls(function: Any) -> Any:
    """Copy ``function`` without control edges, and so without assertions, and without placement attributes."""
    result = copy_message(function)
    result.control_ret.clear()
    del result.signature.control_output[:]
    for node in result.node_def:
        node.attr.pop("_class", None)
        node.input[:] = [tensor for tensor in node.input if not tensor.startswith("^")]
    prune_function(result)
    return result
