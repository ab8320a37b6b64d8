"""Layout of each value in memory: dense if XLA's kernels use it, else with the halo that its readers need, or as bytes.

The layer that computes an input of integer sums rounds each number before it stores it, so that a quarter of the memory
is written and read, and no step is needed for the rounding. The bytes are those that the reader would make of floats. A
maximum of bytes is the byte of the maximum, since rounding keeps the order of numbers: pooling passes them on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from builder.compiler.lower.attention import Attention
from builder.compiler.lower.fuse import Layer
from builder.compiler.lower.hlo import Dag, Value
from builder.compiler.lower.integer_concatenations import IntegerConcatenation
from builder.compiler.lower.integer_layers import LEAST_BYTES, IntegerLayer
from builder.compiler.lower.integer_pools import IntegerPool
from builder.compiler.lower.integer_sums import IntegerSum
from builder.compiler.lower.layers import get_image_shape
from builder.compiler.lower.normalise import Norm
from builder.compiler.lower.packing import QUAD
from builder.compiler.lower.pooling import Pool
from builder.compiler.lower.schedule import Task, find_makers, list_inputs, list_outputs
from builder.compiler.lower.steps.base import Buffer, View
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.compiler.lower.thunks import Thunk

Sides = tuple[int, int, int, int]
NO_HALO: Sides = (0, 0, 0, 0)

_SLOW_STRIDE = 2048
"""Bytes at whose multiples pixels share cache sets."""
_SKEW = 64
"""Bytes between such pixels that spread them over the sets."""


@dataclass(frozen=True)
class TensorLayout:
    """An image (batch, height, width, channels) with ``halo`` (top, left, bottom, right) and a pixel stride."""

    image: tuple[int, int, int, int]
    halo: Sides
    pixel: int

    @property
    def size(self) -> int:
        """Number of elements, including those of the halo and between pixels."""
        return self.image[0] * self._image

    @property
    def is_dense(self) -> bool:
        """True if there is nothing between the pixels and around them."""
        return self.halo == NO_HALO and self.pixel == self.image[3]

    @property
    def row(self) -> int:
        """Number of elements from one row to the next."""
        return (self.image[2] + self.halo[1] + self.halo[3]) * self.pixel

    @property
    def _image(self) -> int:
        return (self.image[1] + self.halo[0] + self.halo[2]) * self.row

    def make_view(self, buffer: Buffer, inset: tuple[int, int] = (0, 0)) -> View:
        """Return the view of the image in ``buffer``; ``inset`` (rows, pixels) moves element [0, 0] into the halo."""
        first = (self.halo[0] - inset[0]) * self.row + (self.halo[1] - inset[1]) * self.pixel
        return View(buffer, first, self._image, self.row, self.pixel)


@dataclass(frozen=True)
class TensorLayouts:
    """Layouts of values that are not dense (``stored``), and of copies with a halo for their readers (``repacked``)."""

    stored: dict[Value, TensorLayout]
    repacked: dict[Value, TensorLayout]

    def get_read_layout(self, value: Value, image: tuple[int, int, int, int], halo: Sides) -> tuple[bool, TensorLayout]:
        """Return whether a reader with this image and halo reads a copy of the value, and the layout it reads."""
        base = value.base
        if base in self.stored:
            return False, self.stored[base]
        if halo != NO_HALO:
            return True, self.repacked[base]
        return False, make_dense_layout(image)

    def get_written_layout(self, value: Value, image: tuple[int, int, int, int]) -> TensorLayout:
        """Return the layout in which a value is stored by a step that sees it as ``image``."""
        return self.stored.get(value.base, make_dense_layout(image))


def make_dense_layout(image: tuple[int, int, int, int]) -> TensorLayout:
    """Return the layout without a halo or gaps."""
    return TensorLayout(image, NO_HALO, image[3])


IntegerTask = IntegerLayer | IntegerSum | IntegerPool | IntegerConcatenation
ImageTask = Layer | Pool | Norm | IntegerTask


def list_read_images(task: ImageTask) -> list[tuple[Value, tuple[int, int, int, int], Sides]]:
    """List everything that a task reads as an image: the value, the image and the halo that it must have."""
    if isinstance(task, Pool):
        return [(task.input, (*task.in_image, task.channels), task.around)]
    if isinstance(task, IntegerPool):
        return list_read_images(task.pool)
    if isinstance(task, Norm):
        return [(task.input, _get_rows_image(task.input, task.channels), NO_HALO)]
    if isinstance(task, IntegerSum | IntegerConcatenation):
        return [(source, get_image_shape(source.dims), NO_HALO) for source in task.sources]
    core = task.core
    shape = core.geometry
    source = task.input if isinstance(task, IntegerLayer) else core.input
    images = [(source, (shape.batch, *core.in_size, shape.in_channels), core.input_halo)]
    if isinstance(task, Layer) and task.affine.residual is not None:
        images.append((task.affine.residual, (*shape.out_shape[:3], task.residual_channels), NO_HALO))
    return images


def get_written_image(task: ImageTask) -> tuple[int, int, int, int]:
    """Return the image that a task stores."""
    if isinstance(task, Pool):
        return (*task.out_image, task.channels)
    if isinstance(task, IntegerPool):
        return get_written_image(task.pool)
    if isinstance(task, Norm):
        return _get_rows_image(task.input, task.channels)
    if isinstance(task, IntegerSum | IntegerConcatenation):
        return get_image_shape(task.value.dims)
    return task.core.geometry.out_shape


def _get_rows_image(value: Value, channels: int) -> tuple[int, int, int, int]:
    """Return the image whose pixels are the rows of ``value``, if possible as the step that writes it sees them."""
    base = value.base
    return get_image_shape(base.dims if base.row_major and base.dims[-1:] == (channels,) else value.dims)


def plan_layouts(dag: Dag, tasks: Sequence[Task]) -> TensorLayouts:
    """Plan the layout of everything the tasks store.

    A value has the halo its readers need if one of coldforge's own kernels computes it and all see the same image.
    """
    makers = find_makers(tasks)
    fixed = {output.base for output in dag.outputs}
    images: dict[Value, set[tuple[int, int, int, int]]] = {}
    halos: dict[Value, Sides] = {}
    for task in tasks:
        if isinstance(task, Thunk | Attention | IntegerTask):
            fixed.update(source.base for source in list_inputs(task))
            continue
        if isinstance(task, Layer) and task.core.factor is not None:
            fixed.add(task.core.factor.base)
        for output in list_outputs(task):
            images.setdefault(output, set()).add(get_written_image(task))
        for value, image, halo in list_read_images(task):
            images.setdefault(value.base, set()).add(image)
            halos[value.base] = merge_halos(halos.get(value.base, NO_HALO), halo)
    stored: dict[Value, TensorLayout] = {}
    repacked: dict[Value, TensorLayout] = {}
    for value, seen in images.items():
        maker, halo = makers.get(value), halos.get(value, NO_HALO)
        image = next(iter(seen))
        free = maker is not None and not isinstance(maker, Thunk | Attention | IntegerTask) and value not in fixed
        if isinstance(maker, Layer) and maker.is_transposed:
            free = False  # its steps write no halo
        if free and len(seen) == 1:
            stored[value] = TensorLayout(image, halo, choose_pixel_stride(image))
        elif halo != NO_HALO:
            wanted = _find_padded_image(value, tasks)
            repacked[value] = TensorLayout(wanted, halo, choose_pixel_stride(wanted))
    return TensorLayouts(stored, repacked)


def _find_padded_image(value: Value, tasks: Sequence[Task]) -> tuple[int, int, int, int]:
    """Return the image as the readers that need a halo see it."""
    for task in tasks:
        if not isinstance(task, Thunk | Attention | IntegerTask):
            for source, image, halo in list_read_images(task):
                if source.base is value and halo != NO_HALO:
                    return image
    return get_image_shape(value.dims)


def choose_pixel_stride(image: tuple[int, int, int, int], size: int = 4) -> int:
    """Choose how many numbers, of ``size`` bytes each, lie from one pixel of ``image`` to the next."""
    channels = image[3]
    slow = size * channels % _SLOW_STRIDE == 0 and image[1] * image[2] > 1
    return channels + _SKEW // size if slow else channels


def merge_halos(a: Sides, b: Sides) -> Sides:
    """Return the halo that has room for both."""
    return max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3])


def flatten_pixels(layer: Layer) -> Layer:
    """Return a 1x1 layer over dense images as one over a single row of all their pixels."""
    shape = layer.core.geometry
    row = (1, shape.batch * shape.out_size[0] * shape.out_size[1])
    return replace(layer, core=replace(layer.core, geometry=replace(shape, batch=1, out_size=row), in_size=row))


def plan_byte_layouts(tasks: Sequence[Task]) -> dict[Value, TensorLayout]:
    """Plan the layout of every tensor that layers of integers store or read as bytes.

    It has the halo of all readers if they see the same image; otherwise it is dense, and readers copy it.
    """
    layouts: dict[Value, TensorLayout] = {}
    for task in tasks:
        if isinstance(task, IntegerTask) and task.outputs[0].dtype in LEAST_BYTES:
            layouts[task.outputs[0]] = make_byte_layout(get_written_image(task), NO_HALO)
    for task in tasks:
        for value, image, halo in list_read_images(task) if isinstance(task, IntegerTask) else ():
            layout = layouts.setdefault(value.base, make_byte_layout(image, halo))
            if layout.image == image:
                layouts[value.base] = make_byte_layout(image, merge_halos(layout.halo, halo))
    return layouts


def make_byte_layout(image: tuple[int, int, int, int], halo: Sides) -> TensorLayout:
    """Return the layout of bytes whose pixels begin at words of four."""
    words = (*image[:3], -(-image[3] // QUAD) * QUAD)
    return TensorLayout(image, halo, choose_pixel_stride(words, size=1))


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
