"""Branches, loops and reductions over subgraphs; they pass on what tensors hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from builder.importers.frameworks.graph_values import Value, is_known
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()

Run = Callable[[int, Sequence[Any]], list[Any]]
"""Runs a subgraph by its number."""


def _choose(number: Value, branches: Sequence[int], values: Sequence[Value], run: Run) -> list[Value]:
    """Return the outputs of the branch with a number, which may depend on a feed."""
    if is_known(number):
        return run(branches[int(number)], values)

    def make_branch(branch: int) -> Callable[[], tuple[Value, ...]]:
        return lambda: tuple(jnp.asarray(value) for value in run(branch, values))

    return list(lax.switch(number, [make_branch(branch) for branch in branches]))


@OPS.define("IF")
def choose_branch(options: Any, condition: Value, *values: Value, run: Run) -> list[Value]:
    """Return the outputs of one of two subgraphs."""
    branches = [options.elseSubgraphIndex, options.thenSubgraphIndex]
    return _choose(condition.reshape(()).astype(np.int32), branches, values, run)


@OPS.define("STABLEHLO_CASE")
def choose_case(options: Any, number: Value, *values: Value, run: Run) -> list[Value]:
    """Return the outputs of one of many subgraphs, the last for a number out of range."""
    branches = list(map(int, options.branchSubgraphIndices))
    index, last = number.reshape(()).astype(np.int32), len(branches) - 1
    return _choose(jnp.where((index < 0) | (index > last), last, index), branches, values, run)


@OPS.define("STABLEHLO_COMPOSITE")
def run_decomposition(options: Any, *values: Value, run: Run) -> list[Value]:
    """Return the outputs of the subgraph that says what a composite operator computes."""
    return run(options.decompositionSubgraphIndex, values)


@OPS.define("WHILE")
def run_while(options: Any, *values: Value, run: Run) -> list[Value]:
    """Return the values that a loop leaves when its condition no longer holds."""

    def is_alive(state: Sequence[Value]) -> Value:
        return jnp.reshape(run(options.condSubgraphIndex, state)[0], ())

    def advance(state: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(jnp.asarray(value) for value in run(options.bodySubgraphIndex, state))

    return list(lax.while_loop(is_alive, advance, tuple(map(jnp.asarray, values))))


@OPS.define("STABLEHLO_REDUCE_WINDOW")
def reduce_windows_by_graph(options: Any, x: Value, start: Value, *, run: Run) -> Value:
    """Return what a subgraph of two scalars makes of the elements in each window; ``start`` must not change it."""
    rank = np.ndim(x)

    def read(sizes: Any) -> tuple[int, ...]:
        return tuple(map(int, sizes)) if sizes is not None and len(sizes) else (1,) * rank

    pads = [(0, 0)] * rank if options.padding is None else np.reshape(options.padding, (rank, 2)).tolist()
    return lax.reduce_window(
        *(jnp.asarray(x), jnp.reshape(start, ()), lambda a, b: run(options.bodySubgraphIndex, [a, b])[0]),
        window_dimensions=read(options.windowDimensions),
        window_strides=read(options.windowStrides),
        padding=[tuple(pair) for pair in pads],
        base_dilation=read(options.baseDilations),
        window_dilation=read(options.windowDilations),
    )
