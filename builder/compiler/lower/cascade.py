"""Cascades: layers over large pictures that run a stripe of rows at a time, so that values stay in the caches.

A layer at a network's beginning leaves more than the caches hold, and the next one reads it from memory again. Where
nothing else reads it, both can run for some rows, then for the next rows. Between them is a rolling buffer that has
what a stripe needs. The whole picture is nowhere, which also saves a first run the faults of its pages.
See runtime/abi/cascade.c for how they run. No answer changes by a bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from builder.compiler.lower.buffers import align_offset
from builder.compiler.lower.fuse import Layer
from builder.compiler.lower.geometry import Algorithm, Geometry
from builder.compiler.lower.hlo import Value
from builder.compiler.lower.layouts import TensorLayout, get_written_image, list_read_images
from builder.compiler.lower.schedule import Task

MOST_LAYERS = 16
"""MOST_LAYERS in runtime/abi/cascade.c."""

BUFFER_BYTES = 480 << 10
"""Of all rolling buffers of a thread together: they stay in a second-level cache of 1 MB, beside weights and inputs."""

WEIGHT_BYTES = 64 << 10
"""Of all layers together: they are read again for each stripe."""

STREAMED: tuple[Algorithm, ...] = ("direct", "depthwise")
"""Algorithms by which any rows can be had; "integer", too, which takes the place of the first for rounded inputs."""

LEAST_BYTES = 1 << 20
"""Of a value that leaves the second-level cache before it is read."""

BYTE_NS = 0.022
"""What it costs to write such a value and read it again, for each byte ..."""

CALL_NS = 800.0
"""... and what it costs to begin a layer, for each stripe. Both are measured: see docs/notes/memory.md."""


@dataclass(frozen=True)
class Cascade:
    """The tasks from number ``first`` on, ``rows`` rows of the last one's output at a time, of ``height`` in all.

    ``buffers``: rows that each but the last computes at most, and so has in its rolling buffer.
    """

    first: int
    rows: int
    height: int
    buffers: tuple[int, ...]

    @property
    def last(self) -> int:
        """The number of its last task."""
        return self.first + len(self.buffers)

    @property
    def stripes(self) -> int:
        """Of a picture, on one thread."""
        return -(-self.height // self.rows)

    def count_rows(self, number: int) -> int:
        """How many rows task ``number`` computes at most."""
        return (*self.buffers, self.rows)[number - self.first]


@dataclass(frozen=True)
class LayerOutput:
    """What a layer leaves: numbers of ``item`` bytes."""

    layout: TensorLayout
    item: int

    def compute_rolling_size(self, rows: int) -> int:
        """Bytes of a rolling buffer for so many rows, and for the zeros below the picture."""
        return align_offset(self.item * (rows + self.layout.halo[2]) * self.layout.row)


def find_cascades(
    tasks: Sequence[Task],
    readers: Mapping[Value, Mapping[int, Task]],
    whole: Callable[[Value], bool],
    leaves: Callable[[Layer], LayerOutput],
    algorithm: Callable[[Layer], Algorithm],
) -> tuple[Cascade, ...]:
    """The cascades among ``tasks`` that save the most time, in their order.

    ``readers``: of each value, by number. ``whole``: whether a value must be in memory as a whole. ``algorithm``: that
    a layer would have for floats.
    """
    found: list[Cascade] = []
    number = 0
    while number < len(tasks):
        run: list[Layer] = []
        for task in tasks[number:]:
            if not isinstance(task, Layer) or algorithm(task) not in STREAMED:
                break
            if run and not _can_follow(task, number + len(run), run[-1], readers, whole):
                break
            run.append(task)
        found += _divide_run(number, run, leaves) if len(run) > 1 else ()
        number += max(1, len(run))
    return tuple(found)


def compute_most_rows(layers: Sequence[Geometry], rows: int) -> tuple[int, ...]:
    """How many rows each of ``layers`` computes at most, so that the last one has ``rows`` rows."""
    found = [rows]
    for layer in reversed(layers[1:]):
        found.append(layer.compute_span(0, found[-1]))
    return tuple(reversed(found))


def _can_follow(
    task: Layer,
    number: int,
    before: Layer,
    readers: Mapping[Value, Mapping[int, Task]],
    whole: Callable[[Value], bool],
) -> bool:
    """Whether ``task`` reads a picture that ``before`` leaves, and nothing else does."""
    value, residual = before.end.base, task.affine.residual
    if before.second is not None or whole(value) or list(readers.get(value, ())) != [number]:
        return False
    source, picture, _ = list_read_images(task)[0]
    if source.base is not value or (residual is not None and residual.base is value):
        return False
    return picture == get_written_image(before) and picture[1] > 1


def _divide_run(first: int, run: Sequence[Layer], leaves: Callable[[Layer], LayerOutput]) -> Iterator[Cascade]:
    """The cascades that make the least of: beginning layers for each stripe, and values that leave the caches."""
    best: list[tuple[float, tuple[Cascade, ...]]] = [(0.0, ())]
    for end in range(1, len(run) + 1):
        options = []
        for begin in range(max(0, end - MOST_LAYERS), end):
            cost, cascades = best[begin]
            cost += _estimate_memory_cost(run[begin - 1], leaves) if begin else 0
            if end - begin > 1:
                cascade = _make_cascade(first + begin, run[begin:end], leaves)
                if cascade is None:
                    continue
                cost, cascades = cost + CALL_NS * cascade.stripes * (end - begin), (*cascades, cascade)
            options.append((cost, cascades))
        best.append(min(options, key=lambda option: option[0]))
    yield from best[-1][1]


def _estimate_memory_cost(layer: Layer, leaves: Callable[[Layer], LayerOutput]) -> float:
    """Nanoseconds that it costs if what ``layer`` leaves is in memory as a whole."""
    batch, numbers = layer.core.out_picture[0], math.prod(get_written_image(layer)[1:])
    if 4 * numbers < LEAST_BYTES:
        return 0.0
    size = leaves(layer).item * numbers
    return batch * size * BYTE_NS if size >= LEAST_BYTES else 0.0


def _make_cascade(first: int, layers: Sequence[Layer], leaves: Callable[[Layer], LayerOutput]) -> Cascade | None:
    """The cascade with the highest stripes that fit, all about equally high; None where not even one row fits."""
    sizes = [one.core.geometry for one in layers]
    if 4 * sum(size.weights for size in sizes) > WEIGHT_BYTES:
        return None
    left = [leaves(one) for one in layers[:-1]]
    height = sizes[-1].out_size[0]

    def fits(rows: int) -> bool:
        return sum(map(LayerOutput.compute_rolling_size, left, compute_most_rows(sizes, rows))) <= BUFFER_BYTES

    most = sum(1 for _ in itertools.takewhile(fits, range(1, height + 1)))
    if most == 0:
        return None
    rows = -(-height // -(-height // most))
    return Cascade(first, rows, height, compute_most_rows(sizes, rows)[:-1])
