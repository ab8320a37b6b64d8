"""Storage of a program's values, weights and copies while it is assembled; the arena is planned at the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import LowerError
from builder.compiler.lower.attention import Attention
from builder.compiler.lower.cascade import Cascade, LayerOutput, find_cascades
from builder.compiler.lower.compress import Compressor, StoredWeights
from builder.compiler.lower.decisions import StepInfo
from builder.compiler.lower.fuse import Layer
from builder.compiler.lower.gather_tables import TableStore, find_tables
from builder.compiler.lower.gathers import GATHERS
from builder.compiler.lower.geometry import Algorithm, Geometry
from builder.compiler.lower.hlo import Dag, Value
from builder.compiler.lower.layers import Core
from builder.compiler.lower.layouts import (
    Int8Edge,
    TensorLayout,
    TensorLayouts,
    find_int8_edge,
    flatten_pixels,
    get_written_image,
    list_read_images,
    make_dense_layout,
    plan_layouts,
)
from builder.compiler.lower.options import LoweringOptions
from builder.compiler.lower.packing import MAX_THREADS, compute_scratch_size, pad_channels, resolve_algorithm
from builder.compiler.lower.planner import ROOM, Storage
from builder.compiler.lower.pooling import Pool
from builder.compiler.lower.program import Program
from builder.compiler.lower.schedule import Schedule, Task, find_makers, list_inputs
from builder.compiler.lower.steps.base import Buffer, Step, View, walk_steps
from builder.compiler.lower.steps.copy_step import CopyStep
from builder.compiler.lower.steps.image_step import RepackStep
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.compiler.lower.strided import VIEWS
from builder.compiler.lower.thunks import Thunk
from builder.compiler.lower.weight_store import WeightStore, read_constant


@dataclass(frozen=True)
class PlacedImage:
    """An image in a storage whose offset is not known until the end."""

    storage: Storage
    layout: TensorLayout

    def make_view(self, inset: tuple[int, int] = (0, 0)) -> View:
        return self.layout.make_view(self.storage.buffer, inset)


class Allocator:
    """Storage and layout of every value, and the steps so far, over storages that have no offsets yet.

    ``states``: the number of feeds, the last ones, that hold state and do not come from the caller.
    """

    def __init__(
        self,
        dag: Dag,
        scheduled: Schedule,
        faithful: Program,
        options: LoweringOptions,
        compressor: Compressor,
        states: int,
    ) -> None:
        self.dag, self.scheduled, self.faithful = dag, scheduled, faithful
        self.options, self.compressor = options, compressor
        self.layouts: TensorLayouts = plan_layouts(dag, scheduled.tasks)
        self.makers = find_makers(scheduled.tasks)
        self.fetched = {output.base for output in dag.outputs}
        self.readers: dict[Value, dict[int, Task]] = {}
        for number, task in enumerate(scheduled.tasks):
            for value in list_inputs(task):
                self.readers.setdefault(value.base, {})[number] = task
        self.constants = {weight.offset: weight.data for weight in faithful.weights}
        self.tables = find_tables(scheduled.tasks, self.constants, self.fetched, compressor.rules)
        self.store = WeightStore(options.share)
        self.gathered = TableStore(self.constants, self.tables.by_buffer, compressor, self.store)
        self.placed: dict[Buffer, Buffer] = {}
        self.storages: list[Storage] = []
        self.values: dict[Value, Storage] = {}
        self.copies: dict[Value, PlacedImage] = {}
        self.weights: dict[Value, StoredWeights] = {}
        self.bytes: dict[Value, tuple[Int8Edge, PlacedImage]] = {}
        self.steps: list[Step] = []
        self.notes: list[StepInfo] = []
        self.cascades = {n: run for run in self._find_cascades() for n in range(run.first, run.last + 1)}
        self.inside: list[tuple[LayerStep, StepInfo]] = []
        for number, port in enumerate(faithful.feeds):
            value = dag.parameters[number].base
            callers = number < len(faithful.feeds) - states and self._stays_with_caller(value)
            feed = Storage(port.spec.size, -1, -1, feed=number) if callers else self._reserve_memory(port.spec.size)
            feed.extend_life(-1)
            self.values[value] = feed

    def _stays_with_caller(self, feed: Value) -> bool:
        """Return whether only GEMM and steps that copy it with a halo read ``feed``: both take any alignment."""
        for task in self.readers.get(feed, {}).values():
            images = () if isinstance(task, Thunk | Attention) else list_read_images(task)
            copied = {value.base: self.layouts.get_read_layout(value, image, halo)[0] for value, image, halo in images}
            if not copied.get(feed) and not self._is_gemm_input(task, feed):
                return False
        return feed in self.readers and feed not in self.fetched

    def _is_gemm_input(self, task: Task, value: Value) -> bool:
        """Return whether ``task`` is a GEMM layer that reads ``value`` only as the floats that it multiplies."""
        if self.options.whole or not isinstance(task, Layer) or task.core.name in self.options.quantisations:
            return False
        others = (task.affine.residual, task.core.factor)
        alone = all(used is None or used.base is not value for used in others)
        return alone and all(
            self._choose_float_algorithm(used.core.geometry) == "direct" for used in (task, flatten_pixels(task))
        )

    def _choose_float_algorithm(self, geometry: Geometry) -> Algorithm:
        """Choose the algorithm of a layer whose weights and input are floats."""
        return resolve_algorithm(geometry, self.options.algorithms, allow_winograd=self.options.allow_winograd)

    def _reserve_memory(self, size: int, alone: int | None = None) -> Storage:
        storage = Storage(size, len(self.steps), len(self.steps), alone=alone, number=len(self.storages))
        self.storages.append(storage)
        return storage

    def _append_step(self, step: Step, note: StepInfo) -> None:
        for buffer in (buffer for inner in walk_steps((step,)) for buffer in inner.buffers if buffer.space == "arena"):
            self.storages[buffer.offset // ROOM].extend_life(len(self.steps))
        self.steps.append(step)
        self.notes.append(note)

    def _get_quantisation(self, layer: Layer) -> Quantisation | None:
        """Return how the input of ``layer`` is rounded, or None unless its sums are of integers."""
        wanted = self.options.quantisations.get(layer.core.name) if layer.core.geometry.summable else None
        return wanted if wanted is not None and self._store_weights(layer).type == "int8" else None

    def _find_int8_edge(self, task: Layer | Pool) -> Int8Edge | None:
        """Find out how the last output of ``task`` is stored as bytes; return None if it is not."""
        if self.options.whole or not self.options.quantisations:
            return None
        value = task.outputs[-1]
        readers = list(self.readers.get(value, {}).values())
        return find_int8_edge(task, readers, self._find_rounding, fetched=value in self.fetched)

    def _find_rounding(self, reader: Layer | Pool) -> Quantisation | None:
        """Return how the input of ``reader`` is rounded; for a max pool, how its readers round it if all of them do."""
        if isinstance(reader, Layer):
            return self._get_quantisation(reader)
        edge = self._find_int8_edge(reader) if reader.kind == "max" else None
        return edge.by if edge is not None and edge.alone else None

    def _place_int8_edge(
        self, task: Layer | Pool, storage: Storage | None = None
    ) -> tuple[Int8Edge | None, PlacedImage | None]:
        """Place the last output of ``task`` as bytes in ``storage``, or in a storage of its own.

        Return None and None if it is not stored as bytes.
        """
        edge = self._find_int8_edge(task)
        if edge is None:
            return None, None
        image = PlacedImage(storage or self._reserve_memory(edge.layout.size), edge.layout)
        self.bytes[task.outputs[-1]] = edge, image
        return edge, image

    def _find_int8_input(self, reader: Layer | Pool) -> PlacedImage | None:
        """Return the input of ``reader`` as bytes, or None if it reads floats."""
        entry = self.bytes.get(list_read_images(reader)[0][0].base)
        return entry[1] if entry is not None and reader.outputs[0] in entry[0].readers else None

    def _choose_algorithm(self, core: Core, stored: StoredWeights, quantisation: Quantisation | None) -> Algorithm:
        tuned, winograd = self.options.algorithms, self.options.allow_winograd
        rounded = quantisation is not None
        return resolve_algorithm(core.geometry, tuned, allow_winograd=winograd, kind=stored.type, rounded=rounded)

    def _store_weights(self, layer: Layer) -> StoredWeights:
        """Return the weights of ``layer`` as the library stores them, computed at the first request."""
        value = layer.core.value
        if value not in self.weights:
            self.weights[value] = self._compress_layer(layer)
        return self.weights[value]

    def _compress_layer(self, layer: Layer) -> StoredWeights:
        core = layer.core
        kernel = (core.arrange_kernel().astype(np.float64) * layer.affine.scale).astype(np.float32)
        if core.geometry.depthwise:
            wanted = self.compressor.rules.choose_type(core.name) != "float32"
            return StoredWeights("float32", kernel, kernel, kept="a depthwise filter" if wanted else "")
        constant = core.weights.base
        layers = {task.core.value for task in self.scheduled.tasks if isinstance(task, Layer)}
        others = set(self._find_readers(constant)) - layers
        table = all(reader.op in GATHERS for reader in others) and self.tables.by_constant.get(constant, False)
        return self.compressor.compress_layer(
            core.name,
            kernel,
            core.weights.literal,
            core.arrange_weights,
            layer.affine.scale,
            alone=constant not in self.fetched and (table or (not others and constant not in self.tables.by_constant)),
        )

    def _find_readers(self, value: Value) -> Iterator[Value]:
        for user in self.dag.users[value]:
            if user.op == "bitcast" or (user.op in VIEWS and user.base not in self.fetched):
                yield from self._find_readers(user)
            else:
                yield user

    def _place_channels(self, vector: NDArray[np.float64], times: int = 1) -> Buffer:
        return self.store.add_constant(pad_channels(np.tile(vector.astype(np.float32), times)))

    def _place_constant(self, buffer: Buffer | bytes) -> Buffer:
        if isinstance(buffer, bytes):
            return self.store.add_constant(buffer)
        if buffer not in self.placed:
            self.placed[buffer] = self.store.add_constant(read_constant(self.constants, buffer))
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
        if value is None or residual is None or value.base is layer.core.input.base or value.base in self.fetched:
            return None
        if number in self.cascades:  # another thread may still need a row that this thread would overwrite
            return None
        same = residual.layout == self.layouts.get_written_layout(layer.end.base, get_written_image(layer))
        return residual.storage if same and max(self.readers[value.base]) == number else None

    def _find_cascades(self) -> tuple[Cascade, ...]:
        if self.options.whole:
            return ()
        stored = self.layouts.stored
        return find_cascades(
            self.scheduled.tasks,
            self.readers,
            lambda value: value in self.fetched or value not in stored,
            self._find_layer_output,
            lambda layer: self._choose_float_algorithm(layer.core.geometry),
        )

    def _find_layer_output(self, layer: Layer) -> LayerOutput:
        """Return the output that ``layer`` passes to its one reader in a cascade."""
        edge = self._find_int8_edge(layer)
        if edge is not None and edge.alone:
            return LayerOutput(edge.layout, 1)
        return LayerOutput(self.layouts.get_written_layout(layer.end.base, get_written_image(layer)), 4)

    def _reserve_rolling(self, layer: Layer, number: int) -> Storage | None:
        """Reserve the rolling buffers of all threads behind ``layer``, if it is in a cascade and not its last layer."""
        cascade = self.cascades.get(number)
        if cascade is None or number == cascade.last:
            return None
        size = self._find_layer_output(layer).compute_rolling_size(cascade.count_rows(number))
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
        self, value: Value, picture: tuple[int, int, int, int], storage: Storage | None = None
    ) -> PlacedImage:
        layout = self.layouts.get_written_layout(value, picture)
        storage = storage or self._reserve_memory(4 * layout.size)
        self.values[value] = storage
        return PlacedImage(storage, layout)

    def _find_input(
        self, value: Value, picture: tuple[int, int, int, int], halo: tuple[int, int, int, int]
    ) -> PlacedImage:
        copied, layout = self.layouts.get_read_layout(value, picture, halo)
        if layout.picture != picture:
            raise LowerError(f"{value} is read as pictures of different sizes")
        if not copied:
            return PlacedImage(self.values[value.base], layout)
        if value.base not in self.copies:
            self.copies[value.base] = self._repack_image(value, layout)
        return self.copies[value.base]

    def _repack_image(self, value: Value, layout: TensorLayout) -> PlacedImage:
        source = PlacedImage(self.values[value.base], make_dense_layout(layout.picture))
        target = PlacedImage(self._reserve_memory(4 * layout.size), layout)
        batch, height, width, channels = layout.picture
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
        if max(self.readers[value.base]) == number and value.base not in self.fetched and not elsewhere:
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
    buffer = place.buffer if isinstance(place, Storage) else place
    return replace(buffer, size=size)
