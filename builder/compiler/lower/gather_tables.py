"""Tables that rows are gathered from, in fewer bits: a step of coldforge's own runs before the kernel that gathers.

In a graph that is one straight line, the steps are added to XLA's thunks, and the tables are stored when the program is
built. In one with loops, branches or states, which keeps XLA's memory plan, each kernel is replaced in place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from builder.compiler.lower.buffers import SLACK
from builder.compiler.lower.compress import LEAST_WEIGHTS, Array, Compressor, WeightRules, encode_numbers
from builder.compiler.lower.fuse import Layer
from builder.compiler.lower.gathers import Gather, find_gathers
from builder.compiler.lower.hlo import Value, make_intermediate
from builder.compiler.lower.hlo_proto import HloIndex
from builder.compiler.lower.program import Program
from builder.compiler.lower.schedule import Task
from builder.compiler.lower.steps.base import Buffer, Step, Steps, align_offset, change_bodies, walk_steps
from builder.compiler.lower.steps.gather_step import GatherStep
from builder.compiler.lower.steps.kernel_step import KernelStep
from builder.compiler.lower.thunks import Thunk
from builder.compiler.lower.weight_store import WeightStore, read_constant
from builder.config.schema import WeightType


@dataclass
class TableStore:
    """The tables of a program, each stored once; ``alone``: whether each may be rounded.

    ``fields``: those of a GatherStep that describe each table, by the table's place in XLA's plan.
    """

    constants: Mapping[int, bytes]
    alone: Mapping[Buffer, bool]
    compressor: Compressor
    store: WeightStore
    fields: dict[Buffer, dict[str, Any]] = field(default_factory=dict)

    def compress_table(self, step: GatherStep) -> GatherStep:
        """Return ``step``, whose table is still one of XLA's constants, over the table as it is stored."""
        self.compressor.names.append(step.layer)
        if step.table not in self.fields:
            self.fields[step.table] = self._store_table(step)
        return replace(step, **self.fields[step.table])

    def _store_table(self, step: GatherStep) -> dict[str, Any]:
        """Store a table with the type that the rules give it; int8 has a scale for each row."""

        def view(constant: Array) -> Array:
            """View the rows of a table as the output channels of a product."""
            return constant.T[None, None]

        numbers = np.frombuffer(read_constant(self.constants, step.table), np.float32)
        table = numbers.reshape(step.rows, step.width)
        stored = self.compressor.compress_layer(step.layer, view(table), table, view, alone=self.alone[step.table])
        data = encode_numbers(np.ascontiguousarray(stored.numbers[0, 0].T), stored.type)
        scales = None if stored.scale is None else stored.scale.astype("<f4").tobytes()
        return {
            "table": self.store.add_constant(data),
            "weight_type": stored.type,
            "weight_scale": None if scales is None else self.store.add_constant(scales),
            "kept": stored.kept,
        }


def _is_worth_compressing(gathers: Collection[Gather], rules: WeightRules) -> bool:
    """Return whether any of the tables is to be stored in fewer bits."""
    return any(
        rules.choose_type(s.layer) != "float32" and s.rows * s.width >= LEAST_WEIGHTS for s in (g.step for g in gathers)
    )


def add_gather_steps(result: Any, thunks: list[Thunk], compressor: Compressor) -> list[Thunk]:
    """Add steps that gather to ``thunks`` of a CompilationResultProto, before the kernels that gathered.

    ``compressor`` records the names of tables that its rules leave unchanged.
    """
    index = HloIndex(result)
    row_values: dict[tuple[Any, ...], Value] = {}
    changed: list[Thunk] = []
    for thunk in thunks:
        gathers = find_gathers(index, thunk.step)
        if not _is_worth_compressing(gathers, compressor.rules):
            compressor.names += [gather.step.layer for gather in gathers]
            changed.append(thunk)
        elif gathers[0].result:
            changed.append(_make_gather(thunk, gathers[0], thunk.writes[0], thunk.outputs[0]))
        else:
            changed += _gather_before(thunk, gathers, row_values)
    return changed


@dataclass(frozen=True)
class RoundableTables:
    """Tables, and whether each may be rounded: only gathers, and layers whose weights are rounded alike, read it.

    ``by_buffer``: each table that a GatherStep reads. ``by_constant``: those that layers read as well.
    """

    by_buffer: Mapping[Buffer, bool]
    by_constant: Mapping[Value, bool]


def find_tables(
    tasks: Sequence[Task], constants: Mapping[int, bytes], fetched: Collection[Value], rules: WeightRules
) -> RoundableTables:
    """Find the tables of ``tasks``; ``constants`` is the bytes of each by offset, ``fetched`` the model's outputs."""
    layers = [task for task in tasks if isinstance(task, Layer)]
    thunks = [task for task in tasks if isinstance(task, Thunk)]
    types: dict[Buffer, set[WeightType]] = {}
    for thunk in thunks:
        if isinstance(thunk.step, GatherStep):
            types.setdefault(thunk.reads[1], set()).add(rules.choose_type(thunk.step.layer))
    others = [s for t in thunks if not isinstance(t.step, GatherStep) for s in t.sources if isinstance(s, Buffer)]
    by_buffer: dict[Buffer, bool] = {}
    by_constant: dict[Value, bool] = {}
    for table, wanted in types.items():
        data = constants.get(table.offset, b"")[: table.size]
        tied = [layer for layer in layers if _holds_data(layer.core.weights.base, data)]
        wanted |= {rules.choose_type(layer.core.name) for layer in tied}
        plain = all((layer.affine.scale == 1).all() for layer in tied)
        read = any(_holds_table(constants, other, data) for other in others) or any(
            _holds_data(v, data) for v in fetched
        )
        by_buffer[table] = len(wanted) == 1 and plain and not read
        by_constant |= {layer.core.weights.base: by_buffer[table] for layer in tied}
    return RoundableTables(by_buffer, by_constant)


def _holds_table(constants: Mapping[int, bytes], buffer: Buffer, data: bytes) -> bool:
    """Return whether a constant holds ``data``: XLA may have made two constants of one."""
    return buffer.space == "weights" and buffer.size == len(data) and constants.get(buffer.offset, b"").startswith(data)


def _holds_data(value: Value, data: bytes) -> bool:
    return (
        value.op == "constant" and value.dtype == "float32" and 4 * value.elements == len(data) and value.data == data
    )


def _gather_before(thunk: Thunk, gathers: tuple[Gather, ...], made: dict[tuple[Any, ...], Value]) -> list[Thunk]:
    """Return ``thunk`` over gathered rows, after the steps that gather those that ``made`` does not have."""
    steps = []
    reads, sources = list(thunk.reads), list(thunk.sources)
    for gather in gathers:
        table, source = thunk.reads[gather.table], thunk.sources[gather.indices]
        assert isinstance(source, Value)
        key = (table, source.base, gather.step.index, gather.step.wide, gather.step.negative)
        # No buffer of XLA's plan has a negative offset.
        rows = Buffer("arena", -1 - gather.table, 4 * gather.step.count * gather.step.width)
        if key not in made:
            made[key] = make_intermediate(f"{thunk.step.name} rows")
            steps.append(_make_gather(thunk, gather, rows, made[key]))
        reads[gather.table], sources[gather.table] = rows, made[key]
    for gather in gathers:
        sources[gather.indices] = gather.encode_positions()
    return [*steps, replace(thunk, reads=tuple(reads), sources=tuple(sources))]


def _make_gather(thunk: Thunk, gather: Gather, write: Buffer, output: Value | None) -> Thunk:
    reads = (thunk.reads[gather.indices], thunk.reads[gather.table])
    name = thunk.step.name if gather.result else f"{thunk.step.name} rows"
    step = replace(gather.step, name=name, indices=reads[0], table=reads[1], output=write)
    sources = (thunk.sources[gather.indices], thunk.sources[gather.table])
    return Thunk(thunk.number, step, reads, (write,), sources, (output,))


def replace_gathers(index: HloIndex, program: Program, compressor: Compressor) -> Program:
    """Replace the gathers of ``program``, made of the module of ``index``, by steps over smaller tables.

    The original tables stay among its weights. Without such a table, return ``program`` itself.
    """
    replacer = _GatherReplacer(index, program, compressor)
    steps = _map_steps(program.steps, replacer.replace_step)
    if not replacer.store.weights:
        return program
    return replace(
        program,
        steps=steps,
        weights=(*program.weights, *replacer.store.weights),
        arena_size=replacer.most + SLACK,
        weights_size=replacer.store.size,
    )


def _map_steps(steps: Steps, change: Callable[[Step], list[Step]]) -> Steps:
    """Replace every step, also inside calls, branches and loops, by the steps that ``change`` returns for it."""
    return tuple(
        new
        for step in steps
        for new in ([change_bodies(step, lambda body: _map_steps(body, change))] if step.bodies else change(step))
    )


class _GatherReplacer:
    def __init__(self, index: HloIndex, program: Program, compressor: Compressor) -> None:
        self.compressor = compressor
        self.constants = {weight.offset: weight.data for weight in program.weights}
        self.store = WeightStore(size=align_offset(program.weights_size))
        self.arena = self.most = align_offset(program.arena_size)
        self.gathers = {id(step): find_gathers(index, step) for step in walk_steps(program.steps)}
        self.tables = TableStore(self.constants, self._find_exclusive_tables(program), compressor, self.store)

    def replace_step(self, step: Step) -> list[Step]:
        """Return the steps that replace ``step``."""
        gathers = self.gathers[id(step)]
        if not isinstance(step, KernelStep) or not _is_worth_compressing(gathers, self.compressor.rules):
            self.compressor.names += [gather.step.layer for gather in gathers]
            return [step]
        if gathers[0].result:
            return [self._make_gather(step, gathers[0], step.results[0])]
        arguments, row_steps = list(step.arguments), dict[int, GatherStep]()
        end = self.arena
        for gather in gathers:
            rows = Buffer("arena", end, 4 * gather.step.count * gather.step.width)
            if gather.table not in row_steps:
                row_steps[gather.table] = self._make_gather(step, gather, rows)
                arguments[gather.table] = rows
                end = align_offset(end + rows.size)
        for gather in gathers:
            arguments[gather.indices] = self.store.add_constant(gather.encode_positions())
        self.most = max(self.most, end)
        return [*row_steps.values(), replace(step, arguments=tuple(arguments))]

    def _find_exclusive_tables(self, program: Program) -> dict[Buffer, bool]:
        """Return, for each table, whether only gathers of one type read it."""
        types: dict[Buffer, set[str]] = {}
        others = [port.buffer for port in program.fetches]
        for step in walk_steps(program.steps):
            gathers, read = self.gathers[id(step)], step.buffers
            small = _is_worth_compressing(gathers, self.compressor.rules)
            tables = {gather.table for gather in gathers} if small else set[int]()
            others += [buffer for number, buffer in enumerate(read) if number not in tables]
            for gather in gathers if small else ():
                types.setdefault(read[gather.table], set()).add(self.compressor.rules.choose_type(gather.step.layer))
        data = {table: self.constants[table.offset][: table.size] for table in types}
        return {
            table: len(kinds) == 1 and not any(_holds_table(self.constants, other, data[table]) for other in others)
            for table, kinds in types.items()
        }

    def _make_gather(self, kernel: KernelStep, gather: Gather, output: Buffer) -> GatherStep:
        name = kernel.name if gather.result else f"{kernel.name} rows"
        indices, table = kernel.arguments[gather.indices], kernel.arguments[gather.table]
        return self.tables.compress_table(replace(gather.step, name=name, indices=indices, table=table, output=output))
