"""Which of XLA's kernels become steps of our own that add, multiply or turn round arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builder.compiler.lower.broadcasts import LEAST, find_broadcast
from builder.compiler.lower.hlo import Value, read_dag
from builder.compiler.lower.steps.base import Buffer
from builder.compiler.lower.steps.copy_step import BroadcastStep
from builder.compiler.lower.steps.kernel_step import KernelStep
from tests.support.hlo import Module

PICTURE = (1, 8, 16, 64)
SIZE = 4 * 8 * 16 * 64


def arena(offset: int, size: int) -> Buffer:
    return Buffer("arena", offset, size)


def find(module: Module, reads: list[Buffer], write: Buffer) -> BroadcastStep | None:
    """The step of a kernel that makes the module's result from its parameters, then its constants, in ``reads``."""
    dag = read_dag(module.result)
    parameters = [dag.parameters[n] for n in sorted(dag.parameters)]
    sources: list[Value | Buffer] = [*parameters, *reads[len(parameters) :]]
    step = KernelStep("fusion", "kernel", reads, (write,), (1, 1, 1))
    return find_broadcast(step, reads, sources, write, dag.outputs[0].base)


def scaled(module: Module, channels: int = 64) -> Any:
    """A picture times one number for each channel: squeeze and excite."""
    picture, gate = module.parameter(*PICTURE), module.parameter(channels)
    return module.elementwise("multiply", picture, module.add("broadcast", (gate,), PICTURE, dimensions=[3]))


def test_a_gate_for_every_channel() -> None:
    module = Module()
    scaled(module)
    found = find(module, [arena(0, SIZE), arena(SIZE, 256)], arena(2 * SIZE, SIZE))
    assert found is not None
    assert (found.op, found.dims) == ("multiply", (1, 1, 128, 64))
    assert (found.source_strides, found.other_strides) == ((0, 0, 64, 1), (0, 0, 0, 1))
    assert (found.source, found.other, found.target.offset) == (arena(0, SIZE), arena(SIZE, 256), 2 * SIZE)


def test_in_place_is_the_same_step() -> None:
    module = Module()
    scaled(module)
    found = find(module, [arena(0, SIZE), arena(SIZE, 256)], arena(0, SIZE))
    assert found is not None
    assert found.source == found.target


def turned(module: Module) -> Any:
    """[tokens, heads, depth] plus a constant, as [heads, depth, tokens]: attention's keys."""
    keys, bias = module.parameter(128, 4, 64), module.constant(np.zeros((4, 64)))
    sum_ = module.elementwise("add", keys, module.add("broadcast", (bias,), (128, 4, 64), dimensions=[1, 2]))
    return module.add("copy", (module.add("transpose", (sum_,), (4, 64, 128), dimensions=[1, 2, 0]),), (4, 64, 128))


def test_a_bias_and_a_transposition() -> None:
    module = Module()
    turned(module)
    found = find(module, [arena(0, 4 * 2**15), Buffer("weights", 0, 1024)], arena(2**20, 4 * 2**15))
    assert found is not None
    assert (found.op, found.dims, found.target_strides) == ("add", (1, 1, 256, 128), (0, 0, 128, 1))
    assert (found.source_strides, found.other_strides) == ((0, 0, 1, 256), (0, 0, 1, 0))
    assert found.other == Buffer("weights", 0, 1024)


def test_what_does_not_stay_in_its_place_is_not_done_in_place() -> None:
    module = Module()
    turned(module)
    assert find(module, [arena(0, 4 * 2**15), Buffer("weights", 0, 1024)], arena(0, 4 * 2**15)) is None


@pytest.mark.parametrize("kind", ["small", "another operation", "more inside", "a part", "constants"])
def test_what_stays_with_xla(kind: str) -> None:
    module, write, reads = Module(), arena(2 * SIZE, SIZE), [arena(0, SIZE), arena(SIZE, 256)]
    match kind:
        case "small":
            shape = (1, 1, LEAST // 64 - 1, 64)
            module.elementwise("multiply", module.parameter(*shape), module.parameter(*shape))
            size = 4 * (LEAST - 64)
            reads, write = [arena(0, size), arena(size, size)], arena(2 * size, size)
        case "another operation":
            module.elementwise("maximum", module.parameter(*PICTURE), module.parameter(*PICTURE))
            reads[1] = arena(SIZE, SIZE)
        case "more inside":
            module.elementwise("add", scaled(module), module.parameter(*PICTURE))
            reads.append(arena(3 * SIZE, SIZE))
        case "a part":
            scaled(module)
            reads[0] = arena(0, 2 * SIZE)
        case "constants":  # which of them is which, nothing says
            sum_ = module.elementwise("add", *[module.spread(np.arange(64) + i, PICTURE) for i in (0, 1)])
            assert sum_ is not None
            reads = [Buffer("weights", 0, 256), Buffer("weights", 256, 256)]
    assert find(module, reads, write) is None
