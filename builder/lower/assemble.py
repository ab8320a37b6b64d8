"""A schedule as a Program: views, packed weights, in-place pairs, and a place in the arena for everything."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from builder.errors import LowerError
from builder.lower.activations import Activation
from builder.lower.attention import Attention, RowsAt
from builder.lower.between import Between, bytes_between
from builder.lower.buffers import SLACK
from builder.lower.cascade import Cascade, Left, find_cascades
from builder.lower.compress import Compressor, Stored
from builder.lower.fuse import Layer
from builder.lower.fused_steps import (
    Algorithm,
    AttentionStep,
    Epilogue,
    GatherStep,
    LayerStep,
    Mask,
    NormStep,
    PoolStep,
    Quantisation,
    RepackStep,
    Rounded,
    Rows,
    View,
)
from builder.lower.gathers import GATHERS
from builder.lower.geometry import Geometry
from builder.lower.hlo import Dag, Value
from builder.lower.joined import join, join_weights, joined_pixels
from builder.lower.layers import Core, op_name, why_not
from builder.lower.layouts import NO_HALO, TensorLayout, TensorLayouts, dense, lay_out, reads, with_rows, writes
from builder.lower.normalise import Norm
from builder.lower.notes import Note, flop_of_value
from builder.lower.options import Options
from builder.lower.packing import MAX_THREADS, decide, pack_layer, pack_scale, pack_sums, pad_channels, scratch_size
from builder.lower.pooling import Pool
from builder.lower.program import BoundPort, CascadeStep, Program, Step
from builder.lower.replan import Storage, WeightStore, place
from builder.lower.schedule import Schedule, Task, inputs, makers_of
from builder.lower.steps import Buffer, CopyStep
from builder.lower.strided import VIEWS
from builder.lower.tables import Table, find_tables, store_table
from builder.lower.thunks import Thunk


def assemble(
    dag: Dag,
    scheduled: Schedule,
    faithful: Program,
    options: Options | None = None,
    compressor: Compressor | None = None,
) -> tuple[Program, tuple[Note, ...]]:
    """The Program of ``scheduled`` with the feeds and fetches of ``faithful``. Raises LowerError where it has none."""
    assembly = _Assembly(dag, scheduled, faithful, options or Options(), compressor or Compressor())
    for number, task in enumerate(scheduled.tasks):
        match task:
            case Layer():
                assembly.layer(task, number)
                assembly.end_cascade(number)
            case Pool():
                assembly.pool(task)
            case Norm():
                assembly.norm(task)
            case Attention():
                assembly.attention(task)
            case Thunk():
                assembly.thunk(task, number)
    return assembly.program(), tuple(assembly.notes)


@dataclass(frozen=True)
class _Picture:
    """A picture in storage whose offset is known only in the end."""

    storage: Storage
    layout: TensorLayout

    def view(self, inset: tuple[int, int] = (0, 0)) -> View:
        return self.layout.view(self.storage.buffer, inset)


class _Assembly:
    """Collects steps as functions to be called once every storage has its offset."""

    def __init__(
        self,
        dag: Dag,
        scheduled: Schedule,
        faithful: Program,
        options: Options,
        compressor: Compressor,
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
        self.copies: dict[Value, _Picture] = {}
        self.weights: dict[Value, Stored] = {}
        self.bytes: dict[Value, tuple[Between, _Picture]] = {}
        self.steps: list[Callable[[], Step]] = []
        self.notes: list[Note] = []
        self.cascades = {n: one for one in self._cascades() for n in range(one.first, one.last + 1)}
        self.inside: list[tuple[Callable[[], LayerStep], list[Storage], Note]] = []
        for number, port in enumerate(faithful.feeds):
            feed = self._new(port.spec.size)
            feed.use(-1)
            self.values[dag.parameters[number].base] = feed

    # One method per kind of task.

    def layer(self, layer: Layer, number: int) -> None:
        core, affine = layer.core, layer.affine
        name = core.value.instruction.name
        stored = self._stored(layer)
        quantisation = self._quantisation(layer)
        if stored.type != "float32":
            self.compressor.input(core.name, core.weights.literal, quantisation)
        cascade = self.cascades.get(number)
        wanted = reads(layer)
        as_bytes = self._reading_bytes(layer)
        source = as_bytes or self._reading(*wanted[0])
        residual = self._reading(*wanted[1]) if len(wanted) > 1 else None
        rolling = self._rolling(layer, number)
        between, rounded = self._bytes_between(layer, rolling)
        floats = layer.outputs[:-1] if between is not None and between.alone else layer.outputs
        output = second = None
        if layer.end.base in floats:
            place = rolling or self._over_residual(layer, residual, number)
            output = self._writing(layer.end.base, writes(layer), place)
        if layer.second is not None and layer.second.value.base in floats:
            second = self._writing(layer.second.value.base, writes(layer))
        touched = [p for p in (source, residual, output, second, rounded) if p is not None]
        factor_place = self.values[core.factor.base] if core.factor is not None else None
        flat = core.kernel_size == core.stride == (1, 1) and all(p.layout.halo == NO_HALO for p in touched)
        if flat and cascade is None:
            core = with_rows(layer).core
        del self.weights[core.value]
        algorithm = self._algorithm(core, stored, quantisation)
        gapless = all(p.layout.pixel == core.out_channels for p in (residual, output, second, rounded) if p is not None)
        joined = joined_pixels(core.geometry) if algorithm == "integer" and gapless else 1
        computed, numbers = join(core.geometry, joined), join_weights(stored.numbers, joined, core.stride[1])
        scratch = self._scratch(computed, algorithm, cascade.rows_of(number) if cascade else None)
        weights = self.store.put(pack_layer(numbers, algorithm, groups=core.groups, kind=stored.type))
        scale = sums = residual_scale = second_scale = second_shift = None
        if stored.scale is not None:
            scale = self.store.put(pack_scale(np.tile(stored.scale, joined), groups=core.groups))
        if quantisation is not None:
            sums = self.store.put(pack_sums(numbers))
        bias = self._channels(affine.shift, joined)
        factor, extra = affine.residual_scale, layer.second
        if factor is not None and not (factor == 1).all():
            residual_scale = self._channels(factor, joined)
        if extra is not None:
            second_scale, second_shift = self._channels(extra.scale, joined), self._channels(extra.shift, joined)
        low, high = _limits(layer.activation)

        def build() -> LayerStep:
            return LayerStep(
                name,
                algorithm,
                source.view(),
                weights,
                output.view() if output else None,
                Epilogue(
                    bias,
                    layer.activation.name,
                    low,
                    high,
                    residual.view() if residual else None,
                    residual_scale,
                    second.view() if second else None,
                    second_scale,
                    second_shift,
                    *(_limits(extra.clamp) if extra else ()),
                ),
                batch=core.out_picture[0],
                in_size=core.in_picture[1:],
                in_channels=core.in_channels,
                out_size=core.out_picture[1:],
                out_channels=core.out_channels,
                kernel_size=core.kernel_size,
                stride=core.stride,
                dilation=core.dilation,
                padding=core.padding,
                groups=core.groups,
                halo=output.layout.halo if output else NO_HALO,
                second_halo=second.layout.halo if second else NO_HALO,
                scratch=scratch.buffer if scratch else None,
                weight_type=stored.type,
                weight_scale=scale,
                weight_sums=sums,
                quantisation=quantisation,
                input_rounded=as_bytes is not None,
                factor=replace(factor_place.buffer, size=4 * core.in_channels) if factor_place else None,
                rounded=Rounded(rounded.view(), rounded.layout.halo, between.by) if between and rounded else None,
                joined=joined,
                layer=core.name,
                kept=stored.kept,
            )

        sizes = (p.storage.size if p.storage.alone is None else 4 * p.layout.size for p in touched)
        moved = weights.size + sum(sizes)
        used = [*(p.storage for p in touched), *(place for place in (scratch, factor_place) if place)]
        matched = (*(["factors of channels"] if factor_place else []), *layer.matched)
        note = Note(name, "layer", matched, algorithm, core.geometry.flop, moved, op_name(layer.end.instruction))
        if cascade is None:
            self._step(build, used, note)
        else:
            self.inside.append((build, used, note))

    def end_cascade(self, number: int) -> None:
        """Make one step of the layers of the cascade whose last one is task ``number``, if there is one."""
        cascade, inside = self.cascades.get(number), self.inside
        if cascade is None or cascade.last != number:
            return
        self.inside = []
        notes = [note for _, _, note in inside]
        name = f"{notes[0].name} to {notes[-1].name}"

        def build() -> CascadeStep:
            return CascadeStep(name, tuple(layer() for layer, _, _ in inside), cascade.rows)

        together = Note(name, "cascade", (), "", sum(n.flop for n in notes), sum(n.bytes for n in notes))
        of_stripe = (replace(n, flop=n.flop // cascade.stripes, bytes=n.bytes // cascade.stripes) for n in notes)
        used = [storage for _, storages, _ in inside for storage in storages]
        self._step(build, used, replace(together, inside=tuple(of_stripe)))

    def pool(self, pool: Pool) -> None:
        name = pool.value.instruction.name
        source = self._reading_bytes(pool)
        between, output = self._bytes_between(pool) if source else (None, None)
        if source is None or output is None:
            source, output = self._reading(*reads(pool)[0]), self._writing(pool.value.base, writes(pool))
        top, left, bottom, right = pool.around

        def build() -> PoolStep:
            return PoolStep(
                name,
                pool.kind,
                source.view((top, left)),
                output.view(),
                batch=pool.in_picture[0],
                in_size=(pool.in_picture[1] + top + bottom, pool.in_picture[2] + left + right),
                channels=pool.channels,
                out_size=pool.out_picture[1:],
                window=pool.window,
                stride=pool.stride,
                padding=pool.padding,
                scale=pool.scale,
                halo=output.layout.halo,
                rounded=between.by if between else None,
            )

        moved = source.storage.size + output.storage.size
        self._step(build, [source.storage, output.storage], Note(name, "pool", (pool.kind,), "", 0, moved))

    def norm(self, norm: Norm) -> None:
        name = norm.value.instruction.name
        source = self._reading(*reads(norm)[0])
        picture = writes(norm)
        output = self._writing(norm.value.base, picture)
        gamma, beta = self._channels(norm.gamma), self._channels(norm.beta)

        def build() -> NormStep:
            return NormStep(
                name,
                source.view(),
                output.view(),
                gamma,
                beta,
                batch=picture[0],
                size=picture[1:3],
                channels=norm.channels,
                epsilon=norm.epsilon,
                centred=norm.centred,
                halo=output.layout.halo,
            )

        used = [source.storage, output.storage]
        kind = "layer norm" if norm.centred else "RMS norm"
        gives = op_name(norm.value.instruction)
        self._step(build, used, Note(name, "norm", (kind,), "", 0, sum(s.size for s in used), gives))

    def attention(self, found: Attention) -> None:
        name, layer = found.value.instruction.name, op_name(found.value.instruction)
        output = self._new(4 * found.value.elements)
        self.values[found.value.base] = output
        sources = [self.values[value.base] for value in found.inputs]
        mask = found.mask
        table = None if mask is None or mask.constant is None else self.store.put(mask.constant.tobytes())
        lying = None if mask is None or mask.source is None else self.values[mask.source.base]

        def rows(at: RowsAt) -> Rows:
            return Rows(self.values[at.base].buffer, at.first, at.outer, at.row)

        def masked() -> Mask | None:
            if mask is None:
                return None
            buffer = table if lying is None else lying.buffer
            strides = (*found.mask_outer, mask.query, mask.key)
            return Mask(mask.kind, buffer, mask.type, mask.scale, mask.shift, mask.fill, mask.past, mask.first, strides)

        def build() -> AttentionStep:
            return AttentionStep(
                name,
                rows(found.query),
                rows(found.key),
                rows(found.values),
                rows(found.output),
                outer=found.outer,
                queries=found.queries,
                keys=found.keys,
                size=found.size,
                value_size=found.value_size,
                scale=found.scale,
                mask=masked(),
                safe=found.safe,
                layer=layer,
            )

        used = [*sources, output]
        matched = ("softmax",) if mask is None else ("softmax", f"{mask.kind} mask")
        moved = sum(storage.size for storage in used) + (table.size if table else 0)
        self._step(build, used, Note(name, "attention", matched, "", found.flop, moved, layer))

    def thunk(self, thunk: Thunk, number: int) -> None:
        if isinstance(thunk.step, GatherStep):
            return self.gather(thunk, thunk.step)
        sources = [self.values[s.base] if isinstance(s, Value) else self._constant(s) for s in thunk.sources]
        targets = []
        for index, (buffer, output) in enumerate(zip(thunk.writes, thunk.outputs, strict=True)):
            target = self._in_place(thunk, index, number, sources)
            if target is None:
                target = self._new(buffer.size)
            targets.append(target)
            for read in thunk.aliased(index):
                sources[read] = target
            if output is not None and self.makers[output] is thunk:
                self.values[output] = target
        scratch = self._new(thunk.scratch_size) if thunk.scratch_size else None

        def build() -> Step:
            return thunk.rebuilt(
                [_sized(s, b.size) for s, b in zip(sources, thunk.reads, strict=True)],
                [_sized(t, b.size) for t, b in zip(targets, thunk.writes, strict=True)],
                scratch.buffer if scratch else None,
            )

        used = [s for s in (*sources, *targets, scratch) if isinstance(s, Storage)]
        moved = sum(b.size for b in (*thunk.reads, *thunk.writes))
        made = next((o for o in thunk.outputs if o is not None), None)
        reason = "" if made is None else self.scheduled.reasons.get(made) or why_not(made)
        flop = flop_of_value(made) if made is not None else 0
        self._step(build, used, Note(thunk.step.name, "xla", (reason,) if reason else (), "", flop, moved))

    def gather(self, thunk: Thunk, step: GatherStep) -> None:
        (indices, table), (output,) = thunk.sources, thunk.outputs
        assert isinstance(indices, Value)
        assert isinstance(table, Buffer)
        numbers = np.frombuffer(self._bytes(table), np.float32).reshape(step.rows, step.width)
        alone = self.tables.by_buffer[table]
        self.compressor.names.append(step.layer)
        stored = self.stored.get(table) or store_table(step.layer, numbers, self.compressor, alone=alone)
        self.stored[table] = stored
        source, rows = self.values[indices.base], self._new(4 * step.count * step.width)
        if output is not None:
            self.values[output] = rows
        small = self.store.put(stored.numbers)
        scale = None if stored.scales is None else self.store.put(stored.scales)

        def build() -> GatherStep:
            return replace(
                step,
                indices=_sized(source, thunk.reads[0].size),
                table=small,
                output=rows.buffer,
                weight_type=stored.type,
                weight_scale=scale,
                kept=stored.kept,
            )

        moved = source.size + rows.size + step.count * (small.size // step.rows)
        self._step(build, [source, rows], Note(step.name, "gather", (stored.type,), "", 0, moved))

    def program(self) -> Program:
        """The finished Program. Raises LowerError where a fetch has no place."""
        for value in self.fetched:
            if value in self.values:
                self.values[value].use(len(self.steps))
        size, touched = place(self.storages)
        fetches = tuple(
            BoundPort(port.spec, self._fetch(value.base, port.spec.size))
            for port, value in zip(self.faithful.fetches, self.dag.outputs, strict=True)
        )
        feeds = tuple(
            BoundPort(port.spec, self.values[self.dag.parameters[number].base].buffer)
            for number, port in enumerate(self.faithful.feeds)
        )
        steps = tuple(build() for build in self.steps)
        return Program(steps, feeds, fetches, self.store.weights, size + SLACK, self.store.size, arena_touched=touched)

    # What they share.

    def _new(self, size: int, alone: int | None = None) -> Storage:
        storage = Storage(size, len(self.steps), len(self.steps), alone=alone)
        self.storages.append(storage)
        return storage

    def _step(self, build: Callable[[], Step], used: list[Storage], note: Note) -> None:
        for storage in used:
            storage.use(len(self.steps))
        self.steps.append(build)
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
    ) -> tuple[Between | None, _Picture | None]:
        """How the last output of ``task`` is stored as bytes, and where: in ``storage``, or in a place of its own.

        None and None where it is not.
        """
        found = self._between(task)
        if found is None:
            return None, None
        picture = _Picture(storage or self._new(found.layout.size), found.layout)
        self.bytes[task.outputs[-1]] = found, picture
        return found, picture

    def _reading_bytes(self, reader: Layer | Pool) -> _Picture | None:
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

    def _over_residual(self, layer: Layer, residual: _Picture | None, number: int) -> Storage | None:
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
        stored, tuned, winograd = self.layouts.stored, self.options.algorithms, self.options.allow_winograd
        return find_cascades(
            self.scheduled.tasks,
            self.readers,
            lambda value: value in self.fetched or value not in stored,
            self._leaves,
            lambda layer: decide(layer.core.geometry, tuned, allow_winograd=winograd),
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
            return self._new(size, scratch_size(computed, algorithm, threads=1, tiles=False)) if size else None
        stripe = replace(computed, batch=1, out_size=(rows, computed.out_size[1]))
        size = scratch_size(stripe, algorithm, threads=1)
        return self._new(MAX_THREADS * size, scratch_size(stripe, algorithm, threads=1, tiles=False)) if size else None

    def _writing(self, value: Value, picture: tuple[int, int, int, int], storage: Storage | None = None) -> _Picture:
        layout = self.layouts.writing(value, picture)
        storage = storage or self._new(4 * layout.size)
        self.values[value] = storage
        return _Picture(storage, layout)

    def _reading(self, value: Value, picture: tuple[int, int, int, int], halo: tuple[int, int, int, int]) -> _Picture:
        copied, layout = self.layouts.reading(value, picture, halo)
        if layout.picture != picture:
            raise LowerError(f"{value} is read as pictures of different sizes")
        if not copied:
            return _Picture(self.values[value.base], layout)
        if value.base not in self.copies:
            self.copies[value.base] = self._repack(value, layout)
        return self.copies[value.base]

    def _repack(self, value: Value, layout: TensorLayout) -> _Picture:
        source = _Picture(self.values[value.base], dense(layout.picture))
        target = _Picture(self._new(4 * layout.size), layout)
        batch, height, width, channels = layout.picture
        name = f"{value.base.instruction.name} with a halo"

        def build() -> RepackStep:
            return RepackStep(name, source.view(), target.view(), batch, (height, width), channels, layout.halo)

        moved = source.storage.size + target.storage.size
        self._step(build, [source.storage, target.storage], Note(name, "repack", (), "", 0, moved))
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
        build = functools.partial(_copy, name, storage, target, size)
        self._step(build, [storage, target], Note(name, "copy", (), "", 0, 2 * size))
        return target


def _copy(name: str, source: Storage, target: Storage, size: int) -> CopyStep:
    item = 4 if size % 4 == 0 else 1
    count = size // item
    return CopyStep(name, _sized(source, size), _sized(target, size), item, (count,), (1,), (1,))


def _sized(place: Storage | Buffer, size: int) -> Buffer:
    buffer = place.buffer if isinstance(place, Storage) else place
    return replace(buffer, size=size)


def _limits(activation: Activation) -> tuple[float, float]:
    return activation.low, activation.high
