"""Operations are counted once, from a layer's sizes, and come to the same for a step and for a value of the graph."""

from __future__ import annotations

from builder.compiler.lower.decisions import count_value_flop
from builder.compiler.lower.geometry import Geometry
from builder.compiler.lower.hlo import read_dag
from builder.compiler.lower.hlo_proto import HloIndex
from builder.compiler.lower.layers import find_cores
from builder.compiler.lower.steps.base import Buffer
from builder.compiler.lower.steps.convolution_step import ConvolutionStep
from builder.compiler.lower.steps.dot_step import DotStep
from tests.support.hlo import Module

NOWHERE = Buffer("arena", 0, 0)


def test_a_multiply_add_is_two_operations() -> None:
    dense = Geometry(1, 784, (1, 1), 128)
    assert (dense.k, dense.weights, dense.flop) == (784, 784 * 128, 2 * 784 * 128)
    grouped = Geometry(2, 12, (5, 7), 24, (3, 3), (2, 2), groups=4)
    assert (grouped.k, grouped.weights) == (27, 27 * 24)
    assert grouped.flop == 2 * (2 * 5 * 7 * 24) * 27


def test_a_convolution_counts_the_same_as_a_layer_a_step_and_a_value() -> None:
    m = Module()
    convolution = m.convolution(m.parameter(1, 9, 9, 6), m.constant([[[[0.5] * 8] * 3] * 3] * 3), stride=2, groups=2)
    dag = read_dag(m.result)
    (core,) = find_cores(dag)
    expected = 2 * (4 * 4 * 8) * 27
    assert core.geometry == Geometry(1, 6, (4, 4), 8, (3, 3), (2, 2), (1, 1), 2)
    assert core.geometry.flop == count_value_flop(dag.names[convolution.name]) == expected
    step = ConvolutionStep(
        "convolution", "float32", NOWHERE, NOWHERE, NOWHERE, 1, 2, 6, 8, (9, 9), (4, 4), (3, 3), (2, 2), (0, 0), (1, 1),
        (1, 1), (False, False), (486, 1, 54, 6), (8, 1, 72, 24), (128, 1, 32, 8),
    )  # fmt: skip
    assert step.flop == expected


def test_a_product_counts_its_batch() -> None:
    step = DotStep("dot", "float32", NOWHERE, NOWHERE, NOWHERE, 3, 4, 5, 6, (24, 6, 1), (30, 5, 1), (20, 5, 1))
    assert step.flop == 2 * 3 * 4 * 5 * 6


def test_the_index_finds_what_ids_refer_to() -> None:
    m = Module()
    x = m.parameter(2, 3)
    y = m.elementwise("negate", x)
    index = HloIndex(m.result)
    assert index.names[y.name] is index.get_root(index.entry)
    assert [o.name for o in index.get_operands(y)] == [x.name]
    assert index.owners[x.id].name == "entry"
    assert index.get_called(y) == []
