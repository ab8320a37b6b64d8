"""Parts: a batch as one run for each of its inputs, where this takes less time than one run for all.

A layer of a batch writes values for all of its inputs, and the next layer reads those that no cache holds from memory.
In separate runs, values stay in the caches. A whole batch reads weights only once for all inputs, but this saves little
where each weight is used many times for one input.

The dense end of a program is its layers of one pixel, whose last value alone is read by the steps behind them. Such a
layer uses each weight once for an input. A batch in parts therefore runs the steps before these layers for each input,
then these layers for all inputs together, then the steps behind them for each input: see runtime/abi/parts.c.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from builder.base.errors import LowerError
from builder.compiler.lower.decisions import count_value_flop
from builder.compiler.lower.fuse import Layer
from builder.compiler.lower.hlo import Dag, Value, read_dag
from builder.compiler.lower.layouts import NO_HALO
from builder.compiler.lower.program import BoundPort, Program
from builder.compiler.lower.schedule import Task, list_outputs
from builder.compiler.lower.steps.base import Step
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.importers.graph import GraphPort

LEAST_USES = 20
"""The fewest uses of a weight by one input, on average. A network with 16 uses takes 0.97 times as long in one run of
16 inputs as in parts, and one with 22 uses takes 1.16 times as long (docs/batches.md)."""
LEAST_FLOP = 1 << 20
"""The fewest operations of one input, some 10 µs: with fewer, the cost of a run itself counts."""
_WHOLE = ("while", "conditional", "call", "rng", "rng-bit-generator", "rng-get-and-update-state")
"""Ops that keep a batch in one run: loops are batches in time, and random numbers must not be drawn again."""


def is_worth_splitting(result: Any) -> bool:
    """Return whether a batch is faster in parts, by the CompilationResultProto of the graph for one input."""
    try:
        dag = read_dag(result)
    except LowerError:
        return False
    if any(value.op in _WHOLE for value in dag.live):
        return False
    flop, weights = _count_products(dag)
    return flop >= LEAST_FLOP and flop >= 2 * LEAST_USES * weights


def make_batch_program(
    program: Program, feeds: Sequence[GraphPort], fetches: Sequence[GraphPort], parts: int
) -> Program:
    """Make ``program``, which is for one input, into one for a batch with these ``feeds`` and ``fetches``."""
    return replace(
        program, parts=parts, feeds=_bind_ports(program.feeds, feeds), fetches=_bind_ports(program.fetches, fetches)
    )


def _count_products(dag: Dag) -> tuple[int, int]:
    """Count the floating-point operations of products and convolutions with weights, and these weights."""
    weights, flop = {}, 0
    for value in dag.live:
        constant = next((operand.base for operand in value.operands if operand.is_constant), None)
        if value.op in ("dot", "convolution") and constant is not None:
            weights[constant] = constant.elements
            flop += count_value_flop(value)
    return flop, sum(weights.values())


def _bind_ports(bound: Sequence[BoundPort], ports: Sequence[GraphPort]) -> tuple[BoundPort, ...]:
    return tuple(BoundPort(port.spec, old.buffer) for old, port in zip(bound, ports, strict=True))


LEAST_DENSE_BYTES = 512 << 10
"""Minimum bytes of these layers' weights: fewer stay in the second-level cache from one input to the next."""


def find_dense_end(
    tasks: Sequence[Task],
    step_of: Sequence[int],
    steps: Sequence[Step],
    readers: Mapping[Value, Mapping[int, Task]],
    fetched: Collection[Value],
) -> tuple[int, int] | None:
    """Return the numbers of the dense end's first step and of the step behind its last, or None.

    None: there is none, or it has too few weights. ``step_of``: the step of each task. ``readers``: by value and
    number.
    """
    maker = {output: number for number, task in enumerate(tasks) for output in list_outputs(task)}
    needed_by = {value: max(numbers, default=-1) for value, numbers in readers.items()}
    needed_by |= dict.fromkeys(fetched, len(tasks))
    for end in range(len(tasks), 0, -1):
        last = tasks[end - 1]
        if not isinstance(last, Layer) or not _is_dense(steps[step_of[end - 1]]):
            continue
        before = (value for value in needed_by if maker.get(value, -1) < end and value.op != "constant")
        if any(needed_by[value] >= end for value in before if value is not last.end.base):
            continue
        first = end - 1
        while first > 0 and _can_continue(tasks[first - 1], steps[step_of[first - 1]], first, readers, fetched):
            first -= 1
        layers = [steps[step_of[number]] for number in range(first, end)]
        if sum(step.weights.size for step in layers if isinstance(step, LayerStep)) >= LEAST_DENSE_BYTES:
            return step_of[first], step_of[end - 1] + 1
    return None


def _can_continue(
    task: Task, step: Step, number: int, readers: Mapping[Value, Mapping[int, Task]], fetched: Collection[Value]
) -> bool:
    """Return whether ``task`` is such a layer, and only task ``number`` reads its output."""
    if not isinstance(task, Layer) or not _is_dense(step):
        return False
    return list(readers.get(task.end.base, ())) == [number] and task.end.base not in fetched


def _is_dense(step: Step) -> bool:
    """Return whether ``step`` can run for several inputs at once: it only reads and writes one row of floats."""
    if not isinstance(step, LayerStep) or step.algorithm != "direct" or step.output is None:
        return False
    shape = step.geometry
    one_pixel = step.in_size == shape.out_size == shape.kernel_size == (1, 1) and shape.batch == shape.groups == 1
    extras = (step.factor, step.epilogue.residual, step.epilogue.second_scale, step.rounded, step.quantisation)
    in_arena = step.input.buffer.space == step.output.buffer.space == "arena"
    return one_pixel and in_arena and step.halo == NO_HALO and all(extra is None for extra in extras)
