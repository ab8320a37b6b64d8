"""Where the values, weights and copies of a program that is being assembled lie: the arena is planned in the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import LowerError
from builder.compiler.lower.attention import Attention
from builder.compiler.lower.cascade import Cascade, Left, find_cascades
from builder.compiler.lower.compress import Compressor, Stored
from builder.compiler.lower.fuse import Layer
from builder.compiler.lower.gather_tables import Table, find_tables
from builder.compiler.lower.gathers import GATHERS
from builder.compiler.lower.geometry import Algorithm, Geometry
from builder.compiler.lower.hlo import Dag, Value
from builder.compiler.lower.int8_edges import Between, bytes_between
from builder.compiler.lower.layers import Core
from builder.compiler.lower.layouts import (
    TensorLayout,
    TensorLayouts,
    dense,
    lay_out,
    reads,
    with_rows,
    writes,
)
from builder.compiler.lower.options import Options
from builder.compiler.lower.packing import MAX_THREADS, decide, pad_channels, scratch_size
from builder.compiler.lower.planner import ROOM, Storage, WeightStore
from builder.compiler.lower.pooling import Pool
from builder.compiler.lower.program import Program
from builder.compiler.lower.schedule import Schedule, Task, inputs, makers_of
from builder.compiler.lower.step_info import Note
from builder.compiler.lower.steps.base import Buffer, Step, View, walk
from builder.compiler.lower.steps.copy_step import CopyStep
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.compiler.lower.steps.repack_step import RepackStep
from builder.compiler.lower.strided import VIEWS
from builder.compiler.lower.thunks import Thunk


@dataclass(frozen=True)
class Picture:
    """A picture in storage whose offset is known only in the end."""

    storage: Storage
    layout: TensorLayout

    def view(self, inset: tuple[int, int] = (0, 0)) -> View:
        return self.layout.view(self.storage.buffer, inset)


class Places:
    """Storage and layout of every value, and the steps so far, over storages that have no offsets yet.

    ``states``: how many of the last feeds are not the caller's.
    """

    def __init__(
        self,
        dag: Dag,
        scheduled: Schedule,
        faithful: Program,
        options: Options,
        compressor: Compressor,
        states: int,
    ) -> None:
        self.dag, self.scheduled, self.faithful = dag, scheduled, faithful
        self.options, self.compressor = options, compressor
        self.layouts: TensorLayouts = lay_out(dag, scheduled.tasks)
        self.makers = makers_of(scheduled.tasks)
        self.fetched = {output.base for output in dag.outputs}
        self.readers: dict[Value, dict[int, Task]] = {}
        for number, task in enumerate(scheduled.tasks):
            for value in inputs(task):
                self.readers.setdefault(value.base, {})[number] = task
        self.constants = {weight.offset: weight.data for weight in faithful.weights}
        self.tables = find_tables(scheduled.tasks, self.constants, self.fetched, compressor.rules)
        self.stored: dict[Buffer, Table] = {}
        self.store = WeightStore(options.share)
        self.placed: dict[Buffer, Buffer] = {}
        self.storages: list[Storage] = []
        self.values: dict[Value, Storage] = {}
        self.copies: dict[Value, Picture] = {}
        self.weights: dict[Value, Stored] = {}
        self.bytes: dict[Value, tuple[Between, Picture]] = {}
        self.steps: list[Step] = []
        self.notes: list[Note] = []
        self.cascades = {n: one for one in self._cascades() for n in range(one.first, one.last + 1)}
        self.inside: list[tuple[LayerStep, Note]] = []
        for number, port in enumerate(faithful.feeds):
            value = dag.parameters[number].base
            callers = number < len(faithful.feeds) - states and self._stays_with_caller(value)
            feed = Storage(port.spec.size, -1, -1, feed=number) if callers else self._new(port.spec.size)
            feed.use(-1)
            self.values[value] = feed

    def _stays_with_caller(self, feed: Value) -> bool:
        """Whether nothing reads ``feed`` but what takes it at any alignment: the step that copies it with a halo around
        it, and GEMM."""
        for task in self.readers.get(feed, {}).values():
            found = () if isinstance(task, Thunk | Attention) else reads(task)
            copied = {value.base: self.layouts.reading(value, picture, halo)[0] for value, picture, halo in found}
            if not copied.get(feed) and not self._multiplies(task, feed):
                return False
        return feed in self.readers and feed not in self.fetched

    def _multiplies(self, task: Task, value: Value) -> bool:
        """Whether ``task`` is a layer of GEMM, and reads ``value`` as the floats that it multiplies alone."""
        if self.options.whole or not isinstance(task, Layer) or task.core.name in self.options.quantisations:
            return False
        others = (task.affine.residual, task.core.factor)
        alone = all(one is None or one.base is not value for one in others)
        return alone and all(self._for_floats(one.core.geometry) == "direct" for one in (task, with_rows(task)))

    def _for_floats(self, geometry: Geometry) -> Algorithm:
        """The algorithm of a layer whose weights and input are floats."""
        return decide(geometry, self.options.algorithms, allow_winograd=self.options.allow_winograd)

    def _new(self, size: int, alone: int | None = None) -> Storage:
        storage = Storage(size, len(self.steps), len(self.steps), alone=alone, number=len(self.storages))
        self.storages.append(storage)
        return storage

    def _step(self, step: Step, note: Note) -> None:
        for buffer in (buffer for one in walk((step,)) for buffer in one.buffers if buffer.space == "arena"):
            self.storages[buffer.offset // ROOM].use(len(self.steps))
        self.steps.append(step)
        self.notes.append(note)

    def _quantisation(self, layer: Layer) -> Quantisation | None:
        """How the input of ``layer`` is rounded, where its sums are of integers."""
        wanted = self.options.quantisations.get(layer.core.name) if layer.core.geometry.summable else None
        return wanted if wanted is not None and self._stored(layer).type == "int8" else None

    def _between(self, task: Layer | Pool) -> Between | None:
        """How the last output of ``task`` is stored as bytes; None where it is not."""
        if self.options.whole or not self.options.quantisations:
            return None
        value = task.outputs[-1]
        readers = list(self.readers.get(value, {}).values())
        return bytes_between(task, readers, self._rounding, fetched=value in self.fetched)

    def _rounding(self, reader: Layer | Pool) -> Quantisation | None:
        """How the input of ``reader`` is rounded; that of a maximum, where nothing but bytes is wanted of it."""
        if isinstance(reader, Layer):
            return self._quantisation(reader)
        between = self._between(reader) if reader.kind == "max" else None
        return between.by if between is not None and between.alone else None

    def _bytes_between(
        self, task: Layer | Pool, storage: Storage | None = None
    ) -> tuple[Between | None, Picture | None]:
        """How the last output of ``task`` is stored as bytes, and where: in ``storage``, or in a place of its own.

        None and None where it is not.
        """
        found = self._between(task)
        if found is None:
            return None, None
        picture = Picture(storage or self._new(found.layout.size), found.layout)
        self.bytes[task.outputs[-1]] = found, picture
        return found, picture

    def _reading_bytes(self, reader: Layer | Pool) -> Picture | None:
        """The input of ``reader`` as bytes, where it reads these."""
        found = self.bytes.get(reads(reader)[0][0].base)
        return found[1] if found is not None and reader.outputs[0] in found[0].readers else None

    def _algorithm(self, core: Core, stored: Stored, quantisation: Quantisation | None) -> Algorithm:
        tuned, winograd = self.options.algorithms, self.options.allow_winograd
        rounded = quantisation is not None
        return decide(core.geometry, tuned, allow_winograd=winograd, kind=stored.type, rounded=rounded)

    def _stored(self, layer: Layer) -> Stored:
        """The weights of ``layer`` as the library has them: made once, as soon as a layer before it asks."""
        value = layer.core.value
        if value not in self.weights:
            self.weights[value] = self._compressed(layer)
        return self.weights[value]

    def _compressed(self, layer: Layer) -> Stored:
        core = layer.core
        kernel = (core.kernel().astype(np.float64) * layer.affine.scale).astype(np.float32)
        if core.geometry.depthwise:
            asked = self.compressor.rules.type_of(core.name) != "float32"
            return Stored("float32", kernel, kernel, kept="a depthwise filter" if asked else "")
        constant = core.weights.base
        layers = {task.core.value for task in self.scheduled.tasks if isinstance(task, Layer)}
        others = set(self._readers(constant)) - layers
        table = all(reader.op in GATHERS for reader in others) and self.tables.by_constant.get(constant, False)
        return self.compressor.layer(
            core.name,
            kernel,
            core.weights.literal,
            core.arranged,
            layer.affine.scale,
            alone=constant not in self.fetched and (table or (not others and constant not in self.tables.by_constant)),
        )

    def _readers(self, value: Value) -> Iterator[Value]:
        for user in self.dag.users[value]:
            if user.op == "bitcast" or (user.op in VIEWS and user.base not in self.fetched):
                yield from self._readers(user)
            else:
                yield user

    def _channels(self, vector: NDArray[np.float64], times: int = 1) -> Buffer:
        return self.store.put(pad_channels(np.tile(vector.astype(np.float32), times)))

    def _constant(self, buffer: Buffer | bytes) -> Buffer:
        if isinstance(buffer, bytes):
            return self.store.put(buffer)
        if buffer not in self.placed:
            self.placed[buffer] = self.store.put(self._bytes(buffer))
        return self.placed[buffer]

    def _bytes(self, buffer: Buffer) -> bytes:
        data = self.constants.get(buffer.offset)
        if data is None or len(data) < buffer.size:
            raise LowerError("a step reads a part of a constant")
        return data[: buffer.size]

    def _fetch(self, value: Value, size: int) -> Buffer:
        if value in self.values:
            return replace(self.values[value].buffer, size=size)
        if value.op != "constant":
            raise LowerError(f"the fetch {value} was not made")
        return self.store.put(value.data)

    def _over_residual(self, layer: Layer, residual: Picture | None, number: int) -> Storage | None:
        """The residual's storage, where nothing reads it afterwards: sums over it spare the cache a picture."""
        value = layer.affine.residual
        if value is None or residual is None or value.base is layer.core.input.base or value.base in self.fetched:
            return None
        if number in self.cascades:  # another thread may still read a row that this one has written
            return None
        same = residual.layout == self.layouts.writing(layer.end.base, writes(layer))
        return residual.storage if same and max(self.readers[value.base]) == number else None

    def _cascades(self) -> tuple[Cascade, ...]:
        if self.options.whole:
            return ()
        stored = self.layouts.stored
        return find_cascades(
            self.scheduled.tasks,
            self.readers,
            lambda value: value in self.fetched or value not in stored,
            self._leaves,
            lambda layer: self._for_floats(layer.core.geometry),
        )

    def _leaves(self, layer: Layer) -> Left:
        """What ``layer`` leaves for one reader, in a cascade."""
        between = self._between(layer)
        if between is not None and between.alone:
            return Left(between.layout, 1)
        return Left(self.layouts.writing(layer.end.base, writes(layer)), 4)

    def _rolling(self, layer: Layer, number: int) -> Storage | None:
        """The rolling buffers behind ``layer``, of every thread, where it is in a cascade and not the last there."""
        cascade = self.cascades.get(number)
        if cascade is None or number == cascade.last:
            return None
        size = self._leaves(layer).rolling(cascade.rows_of(number))
        return self._new(MAX_THREADS * size, size)

    def _scratch(self, computed: Geometry, algorithm: Algorithm, rows: int | None) -> Storage | None:
        """What a layer has as scratch; in a cascade each thread has its own, for so many rows."""
        if rows is None:
            size = scratch_size(computed, algorithm)
        else:
            computed = replace(computed, batch=1, out_size=(rows, computed.out_size[1]))
            size = MAX_THREADS * scratch_size(computed, algorithm, threads=1)
        return self._new(size, scratch_size(computed, algorithm, threads=1, tiles=False)) if size else None

    def _writing(self, value: Value, picture: tuple[int, int, int, int], storage: Storage | None = None) -> Picture:
        layout = self.layouts.writing(value, picture)
        storage = storage or self._new(4 * layout.size)
        self.values[value] = storage
        return Picture(storage, layout)

    def _reading(self, value: Value, picture: tuple[int, int, int, int], halo: tuple[int, int, int, int]) -> Picture:
        copied, layout = self.layouts.reading(value, picture, halo)
        if layout.picture != picture:
            raise LowerError(f"{value} is read as pictures of different sizes")
        if not copied:
            return Picture(self.values[value.base], layout)
        if value.base not in self.copies:
            self.copies[value.base] = self._repack(value, layout)
        return self.copies[value.base]

    def _repack(self, value: Value, layout: TensorLayout) -> Picture:
        source = Picture(self.values[value.base], dense(layout.picture))
        target = Picture(self._new(4 * layout.size), layout)
        batch, height, width, channels = layout.picture
        name = f"{value.base.instruction.name} with a halo"

        size = (height, width)
        step = RepackStep(name, source.view(), target.view(), batch, size, channels, halo=layout.halo)
        self._step(step, Note(name, "repack", bytes=source.storage.size + target.storage.size))
        return target

    def _in_place(self, thunk: Thunk, index: int, number: int, sources: list[Storage | Buffer]) -> Storage | None:
        """The storage of the argument that XLA's kernel writes through, or of a copy where that is still wanted."""
        aliased = thunk.aliased(index)
        if not aliased:
            return None
        read = aliased[0]
        value, storage = thunk.sources[read], sources[read]
        if not isinstance(value, Value) or not isinstance(storage, Storage):
            raise LowerError(f"{thunk.step.name} writes over a constant")
        elsewhere = any(i not in aliased and s is storage for i, s in enumerate(sources))
        if max(self.readers[value.base]) == number and value.base not in self.fetched and not elsewhere:
            return storage
        target = self._new(thunk.reads[read].size)
        name = f"{thunk.step.name} in place"
        size = thunk.reads[read].size
        self._step(_copy(name, storage, target, size), Note(name, "copy", bytes=2 * size))
        return target


def _copy(name: str, source: Storage, target: Storage, size: int) -> CopyStep:
    item = 4 if size % 4 == 0 else 1
    count = size // item
    return CopyStep(name, sized(source, size), sized(target, size), item, (count,), (1,), target_strides=(1,))


def sized(place: Storage | Buffer, size: int) -> Buffer:
    buffer = place.buffer if isinstance(place, Storage) else place
    return replace(buffer, size=size)
