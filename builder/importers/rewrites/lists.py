"""Lists of tensors, which TensorArray is made of, and ops that pass their input on."""

from __future__ import annotations

from typing import Any

from builder.base.tf import tf
from builder.importers.rewrites.op import Op, rewrites


@rewrites("TensorListScatterIntoExistingList")
def rewrite_scatter_into(op: Op, handle: Any, tensor: Any, indices: Any) -> Any:
    """Set item by item in a list that is long enough. The same bits."""

    def step(number: Any, handle: Any) -> tuple[Any, Any]:
        item = tf.gather(tensor, number)
        return number + 1, tf.raw_ops.TensorListSetItem(input_handle=handle, index=indices[number], item=item)

    return tf.while_loop(lambda number, _: number < tensor.shape[0], step, (tf.constant(0), handle))[1]


@rewrites("TensorListScatter", "TensorListScatterV2")
def rewrite_list_scatter(op: Op, tensor: Any, indices: Any, element_shape: Any, num_elements: Any = None) -> Any:
    """Make a list of the given length, or up to the last of constant places. The same bits."""
    length = -1 if num_elements is None else int(op.get_constant(3))
    if length < 0:
        length = int(op.get_constant(1).max(initial=-1)) + 1
    handle = tf.raw_ops.TensorListReserve(
        element_shape=tensor.shape[1:].as_list(), num_elements=length, element_dtype=tensor.dtype
    )
    return rewrite_scatter_into(op, handle, tensor, indices)


@rewrites("CheckNumerics", "CheckNumericsV2", "GuaranteeConst", "Print")
def rewrite_identity(op: Op, value: Any, *rest: Any) -> Any:
    """Return the first input as it is. Nothing is printed, and no number is refused."""
    return tf.identity(value)
