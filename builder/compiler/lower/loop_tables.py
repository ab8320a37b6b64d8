"""Tables that rows are gathered from in a graph that keeps XLA's memory plan: one with loops, branches or states.

Each kernel that gathers is replaced in place, as ``replace_in_loops`` does with those that multiply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from builder.compiler.lower.buffers import SLACK
from builder.compiler.lower.compress import Compressor
from builder.compiler.lower.gather_tables import (
    StoredTable,
    holds_table,
    is_worth_compressing,
    make_gather_step,
    store_table,
)
from builder.compiler.lower.gathers import Gather, find_gathers
from builder.compiler.lower.hlo_proto import HloIndex
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import Buffer, Step, Steps, align_offset, change_bodies, walk_steps
from builder.compiler.lower.steps.gather_step import GatherStep
from builder.compiler.lower.steps.kernel_step import KernelStep
from builder.compiler.lower.weight_store import WeightStore


def replace_gathers(result: Any, program: Program, compressor: Compressor) -> Program:
    """Replace the gathers of ``program``, made of ``result`` (a CompilationResultProto), by steps over smaller tables.

    The original tables stay among its weights. Without such a table, return ``program`` itself.
    """
    replacer = _GatherReplacer(HloIndex(result), program, compressor)
    steps = map_steps(program.steps, replacer.replace_step)
    if not replacer.store.weights:
        return program
    return replace(
        program,
        steps=steps,
        weights=(*program.weights, *replacer.store.weights),
        arena_size=replacer.most + SLACK,
        weights_size=replacer.store.size,
    )


def map_steps(steps: Steps, change: Callable[[Step], list[Step]]) -> Steps:
    """Replace every step, also inside calls, branches and loops, by the steps that ``change`` returns for it."""
    return tuple(
        new
        for step in steps
        for new in ([change_bodies(step, lambda body: map_steps(body, change))] if step.bodies else change(step))
    )


class _GatherReplacer:
    def __init__(self, index: HloIndex, program: Program, compressor: Compressor) -> None:
        self.index, self.compressor = index, compressor
        self.constants = {weight.offset: weight.data for weight in program.weights}
        self.store = WeightStore(size=align_offset(program.weights_size))
        self.arena = self.most = align_offset(program.arena_size)
        self.stored: dict[Buffer, StoredTable] = {}
        self.gathers = {id(step): self._find_gathers(step) for step in walk_steps(program.steps)}
        self.alone = self._find_exclusive_tables(program)

    def replace_step(self, step: Step) -> list[Step]:
        """Return the steps that replace ``step``."""
        gathers = self.gathers[id(step)]
        if not isinstance(step, KernelStep) or not is_worth_compressing(gathers, self.compressor.rules):
            self.compressor.names += [gather.name for gather in gathers]
            return [step]
        if gathers[0].result:
            return [self._make_gather(step, gathers[0], step.results[0])]
        arguments, row_steps = list(step.arguments), dict[int, GatherStep]()
        end = self.arena
        for gather in gathers:
            rows = Buffer("arena", end, 4 * gather.count * gather.width)
            if gather.table not in row_steps:
                row_steps[gather.table] = self._make_gather(step, gather, rows)
                arguments[gather.table] = rows
                end = align_offset(end + rows.size)
        for gather in gathers:
            arguments[gather.indices] = self.store.add_constant(gather.encode_positions())
        self.most = max(self.most, end)
        return [*row_steps.values(), replace(step, arguments=tuple(arguments))]

    def _find_gathers(self, step: Step) -> tuple[Gather, ...]:
        if not isinstance(step, KernelStep):
            return ()
        instruction = self.index.names.get(step.name)
        arguments = 0 if instruction is None else len(instruction.operand_ids)
        if (len(step.arguments), len(step.results)) != (arguments, 1):
            return ()
        constants = [buffer.space == "weights" for buffer in step.arguments]
        gathers = find_gathers(self.index, step.name, arguments, constants)
        indices = [step.arguments[gather.indices] for gather in gathers]
        if any(buffer.space == "weights" or buffer.overlaps_buffer(step.results[0]) for buffer in indices):
            return ()
        return gathers

    def _find_exclusive_tables(self, program: Program) -> dict[Buffer, bool]:
        """Return, for each table, whether only gathers of one type read it."""
        types: dict[Buffer, set[str]] = {}
        others = [port.buffer for port in program.fetches]
        for step in walk_steps(program.steps):
            gathers, read = self.gathers[id(step)], step.buffers
            small = is_worth_compressing(gathers, self.compressor.rules)
            tables = {gather.table for gather in gathers} if small else set[int]()
            others += [buffer for number, buffer in enumerate(read) if number not in tables]
            for gather in gathers if small else ():
                types.setdefault(read[gather.table], set()).add(self.compressor.rules.choose_type(gather.name))
        data = {table: self.constants[table.offset][: table.size] for table in types}
        return {
            table: len(kinds) == 1 and not any(holds_table(self.constants, other, data[table]) for other in others)
            for table, kinds in types.items()
        }

    def _make_gather(self, kernel: KernelStep, gather: Gather, output: Buffer) -> GatherStep:
        table = kernel.arguments[gather.table]
        if table not in self.stored:
            numbers = np.frombuffer(self.constants[table.offset][: table.size], np.float32)
            shaped = numbers.reshape(gather.rows, gather.width)
            self.stored[table] = store_table(gather.name, shaped, self.compressor, alone=self.alone[table])
        self.compressor.names.append(gather.name)
        stored = self.stored[table]
        name = kernel.name if gather.result else f"{kernel.name} rows"
        return replace(
            make_gather_step(
                gather, name, kernel.arguments[gather.indices], self.store.add_constant(stored.numbers), output
            ),
            weight_type=stored.type,
            weight_scale=None if stored.scales is None else self.store.add_constant(stored.scales),
            kept=stored.kept,
        )
