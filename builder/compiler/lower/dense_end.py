"""Dense end of a program: layers of one pixel, whose last value alone is read by the steps behind them.

Such a layer uses each weight once for an input. A batch in parts (microbatch.py) would read all weights for each of its
inputs, from memory if they are many. It therefore runs the steps before these layers for each input, then these layers
for all inputs together, then the steps behind them for each input: see runtime/abi/parts.c.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from builder.compiler.lower.fuse import Layer
from builder.compiler.lower.hlo import Value
from builder.compiler.lower.layouts import NO_HALO
from builder.compiler.lower.schedule import Task, list_outputs
from builder.compiler.lower.steps.base import Step
from builder.compiler.lower.steps.layer_step import LayerStep

LEAST_WEIGHTS = 512 << 10
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
        if sum(step.weights.size for step in layers if isinstance(step, LayerStep)) >= LEAST_WEIGHTS:
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
