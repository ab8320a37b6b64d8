"""Lists of tensors, which TensorArray is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builder.base.tf import tf
from builder.importers.rewrites.op import Op, Rewrite


def rewrite_scatter_into(op: Op, handle: Any, tensor: Any, indices: Any) -> Any:
    """Item by item, into a list that is long enough. The same bits."""
    return _set_items(handle, tensor, indices)


def rewrite_list_scatter(op: Op, tensor: Any, indices: Any, element_shape: Any, num_elements: Any = None) -> Any:
    """A list whose length is told or, where the places are constants, ends with the last of them. The same bits."""
    length = -1 if num_elements is None else int(op.get_constant(3))
    if length < 0:
        length = int(op.get_constant(1).max(initial=-1)) + 1
    handle = tf.raw_ops.TensorListReserve(
        element_shape=tensor.shape[1:].as_list(), num_elements=length, element_dtype=tensor.dtype
    )
    return _set_items(handle, tensor, indices)


def _set_items(handle: Any, tensor: Any, indices: Any) -> Any:

    def step(number: Any, handle: Any) -> tuple[Any, Any]:
        item = tf.gather(tensor, number)
        return number + 1, tf.raw_ops.TensorListSetItem(input_handle=handle, index=indices[number], item=item)

    return tf.while_loop(lambda number, _: number < tensor.shape[0], step, (tf.constant(0), handle))[1]


REWRITES: Mapping[str, Rewrite] = {
    "TensorListScatter": rewrite_list_scatter,
    "TensorListScatterIntoExistingList": rewrite_scatter_into,
    "TensorListScatterV2": rewrite_list_scatter,
}
