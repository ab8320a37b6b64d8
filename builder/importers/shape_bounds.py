"""The shapes that XLA gives to results whose shapes TensorFlow's shape inference leaves open.

XLA compiles a data-dependent size (such as the rows that a mask keeps) with a bound that it finds itself. Where shape
inference fails for another reason, as in a loop that was traced with an open batch, XLA knows the size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.base.tf import load_graph, reference_session, tf
from builder.importers.graph import GraphPort
from builder.importers.loaded import Shape
from builder.importers.rewrite import make_canonical
from builder.importers.variables_state import assign_variables

_RESULT = re.compile(r"entry_computation_layout=\{\(.*?\)->(?P<result>.*)\}")
_SHAPE = re.compile(r"\w+\[(?P<sizes>[^\]]*)\]")


@dataclass(frozen=True)
class BoundedShape:
    """A shape with the largest size of each dimension; the data decides the sizes of those in ``dynamic``."""

    shape: Shape
    dynamic: tuple[int, ...] = ()


def bound_shapes(
    definition: Any, feeds: Sequence[GraphPort], tensors: Sequence[str], state: Mapping[str, Any]
) -> tuple[BoundedShape, ...]:
    """Return the shape of each of ``tensors`` in a GraphDef after its compilation to XLA's own graph (HLO).

    ``state``: the first value of each variable that the graph writes, by the node of its handle.
    Raises ImportModelError with XLA's reason where it cannot be compiled.
    """
    if any(node.op == "Enter" for node in definition.node):
        return _observe_shapes(definition, feeds, tensors, state)
    # A function's name is unique in a process, so the names depend on the graph.
    named = make_canonical(
        definition, f"bounds_{sha256(definition.SerializeToString(deterministic=True)).hexdigest()[:16]}"
    )
    wrapped = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(named, name=""), [])
    input_names = [*(p.tensor for p in feeds), *(f"{node}:0" for node in state)]
    get = wrapped.graph.get_tensor_by_name
    pruned = wrapped.prune([get(name) for name in input_names], [get(name) for name in tensors])
    handles = [tf.Variable(value).handle for value in state.values()]
    compiled = tf.function(lambda *values: pruned(*values, *handles), jit_compile=True, autograph=False)
    try:
        text = compiled.experimental_get_compiler_ir(*(tf.TensorSpec(p.spec.shape, p.spec.dtype) for p in feeds))("hlo")
    except (ValueError, TypeError, tf.errors.OpError) as error:
        raise ImportModelError(f"XLA cannot say how large the model's outputs are: {describe_error(error)}") from error
    shapes = tuple(_parse_shapes(text))[: len(tensors)]
    if len(shapes) != len(tensors):
        raise ImportModelError("XLA does not say how large the model's outputs are; report this model.")
    return shapes


def _observe_shapes(
    definition: Any, feeds: Sequence[GraphPort], tensors: Sequence[str], state: Mapping[str, Any]
) -> tuple[BoundedShape, ...]:
    """Run a graph with loops of TensorFlow 1, which only tfcompile can convert for XLA, to observe its shapes.

    Raises ImportModelError where the data decides a size.
    """
    seen: list[list[Shape]] = []
    graph = load_graph(definition)
    with reference_session(graph) as session:
        assign_variables(graph, session, state)
        for fill in (np.zeros, np.ones, lambda count: np.arange(count) % 5):
            values = {p.tensor: fill(p.spec.elements).astype(p.spec.dtype).reshape(p.spec.shape) for p in feeds}
            try:
                seen.append([np.shape(answer) for answer in session.run(list(tensors), values)])
            except tf.errors.OpError as error:
                raise ImportModelError(
                    f"The model does not run on the shapes it was given: {describe_error(error.message)}"
                ) from error
    for name, *shapes in zip(tensors, *seen, strict=True):
        if len(set(shapes)) > 1:
            raise ImportModelError(
                f"The data decides the size of {name!r}, which is not bounded in a graph with loops of TensorFlow 1: "
                "fetch a tensor of constant size."
            )
    return tuple(map(BoundedShape, seen[0]))


def _parse_shapes(text: str) -> Iterator[BoundedShape]:
    """Yield the results' shapes, such as ``s64[<=24,2]{1,0}``, from the first line of an HLO module's text."""
    head = _RESULT.search(text.partition("\n")[0])
    for match in _SHAPE.finditer(head["result"] if head else ""):
        sizes = [size for size in match["sizes"].split(",") if size]
        dynamic = tuple(at for at, size in enumerate(sizes) if size.startswith("<="))
        yield BoundedShape(tuple(int(size.removeprefix("<=")) for size in sizes), dynamic)
