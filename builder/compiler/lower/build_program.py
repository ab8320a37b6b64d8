"""Assembly of a Program: its views, packed weights and in-place steps, and an arena offset for every storage."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from builder.compiler.lower.activations import Activation
from builder.compiler.lower.allocation import PlacedImage, resize_buffer
from builder.compiler.lower.attention import Attention
from builder.compiler.lower.buffers import SLACK
from builder.compiler.lower.compress import Compressor
from builder.compiler.lower.decisions import StepInfo, count_value_flop
from builder.compiler.lower.fuse import Layer
from builder.compiler.lower.hlo import Dag, Value
from builder.compiler.lower.integer_concatenations import IntegerConcatenation
from builder.compiler.lower.integer_layers import IntegerLayer
from builder.compiler.lower.integer_pools import IntegerPool
from builder.compiler.lower.integer_steps import IntegerAllocator
from builder.compiler.lower.integer_sums import IntegerSum
from builder.compiler.lower.layers import explain_no_core, get_op_name
from builder.compiler.lower.layouts import NO_HALO, flatten_pixels, get_written_image, list_read_images
from builder.compiler.lower.microbatch import find_dense_end
from builder.compiler.lower.normalise import Norm
from builder.compiler.lower.packing import pack_layer
from builder.compiler.lower.pixel_packing import choose_joined_pixels, join_pixels, join_weights
from builder.compiler.lower.planner import place_storages, resolve_buffer
from builder.compiler.lower.pooling import Pool
from builder.compiler.lower.program import BoundPort, Program
from builder.compiler.lower.program_plan import LoweringOptions, ProgramPlan
from builder.compiler.lower.schedule import Schedule
from builder.compiler.lower.steps.cascade_step import CascadeStep
from builder.compiler.lower.steps.gather_step import GatherStep
from builder.compiler.lower.steps.image_step import NormStep, PoolStep
from builder.compiler.lower.steps.layer_step import Epilogue, LayerStep
from builder.compiler.lower.steps.quantisation import RoundedImage
from builder.compiler.lower.steps.trees_step import TreesStep
from builder.compiler.lower.thunks import Thunk
from builder.compiler.lower.transposed import OutputPart, split_output


def assemble_program(
    dag: Dag,
    scheduled: Schedule,
    faithful: Program,
    options: LoweringOptions | None = None,
    compressor: Compressor | None = None,
    states: int = 0,
) -> tuple[Program, tuple[StepInfo, ...]]:
    """Assemble the Program of ``scheduled`` with the feeds and fetches of ``faithful``.

    ``states``: the number of feeds, the last ones, that hold state. Raises LowerError if the schedule cannot be
    assembled.
    """
    plan = ProgramPlan(dag, scheduled, faithful, options or LoweringOptions(), compressor or Compressor())
    assembly = _ProgramBuilder(plan, states)
    step_of = []
    for number, task in enumerate(scheduled.tasks):
        match task:
            case Layer():
                assembly.add_layer(task, number)
                assembly.end_cascade(number)
            case IntegerLayer():
                assembly.add_integer_layer(task)
            case IntegerSum():
                assembly.add_integer_sum(task)
            case IntegerPool():
                assembly.add_integer_pool(task)
            case IntegerConcatenation():
                assembly.add_integer_concatenation(task)
            case Pool():
                assembly.add_pool(task)
            case Norm():
                assembly.add_norm(task)
            case Attention():
                assembly.add_attention(task)
            case Thunk():
                assembly.add_thunk(task, number)
        cascade = plan.cascades.get(number)  # its step is appended after its last layer
        step_of.append(len(assembly.steps) - (cascade is None or cascade.last == number))
    program = assembly.finish_program()
    if states == 0:
        end = find_dense_end(scheduled.tasks, step_of, program.steps, plan.readers, plan.fetched)
        program = replace(program, dense_end=end)
    return program, tuple(assembly.notes)


class _ProgramBuilder(IntegerAllocator):
    """Builder of a program, with a method for each kind of task; ``inside``: the steps of an unfinished cascade."""

    def __init__(self, plan: ProgramPlan, states: int) -> None:
        super().__init__(plan, states)
        self.inside: list[tuple[LayerStep, StepInfo]] = []

    def add_layer(self, layer: Layer, number: int) -> None:
        core = layer.core
        name = core.value.instruction.name
        stored = self.plan.store_weights(layer)
        quantisation = self.plan.get_quantisation(layer)
        if stored.type != "float32":
            self.plan.compressor.record_input(core.name, core.weights.literal, quantisation)
        cascade = self.plan.cascades.get(number)
        wanted = list_read_images(layer)
        as_bytes = self._find_int8_input(layer)
        source = as_bytes or self._find_input(*wanted[0])
        residual = self._find_input(*wanted[1]) if len(wanted) > 1 else None
        rolling = self._reserve_rolling(layer, number)
        edge, rounded = self._place_int8_edge(layer, rolling)
        floats = layer.outputs[:-1] if edge is not None and edge.alone else layer.outputs
        output = second = None
        if layer.end.base in floats:
            place = rolling or self._reuse_residual(layer, residual, number)
            output = self._place_output(layer.end.base, get_written_image(layer), place)
        if layer.second is not None and layer.second.value.base in floats:
            second = self._place_output(layer.second.value.base, get_written_image(layer))
        touched = [p for p in (source, residual, output, second, rounded) if p is not None]
        factor_place = self.values[core.factor.base] if core.factor is not None else None
        flat = core.geometry.kernel_size == core.geometry.stride == (1, 1) and all(
            p.layout.halo == NO_HALO for p in touched
        )
        if flat and cascade is None:
            core = flatten_pixels(layer).core
        del self.plan.weights[core.value]
        stored_images = (p for p in (residual, output, second, rounded) if p is not None)
        gapless = all(p.layout.pixel == core.geometry.out_channels for p in stored_images)
        matched = (*(["factors of channels"] if factor_place else []), *layer.matched)
        parts = split_output(core.geometry, core.padding, gapless=gapless)
        for part_number, part in enumerate(parts):
            geometry, part_weights = part.geometry, part.cut_weights(stored.numbers)
            algorithm = self.plan.choose_algorithm(geometry, stored, quantisation)
            joined = choose_joined_pixels(geometry) if algorithm == "integer" and gapless else 1
            computed, numbers = (
                join_pixels(geometry, joined),
                join_weights(part_weights, joined, geometry.stride[1]),
            )
            scratch = self._reserve_scratch(computed, algorithm, cascade.count_rows(number) if cascade else None)
            packed = pack_layer(numbers, algorithm, groups=geometry.groups, kind=stored.type)
            times = part.joined * joined
            weights = self.store.add_layer(
                core.name, stored, packed, quantisation, groups=geometry.groups, joined=times, numbers=numbers
            )
            step = LayerStep(
                name if part_number == 0 else f"{name} part {part_number + 1}",
                algorithm,
                source.make_view(),
                output=part.cut_view(output.make_view()) if output else None,
                epilogue=self._make_epilogue(layer, times, part, residual, second),
                geometry=geometry,
                in_size=core.in_size,
                padding=part.padding,
                halo=output.layout.halo if output else NO_HALO,
                second_halo=second.layout.halo if second else NO_HALO,
                scratch=scratch.buffer if scratch else None,
                input_rounded=as_bytes is not None,
                factor=replace(factor_place.buffer, size=4 * core.geometry.in_channels) if factor_place else None,
                rounded=RoundedImage(rounded.make_view(), rounded.layout.halo, edge.by) if edge and rounded else None,
                joined=joined,
                **weights,
            )
            moved = sum(p.layout.size * (1 if p is as_bytes or p is rounded else 4) for p in touched) // len(parts)
            gives = get_op_name(layer.end.instruction)
            note = StepInfo(step.name, "layer", matched, algorithm, geometry.flop, moved + len(packed), gives=gives)
            if cascade is None:
                self._append_step(step, note)
            else:
                self.inside.append((step, note))

    def _make_epilogue(
        self, layer: Layer, joined: int, part: OutputPart, residual: PlacedImage | None, second: PlacedImage | None
    ) -> Epilogue:
        affine, finish = layer.affine, layer.second.finish if layer.second else layer.finish
        bias, factor = self._place_channels(affine.shift, joined), affine.residual_scale
        slopes = layer.activation.slopes
        low, high = _get_limits(layer.activation)
        if factor is not None and (factor == 1).all():
            factor = None
        epilogue = Epilogue(
            bias,
            layer.activation.name,
            low,
            high,
            residual=part.cut_view(residual.make_view()) if residual else None,
            residual_channels=layer.residual_channels if layer.residual_channels < affine.scale.size else 0,
            residual_scale=None if factor is None else self._place_channels(factor, joined),
            slopes=self._place_channels(np.array(slopes), joined) if slopes else None,
        )
        if finish is None:
            return epilogue
        low, high = _get_limits(finish.clamp)
        return replace(
            epilogue,
            second=part.cut_view(second.make_view()) if second else None,
            second_scale=self._place_channels(finish.affine.scale, joined),
            second_shift=self._place_channels(finish.affine.shift, joined),
            second_low=low,
            second_high=high,
            finishes=layer.second is None,
        )

    def end_cascade(self, number: int) -> None:
        """Append the cascade whose last layer is task ``number`` as one step, if there is one."""
        cascade, pairs = self.plan.cascades.get(number), self.inside
        if cascade is None or cascade.last != number:
            return
        self.inside = []
        layers, notes = zip(*pairs, strict=True)
        name = f"{notes[0].name} to {notes[-1].name}"
        total = StepInfo(name, "cascade", flop=sum(n.flop for n in notes), bytes=sum(n.bytes for n in notes))
        of_stripe = (replace(n, flop=n.flop // cascade.stripes, bytes=n.bytes // cascade.stripes) for n in notes)
        self._append_step(CascadeStep(name, layers, cascade.rows), replace(total, inside=tuple(of_stripe)))

    def add_pool(self, pool: Pool) -> None:
        name = pool.value.instruction.name
        source = self._find_int8_input(pool)
        edge, output = self._place_int8_edge(pool) if source else (None, None)
        if source is None or output is None:
            source, output = (
                self._find_input(*list_read_images(pool)[0]),
                self._place_output(pool.value.base, get_written_image(pool)),
            )
        top, left, bottom, right = pool.around

        step = PoolStep(
            name,
            pool.kind,
            source.make_view((top, left)),
            output.make_view(),
            batch=pool.in_image[0],
            in_size=(pool.in_image[1] + top + bottom, pool.in_image[2] + left + right),
            channels=pool.channels,
            out_size=pool.out_image[1:],
            window=pool.window,
            stride=pool.stride,
            padding=pool.padding,
            scale=pool.scale,
            halo=output.layout.halo,
            rounded=edge.by if edge else None,
        )
        moved = source.storage.size + output.storage.size
        self._append_step(step, StepInfo(name, "pool", (pool.kind,), bytes=moved))

    def add_norm(self, norm: Norm) -> None:
        name = norm.value.instruction.name
        source = self._find_input(*list_read_images(norm)[0])
        image = get_written_image(norm)
        output = self._place_output(norm.value.base, image)
        gamma, beta = (self._place_channels(vector) if vector.size else None for vector in (norm.gamma, norm.beta))

        step = NormStep(
            name,
            source.make_view(),
            output.make_view(),
            gamma,
            beta,
            batch=image[0],
            size=image[1:3],
            channels=norm.channels,
            epsilon=norm.epsilon,
            kind=norm.kind,
            halo=output.layout.halo,
        )
        gives = get_op_name(norm.value.instruction)
        moved = source.storage.size + output.storage.size
        self._append_step(step, StepInfo(name, "norm", (norm.kind,), bytes=moved, gives=gives))

    def add_attention(self, attention: Attention) -> None:
        output = self._reserve_memory(4 * attention.value.elements)
        self.values[attention.value.base] = output
        reads = [
            self.store.add_constant(source) if isinstance(source, bytes) else self.values[source.base].buffer
            for source in attention.sources
        ]
        step = attention.step.replace_buffers(reads, [output.buffer], None)
        matched = ("softmax",) if step.mask is None else ("softmax", f"{step.mask.kind} mask")
        moved = sum(buffer.size for buffer in {*step.reads, *step.writes})
        self._append_step(step, StepInfo(step.name, "attention", matched, "", step.flop, moved, gives=step.layer))

    def add_thunk(self, thunk: Thunk, number: int) -> None:
        if isinstance(thunk.step, GatherStep):
            return self.add_gather(thunk, thunk.step)
        sources = [self.values[s.base] if isinstance(s, Value) else self._place_constant(s) for s in thunk.sources]
        targets = []
        for index, (buffer, output) in enumerate(zip(thunk.writes, thunk.outputs, strict=True)):
            target = self._find_in_place(thunk, index, number, sources)
            if target is None:
                target = self._reserve_memory(buffer.size)
            targets.append(target)
            for read in thunk.list_aliased_reads(index):
                sources[read] = target
            if output is not None and self.plan.makers[output] is thunk:
                self.values[output] = target
        scratch = self._reserve_memory(thunk.step.scratch_size) if thunk.step.scratch_size else None

        step = thunk.step.replace_buffers(
            [resize_buffer(s, b.size) for s, b in zip(sources, thunk.reads, strict=True)],
            [resize_buffer(t, b.size) for t, b in zip(targets, thunk.writes, strict=True)],
            scratch.buffer if scratch else None,
        )
        moved = sum(b.size for b in (*thunk.reads, *thunk.writes))
        result = next((o for o in thunk.outputs if o is not None), None)
        reason = "" if result is None else self.plan.scheduled.reasons.get(result) or explain_no_core(result)
        flop = count_value_flop(result) if result is not None else 0
        kind, matched = "xla", (reason,) if reason else ()
        if isinstance(step, TreesStep):
            kind, matched = "trees", (f"{step.trees} trees",)
        self._append_step(step, StepInfo(thunk.step.name, kind, matched, flop=flop, bytes=moved))

    def add_gather(self, thunk: Thunk, step: GatherStep) -> None:
        indices, (output,) = thunk.sources[0], thunk.outputs
        assert isinstance(indices, Value)
        source, rows = self.values[indices.base], self._reserve_memory(4 * step.count * step.width)
        if output is not None:
            self.values[output] = rows
        gather = self.gathered.compress_table(
            replace(step, indices=resize_buffer(source, thunk.reads[0].size), output=rows.buffer)
        )
        moved = source.size + rows.size + step.count * (gather.table.size // step.rows)
        self._append_step(gather, StepInfo(step.name, "gather", (gather.weight_type,), bytes=moved))

    def finish_program(self) -> Program:
        """Return the finished Program; raise LowerError if a fetch has no storage."""
        for value in self.plan.fetched:
            if value in self.values:
                self.values[value].extend_life(len(self.steps))
        size, touched = place_storages(self.storages)
        fetches = tuple(
            BoundPort(port.spec, self._place_fetch(value.base, port.spec.size))
            for port, value in zip(self.plan.faithful.fetches, self.plan.dag.outputs, strict=True)
        )
        feeds = tuple(
            BoundPort(port.spec, self.values[self.plan.dag.parameters[number].base].buffer)
            for number, port in enumerate(self.plan.faithful.feeds)
        )
        program = Program(
            tuple(self.steps),
            feeds,
            fetches,
            tuple(self.store.weights),
            arena_size=size + SLACK,
            weights_size=self.store.size,
            arena_touched=touched,
        )
        return program.with_buffers(functools.partial(resolve_buffer, self.storages))


def _get_limits(activation: Activation) -> tuple[float, float]:
    return activation.low, activation.high
