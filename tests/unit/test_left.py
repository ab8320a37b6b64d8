"""Which step leaves the value of an op, where several steps have its name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from builder.compiler.lower import LoweredProgram
from builder.compiler.lower.decisions import describe_step
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.copy_step import CopyStep
from builder.compiler.lower.steps.sort_step import SortStep
from builder.measure.step_outputs import list_step_outputs
from tests.support.every_step import ATTENTION, arena

SORTED = arena(64, 32)


def test_a_sort_leaves_its_value_and_not_the_copy_before_it() -> None:
    """XLA sorts in place, in a copy that has the sort's name."""
    copy = CopyStep("sort", arena(0, 32), SORTED, 4, (8,), (1,), (1,))
    sort = SortStep("sort", "less", (SORTED,), (4,), outer=1, length=8, inner=1, scratch=arena(128, 160))
    (left,) = list_step_outputs(*lowered("sort", (8,), copy, sort))
    assert left.step is sort
    assert left.after == 2
    memory = np.arange(512, dtype=np.uint8)
    np.testing.assert_array_equal(left.read(memory), memory[64:96].view(np.float32))


def test_attention_leaves_a_value() -> None:
    (left,) = list_step_outputs(*lowered(ATTENTION.name, (4, 4), ATTENTION))
    assert left.step is ATTENTION


def lowered(name: str, shape: tuple[int, ...], *steps: Any) -> tuple[LoweredProgram, Any]:
    """A program of these steps, and an index of XLA's module in which ``name`` is a float32 array of the op "op"."""
    program = Program(steps, (), (), (), 512, 512)
    layout = SimpleNamespace(minor_to_major=list(reversed(range(len(shape)))))
    described = SimpleNamespace(element_type=11, dimensions=shape, layout=layout, is_dynamic_dimension=[])
    instruction = SimpleNamespace(shape=described, metadata=SimpleNamespace(op_name="op"))
    return LoweredProgram(program, "optimised", tuple(map(describe_step, steps))), SimpleNamespace(
        names={name: instruction}
    )
