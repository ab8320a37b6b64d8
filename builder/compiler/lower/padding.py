"""Zero padding of an image as part of the layer that reads it: a halo of its input."""

from __future__ import annotations

from dataclasses import replace

from builder.compiler.lower.hlo import Value, find_scalar
from builder.compiler.lower.layers import Core, get_image_shape


def match_zero_pad(value: Value) -> tuple[int, int, int, int] | None:
    """Return (top, left, bottom, right) of a ``pad`` of rank 4 that only puts zeros around the image, else None."""
    if value.op != "pad" or value.dtype != "float32" or len(value.dims) != 4 or not value.row_major:
        return None
    source, filler = value.operands
    zero = find_scalar(filler)
    sides = list(value.instruction.padding_config.dimensions)
    if zero != 0 or not source.row_major or any(s.interior_padding for s in sides):
        return None
    if any(sides[d].edge_padding_low or sides[d].edge_padding_high for d in (0, 3)):
        return None
    border = (
        sides[1].edge_padding_low,
        sides[2].edge_padding_low,
        sides[1].edge_padding_high,
        sides[2].edge_padding_high,
    )
    return border if min(border) >= 0 else None


def absorb_padding(core: Core) -> Core:
    """Let ``core`` read its input before padding, and pad it itself; it is unchanged where nothing is padded."""
    border = match_zero_pad(core.input)
    if border is None or core.value.op != "convolution" or core.swapped:
        return core
    source = core.input.operands[0]
    return replace(
        core,
        input=source,
        in_picture=get_image_shape(source.dims)[:3],
        padding=(core.padding[0] + border[0], core.padding[1] + border[1]),
        absorbed=core.input,
    )
