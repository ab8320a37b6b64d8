"""Tensors that are stored as bytes: inputs of integer sums that a layer of coldforge's own computes.

The layer that computes such a tensor rounds each number before it stores it, so that a quarter of the memory is written
and read, and no step is needed for the rounding. The bytes are those that the reader would make of floats. A maximum of
bytes is the byte of the maximum, since rounding keeps the order of numbers: pooling passes them on.
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
    """A tensor as bytes, the first output of each of its ``readers``, and whether bytes ``alone`` are read."""

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
    """Find out how the last output of ``task``, which ``tasks`` read, is stored as bytes; return None if it is not.

    ``rounding``: returns how a reader's input is rounded, or None if it is read as floats. ``fetched``: the model
    returns the output as floats.
    """
    value, image = task.outputs[-1], get_written_image(task)
    users = [t for t in tasks if isinstance(t, Layer | Pool) and list_read_images(t)[0][0].base is value]
    rounded = [(reader, by) for reader in users if list_read_images(reader)[0][1] == image and (by := rounding(reader))]
    if not rounded or image[3] % QUAD:
        return None
    by = rounded[0][1]  # there is one form: readers that round otherwise read floats
    readers = [reader for reader, other in rounded if other == by]
    halo = NO_HALO
    for reader in readers:
        halo = merge_halos(halo, list_read_images(reader)[0][2])
    layout = TensorLayout(image, halo, choose_pixel_stride(image, size=1))
    times = sum(source.base is value for t in tasks for source in list_inputs(t))
    values = frozenset(reader.outputs[0] for reader in readers)
    return Int8Edge(by, layout, values, alone=not fetched and times == len(readers))
