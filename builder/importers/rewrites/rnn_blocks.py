"""Recurrent cells that TensorFlow 1 made one op of: LSTMBlockCell, BlockLSTM, GRUBlockCell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from builder.base.tf import tf
from builder.importers.rewrites.op import Op, rewrites


@dataclass(frozen=True)
class _Lstm:
    """The constants of the steps of an LSTM. ``order``: the order of the gates in the kernel."""

    order: str
    forget_bias: float
    clip: float
    peepholes: tuple[Any, Any, Any] | None
    kernel: Any

    def run_step(self, given: Any, state: Any, hidden: Any) -> tuple[Any, ...]:
        """Return input gate, state, forget gate, output gate, new input, its answer, and the output.

        Each is [batch, cells]. ``given``: the input times its part of the kernel, and the bias.
        """
        gates = dict(zip(self.order, tf.split(given + hidden @ self.kernel, 4, axis=1), strict=True))
        into, forget, out = gates["i"], gates["f"] + self.forget_bias, gates["o"]
        if self.peepholes:
            into, forget = into + state * self.peepholes[0], forget + state * self.peepholes[1]
        into, forget, new = tf.sigmoid(into), tf.sigmoid(forget), tf.tanh(gates["c"])
        state = new * into + state * forget
        if self.clip > 0.0:
            state = tf.clip_by_value(state, -self.clip, self.clip)
        out = tf.sigmoid(out + state * self.peepholes[2] if self.peepholes else out)
        shown = tf.tanh(state)
        return into, state, forget, out, new, shown, shown * out


def _make_lstm(op: Op, kernel: Any, peepholes: tuple[Any, Any, Any]) -> _Lstm:
    second = op.type == "BlockLSTMV2"
    bias = 0.0 if second else float(op.get_attribute("forget_bias"))
    seen = peepholes if op.get_attribute("use_peephole") else None
    return _Lstm("ifco" if second else "icfo", bias, float(op.get_attribute("cell_clip")), seen, kernel)


@rewrites("LSTMBlockCell")
def rewrite_lstm_cell(op: Op, x: Any, state: Any, hidden: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any) -> Any:
    """Compute all seven outputs. Off by a few units in the last place: the product is summed in two parts."""
    features = x.shape[1]
    return _make_lstm(op, w[features:], (wci, wcf, wco)).run_step(x @ w[:features] + b, state, hidden)


@rewrites("BlockLSTM", "BlockLSTMV2")
def rewrite_block_lstm(
    op: Op, steps: Any, x: Any, state: Any, hidden: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any
) -> Any:
    """Run LSTMBlockCell step by step.

    From step number seq_len_max on all seven outputs are 0, where TensorFlow only sets states and outputs.
    """
    time, batch, features = x.shape
    cell = _make_lstm(op, w[features:], (wci, wcf, wco))
    given = tf.reshape(tf.reshape(x, (-1, features)) @ w[:features] + b, (time, batch, -1))
    start = [tf.TensorArray(x.dtype, time, element_shape=state.shape) for _ in range(7)]

    def step(t: Any, state: Any, hidden: Any, *written: Any) -> tuple[Any, ...]:
        results = cell.run_step(tf.gather(given, t), state, hidden)
        return t + 1, results[1], results[6], *(a.write(t, r) for a, r in zip(written, results, strict=True))

    _, _, _, *written = tf.while_loop(lambda t, *_: t < time, step, (tf.constant(0), state, hidden, *start))
    there = (tf.range(time, dtype=steps.dtype) < steps)[:, None, None]
    return [tf.where(there, array.stack(), tf.cast(0, x.dtype)) for array in written]


@rewrites("GRUBlockCell")
def rewrite_gru_cell(op: Op, x: Any, hidden: Any, w_ru: Any, w_c: Any, b_ru: Any, b_c: Any) -> Any:
    """Compute all four outputs. Off by a few units in the last place."""
    reset, update = tf.split(tf.sigmoid(tf.concat([x, hidden], 1) @ w_ru + b_ru), 2, axis=1)
    candidate = tf.tanh(tf.concat([x, hidden * reset], 1) @ w_c + b_c)
    return reset, update, candidate, (1.0 - update) * candidate + update * hidden
