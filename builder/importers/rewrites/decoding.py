"""Classes over time, made the symbols that were said: CTC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builder.base.tf import tf
from builder.importers.rewrites.op import Op, Rewrite


def rewrite_ctc_greedy_decoder(op: Op, scores: Any, lengths: Any) -> Any:
    """The best class of each step, without blanks and, if asked, repetitions. The same symbols; the scores are off by
    the order of the sums.
    """
    steps, batch, classes = scores.shape
    blank = op.get_attribute("blank_index")
    blank = blank + classes if blank < 0 else blank
    there = tf.range(steps)[None, :] < lengths[:, None]
    symbols = tf.transpose(tf.argmax(scores, axis=2))
    best = tf.transpose(tf.reduce_max(scores, axis=2))
    said = there & tf.not_equal(symbols, blank)
    if op.get_attribute("merge_repeated"):
        before = tf.concat([tf.fill([batch, 1], tf.constant(-1, symbols.dtype)), symbols[:, :-1]], axis=1)
        said &= tf.not_equal(symbols, before)
    position = tf.cumsum(tf.cast(said, tf.int64), axis=1)
    places = tf.where(said)
    number = tf.gather_nd(position, places) - 1
    longest = tf.reduce_max(position[:, -1]) if steps else tf.constant(0, tf.int64)
    total = tf.reduce_sum(tf.where(there, -best, tf.cast(0, best.dtype)), axis=1, keepdims=True)
    return (
        tf.stack([places[:, 0], number], axis=1),
        tf.gather_nd(symbols, places),
        tf.stack([tf.constant(batch, tf.int64), longest]),
        total,
    )


REWRITES: Mapping[str, Rewrite] = {"CTCGreedyDecoder": rewrite_ctc_greedy_decoder}
