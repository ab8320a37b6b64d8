"""Recurrent layers: RNN, GRU and LSTM."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from builder.importers.frameworks.graph_values import Value
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()

_ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "relu": lambda x, a, b: jax.nn.relu(x),
    "tanh": lambda x, a, b: jnp.tanh(x),
    "sigmoid": lambda x, a, b: jax.nn.sigmoid(x),
    "affine": lambda x, a, b: a * x + b,
    "leakyrelu": lambda x, a, b: jnp.where(x >= 0, x, a * x),
    "thresholdedrelu": lambda x, a, b: jnp.where(x > a, x, 0),
    "scaledtanh": lambda x, a, b: a * jnp.tanh(b * x),
    "hardsigmoid": lambda x, a, b: jnp.clip(a * x + b, 0, 1),
    "elu": lambda x, a, b: jax.nn.elu(x, a),
    "softsign": lambda x, a, b: jax.nn.soft_sign(x),
    "softplus": lambda x, a, b: jax.nn.softplus(x),
}
_DEFAULTS = {
    "affine": (1.0, 0.0), "leakyrelu": (0.01, 0.0), "thresholdedrelu": (1.0, 0.0), "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5), "elu": (1.0, 0.0),
}  # fmt: skip
"""alpha and beta where the node has none."""

Cell = Callable[[Any, Any], Any]
"""A function of a layer's state and an input that returns the next state, whose first part is the output."""


def _read_activations(names: list[str], alphas: list[float], betas: list[float]) -> list[Callable[[Any], Any]]:
    """Return the functions; alphas and betas belong, in order, to those that have such a parameter."""
    functions: list[Callable[[Any], Any]] = []
    left, right = list(alphas), list(betas)
    for name in (item.lower() for item in names):
        a, b = _DEFAULTS.get(name, (0.0, 0.0))
        if name in _DEFAULTS and left:
            a = left.pop(0)
        if name in ("affine", "scaledtanh", "hardsigmoid") and right:
            b = right.pop(0)
        functions.append(functools.partial(_ACTIVATIONS[name], a=a, b=b))
    return functions


def _run_direction(cell: Cell, inputs: Value, state: tuple[Value, ...], lengths: Value, reverse: bool) -> Any:
    """Return the outputs [t, n, h] and the last state of ``cell`` over ``inputs`` [t, n, ...].

    After the end of its own length, the state of a sequence stays, and its outputs are zero.
    """
    times = jnp.arange(inputs.shape[0])

    def run_step(old: tuple[Value, ...], item: tuple[Value, Value]) -> Any:
        time, values = item
        new = cell(old, values)
        if lengths is None:
            return new, new[0]
        alive = (time < lengths)[:, None]
        kept = tuple(jnp.where(alive, after, before) for after, before in zip(new, old, strict=True))
        return kept, jnp.where(alive, new[0], 0)

    last, outputs = lax.scan(run_step, state, (times, inputs), reverse=reverse)
    return outputs, last


def _run_layer(
    make_cell: Callable[[int, list[Callable[[Any], Any]]], Cell],
    x: Value,
    states: list[Value],
    lengths: Value,
    hidden: int,
    defaults: list[str],
    keys: dict[str, Any],
) -> Any:
    """Return Y [t, directions, n, h] and the last states, for inputs [t, n, i], or batch first with layout 1."""
    direction = keys.get("direction", "forward")
    count = 2 if direction == "bidirectional" else 1
    names = keys.get("activations") or defaults * count
    functions = _read_activations(names, keys.get("activation_alpha") or [], keys.get("activation_beta") or [])
    batch_first = keys.get("layout", 0)
    x = jnp.swapaxes(x, 0, 1) if batch_first else jnp.asarray(x)
    outputs, lasts = [], []
    for number in range(count):
        start = tuple(
            jnp.zeros((x.shape[1], hidden), x.dtype)
            if state is None
            else jnp.asarray(state)[:, number]
            if batch_first
            else jnp.asarray(state)[number]
            for state in states
        )
        cell = make_cell(number, functions[len(defaults) * number :])
        output, last = _run_direction(cell, x, start, lengths, direction == "reverse" or number == 1)
        outputs.append(output)
        lasts.append(last)
    whole = jnp.stack(outputs, 1)
    finals = [jnp.stack([last[i] for last in lasts]) for i in range(len(states))]
    if batch_first:
        return (whole.transpose(2, 0, 1, 3), *(jnp.swapaxes(final, 0, 1) for final in finals))
    return (whole, *finals)


def _limit(clip: float | None) -> Callable[[Any], Any]:
    return (lambda x: x) if clip is None else (lambda x: jnp.clip(x, -clip, clip))


def _split_bias(bias: Value, number: int, size: int) -> tuple[Value, Value]:
    """Return the biases of the inputs and of the recurrence."""
    if bias is None:
        return np.float32(0), np.float32(0)
    return bias[number][:size], bias[number][size:]


@OPS.define("RNN")
def run_rnn(
    x: Value, w: Value, r: Value, bias: Value = None, lengths: Value = None, first: Value = None, **keys: Any
) -> Any:
    """Return the outputs and the last output of a simple recurrent layer."""
    hidden, limit = np.shape(r)[2], _limit(keys.get("clip"))

    def make_cell(number: int, functions: list[Callable[[Any], Any]]) -> Cell:
        of_inputs, of_state = _split_bias(bias, number, hidden)

        def advance_cell(state: Any, values: Any) -> Any:
            return (functions[0](limit(values @ w[number].T + state[0] @ r[number].T + (of_inputs + of_state))),)

        return advance_cell

    return _run_layer(make_cell, x, [first], lengths, hidden, ["Tanh"], keys)


@OPS.define("GRU")
def run_gru(
    x: Value, w: Value, r: Value, bias: Value = None, lengths: Value = None, first: Value = None, **keys: Any
) -> Any:
    """Return the outputs and the last output of a gated recurrent layer."""
    hidden, limit, after = np.shape(r)[2], _limit(keys.get("clip")), keys.get("linear_before_reset", 0)

    def make_cell(number: int, functions: list[Callable[[Any], Any]]) -> Cell:
        gate, activate = functions[:2]
        of_inputs, of_state = _split_bias(bias, number, 3 * hidden)
        of_inputs, of_state = (jnp.zeros(3 * hidden, x.dtype) + value for value in (of_inputs, of_state))
        recurrent = jnp.asarray(r[number])

        def advance_cell(state: Any, values: Any) -> Any:
            (h,) = state
            inputs = values @ w[number].T + of_inputs
            gates = h @ recurrent[: 2 * hidden].T + of_state[: 2 * hidden]
            update, reset = jnp.split(gate(limit(inputs[:, : 2 * hidden] + gates)), 2, -1)
            new = recurrent[2 * hidden :].T
            past = reset * (h @ new + of_state[2 * hidden :]) if after else (reset * h) @ new + of_state[2 * hidden :]
            candidate = activate(limit(inputs[:, 2 * hidden :] + past))
            return ((1 - update) * candidate + update * h,)

        return advance_cell

    return _run_layer(make_cell, x, [first], lengths, hidden, ["Sigmoid", "Tanh"], keys)


@OPS.define("LSTM")
def run_lstm(
    x: Value,
    w: Value,
    r: Value,
    bias: Value = None,
    lengths: Value = None,
    first: Value = None,
    first_cell: Value = None,
    peepholes: Value = None,
    **keys: Any,
) -> Any:
    """Return the outputs, the last output and the last cell of a layer with long short-term memory."""
    hidden, limit, coupled = np.shape(r)[2], _limit(keys.get("clip")), keys.get("input_forget", 0)

    def make_cell(number: int, functions: list[Callable[[Any], Any]]) -> Cell:
        gate, activate, activate_cell = functions[:3]
        of_inputs, of_state = _split_bias(bias, number, 4 * hidden)
        peeps = np.split(peepholes[number], 3) if peepholes is not None else [np.float32(0)] * 3

        def advance_cell(state: Any, values: Any) -> Any:
            h, c = state
            parts = jnp.split(values @ w[number].T + h @ r[number].T + (of_inputs + of_state), 4, -1)
            entry = gate(limit(parts[0] + peeps[0] * c if peepholes is not None else parts[0]))
            forget = gate(limit(parts[2] + peeps[2] * c if peepholes is not None else parts[2]))
            new = (1 - entry if coupled else forget) * c + entry * activate(limit(parts[3]))
            leave = gate(limit(parts[1] + peeps[1] * new if peepholes is not None else parts[1]))
            return leave * activate_cell(new), new

        return advance_cell

    return _run_layer(make_cell, x, [first, first_cell], lengths, hidden, ["Sigmoid", "Tanh", "Tanh"], keys)
