"""Tables that rows are gathered from, in fewer bits: a step of coldforge's own runs before the kernel that gathers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from builder.compiler.lower.compress import LEAST_WEIGHTS, Array, Compressor, WeightRules, encode_numbers
from builder.compiler.lower.fuse import Layer
from builder.compiler.lower.gathers import Gather, find_gathers
from builder.compiler.lower.hlo import Value, make_intermediate
from builder.compiler.lower.hlo_proto import HloIndex
from builder.compiler.lower.schedule import Task
from builder.compiler.lower.steps.base import Buffer
from builder.compiler.lower.steps.gather_step import GatherStep
from builder.compiler.lower.steps.kernel_step import KernelStep
from builder.compiler.lower.thunks import Thunk
from builder.config.schema import WeightType


@dataclass(frozen=True)
class StoredTable:
    """A table as stored: bytes of ``numbers`` and of int8's ``scales``, and why it is ``kept`` as float32."""

    type: WeightType
    numbers: bytes
    scales: bytes | None
    kept: str


def store_table(name: str, table: Array, compressor: Compressor, *, alone: bool) -> StoredTable:
    """Store ``table`` [rows, width] with the type that the rules give the op ``name``; int8 has a scale for each row.

    ``alone``: only gathers and layers whose weights are of the same type read it.
    """

    def view(constant: Array) -> Array:
        """View the rows of a table as the output channels of a product."""
        return constant.T[None, None]

    stored = compressor.compress_layer(name, view(table), table, view, alone=alone)
    numbers = np.ascontiguousarray(stored.numbers[0, 0].T)
    scales = None if stored.scale is None else stored.scale.astype("<f4").tobytes()
    return StoredTable(stored.type, encode_numbers(numbers, stored.type), scales, stored.kept)


def is_worth_compressing(gathers: Collection[Gather], rules: WeightRules) -> bool:
    """Return whether any of the tables is to be stored in fewer bits."""
    return any(rules.choose_type(g.name) != "float32" and g.rows * g.width >= LEAST_WEIGHTS for g in gathers)


def add_gather_steps(result: Any, thunks: list[Thunk], compressor: Compressor) -> list[Thunk]:
    """Add steps that gather to ``thunks`` of a CompilationResultProto, before the kernels that gathered.

    ``compressor`` records the names of tables that its rules leave unchanged.
    """
    index = HloIndex(result)
    row_values: dict[tuple[Any, ...], Value] = {}
    changed: list[Thunk] = []
    for thunk in thunks:
        gathers = _find_gathers(index, thunk)
        if not is_worth_compressing(gathers, compressor.rules):
            compressor.names += [gather.name for gather in gathers]
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
        read = any(holds_table(constants, other, data) for other in others) or any(
            _holds_data(v, data) for v in fetched
        )
        by_buffer[table] = len(wanted) == 1 and plain and not read
        by_constant |= {layer.core.weights.base: by_buffer[table] for layer in tied}
    return RoundableTables(by_buffer, by_constant)


def holds_table(constants: Mapping[int, bytes], buffer: Buffer, data: bytes) -> bool:
    """Return whether a constant holds ``data``: XLA may have made two constants of one."""
    return buffer.space == "weights" and buffer.size == len(data) and constants.get(buffer.offset, b"").startswith(data)


def _holds_data(value: Value, data: bytes) -> bool:
    return (
        value.op == "constant" and value.dtype == "float32" and 4 * value.elements == len(data) and value.data == data
    )


def make_gather_step(gather: Gather, name: str, indices: Buffer, table: Buffer, output: Buffer) -> GatherStep:
    """Return the step that gathers from a table that is still float32."""
    return GatherStep(
        name,
        indices,
        table,
        output,
        rows=gather.rows,
        width=gather.width,
        count=gather.count,
        index=gather.index,
        wide=gather.wide,
        negative=gather.negative,
        layer=gather.name,
    )


def _find_gathers(index: HloIndex, thunk: Thunk) -> tuple[Gather, ...]:
    step = thunk.step
    if not isinstance(step, KernelStep):
        return ()
    constants = [isinstance(source, Buffer) for source in thunk.sources]
    gathers = find_gathers(index, step.name, len(thunk.reads), constants)
    written_over = {read for write in range(len(thunk.writes)) for read in thunk.list_aliased_reads(write)}
    indices = {gather.indices for gather in gathers}
    if indices & written_over or any(constants[number] for number in indices):
        return ()
    return gathers


def _gather_before(thunk: Thunk, gathers: tuple[Gather, ...], made: dict[tuple[Any, ...], Value]) -> list[Thunk]:
    """Return ``thunk`` over gathered rows, after the steps that gather those that ``made`` does not have."""
    steps = []
    reads, sources = list(thunk.reads), list(thunk.sources)
    for gather in gathers:
        table, source = thunk.reads[gather.table], thunk.sources[gather.indices]
        assert isinstance(source, Value)
        key = (table, source.base, gather.index, gather.wide, gather.negative)
        # No buffer of XLA's plan has a negative offset.
        rows = Buffer("arena", -1 - gather.table, 4 * gather.count * gather.width)
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
    step = make_gather_step(gather, name, *reads, write)
    sources = (thunk.sources[gather.indices], thunk.sources[gather.table])
    return Thunk(thunk.number, step, reads, (write,), sources, (output,))
