"""Recurrent layers: RNN, GRU and LSTM."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from builder.importers.frameworks.graph_values import Value, read_array
from builder.importers.frameworks.onnx.ops.quantised import quantise_dynamically, restore_linear
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()

_ACTIVATIONS: dict[str, tuple[Callable[..., Any], float, float]] = {
    "relu": (lambda x, a, b: jax.nn.relu(x), 0, 0),
    "tanh": (lambda x, a, b: jnp.tanh(x), 0, 0),
    "sigmoid": (lambda x, a, b: jax.nn.sigmoid(x), 0, 0),
    "affine": (lambda x, a, b: a * x + b, 1, 0),
    "leakyrelu": (lambda x, a, b: jnp.where(x >= 0, x, a * x), 0.01, 0),
    "thresholdedrelu": (lambda x, a, b: jnp.where(x > a, x, 0), 1, 0),
    "scaledtanh": (lambda x, a, b: a * jnp.tanh(b * x), 1, 1),
    "hardsigmoid": (lambda x, a, b: jnp.clip(a * x + b, 0, 1), 0.2, 0.5),
    "elu": (lambda x, a, b: jax.nn.elu(x, a), 1, 0),
    "softsign": (lambda x, a, b: jax.nn.soft_sign(x), 0, 0),
    "softplus": (lambda x, a, b: jax.nn.softplus(x), 0, 0),
}
"""Functions of x, alpha and beta, with alpha and beta where the node has none; without alpha, it takes none."""

Cell = Callable[[Any, Any], Any]
"""A function of a layer's state and an input that returns the next state, whose first part is the output."""
Gates = list[Callable[[Any], Any]]
"""The activation functions of a cell."""


def _read_activations(names: list[str], keys: Mapping[str, Any]) -> Gates:
    """Return the functions; alphas and betas belong, in order, to those that have such a parameter."""
    functions: Gates = []
    alphas, betas = (list(keys.get(f"activation_{name}") or []) for name in ("alpha", "beta"))
    for name in (item.lower() for item in names):
        function, a, b = _ACTIVATIONS[name]
        a = alphas.pop(0) if a and alphas else a
        b = betas.pop(0) if name in ("affine", "scaledtanh", "hardsigmoid") and betas else b
        functions.append(functools.partial(function, a=a, b=b))
    return functions


def _run_direction(cell: Cell, inputs: Value, state: tuple[Value, ...], lengths: Value, reverse: bool) -> Any:
    """Return the outputs [t, n, h] and the last state of ``cell`` over ``inputs`` [t, n, ...].

    After the end of its own length, the state of a sequence stays, and its outputs are zero.
    """

    def run_step(old: tuple[Value, ...], item: tuple[Value, Value]) -> Any:
        time, values = item
        new = cell(old, values)
        if lengths is None:
            return new, new[0]
        alive = (time < lengths)[:, None]
        kept = tuple(jnp.where(alive, after, before) for after, before in zip(new, old, strict=True))
        return kept, jnp.where(alive, new[0], 0)

    last, outputs = lax.scan(run_step, state, (jnp.arange(inputs.shape[0]), inputs), reverse=reverse)
    return outputs, last


def _run_layer(make_cell: Callable[[int, Gates], Cell], defaults: str, inputs: tuple[Value, ...], **keys: Any) -> Any:
    """Return Y [t, directions, n, h] and the last states of ``inputs``: x [t, n, i], lengths and the first states.

    With layout 1 the batch comes first. ``defaults``: the names of the activations where the node has none.
    """
    x, lengths, *states = inputs
    direction, size, batch_first = keys.get("direction", "forward"), len(defaults.split()), keys.get("layout", 0)
    count = 2 if direction == "bidirectional" else 1
    functions = _read_activations(keys.get("activations") or defaults.split() * count, keys)
    x, *states = (jnp.swapaxes(v, 0, 1) if batch_first and v is not None else v for v in (x, *states))
    outputs, lasts = [], []
    for number in range(count):
        zeros = jnp.zeros((np.shape(x)[1], keys["hidden_size"]), x.dtype)
        start = tuple(zeros if state is None else jnp.asarray(state)[number] for state in states)
        cell = make_cell(number, functions[size * number :])
        output, last = _run_direction(cell, jnp.asarray(x), start, lengths, direction == "reverse" or number == 1)
        outputs.append(output)
        lasts.append(last)
    whole, finals = jnp.stack(outputs, 1), [jnp.stack(parts) for parts in zip(*lasts, strict=True)]
    if batch_first:
        return (whole.transpose(2, 0, 1, 3), *(jnp.swapaxes(final, 0, 1) for final in finals))
    return (whole, *finals)


def _limit(clip: float | None) -> Callable[[Any], Any]:
    return (lambda x: x) if clip is None else (lambda x: jnp.clip(x, -clip, clip))


def _split_bias(bias: Value, number: int, r: Value) -> tuple[Value, Value]:
    """Return the biases of the inputs and of the recurrence."""
    size = np.shape(r)[1]
    return (jnp.zeros(size, r.dtype),) * 2 if bias is None else (bias[number][:size], bias[number][size:])


@OPS.define("RNN")
def run_rnn(x: Value, w: Value, r: Value, *rest: Value, **keys: Any) -> Any:
    """Return the outputs and the last output of a simple recurrent layer."""
    (bias, lengths, first), limit = (*rest, None, None, None)[:3], _limit(keys.get("clip"))

    def make_cell(number: int, functions: Gates) -> Cell:
        of_inputs, of_state = _split_bias(bias, number, r)
        total = of_inputs + of_state
        return lambda state, values: (functions[0](limit(values @ w[number].T + state[0] @ r[number].T + total)),)

    return _run_layer(make_cell, "Tanh", (x, lengths, first), **{"hidden_size": np.shape(r)[2], **keys})


@OPS.define("GRU")
def run_gru(x: Value, w: Value, r: Value, *rest: Value, **keys: Any) -> Any:
    """Return the outputs and the last output of a gated recurrent layer."""
    (bias, lengths, first), limit, hidden = (*rest, None, None, None)[:3], _limit(keys.get("clip")), np.shape(r)[2]

    def make_cell(number: int, functions: Gates) -> Cell:
        gate, activate = functions[:2]
        of_inputs, of_state = _split_bias(bias, number, r)
        recurrent = jnp.asarray(r[number])

        def advance_cell(state: Any, values: Any) -> Any:
            (h,) = state
            inputs = values @ w[number].T + of_inputs
            gates = h @ recurrent[: 2 * hidden].T + of_state[: 2 * hidden]
            update, reset = jnp.split(gate(limit(inputs[:, : 2 * hidden] + gates)), 2, -1)
            new, shift = recurrent[2 * hidden :].T, of_state[2 * hidden :]
            past = reset * (h @ new + shift) if keys.get("linear_before_reset") else (reset * h) @ new + shift
            candidate = activate(limit(inputs[:, 2 * hidden :] + past))
            return ((1 - update) * candidate + update * h,)

        return advance_cell

    return _run_layer(make_cell, "Sigmoid Tanh", (x, lengths, first), **{"hidden_size": hidden, **keys})


@OPS.define("LSTM")
def run_lstm(x: Value, w: Value, r: Value, *rest: Value, **keys: Any) -> Any:
    """Return the outputs, the last output and the last cell of a layer with long short-term memory."""
    return _run_lstm(lambda h: h, x, w, r, *rest, **keys)


@OPS.define("DynamicQuantizeLSTM", domain="com.microsoft")
def run_quantised_lstm(x: Value, w: Value, r: Value, *rest: Value, **keys: Any) -> Any:
    """Do the same with transposed kernels of 8 bits; what they multiply is rounded to 8 bits of its own range."""
    kernels = _restore_kernel(w, *rest[5:7]), _restore_kernel(r, *rest[7:])
    return _run_lstm(_round_dynamically, _round_dynamically(x), *kernels, *rest[:5], **keys)


def _restore_kernel(kernel: Value, scale: Value, zero: Value) -> Any:
    """Return the numbers of known kernels [directions, inputs, gates], transposed."""
    factor, offset = (read_array(part).reshape(len(kernel), 1, -1).astype(np.float32) for part in (scale, zero))
    return ((read_array(kernel) - offset) * factor).swapaxes(1, 2)


def _round_dynamically(x: Value) -> Value:
    return restore_linear(*quantise_dynamically(x))


def _run_lstm(round_state: Callable[[Any], Any], x: Value, w: Value, r: Value, *rest: Value, **keys: Any) -> Any:
    bias, lengths, first, first_cell, peepholes = (*rest, None, None, None, None, None)[:5]
    limit, coupled = _limit(keys.get("clip")), keys.get("input_forget", 0)

    def make_cell(number: int, functions: Gates) -> Cell:
        gate, activate, activate_cell = functions[:3]
        of_inputs, of_state = _split_bias(bias, number, r)
        peeps = [None] * 3 if peepholes is None else np.split(peepholes[number], 3)

        def open_gate(part: Any, peep: Any, cell: Any) -> Any:
            return gate(limit(part if peep is None else part + peep * cell))

        def advance_cell(state: Any, values: Any) -> Any:
            h, c = state
            parts = jnp.split(values @ w[number].T + round_state(h) @ r[number].T + (of_inputs + of_state), 4, -1)
            entry, forget = open_gate(parts[0], peeps[0], c), open_gate(parts[2], peeps[2], c)
            new = (1 - entry if coupled else forget) * c + entry * activate(limit(parts[3]))
            return open_gate(parts[1], peeps[1], new) * activate_cell(new), new

        return advance_cell

    keys = {"hidden_size": np.shape(r)[2], **keys}
    return _run_layer(make_cell, "Sigmoid Tanh Tanh", (x, lengths, first, first_cell), **keys)
