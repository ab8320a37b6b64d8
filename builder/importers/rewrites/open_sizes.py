"""Tensors whose first size the data may decide: XLA has room for the most of it."""

from __future__ import annotations

from typing import Any

from builder.base.tf import import_tensorflow, tf


def with_room(tensor: Any) -> tuple[Any, Any]:
    """All that ``tensor`` has room for, and how many of its first axis are there: the others are anything.

    Sorting and counting want a size that is the same for all data.
    """
    import_tensorflow()
    if tensor.shape[0] is not None:
        return tensor, tf.constant(tensor.shape[0])
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    room = gen_xla_ops.xla_remove_dynamic_dimension_size(tensor, dim_index=0)
    room.set_shape(tensor.shape)
    return room, tf.shape(tensor)[0]


def number_rows(tensor: Any) -> Any:
    """0, 1, 2 and so on, int32, as many as ``tensor`` has on its first axis."""
    return tf.range(tensor.shape[0] if tensor.shape[0] is not None else tf.shape(tensor)[0])


def take_first(tensor: Any, number: Any, source: Any) -> Any:
    """The first ``number`` of ``tensor``, which says as much in its compiled form where ``source`` is of an open size.

    Slicing would not do there: XLA cannot tell what the slice's end can be.
    """
    if source.shape[0] is not None:
        return tensor[:number]
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    return gen_xla_ops.xla_set_dynamic_dimension_size(tensor, dim_index=0, size=number)
