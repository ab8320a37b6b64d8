"""A schedule as a Program: views, packed weights, in-place pairs, and a place in the arena for everything."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from builder.compiler.lower.activations import Activation
from builder.compiler.lower.allocation import Picture, Places, sized
from builder.compiler.lower.attention import Attention, RowsAt
from builder.compiler.lower.buffers import SLACK
from builder.compiler.lower.compress import Compressor
from builder.compiler.lower.dense_end import dense_end
from builder.compiler.lower.fuse import Layer
from builder.compiler.lower.gather_tables import store_table
from builder.compiler.lower.hlo import Dag, Value
from builder.compiler.lower.layers import op_name, why_not
from builder.compiler.lower.layouts import NO_HALO, reads, with_rows, writes
from builder.compiler.lower.normalise import Norm
from builder.compiler.lower.options import Options
from builder.compiler.lower.packing import pack_layer, pack_scale, pack_sums
from builder.compiler.lower.pixel_packing import join, join_weights, joined_pixels
from builder.compiler.lower.planner import place, planned
from builder.compiler.lower.pooling import Pool
from builder.compiler.lower.program import BoundPort, Program
from builder.compiler.lower.schedule import Schedule
from builder.compiler.lower.step_info import Note, flop_of_value
from builder.compiler.lower.steps.attention_step import AttentionStep, Mask, Rows
from builder.compiler.lower.steps.base import Buffer
from builder.compiler.lower.steps.cascade_step import CascadeStep
from builder.compiler.lower.steps.gather_step import GatherStep
from builder.compiler.lower.steps.layer_step import Epilogue, LayerStep
from builder.compiler.lower.steps.norm_step import NormStep
from builder.compiler.lower.steps.pool_step import PoolStep
from builder.compiler.lower.steps.quantisation import Rounded
from builder.compiler.lower.thunks import Thunk


def assemble(
    dag: Dag,
    scheduled: Schedule,
    faithful: Program,
    options: Options | None = None,
    compressor: Compressor | None = None,
    states: int = 0,
) -> tuple[Program, tuple[Note, ...]]:
    """The Program of ``scheduled`` with the feeds and fetches of ``faithful``; the last feeds are ``states``.

    Raises LowerError where there is none.
    """
    assembly = _Assembly(dag, scheduled, faithful, options or Options(), compressor or Compressor(), states)
    step_of = []
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
        cascade = assembly.cascades.get(number)  # which is the step after its last layer
        step_of.append(len(assembly.steps) - (cascade is None or cascade.last == number))
    program = assembly.program()
    if states == 0:
        end = dense_end(scheduled.tasks, step_of, program.steps, assembly.readers, assembly.fetched)
        program = replace(program, dense_end=end)
    return program, tuple(assembly.notes)


class _Assembly(Places):
    """One method per kind of task, and the program in the end."""

    def layer(self, layer: Layer, number: int) -> None:
        core = layer.core
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
        scale = sums = None
        if stored.scale is not None:
            scale = self.store.put(pack_scale(np.tile(stored.scale, joined), groups=core.groups))
        if quantisation is not None:
            sums = self.store.put(pack_sums(numbers))
        epilogue = self._epilogue(layer, joined, residual, second)
        step = LayerStep(
            name,
            algorithm,
            source.view(),
            weights,
            output.view() if output else None,
            epilogue,
            geometry=core.geometry,
            in_size=core.in_picture[1:],
            padding=core.padding,
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
        moved = weights.size + sum(p.layout.size * (1 if p is as_bytes or p is rounded else 4) for p in touched)
        matched = (*(["factors of channels"] if factor_place else []), *layer.matched)
        note = Note(name, "layer", matched, algorithm, core.geometry.flop, moved, gives=op_name(layer.end.instruction))
        if cascade is None:
            self._step(step, note)
        else:
            self.inside.append((step, note))

    def _epilogue(self, layer: Layer, joined: int, residual: Picture | None, second: Picture | None) -> Epilogue:
        affine, extra = layer.affine, layer.second
        bias, factor = self._channels(affine.shift, joined), affine.residual_scale
        low, high = _limits(layer.activation)
        if factor is not None and (factor == 1).all():
            factor = None
        epilogue = Epilogue(
            bias,
            layer.activation.name,
            low,
            high,
            residual=residual.view() if residual else None,
            residual_scale=None if factor is None else self._channels(factor, joined),
        )
        if extra is None:
            return epilogue
        low, high = _limits(extra.clamp)
        return replace(
            epilogue,
            second=second.view() if second else None,
            second_scale=self._channels(extra.scale, joined),
            second_shift=self._channels(extra.shift, joined),
            second_low=low,
            second_high=high,
        )

    def end_cascade(self, number: int) -> None:
        """Make one step of the layers of the cascade whose last one is task ``number``, if there is one."""
        cascade, inside = self.cascades.get(number), self.inside
        if cascade is None or cascade.last != number:
            return
        self.inside = []
        layers, notes = zip(*inside, strict=True)
        name = f"{notes[0].name} to {notes[-1].name}"
        together = Note(name, "cascade", flop=sum(n.flop for n in notes), bytes=sum(n.bytes for n in notes))
        of_stripe = (replace(n, flop=n.flop // cascade.stripes, bytes=n.bytes // cascade.stripes) for n in notes)
        self._step(CascadeStep(name, layers, cascade.rows), replace(together, inside=tuple(of_stripe)))

    def pool(self, pool: Pool) -> None:
        name = pool.value.instruction.name
        source = self._reading_bytes(pool)
        between, output = self._bytes_between(pool) if source else (None, None)
        if source is None or output is None:
            source, output = self._reading(*reads(pool)[0]), self._writing(pool.value.base, writes(pool))
        top, left, bottom, right = pool.around

        step = PoolStep(
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
        self._step(step, Note(name, "pool", (pool.kind,), bytes=moved))

    def norm(self, norm: Norm) -> None:
        name = norm.value.instruction.name
        source = self._reading(*reads(norm)[0])
        picture = writes(norm)
        output = self._writing(norm.value.base, picture)
        gamma, beta = self._channels(norm.gamma), self._channels(norm.beta)

        step = NormStep(
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
        kind = "layer norm" if norm.centred else "RMS norm"
        gives = op_name(norm.value.instruction)
        moved = source.storage.size + output.storage.size
        self._step(step, Note(name, "norm", (kind,), bytes=moved, gives=gives))

    def attention(self, found: Attention) -> None:
        name, layer = found.value.instruction.name, op_name(found.value.instruction)
        output = self._new(4 * found.value.elements)
        self.values[found.value.base] = output
        mask = self._mask(found)

        def rows(at: RowsAt) -> Rows:
            return Rows(self.values[at.base].buffer, at.first, at.outer, at.row)

        step = AttentionStep(
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
            mask=mask,
            safe=found.safe,
            layer=layer,
        )
        matched = ("softmax",) if mask is None else ("softmax", f"{mask.kind} mask")
        moved = sum(buffer.size for buffer in {*step.reads, *step.writes})
        self._step(step, Note(name, "attention", matched, flop=found.flop, bytes=moved, gives=layer))

    def _mask(self, found: Attention) -> Mask | None:
        lying = found.mask
        if lying is None:
            return None
        buffer = None if lying.source is None else self.values[lying.source.base].buffer
        if lying.constant is not None:
            buffer = self.store.put(lying.constant.tobytes())
        return replace(lying.mask, buffer=buffer, strides=(*found.mask_outer, lying.query, lying.key))

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
        scratch = self._new(thunk.step.scratch_size) if thunk.step.scratch_size else None

        step = thunk.step.rebuild(
            [sized(s, b.size) for s, b in zip(sources, thunk.reads, strict=True)],
            [sized(t, b.size) for t, b in zip(targets, thunk.writes, strict=True)],
            scratch.buffer if scratch else None,
        )
        moved = sum(b.size for b in (*thunk.reads, *thunk.writes))
        made = next((o for o in thunk.outputs if o is not None), None)
        reason = "" if made is None else self.scheduled.reasons.get(made) or why_not(made)
        flop = flop_of_value(made) if made is not None else 0
        self._step(step, Note(thunk.step.name, "xla", (reason,) if reason else (), flop=flop, bytes=moved))

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
        made = replace(
            step,
            indices=sized(source, thunk.reads[0].size),
            table=small,
            output=rows.buffer,
            weight_type=stored.type,
            weight_scale=None if stored.scales is None else self.store.put(stored.scales),
            kept=stored.kept,
        )
        moved = source.size + rows.size + step.count * (small.size // step.rows)
        self._step(made, Note(step.name, "gather", (stored.type,), bytes=moved))

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
        program = Program(
            tuple(self.steps),
            feeds,
            fetches,
            self.store.weights,
            arena_size=size + SLACK,
            weights_size=self.store.size,
            arena_touched=touched,
        )
        return program.with_buffers(functools.partial(planned, self.storages))


def _limits(activation: Activation) -> tuple[float, float]:
    return activation.low, activation.high
