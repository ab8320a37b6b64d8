"""Tensors whose first size the data may decide: XLA has room for the most of it."""

from __future__ import annotations

from typing import Any

from builder.base.tf import import_tensorflow, tf


def with_room(tensor: Any) -> tuple[Any, Any]:
    """Return all that ``tensor`` has room for, and how many of its first axis are there: the others are anything.

    Sorting and counting want a size that is the same for all data.
    """
    if tensor.shape[0] is not None:
        return tensor, tf.constant(tensor.shape[0])
    import_tensorflow()
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    room = gen_xla_ops.xla_remove_dynamic_dimension_size(tensor, dim_index=0)
    room.set_shape(tensor.shape)
    return room, tf.shape(tensor)[0]


def number_rows(tensor: Any) -> Any:
    """Return 0, 1, 2 and so on, int32, as many as ``tensor`` has on its first axis."""
    return tf.range(tensor.shape[0] if tensor.shape[0] is not None else tf.shape(tensor)[0])


def take_first(tensor: Any, number: Any, source: Any) -> Any:
    """Return the first ``number`` of ``tensor``, by ``cut_rows`` where ``source`` is of an open size."""
    return tensor[:number] if source.shape[0] is not None else cut_rows(tensor, number)


def cut_rows(tensor: Any, number: Any) -> Any:
    """Return the first ``number`` of ``tensor``, whose compiled form has the number beside the whole tensor.

    Slicing would not do: XLA wants to know how large a slice's end can be, and cannot tell it of these numbers.
    """
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    return gen_xla_ops.xla_set_dynamic_dimension_size(tensor, dim_index=0, size=number)
