"""Branches and loops over subgraphs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from builder.importers.frameworks.graph_values import Value, is_known, read_int
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()

Subgraph = Callable[..., list[Value]]

_MAX_UNROLLED = 64
"""The number of turns up to which a loop is written out, so that what is known in each turn stays known."""


def _to_arrays(values: Sequence[Value]) -> list[Value]:
    return [jnp.asarray(value) for value in values]


@OPS.define("If")
def choose_branch(condition: Value, *, then_branch: Subgraph, else_branch: Subgraph) -> list[Value]:
    """Return the outputs of one of two graphs."""
    if is_known(condition):
        return then_branch() if bool(np.asarray(condition).reshape(())) else else_branch()
    return list(
        lax.cond(jnp.reshape(condition, ()), lambda: _to_arrays(then_branch()), lambda: _to_arrays(else_branch()))
    )


@OPS.define("Loop")
def run_loop(count: Value, condition: Value, *states: Value, body: Subgraph, outputs: int) -> list[Value]:
    """Return the last states, and what each turn adds to the other outputs, one after the other.

    The number of turns may depend on an input only where nothing is added by turn.
    """
    if count is not None and is_known(count):
        limit = read_int(count)
        if limit <= _MAX_UNROLLED or not is_known(condition):
            finished, result = _write_out(limit, condition, list(states), body)
            if finished:
                return result
        if condition is None or bool(np.asarray(condition).reshape(())):
            return _scan_loop(limit, list(states), body)
    if outputs > len(states):
        raise ValueError("the number of its turns, and so the size of an output, depends on the values of an input")
    return _loop_while(count, condition, list(states), body)


def _write_out(limit: int, condition: Value, states: list[Value], body: Subgraph) -> tuple[bool, list[Value]]:
    """Run all turns one by one; say whether the condition was known in each."""
    added: list[list[Value]] = []
    alive = True if condition is None else condition
    for turn in range(limit):
        if not is_known(alive):
            return False, []
        if not bool(np.asarray(alive).reshape(())):
            break
        alive, *values = body(np.asarray(turn, np.int64), np.asarray(True), *states)
        states, extra = values[: len(states)], values[len(states) :]
        added.append(extra)
    return True, [*states, *(jnp.stack(_to_arrays(column)) for column in zip(*added, strict=True))]


def _scan_loop(limit: int, states: list[Value], body: Subgraph) -> list[Value]:
    """Run ``limit`` turns of a loop whose condition stays true."""

    def run_turn(old: Any, turn: Any) -> Any:
        alive, *values = body(turn, np.asarray(True), *old)
        if not is_known(alive) or not bool(np.asarray(alive).reshape(())):
            raise ValueError("its condition depends on the values of an input, and it adds to an output in each turn")
        return tuple(_to_arrays(values[: len(states)])), tuple(_to_arrays(values[len(states) :]))

    last, added = lax.scan(run_turn, tuple(_to_arrays(states)), jnp.arange(limit, dtype=np.int64))
    return [*last, *added]


def _loop_while(count: Value, condition: Value, states: list[Value], body: Subgraph) -> list[Value]:
    limit = jnp.asarray(np.iinfo(np.int64).max if count is None else count, np.int64).reshape(())
    alive = jnp.asarray(True if condition is None else condition).reshape(())

    def goes_on(state: Any) -> Any:
        return (state[0] < limit) & state[1]

    def turn(state: Any) -> Any:
        number, old_alive, *old = state
        new_alive, *values = body(number, old_alive, *old)
        return (number + 1, jnp.asarray(new_alive).reshape(()), *_to_arrays(values))

    _, _, *last = lax.while_loop(goes_on, turn, (jnp.zeros((), np.int64), alive, *_to_arrays(states)))
    return list(last)


@OPS.define("Scan")
def scan_sequences(*inputs: Value, body: Subgraph, num_scan_inputs: int, opset: int = 9, **keys: Any) -> list[Value]:
    """Return the last states, and what each turn over the slices of the scanned inputs adds to the other outputs."""
    if opset < 9:
        if inputs[0] is not None:
            raise ValueError("sequences of different lengths are not supported")
        scan = functools.partial(scan_sequences, body=body, num_scan_inputs=num_scan_inputs)
        directions = keys.get("directions")
        batch = range(np.shape(inputs[1])[0])  # All inputs have it in front.
        examples = [scan(*(x[i] for x in inputs[1:]), scan_input_directions=directions) for i in batch]
        return [jnp.stack(_to_arrays(column)) for column in zip(*examples, strict=True)]
    count = len(inputs) - num_scan_inputs

    def read_places(side: str, number: int) -> Any:
        """Return the axis of each array of a side, and whether it runs backwards."""
        axes, turned = (keys.get(f"scan_{side}_{kind}") or [0] * number for kind in ("axes", "directions"))
        return zip(axes, turned, strict=True)

    items = [
        jnp.flip(jnp.moveaxis(x, axis, 0), 0) if turned else jnp.moveaxis(x, axis, 0)
        for x, (axis, turned) in zip(inputs[count:], read_places("input", num_scan_inputs), strict=True)
    ]

    def run_slice(old: Any, values: Any) -> Any:
        new = body(*old, *values)
        return tuple(_to_arrays(new[:count])), tuple(_to_arrays(new[count:]))

    last, added = lax.scan(run_slice, tuple(_to_arrays(inputs[:count])), tuple(items))
    results = [
        jnp.moveaxis(jnp.flip(x, 0) if turned else x, 0, axis)
        for x, (axis, turned) in zip(added, read_places("output", len(added)), strict=True)
    ]
    return [*last, *results]
