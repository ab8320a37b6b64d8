"""Recurrent layers of bytes: states and gates have 16 bits, as in LiteRT's integer kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.tflite.integers.fixed_point import (
    divide_by_power,
    make_fixed_point,
    multiply,
    tabulate_sigmoid,
    tabulate_tanh,
)
from builder.importers.frameworks.tflite.integers.integer_values import IntegerTable, Value, centre, store
from builder.importers.frameworks.tflite.ops.recurrence import run_sequence
from builder.importers.frameworks.tflite.tflite_tensors import Tensor

OPS = IntegerTable()
_HIDDEN, _CELL = 18, 19


def _saturate(x: Value) -> Value:
    return jnp.clip(x, -32768, 32767)


def _look_up(table: Any, x: Value) -> Value:
    return jnp.asarray(table.astype(np.int32))[x + 32768]


def is_plain_lstm(tensors: Sequence[Tensor | None]) -> bool:
    """Say whether a layer of bytes has all four gates, and neither peepholes, projection nor norms."""
    extra = [*tensors[9:12], *tensors[16:18], *tensors[20:24]]
    x, cell = tensors[0], tensors[_CELL]
    narrow = x is not None and x.dtype == np.int8 and cell is not None and cell.dtype == np.int16
    return narrow and tensors[1] is not None and not any(tensor is not None for tensor in extra)


@OPS.define("UNIDIRECTIONAL_SEQUENCE_LSTM")
def _run_lstm(options: Any, tensors: Sequence[Tensor], output: Tensor, *values: Value) -> list[Value]:
    x_tensor, hidden_tensor, cell_tensor = tensors[0], tensors[_HIDDEN], tensors[_CELL]
    bits = round(np.log2(cell_tensor.step))
    sigmoid, tanh, cell_tanh = tabulate_sigmoid(3), tabulate_tanh(3), tabulate_tanh(15 + bits)
    weights = [jnp.asarray(value).astype(np.int32) for value in values[1:9]]
    fine = np.float32(2**-12)
    factors = [
        make_fixed_point(tensor.step * state.step / fine)
        for tensor, state in zip(tensors[1:9], [x_tensor] * 4 + [hidden_tensor] * 4, strict=True)
    ]
    hidden_factor = make_fixed_point(np.float32(2**-15 / np.float64(output.step) * 2**-15))
    clip = int(np.clip(options.cellClip / cell_tensor.step, -32768, 32767)) if options.cellClip > 0 else 32768

    def sum_gate(number: int, x: Value, hidden: Value) -> Value:
        entry = multiply(x @ weights[number].T + values[12 + number], factors[number])
        recurrent = multiply(hidden @ weights[4 + number].T, factors[4 + number])
        return _saturate(recurrent + _saturate(entry)).astype(np.int32)

    def advance(state: Any, x: Value) -> Any:
        hidden, cell = centre(state[0], hidden_tensor), state[1].astype(np.int32)
        entry, forget, update, out = (
            _look_up(table, sum_gate(number, x, hidden))
            for number, table in enumerate((sigmoid, sigmoid, tanh, sigmoid))
        )
        kept = divide_by_power(forget * cell, 15)
        cell = jnp.clip(_saturate(kept + divide_by_power(entry * update, 30 + bits)), -clip, clip)
        shown = multiply(out * _look_up(cell_tanh, cell), hidden_factor)
        return store(shown, output), cell.astype(np.int16)

    centred = centre(values[0], x_tensor)
    return run_sequence(advance, centred, [values[_HIDDEN], values[_CELL]], options.timeMajor)


@OPS.define("SVDF")
def _run_svdf(options: Any, tensors: Sequence[Tensor], output: Tensor, *values: Value) -> tuple[Value, Value]:
    x, features, times, bias, state = values
    (filters, memory), n = np.shape(times), np.shape(x)[0]
    x_tensor, features_tensor, times_tensor, _, state_tensor = tensors
    inner = make_fixed_point(x_tensor.step * features_tensor.step / state_tensor.step)
    outer = make_fixed_point(state_tensor.step * times_tensor.step / output.step)
    product = centre(x, x_tensor) @ jnp.transpose(features).astype(np.int32)
    recent = _saturate(multiply(product, inner))[:, :, None]
    past = jnp.reshape(state, (n, filters, memory))[:, :, 1:]
    kept = jnp.concatenate([past.astype(np.int32), recent.astype(np.int32)], 2)
    total = jnp.sum(kept * times.astype(np.int32), 2, dtype=np.int32)
    total = jnp.sum(jnp.reshape(total, (n, filters // options.rank, options.rank)), 2, dtype=np.int32)
    total = total if bias is None else total + bias
    return store(multiply(total, outer), output), jnp.reshape(kept, np.shape(state)).astype(state.dtype)
