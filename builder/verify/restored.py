"""TensorFlow's answers with a library's own rounded weights: what shows that its kernels are right.

The weights are found in the graph by what they are, so that nothing here depends on how they were found for the
library: a constant of the same numbers in the same order, or its transpose, takes the rounded ones.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.importers.graph import FrozenGraph, save_arrays
from builder.importers.state import assign
from builder.importers.tf import reference_session, tensorflow
from builder.lower.compress import ITEM_SIZES, Array, constant_digest
from builder.spec import WeightType
from builder.verify.compare import Rounding

_GOLDEN, _MISSING = "golden.npz", "missing.json"


def path_in(folder: Path, more: str = "") -> Path:
    """Of the file of rounded constants, by ``constant_digest`` of what the graph has, in a lower stage's ``folder``.

    ``more``: what names a variant other than the first.
    """
    return folder / f"restored{more}.npz"


def make(graph: FrozenGraph, restored: Path, folder: Path) -> None:
    """Answer the golden feeds of ``graph`` with the constants in the file ``restored``, for ``load``."""
    tf = tensorflow()
    definition = tf.compat.v1.GraphDef.FromString(graph.graph_path.read_bytes())
    with np.load(restored, allow_pickle=False) as file:
        wanted = {key: file[key] for key in file.files}
    missing = sorted(set(wanted) - exchange(definition, wanted))
    (folder / _MISSING).write_text(json.dumps(missing))
    if missing:
        return
    arrays: dict[str, NDArray[Any]] = {}
    with (
        np.load(graph.golden_path, allow_pickle=False) as golden,
        tf.Graph().as_default() as loaded,
        reference_session(loaded) as session,
    ):
        tf.import_graph_def(definition, name="")
        assign(loaded, session, graph.first_state())  # of which the cases are one sequence of calls
        for case in dict.fromkeys(key.split("/", 2)[1] for key in golden.files):
            feeds = {port.tensor: golden[f"feed/{case}/{port.spec.name}"] for port in graph.feeds}
            answers = session.run([port.tensor for port in graph.fetches], feeds)
            for port, answer in zip(graph.fetches, answers, strict=True):
                arrays[f"fetch/{case}/{port.spec.name}"] = np.asarray(answer, port.spec.dtype)
    save_arrays(folder / _GOLDEN, arrays)


def load(folder: Path, types: Collection[WeightType]) -> Rounding:
    """What ``make`` left in ``folder``, of a library with weights of these ``types``."""
    missing = json.loads((folder / _MISSING).read_text())
    coarsest = max(types, key=_COARSENESS.index)
    if not missing:
        return Rounding(coarsest, folder / _GOLDEN)
    warning = (
        f"{len(missing)} of the rounded weights are not in TensorFlow's graph as they are in XLA's: the library is "
        "compared with TensorFlow's float32 answers only"
    )
    return Rounding(coarsest, None, warning)


_COARSENESS = ("float32", "float16", "bfloat16", "int8")
assert set(_COARSENESS) == set(ITEM_SIZES)


def exchange(definition: Any, wanted: Mapping[str, Array]) -> set[str]:
    """Give every constant of a GraphDef that is in ``wanted`` its new numbers; the keys that were found."""
    tf = tensorflow()
    sizes = {array.size for array in wanted.values()}
    found = set()
    for node in _constants(definition):
        tensor = node.attr["value"].tensor
        if tensor.dtype != tf.float32.as_datatype_enum or _elements(tensor) not in sizes:
            continue
        old = tf.make_ndarray(tensor)
        new = None
        if (key := constant_digest(old)) in wanted:
            new = wanted[key].reshape(old.shape)
        elif old.ndim == 2 and (key := constant_digest(old.T)) in wanted:
            new = wanted[key].reshape(old.T.shape).T
        if new is not None:
            found.add(key)
            tensor.CopyFrom(tf.make_tensor_proto(new))
    return found


def _constants(definition: Any) -> Iterator[Any]:
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    yield from (node for node in nodes if node.op == "Const")


def _elements(tensor: Any) -> int:
    return int(np.prod([dim.size for dim in tensor.tensor_shape.dim]))
