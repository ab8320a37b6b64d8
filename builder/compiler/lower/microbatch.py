"""Parts: a batch as one run for each of its inputs, where that takes less time than one run for all.

A layer of a batch leaves values for all of its inputs, and what the caches do not hold is read from memory by the next.
Run by run, values stay in the caches. A batch is faster in that weights are read once for all inputs; that is little
where each of them is used many times for one input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from builder.base.errors import LowerError
from builder.compiler.lower.hlo import Dag, read_dag
from builder.compiler.lower.program import BoundPort, Program
from builder.compiler.lower.step_info import count_value_flop
from builder.importers.graph import GraphPort

LEAST_USES = 20
"""How often one input uses a weight on the average: a network with 16 uses takes 0.97 times as long in one run of 16
inputs as in parts, one with 22 uses 1.16 times (docs/batches.md)."""
LEAST_FLOP = 1 << 20
"""Of one input, some 10 µs: below, what a run costs by itself counts."""
_WHOLE = ("while", "conditional", "call", "rng", "rng-bit-generator", "rng-get-and-update-state")
"""Ops with which a graph runs as it is: loops are batches in time, and numbers drawn must not be drawn again."""


def is_worth_splitting(result: Any) -> bool:
    """Whether a batch had better run in parts, by the CompilationResultProto of the graph for one input."""
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
    """``program``, which is for one input, for a batch with these ``feeds`` and ``fetches``."""
    return replace(
        program, parts=parts, feeds=_bind_ports(program.feeds, feeds), fetches=_bind_ports(program.fetches, fetches)
    )


def _count_products(dag: Dag) -> tuple[int, int]:
    """The floating-point operations of products and convolutions with weights, and how many weights these have."""
    weights, flop = {}, 0
    for value in dag.live:
        constant = next((operand.base for operand in value.operands if operand.is_constant), None)
        if value.op in ("dot", "convolution") and constant is not None:
            weights[constant] = constant.elements
            flop += count_value_flop(value)
    return flop, sum(weights.values())


def _bind_ports(bound: Sequence[BoundPort], ports: Sequence[GraphPort]) -> tuple[BoundPort, ...]:
    return tuple(BoundPort(port.spec, one.buffer) for one, port in zip(bound, ports, strict=True))
