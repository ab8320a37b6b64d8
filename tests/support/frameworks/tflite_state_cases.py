"""Models that keep variables, each run several times as a JAX function and by LiteRT; prints how many agree.

It runs in the environment of LiteRT's models.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

os.environ |= {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}

import jax
import numpy as np

from builder.importers.frameworks.tflite.tflite_model import open_tflite
from tests.support.frameworks.tflite_files import (
    FileGraph,
    FileOperator,
    FileTensor,
    constant,
    make_options,
    write_model,
)

VALUE, HANDLE, CONDITION = FileTensor((1, 3)), FileTensor((), kind="RESOURCE"), FileTensor((1,), np.bool_)
START = {"total": [1.0, 2.0, 3.0], "factor": [2.0, -1.0, 0.5]}


def make_handle(name: str, tensor: int) -> FileOperator:
    return FileOperator("VAR_HANDLE", [], [tensor], make_options("VarHandleOptions", container="", sharedName=name))


def make_start(names: tuple[str, ...]) -> FileGraph:
    """The subgraph that gives the variables their first values."""
    tensors, operators = [], []
    for name in names:
        tensors += [HANDLE, constant([START[name]], np.float32)]
        handle = len(tensors) - 2
        operators += [make_handle(name, handle), FileOperator("ASSIGN_VARIABLE", [handle, handle + 1], [])]
    return FileGraph(tensors, operators, [], [])


def start(number: int) -> FileOperator:
    return FileOperator("CALL_ONCE", [], [], make_options("CallOnceOptions", initSubgraphIndex=number))


def sum_inputs() -> bytes:
    """total = total + factor × x, where only ``total`` is written."""
    operators = [
        start(1), make_handle("total", 1), make_handle("factor", 2),
        FileOperator("READ_VARIABLE", [1], [3]), FileOperator("READ_VARIABLE", [2], [4]),
        FileOperator("MUL", [0, 4], [5], make_options("MulOptions")),
        FileOperator("ADD", [3, 5], [6], make_options("AddOptions")), FileOperator("ASSIGN_VARIABLE", [1, 6], []),
    ]  # fmt: skip
    tensors = [VALUE, HANDLE, HANDLE, VALUE, VALUE, VALUE, VALUE]
    return write_model(FileGraph(tensors, operators, [0], [6]), make_start(("total", "factor")))


def read_before_and_after() -> bytes:
    """The value before the write is one output, and the value after it the other."""
    operators = [
        start(1), make_handle("total", 1), FileOperator("READ_VARIABLE", [1], [2]),
        FileOperator("ASSIGN_VARIABLE", [1, 0], []), FileOperator("READ_VARIABLE", [1], [3]),
        FileOperator("ADD", [2, 3], [4], make_options("AddOptions")),
    ]  # fmt: skip
    return write_model(FileGraph([VALUE, HANDLE, VALUE, VALUE, VALUE], operators, [0], [2, 4]), make_start(("total",)))


def write_in_a_branch() -> bytes:
    """The variable is added to only in runs whose input is positive in its first element."""
    main = [
        start(1), make_handle("total", 1), FileOperator("SLICE", [0, 2, 3], [4], make_options("SliceOptions")),
        FileOperator("RESHAPE", [4, 5], [6], make_options("ReshapeOptions")),
        FileOperator("GREATER", [6, 7], [8], make_options("GreaterOptions")),
        FileOperator("IF", [8, 0], [9], make_options("IfOptions", thenSubgraphIndex=2, elseSubgraphIndex=3)),
        FileOperator("READ_VARIABLE", [1], [10]), FileOperator("ADD", [9, 10], [11], make_options("AddOptions")),
    ]  # fmt: skip
    tensors = [
        VALUE, HANDLE, constant([0, 0], np.int32), constant([1, 1], np.int32), FileTensor((1, 1)),
        constant([1], np.int32), FileTensor((1,)), constant([0.0], np.float32), CONDITION, VALUE, VALUE, VALUE,
    ]  # fmt: skip
    add = [
        make_handle("total", 1), FileOperator("READ_VARIABLE", [1], [2]),
        FileOperator("ADD", [0, 2], [3], make_options("AddOptions")), FileOperator("ASSIGN_VARIABLE", [1, 3], []),
    ]  # fmt: skip
    leave = [FileOperator("NEG", [0], [1], make_options("NegOptions"))]
    return write_model(
        FileGraph(tensors, main, [0], [11]),
        make_start(("total",)),
        FileGraph([VALUE, HANDLE, VALUE, VALUE], add, [0], [3]),
        FileGraph([VALUE, VALUE], leave, [0], [1]),
    )


def agrees(data: bytes, states: int, folder: Path) -> bool:
    """Say whether ten runs in a row agree, and the model has this number of states."""
    path = folder / "model.tflite"
    path.write_bytes(data)
    model = open_tflite(path)
    function, kept = jax.jit(model.make_function()), list(model.states.values())
    generator, same = np.random.default_rng(0), len(kept) == states
    for _ in range(10):
        feeds = [generator.standard_normal(port.shape).astype(port.dtype) for port in model.ports.feeds]
        results: list[Any] = [np.asarray(value) for value in function(*feeds, *kept)]
        count = len(model.ports.fetches)
        kept, wanted = results[count:], model.answer(feeds)
        same &= all(np.allclose(a, b, rtol=1e-6) for a, b in zip(results[:count], wanted, strict=True))
    return same


CASES = {sum_inputs: 1, read_before_and_after: 1, write_in_a_branch: 1}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        failed = [make.__name__ for make, states in CASES.items() if not agrees(make(), states, Path(made))]
    print(f"{len(CASES) - len(failed)} of {len(CASES)} agree{', not ' if failed else ''}{', '.join(failed)}")
