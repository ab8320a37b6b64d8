"""Cascades: layers over large images that run a stripe of rows at a time, so that values stay in the caches.

The output of a layer at a network's beginning is larger than the caches, and the next layer reads it from memory again.
If nothing else reads it, both can run for some rows, then for the next rows, with a rolling buffer between them that
holds the rows a stripe needs. The whole image is never stored, which also saves a first run its page faults. See
runtime/abi/cascade.c for how they run. No answer changes by a bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from builder.compiler.lower.fuse import Layer
from builder.compiler.lower.geometry import Algorithm, Geometry
from builder.compiler.lower.hlo import Value
from builder.compiler.lower.layouts import TensorLayout, get_written_image, list_read_images
from builder.compiler.lower.schedule import Task
from builder.compiler.lower.steps.base import align_offset

MOST_LAYERS = 16
"""Maximum number of layers in a cascade: MOST_LAYERS in runtime/abi/cascade.c."""

BUFFER_BYTES = 480 << 10
"""Maximum bytes of a thread's rolling buffers: they stay in a second-level cache of 1 MB, with weights and inputs."""

WEIGHT_BYTES = 64 << 10
"""Maximum bytes of the weights of all layers, which are read again for each stripe."""

STREAMED: tuple[Algorithm, ...] = ("direct", "depthwise")
"""Algorithms that can compute any rows; so can "integer", which replaces "direct" for rounded inputs."""

LEAST_BYTES = 1 << 20
"""Size of the smallest value that leaves the second-level cache before it is read."""

BYTE_NS = 0.022
"""Measured cost of writing such a value and reading it again, for each byte; see docs/notes/memory.md."""

CALL_NS = 800.0
"""Measured cost of beginning a layer, for each stripe; see docs/notes/memory.md."""


@dataclass(frozen=True)
class Cascade:
    """Tasks from number ``first`` on that run ``rows`` rows of the last one's output at a time, of ``height`` in all.

    ``buffers``: the most rows that each task but the last computes, and so has in its rolling buffer.
    """

    first: int
    rows: int
    height: int
    buffers: tuple[int, ...]

    @property
    def last(self) -> int:
        """Number of its last task."""
        return self.first + len(self.buffers)

    @property
    def stripes(self) -> int:
        """Number of stripes of an image, on one thread."""
        return -(-self.height // self.rows)

    def count_rows(self, number: int) -> int:
        """Return the most rows that task ``number`` computes."""
        return (*self.buffers, self.rows)[number - self.first]


@dataclass(frozen=True)
class LayerOutput:
    """Output of a layer: numbers of ``item`` bytes."""

    layout: TensorLayout
    item: int

    def compute_rolling_size(self, rows: int) -> int:
        """Compute the bytes of a rolling buffer for ``rows`` rows and the zeros below the image."""
        return align_offset(self.item * (rows + self.layout.halo[2]) * self.layout.row)


def find_cascades(
    tasks: Sequence[Task],
    readers: Mapping[Value, Mapping[int, Task]],
    whole: Callable[[Value], bool],
    leaves: Callable[[Layer], LayerOutput],
    algorithm: Callable[[Layer], Algorithm],
) -> tuple[Cascade, ...]:
    """Return the cascades among ``tasks`` that save the most time, in order.

    ``readers``: the readers of each value, by number. ``whole``: returns whether a value must be in memory as a whole.
    ``algorithm``: returns the algorithm that a layer would have for floats.
    """
    cascades: list[Cascade] = []
    number = 0
    while number < len(tasks):
        run: list[Layer] = []
        for task in tasks[number:]:
            if not isinstance(task, Layer) or algorithm(task) not in STREAMED or task.is_transposed:
                break
            if run and not _can_follow(task, number + len(run), run[-1], readers, whole):
                break
            run.append(task)
        cascades += _divide_run(number, run, leaves) if len(run) > 1 else ()
        number += max(1, len(run))
    return tuple(cascades)


def compute_most_rows(layers: Sequence[Geometry], rows: int) -> tuple[int, ...]:
    """Compute the most rows that each of ``layers`` computes, so that the last one has ``rows`` rows."""
    counts = [rows]
    for layer in reversed(layers[1:]):
        counts.append(layer.compute_span(0, counts[-1]))
    return tuple(reversed(counts))


def _can_follow(
    task: Layer,
    number: int,
    before: Layer,
    readers: Mapping[Value, Mapping[int, Task]],
    whole: Callable[[Value], bool],
) -> bool:
    """Return whether ``task``, and nothing else, reads the image that ``before`` stores."""
    value, residual = before.end.base, task.affine.residual
    if before.second is not None or whole(value) or list(readers.get(value, ())) != [number]:
        return False
    source, image, _ = list_read_images(task)[0]
    if source.base is not value or (residual is not None and residual.base is value):
        return False
    return image == get_written_image(before) and image[1] > 1


def _divide_run(first: int, run: Sequence[Layer], leaves: Callable[[Layer], LayerOutput]) -> Iterator[Cascade]:
    """Divide a run into the cascades with the lowest cost of beginning layers and of values leaving the caches."""
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
    """Estimate the nanoseconds it costs to keep the output of ``layer`` in memory as a whole."""
    batch, numbers = layer.core.geometry.batch, math.prod(get_written_image(layer)[1:])
    if 4 * numbers < LEAST_BYTES:
        return 0.0
    size = leaves(layer).item * numbers
    return batch * size * BYTE_NS if size >= LEAST_BYTES else 0.0


def _make_cascade(first: int, layers: Sequence[Layer], leaves: Callable[[Layer], LayerOutput]) -> Cascade | None:
    """Return the cascade with the highest stripes that fit, all about equally high; None if not even one row fits."""
    sizes = [layer.core.geometry for layer in layers]
    if 4 * sum(size.weights for size in sizes) > WEIGHT_BYTES:
        return None
    outputs = [leaves(layer) for layer in layers[:-1]]
    height = sizes[-1].out_size[0]

    def fits(rows: int) -> bool:
        return sum(map(LayerOutput.compute_rolling_size, outputs, compute_most_rows(sizes, rows))) <= BUFFER_BYTES

    most = sum(1 for _ in itertools.takewhile(fits, range(1, height + 1)))
    if most == 0:
        return None
    rows = -(-height // -(-height // most))
    return Cascade(first, rows, height, compute_most_rows(sizes, rows)[:-1])
