"""Storage of a program's values, weights and copies while it is assembled; the arena is planned at the end."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import LowerError
from builder.compiler.lower.decisions import StepInfo
from builder.compiler.lower.fuse import Layer
from builder.compiler.lower.gather_tables import TableStore
from builder.compiler.lower.geometry import Algorithm, Geometry
from builder.compiler.lower.hlo import Value
from builder.compiler.lower.layouts import (
    Int8Edge,
    TensorLayout,
    get_written_image,
    list_read_images,
    make_dense_layout,
)
from builder.compiler.lower.packing import MAX_THREADS, compute_scratch_size, pad_channels
from builder.compiler.lower.planner import ROOM, Storage
from builder.compiler.lower.pooling import Pool
from builder.compiler.lower.program_plan import ProgramPlan
from builder.compiler.lower.steps.base import Buffer, Step, View, walk_steps
from builder.compiler.lower.steps.copy_step import CopyStep
from builder.compiler.lower.steps.image_step import RepackStep
from builder.compiler.lower.thunks import Thunk
from builder.compiler.lower.weight_store import WeightStore, read_constant


@dataclass(frozen=True)
class PlacedImage:
    """An image in a storage whose offset is not known until the end."""

    storage: Storage
    layout: TensorLayout

    def make_view(self, inset: tuple[int, int] = (0, 0)) -> View:
        """Return the image as a View, whose element [0, 0] ``inset`` (rows, pixels) moves into the halo."""
        return self.layout.make_view(self.storage.buffer, inset)


class Allocator:
    """Storage of every value, and the steps so far, over storages that have no offsets yet.

    ``states``: the number of feeds, the last ones, that hold state and do not come from the caller.
    """

    def __init__(self, plan: ProgramPlan, states: int) -> None:
        self.plan = plan
        self.store = WeightStore(plan.options.share)
        self.gathered = TableStore(plan.constants, plan.tables.by_buffer, plan.compressor, self.store)
        self.placed: dict[Buffer, Buffer] = {}
        self.storages: list[Storage] = []
        self.values: dict[Value, Storage] = {}
        self.copies: dict[Value, PlacedImage] = {}
        self.bytes: dict[Value, tuple[Int8Edge, PlacedImage]] = {}
        self.steps: list[Step] = []
        self.notes: list[StepInfo] = []
        for number, port in enumerate(plan.faithful.feeds):
            value = plan.dag.parameters[number].base
            callers = number < len(plan.faithful.feeds) - states and plan.stays_with_caller(value)
            feed = Storage(port.spec.size, -1, -1, feed=number) if callers else self._reserve_memory(port.spec.size)
            feed.extend_life(-1)
            self.values[value] = feed

    def _reserve_memory(self, size: int, alone: int | None = None) -> Storage:
        storage = Storage(size, len(self.steps), len(self.steps), alone=alone, number=len(self.storages))
        self.storages.append(storage)
        return storage

    def _append_step(self, step: Step, note: StepInfo) -> None:
        for buffer in (buffer for inner in walk_steps((step,)) for buffer in inner.buffers if buffer.space == "arena"):
            self.storages[buffer.offset // ROOM].extend_life(len(self.steps))
        self.steps.append(step)
        self.notes.append(note)

    def _place_int8_edge(
        self, task: Layer | Pool, storage: Storage | None = None
    ) -> tuple[Int8Edge | None, PlacedImage | None]:
        """Place the last output of ``task`` as bytes in ``storage``, or in a storage of its own.

        Return None and None if it is not stored as bytes.
        """
        edge = self.plan.find_edge(task)
        if edge is None:
            return None, None
        image = PlacedImage(storage or self._reserve_memory(edge.layout.size), edge.layout)
        self.bytes[task.outputs[-1]] = edge, image
        return edge, image

    def _find_int8_input(self, reader: Layer | Pool) -> PlacedImage | None:
        """Return the input of ``reader`` as bytes, or None if it reads floats."""
        entry = self.bytes.get(list_read_images(reader)[0][0].base)
        return entry[1] if entry is not None and reader.outputs[0] in entry[0].readers else None

    def _place_channels(self, vector: NDArray[np.float64], times: int = 1) -> Buffer:
        return self.store.add_constant(pad_channels(np.tile(vector.astype(np.float32), times)))

    def _place_constant(self, buffer: Buffer | bytes) -> Buffer:
        if isinstance(buffer, bytes):
            return self.store.add_constant(buffer)
        if buffer not in self.placed:
            self.placed[buffer] = self.store.add_constant(read_constant(self.plan.constants, buffer))
        return self.placed[buffer]

    def _place_fetch(self, value: Value, size: int) -> Buffer:
        if value in self.values:
            return replace(self.values[value].buffer, size=size)
        if value.op != "constant":
            raise LowerError(f"the fetch {value} was not made")
        return self.store.add_constant(value.data)

    def _reuse_residual(self, layer: Layer, residual: PlacedImage | None, number: int) -> Storage | None:
        """Return the residual's storage if nothing reads it afterwards: writing over it saves the cache an image."""
        value = layer.affine.residual
        if value is None or residual is None or value.base is layer.core.input.base or value.base in self.plan.fetched:
            return None
        if number in self.plan.cascades:  # another thread may still need a row that this thread would overwrite
            return None
        same = residual.layout == self.plan.layouts.get_written_layout(layer.end.base, get_written_image(layer))
        return residual.storage if same and max(self.plan.readers[value.base]) == number else None

    def _reserve_rolling(self, layer: Layer, number: int) -> Storage | None:
        """Reserve the rolling buffers of all threads behind ``layer``, if it is in a cascade and not its last layer."""
        cascade = self.plan.cascades.get(number)
        if cascade is None or number == cascade.last:
            return None
        size = self.plan.find_layer_output(layer).compute_rolling_size(cascade.count_rows(number))
        return self._reserve_memory(MAX_THREADS * size, size)

    def _reserve_scratch(self, computed: Geometry, algorithm: Algorithm, rows: int | None) -> Storage | None:
        """Reserve the scratch of a layer; in a cascade each thread has its own, for ``rows`` rows."""
        if rows is None:
            size = compute_scratch_size(computed, algorithm)
        else:
            computed = replace(computed, batch=1, out_size=(rows, computed.out_size[1]))
            size = MAX_THREADS * compute_scratch_size(computed, algorithm, threads=1)
        return (
            self._reserve_memory(size, compute_scratch_size(computed, algorithm, threads=1, tiles=False))
            if size
            else None
        )

    def _place_output(
        self, value: Value, image: tuple[int, int, int, int], storage: Storage | None = None
    ) -> PlacedImage:
        layout = self.plan.layouts.get_written_layout(value, image)
        storage = storage or self._reserve_memory(4 * layout.size)
        self.values[value] = storage
        return PlacedImage(storage, layout)

    def _find_input(
        self, value: Value, image: tuple[int, int, int, int], halo: tuple[int, int, int, int]
    ) -> PlacedImage:
        copied, layout = self.plan.layouts.get_read_layout(value, image, halo)
        if layout.image != image:
            raise LowerError(f"{value} is read as images of different sizes")
        if not copied:
            return PlacedImage(self.values[value.base], layout)
        if value.base not in self.copies:
            self.copies[value.base] = self._repack_image(value, layout)
        return self.copies[value.base]

    def _repack_image(self, value: Value, layout: TensorLayout) -> PlacedImage:
        source = PlacedImage(self.values[value.base], make_dense_layout(layout.image))
        target = PlacedImage(self._reserve_memory(4 * layout.size), layout)
        batch, height, width, channels = layout.image
        name = f"{value.base.instruction.name} with a halo"

        size = (height, width)
        step = RepackStep(name, source.make_view(), target.make_view(), batch, size, channels, halo=layout.halo)
        self._append_step(step, StepInfo(name, "repack", bytes=source.storage.size + target.storage.size))
        return target

    def _find_in_place(self, thunk: Thunk, index: int, number: int, sources: list[Storage | Buffer]) -> Storage | None:
        """Return the storage of the argument that XLA's kernel writes through, or of a copy if others still read it."""
        aliased = thunk.list_aliased_reads(index)
        if not aliased:
            return None
        read = aliased[0]
        value, storage = thunk.sources[read], sources[read]
        if not isinstance(value, Value) or not isinstance(storage, Storage):
            raise LowerError(f"{thunk.step.name} writes over a constant")
        elsewhere = any(i not in aliased and s is storage for i, s in enumerate(sources))
        if max(self.plan.readers[value.base]) == number and value.base not in self.plan.fetched and not elsewhere:
            return storage
        target = self._reserve_memory(thunk.reads[read].size)
        name = f"{thunk.step.name} in place"
        size = thunk.reads[read].size
        self._append_step(_make_copy(name, storage, target, size), StepInfo(name, "copy", bytes=2 * size))
        return target


def _make_copy(name: str, source: Storage, target: Storage, size: int) -> CopyStep:
    item = 4 if size % 4 == 0 else 1
    count = size // item
    return CopyStep(
        name, resize_buffer(source, size), resize_buffer(target, size), item, (count,), (1,), target_strides=(1,)
    )


def resize_buffer(place: Storage | Buffer, size: int) -> Buffer:
    """Return the first ``size`` bytes of a storage or buffer."""
    buffer = place.buffer if isinstance(place, Storage) else place
    return replace(buffer, size=size)
