"""Operations on an image that the layer behind them computes itself: zero padding and factors of channels.

Padding becomes a halo of the layer's input. In squeeze-and-excitation, a network computes a factor for each channel,
multiplies an image by them, and a 1x1 layer reads the product. That layer can multiply its weights instead, a block of
them at a time in the first-level cache. It has far fewer weights than the image has numbers, and the image is not read
and written once more.
"""

from __future__ import annotations

import math
from dataclasses import replace

from builder.compiler.lower.geometry import THIN_CHANNELS
from builder.compiler.lower.hlo import Dag, Value, find_scalar
from builder.compiler.lower.layers import Core, get_image_shape
from builder.compiler.lower.packing import GEMV_PIXELS, TILED_PIXELS


def _find_zero_sides(value: Value) -> list[tuple[int, int]]:
    """Return how many zeros a ``pad`` puts before and after each dimension; an empty list for anything else."""
    if value.op != "pad" or value.dtype != "float32" or not value.row_major:
        return []
    source, filler = value.operands
    sides = value.instruction.padding_config.dimensions
    if find_scalar(filler) != 0 or not source.row_major or any(s.interior_padding for s in sides):
        return []
    return [(s.edge_padding_low, s.edge_padding_high) for s in sides]


def match_zero_pad(value: Value) -> tuple[int, int, int, int] | None:
    """Return (top, left, bottom, right) of a ``pad`` of rank 4 that only puts zeros around the image, else None."""
    match _find_zero_sides(value):
        case [(0, 0), (top, bottom), (left, right), (0, 0)] if min(top, left, bottom, right) >= 0:
            return top, left, bottom, right
    return None


def remove_channel_pad(value: Value, channels: int) -> Value:
    """Return the image that ``value``, of ``channels``, is with zeros behind its own channels; else ``value``."""
    match _find_zero_sides(value):
        case [*others, (0, more)] if more > 0 and not any(map(any, others)) and value.dims[-1] == channels:
            return value.operands[0]
    return value


def absorb_padding(core: Core) -> Core:
    """Let ``core`` read its input before padding, and pad it itself; it is unchanged where nothing is padded."""
    border = match_zero_pad(core.input)
    if border is None or core.value.op != "convolution" or core.swapped or core.geometry.upsampling != (1, 1):
        return core
    source = core.input.operands[0]
    return replace(
        core,
        input=source,
        in_size=get_image_shape(source.dims)[1:3],
        padding=(core.padding[0] + border[0], core.padding[1] + border[1]),
        absorbed=core.input,
    )


BLOCK_BYTES = 160 << 10
"""The most bytes that a task reads; each scales the weights again. CF_L2_INPUT_BYTES in runtime/fused/blocking.h."""


def absorb_factor(core: Core, dag: Dag) -> Core:
    """Let ``core`` read the image before its multiplication; it is unchanged where this saves nothing."""
    pair = _match_factor(core.input)
    if pair is None or not _is_worthwhile(core):
        return core
    image, factor = pair
    product = core.input.base
    if get_image_shape(image.base.dims) != get_image_shape(product.dims) or not _is_only_reader(product, core, dag):
        return core
    return replace(core, input=image, factor=factor)


def _match_factor(value: Value) -> tuple[Value, Value] | None:
    """Return the image and the vector of channels whose product ``value`` is, else None."""
    product = value.base
    if product.op != "multiply" or product.dtype != "float32" or not product.row_major:
        return None
    for image, factor in (product.operands, product.operands[::-1]):
        if factor.op != "broadcast" or list(factor.instruction.dimensions) != [len(product.dims) - 1]:
            continue
        (vector,) = factor.operands
        if not vector.is_constant and image.op != "broadcast" and image.row_major:
            return image, vector
    return None


def _is_worthwhile(core: Core) -> bool:
    """Return whether multiplying the weights, once for each task, is less work than multiplying the image."""
    shape, pixels = core.geometry, math.prod(core.geometry.out_size)
    if shape.batch != 1 or shape.kernel_size != (1, 1) or shape.stride != (1, 1) or shape.groups != 1:
        return False
    tasks = -(-pixels // min(TILED_PIXELS[1], BLOCK_BYTES // (4 * shape.in_channels) or 1))
    return pixels > GEMV_PIXELS and shape.out_channels > THIN_CHANNELS and shape.out_channels * tasks <= 2 * pixels


def _is_only_reader(product: Value, core: Core, dag: Dag) -> bool:
    value = product
    while value is not core.value:
        users = dag.users[value]
        if len(users) != 1 or (users[0] is not core.value and users[0].op != "bitcast"):
            return False
        value = users[0]
    return product not in {output.base for output in dag.outputs}
