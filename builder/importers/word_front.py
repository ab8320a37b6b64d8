"""A graph that begins with strings, as TensorFlow runs it, and the function's own code beside it.

Nothing runs here but ops that word_steps.py knows, and what they read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.errors import ImportModelError
from builder.importers.loaded import RawGraph, Shape
from builder.importers.tables import Table
from builder.importers.texts import Strings
from builder.importers.tf import reference_session, tensorflow
from builder.importers.word_steps import Recipe

Run = Mapping[str, Strings]
"""Strings by the tensors that they are fed to."""


@dataclass(frozen=True)
class Front:
    """A graph that begins with strings, to be run by TensorFlow. ``tables``: by the node of the handle.

    ``sources``: the tensors that are fed with strings, by feed; ``cuts``: those that become feeds, by their names.
    """

    graph_def: Any
    sources: Mapping[str, str]
    tables: Mapping[str, Table]
    cuts: Mapping[str, str]

    def answers(self, tensors: Sequence[str], runs: Sequence[Mapping[str, Any]]) -> list[list[NDArray[Any]]]:
        """What TensorFlow gives for ``tensors``, for each of ``runs`` (values by tensor). Raises ImportModelError."""
        tf = tensorflow()
        with tf.Graph().as_default() as graph:
            handles = {f"{node}:0": _table_in(graph, one) for node, one in self.tables.items()}
            inputs = {name: handle for name, (handle, _) in handles.items()}
            tf.import_graph_def(self.graph_def, name="whole", input_map=inputs)
            with reference_session(graph) as session:
                session.run([fill for _, fill in handles.values()])
                found = []
                for run in runs:
                    feeds = {f"whole/{name}": value for name, value in run.items()}
                    try:
                        found.append(session.run([f"whole/{name}" for name in tensors], feeds))
                    except tf.errors.OpError as error:
                        reason = " ".join(str(error.message).split())[:300]
                        raise ImportModelError(f"TensorFlow cannot run the model on strings: {reason}") from error
        return found


@dataclass(frozen=True)
class Cut:
    """``raw``: the graph with feeds of numbers in the place of strings. ``shapes``: of all its feeds.

    ``recipe``: what the function does. ``whole``: the graph as it was, and ``tables`` what it looks up in.
    """

    raw: RawGraph
    shapes: dict[str, Shape]
    recipe: Recipe
    whole: Front


def fixed_shapes(front: Front, tensors: Sequence[Any], runs: Sequence[Run]) -> dict[str, Shape]:
    """Of those of ``tensors`` that have one shape whatever the strings are, behind the number of items: that shape."""
    found: dict[str, set[Shape | None]] = {tensor.name: set() for tensor in tensors}
    if not found:
        return {}
    for run, values in zip(runs, front.answers(list(found), runs), strict=True):
        (count,) = {len(strings) for strings in run.values()}
        for name, value in zip(found, values, strict=True):
            shape = np.shape(value)
            found[name].add(shape[1:] if shape[:1] == (count,) else None)
    return {name: shape for name, (shape, *others) in found.items() if shape is not None and not others}


def require_same(cut: Cut, runs: Sequence[Run]) -> None:
    """Have the function's own code do what TensorFlow does, on ``runs``: strings by the tensors that they are fed to.

    Raises ImportModelError where what it makes of an item is something else.
    """
    from handler.errors import HandlerError
    from handler.text.words import read

    words = read(cut.recipe.written())
    names = list(cut.whole.cuts)
    for run, wanted in zip(runs, cut.whole.answers(list(cut.whole.cuts.values()), runs), strict=True):
        columns = [run[tensor] for tensor in cut.whole.sources.values()]
        for number in range(len(columns[0])):
            item = [column[number : number + 1].ravel().tolist() for column in columns]
            try:
                found = words.arrays(item)
            except HandlerError as error:
                raise ImportModelError(f"{_differs(cut, item)}: {error.message}.") from error
            for name, rows in zip(names, wanted, strict=True):
                if not _alike(found[name].shape, found[name].values, rows[number : number + 1]):
                    raise ImportModelError(f"{_differs(cut, item)}.")


def _alike(shape: Shape, values: Sequence[Any], wanted: NDArray[Any]) -> bool:
    if shape != wanted.shape:
        return False
    if wanted.dtype.kind == "f":
        return bool(np.allclose(values, wanted.ravel(), rtol=1e-6, atol=0, equal_nan=True))
    return bool(values == wanted.ravel().tolist())


def _differs(cut: Cut, item: Sequence[Sequence[bytes]]) -> str:
    shown = ", ".join(repr(text[:60].decode(errors="replace")) for column in item for text in column[:3])
    return (
        f"What the function makes of {shown} alone is not what the model makes of it among others "
        f"({', '.join(step['op'] for step in cut.recipe.steps[:16])})"
    )


def _table_in(graph: Any, one: Table) -> tuple[Any, Any]:
    """A table with these keys and values in ``graph``: its handle, and the op that fills it."""
    tf = tensorflow()
    keys, values = (tf.constant(array.tolist(), _dtype(array)) for array in (one.keys, one.values))
    handle = tf.raw_ops.HashTableV2(key_dtype=keys.dtype, value_dtype=values.dtype)
    return handle, tf.raw_ops.LookupTableImportV2(table_handle=handle, keys=keys, values=values)


def _dtype(array: NDArray[Any]) -> Any:
    tf = tensorflow()
    return tf.string if array.dtype.kind in "OS" else tf.dtypes.as_dtype(array.dtype)
