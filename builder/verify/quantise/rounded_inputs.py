"""Rounding in a TensorFlow graph of the factors of some constants, as a library's integer kernels round them.

Each product or convolution that reads such a constant gets its other operand through
``clip(round(x * (1 / scale)), -zero, 255 - zero) * scale``, in the order and precision of the kernels. TensorFlow's own
FakeQuant nodes round halves up, not to even, and pixels are often halves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from builder.base.tf import tf
from builder.compiler.lower.compress import RoundedInput
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.importers.rewrite import become_constant

PRODUCTS = {"Conv2D", "MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum"}
"""Operations that multiply their first two inputs."""

SAME_NUMBERS = {"Identity", "Reshape", "Transpose", "ExpandDims", "Squeeze", "StopGradient", "ReadVariableOp"}
"""Operations that a constant may pass through before the multiplication."""

LOOPS = {"While", "StatelessWhile"}
"""Operations that pass their inputs to the function ``body``."""


@dataclass(frozen=True)
class NodeScope:
    """Nodes of the graph or of one function, which name each other; ``inside`` a function, also by output.

    ``functions``: all functions of the graph, by name.
    """

    nodes: Any
    inside: bool
    functions: Mapping[str, Any]

    def make_reference(self, name: str, output: str) -> str:
        return f"{name}:{output}:0" if self.inside else name


def list_scopes(definition: Any) -> Iterator[NodeScope]:
    """Yield the scopes of a GraphDef: its own nodes, then those of each function in its library."""
    functions = {function.signature.name: function for function in definition.library.function}
    yield NodeScope(definition.node, False, functions)
    yield from (NodeScope(function.node_def, True, functions) for function in functions.values())


Constants = Mapping[str, Sequence[tuple[NodeScope, str]]]
"""Scopes and names of the constants of a digest."""


def round_inputs(constants: Constants, inputs: Sequence[RoundedInput]) -> list[str]:
    """Round the data of every layer in ``inputs`` that demands it; return the names of layers for which this fails.

    If several layers read equal constants and round their data otherwise, their names tell them apart.
    """
    missing: list[str] = []
    for digest in dict.fromkeys(rounded.constant for rounded in inputs if rounded.quantisation):
        layers = {rounded.layer: rounded.quantisation for rounded in inputs if rounded.constant == digest}
        readers = [reader for scope, name in constants.get(digest, ()) for reader in _find_users(scope, name)]
        if not readers:
            missing += layers
        for scope, node, operand in readers:
            if node is None or (by := _find_rounding(node.name, layers)) is _UNKNOWN:
                missing += layers
                break
            if isinstance(by, Quantisation):
                if node.input[operand].startswith(f"{node.name}/rounded/"):  # two loops share one function
                    missing += layers
                    break
                _insert_rounding(scope, node, operand, by)
    return missing


_UNKNOWN = object()


def _find_rounding(name: str, layers: Mapping[str, Quantisation | None]) -> object:
    """Return a Quantisation, None, or _UNKNOWN."""
    if len(set(layers.values())) == 1:
        return next(iter(layers.values()))
    return layers.get(name, _UNKNOWN)


def _find_users(scope: NodeScope, name: str) -> Iterator[tuple[NodeScope, Any | None, int]]:
    """Yield (scope, product, number of its other operand) for each multiplication with the constant ``name``.

    The product is None if the constant is used in another way.
    """
    for node in list(scope.nodes):
        for number, reference in enumerate(node.input):
            if reference.split(":")[0] != name:
                continue
            if node.op in PRODUCTS and number < 2:
                yield scope, node, 1 - number
            elif node.op in SAME_NUMBERS and number == 0:
                yield from _find_users(scope, node.name)
            elif node.op in LOOPS:
                body = scope.functions[node.attr["body"].func.name]
                argument = body.signature.input_arg[number].name
                yield from _find_users(NodeScope(body.node_def, True, scope.functions), argument)
            else:
                yield scope, None, 0


def _insert_rounding(scope: NodeScope, product: Any, operand: int, by: Quantisation) -> None:
    scale = np.float32(by.scale)
    step = _add_constant(scope, f"{product.name}/rounded/scale", scale)
    inverse = _add_constant(scope, f"{product.name}/rounded/inverse", np.float32(1) / scale)
    low = _add_constant(scope, f"{product.name}/rounded/low", np.float32(-by.zero))
    high = _add_constant(scope, f"{product.name}/rounded/high", np.float32(255 - by.zero))
    value = product.input[operand]
    for op, output, others in (("Mul", "z", [inverse]), ("Round", "y", []), ("ClipByValue", "output", [low, high])):
        value = _add_node(scope, f"{product.name}/rounded/{op}", op, [value, *others], output)
    product.input[operand] = _add_node(scope, f"{product.name}/rounded/value", "Mul", [value, step], "z")


def _add_constant(scope: NodeScope, name: str, value: np.float32) -> str:
    become_constant(scope.nodes.add(name=name), value)
    return scope.make_reference(name, "output")


def _add_node(scope: NodeScope, name: str, op: str, inputs: Sequence[str], output: str) -> str:
    node = scope.nodes.add(name=name, op=op, input=inputs)
    node.attr["T"].type = tf.float32.as_datatype_enum
    return scope.make_reference(name, output)
