"""Recurrent layers. Their states are variable tensors; each returns the new ones after its outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from jax import lax

from builder.importers.frameworks.graph_values import Value
from builder.importers.frameworks.operator_table import OperatorTable
from builder.importers.frameworks.tflite.fused_activation import activate

OPS = OperatorTable()

Cell = Callable[[Any, Any], Any]
"""A function of a layer's state and an input that returns the next state, whose first part is the output."""


def run_sequence(cell: Cell, x: Value, state: Sequence[Value], time_major: bool, reverse: bool = False) -> list[Value]:
    """Return the outputs of ``cell`` over ``x`` [n, t, i], or [t, n, i] if ``time_major``, and then the new state."""

    def run_step(old: Any, values: Any) -> Any:
        new = cell(old, values)
        return new, new[0]

    x = jnp.asarray(x) if time_major else jnp.swapaxes(x, 0, 1)
    new, outputs = lax.scan(run_step, tuple(map(jnp.asarray, state)), x, reverse=reverse)
    return [outputs if time_major else jnp.swapaxes(outputs, 0, 1), *new]


def _make_rnn_cell(options: Any, kernel: Value, recurrent: Value, bias: Value) -> Cell:
    return lambda state, values: (activate(values @ kernel.T + state[0] @ recurrent.T + bias, options),)


@OPS.define("RNN")
def run_rnn_step(options: Any, x: Value, kernel: Value, recurrent: Value, bias: Value, state: Value) -> list[Value]:
    """Return the output of one step of a simple recurrent layer, which is its state."""
    return [_make_rnn_cell(options, kernel, recurrent, bias)([state], jnp.asarray(x))[0]] * 2


@OPS.define("UNIDIRECTIONAL_SEQUENCE_RNN")
def run_rnn(options: Any, x: Value, kernel: Value, recurrent: Value, bias: Value, state: Value) -> list[Value]:
    """Return the outputs of a simple recurrent layer."""
    return run_sequence(_make_rnn_cell(options, kernel, recurrent, bias), x, [state], options.timeMajor)


def _split_auxiliary(x: Value, auxiliary: Value, kernels: Sequence[Value]) -> tuple[Value, Value]:
    """Return the inputs of the two directions; without kernels for it, the auxiliary one is for the backward one."""
    if auxiliary is None:
        return x, x
    if kernels[0] is None:
        return x, auxiliary
    both = jnp.concatenate([x, auxiliary], -1)
    return both, both


@OPS.define("BIDIRECTIONAL_SEQUENCE_RNN")
def run_rnn_both_ways(options: Any, x: Value, *parts: Value) -> list[Value]:
    """Return the outputs of two simple recurrent layers, of which one begins at the end."""
    auxiliary, *kernels = (*parts[8:], None, None, None)[:3]
    directions = []
    for number, values in enumerate(_split_auxiliary(x, auxiliary, kernels)):
        kernel, recurrent, bias, state = parts[4 * number : 4 * number + 4]
        cell = _make_rnn_cell(options, _join_kernels(kernel, kernels[number]), recurrent, bias)
        directions.append(run_sequence(cell, values, [state], options.timeMajor, number == 1))
    return _join_directions(*directions, merge=options.mergeOutputs)


def _join_directions(forward: Sequence[Value], backward: Sequence[Value], *, merge: bool) -> list[Value]:
    """Return the outputs of both directions, as one if ``merge``, and then the states of both."""
    outputs = [forward[0], backward[0]]
    return [*([jnp.concatenate(outputs, -1)] if merge else outputs), *forward[1:], *backward[1:]]


def _join_kernels(kernel: Value, other: Value) -> Value:
    return kernel if other is None else jnp.concatenate([kernel, other], -1)


@dataclass(frozen=True, eq=False)
class LstmGates:
    """The weights of the gates of an LSTM: input (absent if it is 1 - forget), forget, cell and output."""

    kernels: Sequence[Value]
    recurrent: Sequence[Value]
    peepholes: Sequence[Value]
    biases: Sequence[Value]
    norms: Sequence[Value]

    def sum_inputs(self, number: int, x: Value, h: Value, c: Value) -> Value:
        """Return what gate ``number`` is the activation of. A recurrent kernel of one dimension is a diagonal."""
        recurrent, norm = self.recurrent[number], self.norms[number]
        total = x @ self.kernels[number].T + (h * recurrent if np.ndim(recurrent) == 1 else h @ recurrent.T)
        if self.peepholes[number] is not None:
            total = total + c * self.peepholes[number]
        if norm is not None:
            variance = jnp.var(total, -1, keepdims=True)
            scale = lax.rsqrt(jnp.where(variance == 0, np.float32(1e-8), variance))
            total = (total - jnp.mean(total, -1, keepdims=True)) * scale * norm
        return total + self.biases[number]


def _make_lstm_cell(options: Any, parts: Sequence[Value], norms: Sequence[Value], extra: Sequence[Value]) -> Cell:
    """Return the cell with ``parts``: 4 kernels, 4 recurrent ones, 3 peepholes, 4 biases and a projection with bias.

    ``norms`` has factors for gates that are normalised, ``extra`` kernels of auxiliary inputs.
    """
    kernels = [None if a is None else _join_kernels(a, b) for a, b in zip(parts[:4], extra, strict=True)]
    peepholes = [parts[8], parts[9], None, parts[10]]
    gates = LstmGates(kernels, parts[4:8], peepholes, parts[11:15], norms)
    projection, projection_bias = parts[15:17]

    def advance(state: Any, x: Any) -> Any:
        h, c = state
        forget = jax.nn.sigmoid(gates.sum_inputs(1, x, h, c))
        entry = 1 - forget if kernels[0] is None else jax.nn.sigmoid(gates.sum_inputs(0, x, h, c))
        new = _limit(forget * c + entry * activate(gates.sum_inputs(2, x, h, c), options), options.cellClip)
        output = jax.nn.sigmoid(gates.sum_inputs(3, x, h, new)) * activate(new, options)
        if projection is not None:
            output = output @ projection.T + (0 if projection_bias is None else projection_bias)
            output = _limit(output, options.projClip)
        return output, new

    return advance


def _limit(x: Value, bound: float) -> Value:
    return jnp.clip(x, -np.float32(bound), np.float32(bound)) if bound > 0 else x


@OPS.define("UNIDIRECTIONAL_SEQUENCE_LSTM")
def run_lstm(options: Any, x: Value, *parts: Value) -> list[Value]:
    """Return the outputs of a layer with long short-term memory."""
    norms = (*parts[19:], None, None, None, None)[:4]
    cell = _make_lstm_cell(options, parts[:17], norms, [None] * 4)
    return run_sequence(cell, x, parts[17:19], options.timeMajor)


@OPS.define("LSTM")
def run_lstm_step(options: Any, x: Value, *parts: Value) -> Sequence[Value]:
    """Return what one step of a layer with long short-term memory gives, in the format that the options name."""
    if options.kernelType == schema.LSTMKernelType.FULL:
        norms = (*parts[19:], None, None, None, None)[:4]
        output, cell = _make_lstm_cell(options, parts[:17], norms, [None] * 4)(parts[17:19], jnp.asarray(x))
        return output, output, cell
    h, kernel, bias, c = parts
    joined = jnp.concatenate([x, h], -1)
    gates = joined @ jnp.transpose(kernel) + bias
    entry, candidate, forget, leave = jnp.split(gates, 4, -1)
    new = jax.nn.sigmoid(entry) * jnp.tanh(candidate) + jax.nn.sigmoid(forget) * c
    output = jax.nn.sigmoid(leave) * jnp.tanh(new)
    return output, new, joined, gates, output, new


@OPS.define("BIDIRECTIONAL_SEQUENCE_LSTM")
def run_lstm_both_ways(options: Any, x: Value, *parts: Value) -> list[Value]:
    """Return the outputs of two layers with long short-term memory, of which one begins at the end."""
    auxiliary, *kernels = (*parts[38:], *[None] * 9)[:9]
    directions = []
    for number, values in enumerate(_split_auxiliary(x, auxiliary, kernels[1:])):
        extra = kernels[4 * number : 4 * number + 4]
        cell = _make_lstm_cell(options, parts[17 * number : 17 * number + 17], [None] * 4, extra)
        state = parts[34 + 2 * number : 36 + 2 * number]
        directions.append(run_sequence(cell, values, state, options.timeMajor, number == 1))
    return _join_directions(*directions, merge=options.mergeOutputs)


@OPS.define("SVDF")
def run_svdf(options: Any, x: Value, features: Value, times: Value, bias: Value, state: Value) -> list[Value]:
    """Return the output of a layer of filters of low rank, over the features of the last inputs."""
    (filters, memory), n = np.shape(times), np.shape(x)[0]
    past = jnp.reshape(state, (n, filters, memory))[:, :, 1:]
    recent = jnp.concatenate([past, (jnp.asarray(x) @ jnp.transpose(features))[:, :, None]], 2)
    total = jnp.sum(jnp.reshape(jnp.sum(recent * times, 2), (n, filters // options.rank, options.rank)), 2)
    return [activate(total if bias is None else total + bias, options), jnp.reshape(recent, np.shape(state))]
