"""Which layers a batch in parts runs for all of its inputs together, of HLO written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from builder.compiler.lower.build_program import assemble_program
from builder.compiler.lower.hlo import read_dag
from builder.compiler.lower.microbatch import LEAST_DENSE_BYTES
from builder.compiler.lower.program import Program
from builder.compiler.lower.program_plan import LoweringOptions
from builder.compiler.lower.schedule import schedule_tasks
from builder.compiler.lower.steps.layer_step import LayerStep
from tests.support.hlo import Module
from tests.support.places import ports_of
from tests.unit.test_optimise import random

WIDE = LEAST_DENSE_BYTES // 4 // 64 // 2
"""Two dense layers to and from 64 channels have just enough weights."""


def lowered(module: Module, options: LoweringOptions | None = None) -> Program:
    dag = read_dag(module.result)
    feeds, fetches = ports_of(dag)
    program, _ = assemble_program(dag, schedule_tasks(dag, []), Program((), feeds, fetches, (), 0, 0), options)
    return program


def picture(m: Module) -> Any:
    """[1, 64], of a 3x3 picture with 8 channels."""
    return m.add("bitcast", (m.convolution(m.parameter(1, 3, 3, 8), m.constant(random(3, 3, 8, 64))),), (1, 64))


def dense(m: Module, x: Any, channels: int) -> Any:
    shape = (1, channels)
    y = m.dot(x, m.constant(random(x.shape.dimensions[1], channels)))
    return m.elementwise("maximum", m.elementwise("add", y, m.spread(random(channels), shape)), m.spread(0.0, shape))


def test_dense_layers_behind_convolutions() -> None:
    m = Module()
    m.tuple(dense(m, dense(m, picture(m), WIDE), 64))
    program = lowered(m)
    assert [type(step) for step in program.steps] == [LayerStep] * 3
    assert program.dense_end == (1, 3)


def test_what_follows_a_dense_end_is_not_of_it() -> None:
    m = Module()
    end = m.add("bitcast", (dense(m, dense(m, picture(m), WIDE), 64),), (1, 8, 8, 1))
    m.tuple(m.convolution(end, m.constant(random(3, 3, 1, 2)), padding=1))
    program = lowered(m)
    assert program.dense_end == (1, 3)
    assert len(program.steps) > 3


def test_few_weights_are_read_again() -> None:
    m = Module()
    m.tuple(dense(m, dense(m, picture(m), WIDE - 1), 64))
    assert lowered(m).dense_end is None


def test_a_fetch_from_before_the_end() -> None:
    """Its place in the arena is the next input's by the time that the steps behind the end run."""
    m = Module()
    before = picture(m)
    m.tuple(dense(m, dense(m, before, WIDE), 64), before)
    assert lowered(m).dense_end is None


def test_a_fetch_from_within_is_the_last() -> None:
    m = Module()
    inner = dense(m, picture(m), 2 * WIDE)
    m.tuple(dense(m, inner, 64), inner)
    assert lowered(m).dense_end == (1, 2)


def test_a_value_from_before_that_is_read_behind() -> None:
    m = Module()
    before = dense(m, picture(m), 64)
    after = dense(m, dense(m, before, WIDE), 64)
    behind = m.convolution(m.add("bitcast", (after,), (1, 8, 8, 1)), m.constant(random(1, 1, 1, 1)))
    m.tuple(m.elementwise("add", behind, m.add("bitcast", (before,), (1, 8, 8, 1))))
    assert lowered(m).dense_end is None


def test_a_batch_that_is_one_run() -> None:
    m = Module()
    x = m.add("bitcast", (m.convolution(m.parameter(2, 3, 3, 8), m.constant(random(3, 3, 8, 64))),), (2, 64))
    m.tuple(m.dot(x, m.constant(random(64, 2 * WIDE))))
    assert lowered(m).dense_end is None


@pytest.mark.parametrize("states", [0, 1])
def test_states_are_of_one_run(states: int) -> None:
    m = Module()
    m.tuple(dense(m, dense(m, picture(m), WIDE), 64))
    dag = read_dag(m.result)
    feeds, fetches = ports_of(dag)
    program, _ = assemble_program(dag, schedule_tasks(dag, []), Program((), feeds, fetches, (), 0, 0), states=states)
    assert (program.dense_end is None) == bool(states)
