"""Products inside loops, on a loop written by hand: what leaves it, what stays, and what is left of the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builder.base.errors import LowerError
from builder.compiler.lower.program import BoundPort, Program, Weight
from builder.compiler.lower.replace_in_loops import replace_products
from builder.compiler.lower.steps.base import Buffer, Step
from builder.compiler.lower.steps.control_step import WhileStep
from builder.compiler.lower.steps.copy_step import CopyStep, RowStep
from builder.compiler.lower.steps.kernel_step import KernelStep
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.compiler.lower.weight_store import drop_unused_weights
from builder.config.tensor import TensorSpec
from tests.support.hlo import FLOAT32, Module

STEPS, K, N = 8, 48, 64
WEIGHTS = np.random.default_rng(0).normal(size=(K, N)).astype(np.float32)


def arena(offset: int, size: int) -> Buffer:
    return Buffer("arena", offset, size)


class Loop:
    """A loop whose body is ``x[i] @ WEIGHTS``, in two kernels of one instruction each."""

    def __init__(self, *, x_changes: bool = False, first_column: int = 0) -> None:
        self.module = Module()
        m = self.module.module
        self.count = 100
        self.body = m.computations.add(name="body", id=2)
        condition = m.computations.add(name="condition", id=3)
        state = self.add("parameter", (), ())
        i = self.add("get-tuple-element", (), (state,), tuple_index=0)
        x = self.add("get-tuple-element", (STEPS, 1, K), (state,), tuple_index=1)
        zero = self.add("constant", (), ())
        zero.literal.s32s.append(0)
        column = zero if first_column == 0 else self.add("constant", (), ())
        if first_column:
            column.literal.s32s.append(first_column)
        row = self.add("dynamic-slice", (1, 1, K), (x, i, zero, column), name="row")
        flat = self.add("bitcast", (1, K), (row,))
        weights = self.add("constant", (K, N), ())
        dot = self.add("dot", (1, N), (flat, weights), name="product")
        dot.dot_dimension_numbers.lhs_contracting_dimensions.append(1)
        dot.dot_dimension_numbers.rhs_contracting_dimensions.append(0)
        changed = self.add("negate", (STEPS, 1, K), (x,)) if x_changes else x
        self.add("tuple", (), (i, changed))
        root = condition.instructions.add(name="less", opcode="compare", id=self.count + 1)
        condition.root_id = root.id
        entry = self.module.entry.instructions.add(name="loop", opcode="while", id=self.count + 2)
        entry.called_computation_ids.extend([2, 3])
        for value in (i, zero, column):
            value.shape.element_type = value.literal.shape.element_type = 4  # int32
        thunks = self.module.result.thunk_sequence
        loop = thunks.thunks.add().while_thunk
        for arguments in (4, 2):
            thunk = loop.body_sequence.thunks.add()
            for _ in range(arguments):
                thunk.kernel_thunk.arguments_buffers.add()
        loop.cond_sequence.SetInParent()
        self.x, self.index = arena(0, 4 * STEPS * K), arena(2048, 4)
        self.row, self.out = arena(2112, 4 * K), arena(4096, 4 * N)
        self.matrix = Buffer("weights", 64, WEIGHTS.nbytes)

    def add(self, opcode: str, dims: tuple[int, ...], operands: tuple[Any, ...], **fields: Any) -> Any:
        self.count += 1
        name = fields.pop("name", f"{opcode}.{self.count}")
        instruction = self.body.instructions.add(name=name, opcode=opcode, id=self.count, **fields)
        instruction.operand_ids.extend(o.id for o in operands)
        instruction.shape.element_type = FLOAT32
        instruction.shape.dimensions.extend(dims)
        instruction.shape.layout.minor_to_major.extend(reversed(range(len(dims))))
        self.body.root_id = self.count
        return instruction

    def program(self) -> Program:
        zero = Buffer("weights", 0, 4)
        body = (
            KernelStep("row", "row_kernel", (self.x, self.index, zero, zero), (self.row,), (1, 1, 1)),
            KernelStep("product", "product_kernel", (self.row, self.matrix), (self.out,), (1, 1, 1)),
        )
        weights = (Weight(0, bytes(8)), Weight(64, WEIGHTS.tobytes()))
        fetch = BoundPort(TensorSpec("y", "float32", (1, N)), self.out)
        loop = WhileStep("loop", (), arena(0, 1), body, None)
        return Program((loop,), (), (fetch,), weights, 8192, 64 + WEIGHTS.nbytes)

    def exchanged(self) -> Program:
        found = replace_products(self.module.result, self.program())
        assert found is not None
        program, notes = found
        assert [n.name for n in notes] == [s.name for s in program.steps]
        return program


def kinds(steps: tuple[Step, ...]) -> list[type]:
    return [type(s) for s in steps]


def body(program: Program) -> tuple[Step, ...]:
    loop = program.steps[-1]
    assert isinstance(loop, WhileStep)
    return loop.body


def test_all_rows_are_multiplied_before_the_loop() -> None:
    loop = Loop()
    program = loop.exchanged()
    assert kinds(program.steps) == [LayerStep, WhileStep]
    assert kinds(body(program)) == [RowStep, CopyStep]
    layer, (row, copy) = program.steps[0], body(program)
    assert isinstance(layer, LayerStep)
    assert isinstance(row, RowStep)
    assert isinstance(copy, CopyStep)
    assert (layer.in_size, layer.geometry.in_channels, layer.geometry.out_channels) == ((1, STEPS), K, N)
    assert layer.input.buffer == loop.x
    assert (row.index, row.source, row.count) == (loop.index, layer.output.buffer, STEPS)
    assert (copy.source, copy.target) == (row.target, loop.out)
    places = [layer.output.buffer, row.target]
    assert all(b.offset >= 8192 and b.offset + b.size <= program.arena_size for b in places)
    # The weights are there once, in panels.
    data = next(w.data for w in program.weights if w.offset == layer.weights.offset)
    panels = np.frombuffer(data, np.float32).reshape(-1, K, 16)
    np.testing.assert_array_equal(panels.transpose(1, 0, 2).reshape(K, -1), WEIGHTS)
    assert WEIGHTS.tobytes() not in [w.data for w in program.weights]


@pytest.mark.parametrize("changed", [{"x_changes": True}, {"first_column": 1}])
def test_a_row_of_what_the_loop_changes_or_a_part_of_one_stays_inside(changed: dict[str, Any]) -> None:
    program = Loop(**changed).exchanged()
    assert kinds(program.steps) == [WhileStep]
    assert kinds(body(program)) == [KernelStep, LayerStep]


def test_weights_that_are_not_constant_stay_with_xla() -> None:
    loop = Loop()
    loop.matrix = arena(4096 + 256, WEIGHTS.nbytes)
    assert replace_products(loop.module.result, loop.program()) is None


def test_compact_keeps_what_is_used_and_moves_it_together() -> None:
    step = KernelStep("k", "k", (Buffer("weights", 128 + 8, 4),), (arena(0, 4),), (1, 1, 1))
    weights = (Weight(0, b"unused" * 4), Weight(128, bytes(range(16))))
    program = drop_unused_weights(Program((step,), (), (), weights, 64, 192))
    (moved,) = program.steps
    assert isinstance(moved, KernelStep)
    assert program.weights == (Weight(0, bytes(range(16))),)
    assert program.weights_size == 64
    assert moved.buffers == (Buffer("weights", 8, 4), arena(0, 4))


def test_compact_refuses_weights_that_do_not_exist() -> None:
    step = KernelStep("k", "k", (Buffer("weights", 12, 8),), (), (1, 1, 1))
    with pytest.raises(LowerError, match="not there"):
        drop_unused_weights(Program((step,), (), (), (Weight(0, bytes(16)),), 64, 64))
