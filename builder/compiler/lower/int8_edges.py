"""Which tensors are stored as bytes: inputs of integer sums that a layer of ours makes.

The layer that makes such a tensor rounds each number before it stores it, so that a quarter of the memory is written
and read, and nothing has to be rounded in a step of its own. The bytes are those that the reader would make of floats.
A maximum of bytes is the byte of the maximum, since rounding keeps the order of numbers: pooling passes them on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from builder.compiler.lower.fuse import Layer
from builder.compiler.lower.hlo import Value
from builder.compiler.lower.layouts import (
    NO_HALO,
    TensorLayout,
    choose_pixel_stride,
    get_written_image,
    list_read_images,
    merge_halos,
)
from builder.compiler.lower.packing import QUAD
from builder.compiler.lower.pooling import Pool
from builder.compiler.lower.schedule import Task, list_inputs
from builder.compiler.lower.steps.quantisation import Quantisation


@dataclass(frozen=True)
class Int8Edge:
    """A tensor as bytes. ``readers``: who reads them, by the first output; ``alone``: nothing reads floats."""

    by: Quantisation
    layout: TensorLayout
    readers: frozenset[Value]
    alone: bool


def find_int8_edge(
    task: Layer | Pool,
    tasks: Sequence[Task],
    rounding: Callable[[Layer | Pool], Quantisation | None],
    *,
    fetched: bool,
) -> Int8Edge | None:
    """How the last output of ``task``, which ``tasks`` read, is stored as bytes; None where it is not.

    ``rounding``: how a reader's input is rounded, None where it is read as floats. ``fetched``: the model gives the
    output as floats.
    """
    value, picture = task.outputs[-1], get_written_image(task)
    possible = [one for one in tasks if isinstance(one, Layer | Pool) and list_read_images(one)[0][0].base is value]
    found = [
        (reader, by) for reader in possible if list_read_images(reader)[0][1] == picture and (by := rounding(reader))
    ]
    if not found or picture[3] % QUAD:
        return None
    by = found[0][1]  # one form: readers that round otherwise read floats
    readers = [reader for reader, its in found if its == by]
    halo = NO_HALO
    for reader in readers:
        halo = merge_halos(halo, list_read_images(reader)[0][2])
    layout = TensorLayout(picture, halo, choose_pixel_stride(picture, size=1))
    times = sum(source.base is value for one in tasks for source in list_inputs(one))
    values = frozenset(reader.outputs[0] for reader in readers)
    return Int8Edge(by, layout, values, alone=not fetched and times == len(readers))
