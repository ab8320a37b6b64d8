"""PyTorch's recurrent layers as loops of JAX.

PyTorch's own decomposition writes the cell once for each step. A loop has it once, whatever the length, and the
product of the input is one product for all steps before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from builder.base.errors import ImportModelError

Array = Any
State = tuple[Array, ...]
"""Arrays [batch, size]; the first is the output of a step."""

Cell = Callable[[State, Array, Array], State]
"""A function of the last state, the input's part of the gates, and the last state's part, to the next state."""


def _lstm_cell(state: State, forward: Array, back: Array) -> State:
    into, forget, cell, out = jnp.split(forward + back, 4, -1)
    cell_state = jax.nn.sigmoid(forget) * state[1] + jax.nn.sigmoid(into) * jnp.tanh(cell)
    return jax.nn.sigmoid(out) * jnp.tanh(cell_state), cell_state


def _gru_cell(state: State, forward: Array, back: Array) -> State:
    size = forward.shape[-1] // 3
    reset, update = jnp.split(jax.nn.sigmoid(forward[:, : 2 * size] + back[:, : 2 * size]), 2, -1)
    new = jnp.tanh(forward[:, 2 * size :] + reset * back[:, 2 * size :])
    return (new + update * (state[0] - new),)


CELLS: Mapping[str, Cell] = {
    "lstm": _lstm_cell,
    "gru": _gru_cell,
    "rnn_tanh": lambda _, forward, back: (jnp.tanh(forward + back),),
    "rnn_relu": lambda _, forward, back: (jax.nn.relu(forward + back),),
}
"""The cells of PyTorch's recurrent operators, by name."""


def apply_layers(
    cell: Cell,
    x: Array,
    first: Sequence[Array] | Array,
    weights: Sequence[Array],
    biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Array, ...]:
    """Return outputs and last states of ``x``: [time, batch, features], or [batch, time, features].

    The arguments behind ``cell`` are those of the operator. ``first``: the state, of an LSTM a list of two: each
    [layers · directions, batch, size]. ``weights``: each layer's directions in turn, as in PyTorch.
    """
    if train and dropout:
        raise ImportModelError("A recurrent layer drops values at random: call model.eval() before torch.export.")
    states = first if isinstance(first, (list, tuple)) else [first]
    x = x.swapaxes(0, 1) if batch_first else x
    directions = 2 if bidirectional else 1
    each = len(weights) // (layers * directions)
    lasts = []
    for layer in range(layers):
        all_outputs = []
        for number in range(layer * directions, (layer + 1) * directions):
            state = tuple(part[number] for part in states)
            mine = weights[number * each : (number + 1) * each]
            last, outputs = _apply_direction(cell, x, state, mine, biases, reverse=number % directions == 1)
            all_outputs.append(outputs)
            lasts.append(last)
        x = jnp.concatenate(all_outputs, -1)
    x = x.swapaxes(0, 1) if batch_first else x
    return (x, *(jnp.stack(part) for part in zip(*lasts, strict=True)))


def _apply_direction(
    cell: Cell, x: Array, first: State, weights: Sequence[Array], biases: bool, *, reverse: bool
) -> tuple[State, Array]:
    """Return the last state and the output of each step."""
    into, back, *rest = (jnp.swapaxes(w, 0, 1) if w.ndim == 2 else w for w in weights)
    bias, bias_back = rest[:2] if biases else (0, 0)
    project = rest[2 if biases else 0 :]  # Only an LSTM with proj_size has it.
    if cell is not _gru_cell:
        bias, bias_back = bias + bias_back, 0  # Both are only added, which is done once for all steps.

    def step(carried: tuple[State, Array], following: Array) -> tuple[tuple[State, Array], Array]:
        state, gates = carried
        hidden, *next_cells = cell(state, gates, state[0] @ back + bias_back)
        hidden = hidden @ project[0] if project else hidden
        return ((hidden, *next_cells), following), hidden

    # Each step reads the input of the next step and passes it on. Otherwise XLA would read the input's row inside the
    # cell's kernels, where its index prevents vectorisation.
    rows = x @ into + bias
    (last, _), outputs = lax.scan(
        step, (first, rows[-1 if reverse else 0]), jnp.roll(rows, 1 if reverse else -1, 0), reverse=reverse
    )
    return last, outputs
