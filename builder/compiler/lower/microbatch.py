"""Parts: a batch as one run for each of its inputs, where this takes less time than one run for all.

A layer of a batch writes values for all of its inputs, and the next layer reads those that no cache holds from memory.
In separate runs, values stay in the caches. A whole batch reads weights only once for all inputs, but this saves little
where each weight is used many times for one input.
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
