"""TensorFlow's answers with a library's own rounded weights and inputs: what shows that its kernels are right.

The weights are found in the graph by what they are, so that nothing here depends on how they were found for the
library: a constant of the same numbers in the same order, or its transpose, takes the rounded ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
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
from builder.verify.golden import GoldenCase, GoldenFile
from builder.verify.quantise.rounded_inputs import NodeScope, list_scopes, round_inputs
from builder.verify.reference_answers import run_reference
from builder.verify.rounding import Rounding

_GOLDEN, _MISSING, _INPUT = "golden.npz", "missing.json", "input"


def make_rounded_path(folder: Path, more: str = "") -> Path:
    """The path, in a lower stage's ``folder``, of the file of constants that are rounded, by ``constant_digest``.

    ``more``: what names a variant other than the first.
    """
    return folder / f"restored{more}.npz"


def save_rounded(path: Path, constants: Mapping[str, Array], inputs: Iterable[RoundedInput]) -> None:
    """Write the rounded ``constants``, and how the layers that read them round their ``inputs``, for
    ``make_rounded_answers``.
    """
    arrays: dict[str, NDArray[Any]] = dict(constants)
    for one in inputs:
        by = one.quantisation
        arrays[f"{_INPUT}/{one.constant}/{one.layer}"] = np.array([by.scale, by.zero] if by else [], np.float64)
    save_arrays(path, arrays)


def make_rounded_answers(graph: FrozenGraph, restored: Path, folder: Path) -> None:
    """Answer the golden feeds of ``graph`` with what the file ``restored`` says, for ``load_rounding``."""
    definition, missing, rounds = _round_definition(graph, restored)
    (folder / _MISSING).write_text(json.dumps({"missing": missing, "inputs": rounds}))
    if missing:
        return
    names = [port.spec.name for port in graph.feeds]
    with GoldenFile.open(graph.golden_path) as golden:
        calls = {case: {name: golden.read_feed(case, name) for name in names} for case in golden.cases}
    found = {case: GoldenCase({}, fetches) for case, fetches in run_reference(graph, definition, calls)}
    GoldenFile.write(folder / _GOLDEN, found)


def round_reference(graph: FrozenGraph, restored: Path) -> Any:
    """The reference of ``graph`` with what the file ``restored`` says, as far as it is found there."""
    return _round_definition(graph, restored)[0]


def _round_definition(graph: FrozenGraph, restored: Path) -> tuple[Any, list[str], bool]:
    """The GraphDef, what was not found in it, and whether layers round their inputs."""
    definition = graph.read_reference()
    with np.load(restored, allow_pickle=False) as file:
        wanted = {key: file[key] for key in file.files if not key.startswith(_INPUT)}
        inputs = list(_read_inputs({key: file[key] for key in file.files if key.startswith(_INPUT)}))
    places = replace_constants(definition, wanted)
    missing = [*sorted(wanted.keys() - places.keys()), *round_inputs(places, inputs)]
    return definition, missing, any(one.quantisation for one in inputs)


def load_rounding(folder: Path, types: Collection[WeightType]) -> Rounding:
    """What ``make_rounded_answers`` left in ``folder``, of a library with weights of these ``types``."""
    says = json.loads((folder / _MISSING).read_text())
    coarsest = max(types, key=_COARSENESS.index)
    if not says["missing"]:
        return Rounding(coarsest, folder / _GOLDEN, inputs=says["inputs"])
    warning = (
        f"{len(says['missing'])} of the rounded weights or inputs are not in TensorFlow's graph as they are in XLA's: "
        "the library is compared with TensorFlow's float32 answers only"
    )
    return Rounding(coarsest, None, warning, says["inputs"])


def _read_inputs(arrays: Mapping[str, NDArray[Any]]) -> Iterator[RoundedInput]:
    """What ``save_rounded`` was given."""
    for key, array in arrays.items():
        _, constant, layer = key.split("/", 2)
        yield RoundedInput(constant, layer, Quantisation(float(array[0]), int(array[1])) if array.size else None)


_COARSENESS = ("float32", "float16", "bfloat16", "int8")
assert set(_COARSENESS) == set(ITEM_SIZES)


def replace_constants(definition: Any, wanted: Mapping[str, Array]) -> dict[str, list[tuple[NodeScope, str]]]:
    """Give every constant of a GraphDef that is in ``wanted`` its new numbers; where they were found, by key."""
    sizes = {array.size for array in wanted.values()}
    found: dict[str, list[tuple[NodeScope, str]]] = {}
    for scope, node in _find_constants(definition):
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
            found.setdefault(key, []).append((scope, node.name))
            tensor.CopyFrom(tf.make_tensor_proto(new))
    return found


def _find_constants(definition: Any) -> Iterator[tuple[NodeScope, Any]]:
    yield from ((scope, node) for scope in list_scopes(definition) for node in scope.nodes if node.op == "Const")
