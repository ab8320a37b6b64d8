"""TensorFlow's answers with a library's own rounded weights and inputs, which show that its kernels are right.

The weights are found in the graph by their values, independently of how they were found for the library: a constant of
the same numbers in the same order, or its transpose, takes the rounded ones. Each product or convolution that reads
such a constant may get its other operand through ``clip(round(x * (1 / scale)), -zero, 255 - zero) * scale``, in the
order and precision of the kernels. TensorFlow's own FakeQuant nodes round halves up, not to even, and pixels are often
halves.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.arrays import save_arrays
from builder.base.tf import tf
from builder.compiler.lower.compress import ITEM_SIZES, Array, RoundedInput, digest_constant
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.config import WeightType
from builder.importers.graph import FrozenGraph
from builder.importers.rewrite import become_constant
from builder.verify.expected_answers import Rounding
from builder.verify.golden import GoldenCase, GoldenFile
from builder.verify.reference_answers import run_reference
from builder.verify.reference_graph import ReferenceGraph

_GOLDEN, _MISSING, _INPUT = "golden.npz", "missing.json", "input"


def make_rounded_path(folder: Path, more: str = "") -> Path:
    """Return the path, in a lower stage's ``folder``, of the file of rounded constants, by ``constant_digest``.

    ``more``: the name of a variant other than the first.
    """
    return folder / f"restored{more}.npz"


def save_rounded(path: Path, constants: Mapping[str, Array], inputs: Iterable[RoundedInput]) -> None:
    """Write rounded ``constants``, and the rounding of their readers' ``inputs``, for ``make_rounded_answers``."""
    arrays: dict[str, NDArray[Any]] = dict(constants)
    for entry in inputs:
        by = entry.quantisation
        arrays[f"{_INPUT}/{entry.constant}/{entry.layer}"] = np.array([by.scale, by.zero] if by else [], np.float64)
    save_arrays(path, arrays)


def make_rounded_answers(graph: FrozenGraph, restored: Path, folder: Path) -> None:
    """Answer the golden feeds of ``graph`` with the rounding in the file ``restored``, for ``load_rounding``."""
    definition, missing, rounds = round_reference(graph, restored)
    (folder / _MISSING).write_text(json.dumps({"missing": missing, "inputs": rounds}))
    if missing:
        return
    names = [port.spec.name for port in graph.feeds]
    with GoldenFile.open(graph.golden_path) as golden:
        calls = {case: {name: golden.read_feed(case, name) for name in names} for case in golden.cases}
    runs = run_reference(graph, ReferenceGraph.from_definition(definition), calls)
    cases = {case: GoldenCase({}, fetches) for case, fetches in runs}
    GoldenFile.write(folder / _GOLDEN, cases)


def round_reference(graph: FrozenGraph, restored: Path) -> tuple[Any, list[str], bool]:
    """Round the reference of ``graph`` as the file ``restored`` has it, as far as that applies.

    Return the GraphDef, the constants missing from it, and whether layers round their inputs.
    """
    definition = graph.read_reference()
    with np.load(restored, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    wanted = {key: array for key, array in arrays.items() if not key.startswith(_INPUT)}
    inputs = []
    for key in (key for key in arrays if key not in wanted):
        _, constant, layer = key.split("/", 2)
        by = Quantisation(float(arrays[key][0]), int(arrays[key][1])) if arrays[key].size else None
        inputs.append(RoundedInput(constant, layer, by))
    places = replace_constants(definition, wanted)
    missing = [*sorted(wanted.keys() - places.keys()), *round_inputs(places, inputs)]
    return definition, missing, any(entry.quantisation for entry in inputs)


def load_rounding(folder: Path, types: Collection[WeightType]) -> Rounding:
    """Read the result of ``make_rounded_answers`` in ``folder``, for weights of these ``types``."""
    notes = json.loads((folder / _MISSING).read_text())
    coarsest = max(types, key=_COARSENESS.index)
    if not notes["missing"]:
        return Rounding(coarsest, folder / _GOLDEN, inputs=notes["inputs"])
    warning = (
        f"{len(notes['missing'])} of the rounded weights or inputs are not in TensorFlow's graph as they are in XLA's: "
        "the library is compared with TensorFlow's float32 answers only"
    )
    return Rounding(coarsest, None, warning, notes["inputs"])


_COARSENESS = ("float32", "float16", "bfloat16", "int8")
assert set(_COARSENESS) == set(ITEM_SIZES)


def replace_constants(definition: Any, wanted: Mapping[str, Array]) -> dict[str, list[tuple[NodeScope, str]]]:
    """Replace the constants of a GraphDef that are in ``wanted``; return their scopes and names, by key."""
    sizes = {array.size for array in wanted.values()}
    places: dict[str, list[tuple[NodeScope, str]]] = {}
    constants = ((scope, node) for scope in list_scopes(definition) for node in scope.nodes if node.op == "Const")
    for scope, node in constants:
        tensor = node.attr["value"].tensor
        elements = math.prod(dim.size for dim in tensor.tensor_shape.dim)
        if tensor.dtype != tf.float32.as_datatype_enum or elements not in sizes:
            continue
        old = tf.make_ndarray(tensor)
        new = None
        if (key := digest_constant(old)) in wanted:
            new = wanted[key].reshape(old.shape)
        elif old.ndim == 2 and (key := digest_constant(old.T)) in wanted:
            new = wanted[key].reshape(old.T.shape).T
        if new is not None:
            places.setdefault(key, []).append((scope, node.name))
            tensor.CopyFrom(tf.make_tensor_proto(new))
    return places


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
        """Return how nodes of the scope name ``output`` of the node ``name``."""
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
        alike = len(set(layers.values())) == 1
        readers = [reader for scope, name in constants.get(digest, ()) for reader in _find_users(scope, name)]
        if not readers:
            missing += layers
        for scope, node, operand in readers:
            if node is None or not (alike or node.name in layers):
                missing += layers
                break
            by = next(iter(layers.values())) if alike else layers[node.name]
            if by and node.input[operand].startswith(f"{node.name}/rounded/"):  # two loops share one function
                missing += layers
                break
            if by:
                _insert_rounding(scope, node, operand, by)
    return missing


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
