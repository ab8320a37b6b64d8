"""Models that keep variables or the states of recurrent operators, each run several times as a JAX function and by
LiteRT; prints how many agree.

It runs in the environment of LiteRT's models.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ |= {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}

import jax
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from builder.importers.frameworks.framework_model import open_rows
from builder.importers.frameworks.tflite.tflite_model import open_tflite
from builder.importers.ports import PortInfo
from tests.support.frameworks import tflite_integer_cases
from tests.support.frameworks.tflite_cases import KINDS, Data, list_cases, make_file
from tests.support.frameworks.tflite_files import (
    FileGraph,
    FileOperator,
    FileTensor,
    constant,
    make_options,
    write_model,
    write_operator,
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


def make_recurrent_step(*tensors: FileTensor) -> tuple[list[FileTensor], FileOperator]:
    """``tensors`` (the last is the input) and those of a step of a recurrent layer, which ends in the last of all."""
    weights = [constant(np.random.default_rng(0).standard_normal(shape), np.float32) for shape in ((3, 3), (3, 3), 3)]
    options = make_options("RNNOptions", fusedActivationFunction=schema.ActivationFunctionType.TANH)
    numbers = range(len(tensors) - 1, len(tensors) + 4)
    step = FileOperator("RNN", numbers, [numbers.stop], options)
    return [*tensors, *weights, FileTensor((1, 3), is_variable=True), VALUE], step


def step_in_a_branch() -> bytes:
    """Recurrent steps in runs whose input is at most zero in its first element; each begins anew."""
    main = [
        FileOperator("SLICE", [0, 1, 2], [3], make_options("SliceOptions")),
        FileOperator("RESHAPE", [3, 4], [5], make_options("ReshapeOptions")),
        FileOperator("GREATER", [5, 6], [7], make_options("GreaterOptions")),
        FileOperator("IF", [7, 0], [8], make_options("IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)),
    ]
    tensors = [
        VALUE, constant([0, 0], np.int32), constant([1, 1], np.int32), FileTensor((1, 1)), constant([1], np.int32),
        FileTensor((1,)), constant([0.0], np.float32), CONDITION, VALUE,
    ]  # fmt: skip
    leave = [FileOperator("NEG", [0], [1], make_options("NegOptions"))]
    inner, step = make_recurrent_step(VALUE)
    branches = FileGraph([VALUE, VALUE], leave, [0], [1]), FileGraph(inner, [step], [0], step.outputs)
    return write_model(FileGraph(tensors, main, [0], [8]), *branches)


def step_in_a_loop() -> bytes:
    """Three recurrent steps, whose state is zero before the first."""
    count, going = FileTensor((), np.int32), FileTensor((), np.bool_)
    options = make_options("WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2)
    main = FileGraph(
        [constant(0, np.int32), VALUE, count, VALUE], [FileOperator("WHILE", [0, 1], [2, 3], options)], [1], [3]
    )
    less = FileOperator("LESS", [0, 2], [3], make_options("LessOptions"))
    inner, step = make_recurrent_step(count, constant(1, np.int32), count, VALUE)
    add = FileOperator("ADD", [0, 1], [2], make_options("AddOptions"))
    return write_model(
        main,
        FileGraph([count, VALUE, constant(3, np.int32), going], [less], [0, 1], [3]),
        FileGraph(inner, [add, step], [0, 3], [2, *step.outputs]),
    )


def step_once() -> bytes:
    """One step with long short-term memory in the format of four inputs, of which two are states."""
    random = np.random.default_rng(0)
    state, kernel, bias = FileTensor((1, 4), is_variable=True), random.standard_normal((16, 7)), np.zeros(16)
    tanh = schema.ActivationFunctionType.TANH
    options = make_options("LSTMOptions", kernelType=schema.LSTMKernelType.BASIC, fusedActivationFunction=tanh)
    inputs = [VALUE, state, constant(kernel, np.float32), constant(bias, np.float32), replace(state)]
    return write_operator("LSTM", inputs, [FileTensor((1, size)) for size in (4, 4, 7, 16)], options)


def list_recurrent() -> Iterator[tuple[str, bytes, int]]:
    """Yield a name, a file and its number of states for the recurrent operators, real and quantised."""
    for case in list_cases():
        if states := sum(isinstance(item, Data) and item.role == "state" for item in case.inputs):
            yield f"{case.name} {case.label}", make_file(case, KINDS["float32"])[0], states
    for name, make in tflite_integer_cases.CASES.items():
        _, inputs, *_ = case = make()
        if states := sum(tensor is not None and tensor.is_variable for tensor in inputs):
            yield name, tflite_integer_cases.write_case(case), states


def draw(port: PortInfo, batch: int, generator: Any) -> Any:
    """Return a feed: normal numbers, or any integers."""
    shape = [size or batch for size in port.shape or ()]
    if np.dtype(port.dtype).kind == "f":
        return generator.standard_normal(shape).astype(port.dtype)
    limits = np.iinfo(port.dtype)
    return generator.integers(limits.min, limits.max + 1, shape).astype(port.dtype)


def is_near(ours: Any, wanted: Any) -> bool:
    """Say whether real answers are close, and integers the same."""
    if wanted.dtype.kind != "f":
        return np.array_equal(ours, wanted)
    return np.allclose(ours, wanted, rtol=1e-5, atol=1e-5 * np.max(np.abs(wanted)))


def agrees(data: bytes, states: int, folder: Path, batch: int = 1) -> bool:
    """Say whether ten runs in a row agree, and the model has this number of states."""
    path = folder / "model.tflite"
    path.write_bytes(data)
    model = open_rows(lambda: open_tflite(path), batch)
    function, kept = jax.jit(model.make_function()), list(model.states.values())
    generator, same = np.random.default_rng(0), len(kept) == states
    for _ in range(10):
        feeds = [draw(port, batch, generator) for port in model.ports.feeds]
        results: list[Any] = [np.asarray(value) for value in function(*feeds, *kept)]
        count = len(model.ports.fetches)
        kept, wanted = results[count:], model.answer(feeds)
        same &= all(map(is_near, results[:count], wanted))
    return same


STATES = {
    sum_inputs: 1, read_before_and_after: 1, write_in_a_branch: 1, step_in_a_branch: 0, step_in_a_loop: 0, step_once: 2,
}  # fmt: skip

if __name__ == "__main__":
    cases = [*((make.__name__, make(), states) for make, states in STATES.items()), *list_recurrent()]
    with tempfile.TemporaryDirectory() as made:
        failed = [name for name, data, states in cases if not agrees(data, states, Path(made))]
        rows = [make for make, states in STATES.items() if agrees(make(), states, Path(made), 3)]
    print(f"{len(cases) - len(failed)} of {len(cases)} agree{', not ' if failed else ''}{', '.join(failed)}")
    print(f"{len(rows)} of {len(STATES)} agree in each of three rows")
