"""Rows gathered from constant tables inside XLA's kernels, found so that a step of coldforge's own can unpack them.

XLA fuses a gather with the operations after it. Its kernel stays as it is: it gets the gathered rows in place of the
table, and 0, 1, 2 ... in place of the indices. Row ``i`` of them is what the kernel would read at index ``i``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower import hlo_proto
from builder.compiler.lower.hlo_proto import HloIndex
from builder.compiler.lower.layers import get_op_name
from builder.compiler.lower.steps.base import UNPLACED, Step
from builder.compiler.lower.steps.gather_step import GatherStep
from builder.compiler.lower.steps.kernel_step import KernelStep
from builder.compiler.lower.thunks import InnerLoopStep

INDEX_TYPES = ("float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
"""Dtypes of indices that the runtime reads."""

GATHERS = ("gather", "dynamic-slice")
"""The instructions that may take whole rows."""

_MOST_UNUSED = 16
"""Maximum number of indices for each one that a kernel uses: with more, gathering all rows is not worth it."""

_MOST_FLOAT = 1 << 24
"""The bound below which whole numbers are exact in float32."""


@dataclass(frozen=True)
class Gather:
    """A gather in a kernel: its ``step``, without a name and over buffers that have no place yet.

    ``table`` and ``indices``: the numbers of the kernel's arguments that it reads. ``result``: the kernel returns only
    these rows, in this order.
    """

    step: GatherStep
    table: int
    indices: int
    result: bool = False

    def encode_positions(self) -> bytes:
        """Encode 0, 1, 2 ... as indices: the kernel reads them in place of its own."""
        numbers: NDArray[Any] = np.arange(self.step.count).astype(self.step.index)
        return numbers.tobytes()


def find_gathers(index: HloIndex, step: Step | InnerLoopStep) -> tuple[Gather, ...]:
    """Find the gathers of ``step``, over XLA's plan of memory, that can all be computed before it."""
    instruction = index.names.get(step.name) if isinstance(step, KernelStep) else None
    if not isinstance(step, KernelStep) or instruction is None or len(instruction.operand_ids) != len(step.arguments):
        return ()
    gathers = _find_whole_gathers(index, instruction, [buffer.space == "weights" for buffer in step.arguments])
    indices = [step.arguments[gather.indices] for gather in gathers]
    if any(buffer.overlaps_buffer(result) for buffer in indices for result in step.results):
        return ()
    return gathers


def _find_whole_gathers(index: HloIndex, instruction: Any, constants: Sequence[bool]) -> tuple[Gather, ...]:
    """Find the gathers that a kernel has; ``constants``: whether each of its arguments is a constant."""
    kernel = _GatherKernel(index, instruction)
    gathers: list[Gather] = []
    for number in range(len(constants)):
        if not constants[number]:
            gathers += kernel.match_gathers(number, constants)
    tables = {gather.table for gather in gathers}
    used = {gather.table: kernel.find_readers(gather.table) for gather in gathers}
    ways = {table: [(g.indices, g.step.wide, g.step.negative) for g in gathers if g.table == table] for table in tables}
    # A table that the kernel also reads otherwise stays whole, as do the indices that it shares with another table.
    whole = {table for table in tables if len(used[table]) != len(ways[table]) or len(set(ways[table])) > 1}
    spoilt = {gather.indices for gather in gathers if gather.table in whole}
    kept = [gather for gather in gathers if gather.indices not in spoilt]
    if any(gather.table in {other.table for other in gathers if other.indices in spoilt} for gather in kept):
        return ()
    return tuple(kept)


class _GatherKernel:
    """One kernel: the fusion's computation, or a single instruction and its operands."""

    def __init__(self, index: HloIndex, instruction: Any) -> None:
        self.index, self.instruction, self.fused = index, instruction, instruction.opcode == "fusion"
        if self.fused:
            computation = index.get_called(instruction)[0]
            self.instructions = list(computation.instructions)
            self.root = index.get_root(computation)
            self.arguments = {i.parameter_number: i for i in self.instructions if i.opcode == "parameter"}
        else:
            operands = index.get_operands(instruction)
            self.instructions, self.root = [*operands, instruction], instruction
            self.arguments = dict(enumerate(operands))
        self.numbers = {argument.id: number for number, argument in self.arguments.items()}

    def find_readers(self, number: int) -> list[Any]:
        """Return the instructions that read argument ``number``."""
        return [] if number not in self.arguments else self._find_users(self.arguments[number])

    def match_gathers(self, number: int, constants: Sequence[bool]) -> Iterator[Gather]:
        """Yield the gathers whose indices are argument ``number``, if the kernel uses it for nothing else."""
        if number not in self.arguments:
            return
        argument = self.arguments[number]
        chains = [c for g in self.instructions if (c := self._trace_indices(g)) is not None and c.argument is argument]
        passed = {i.id for chain in chains for i in chain.steps}
        ends = {chain.gather.id for chain in chains}
        for step in (argument, *(i for chain in chains for i in chain.steps)):
            if any(user.id not in passed | ends for user in self._find_users(step)) or step is self.root:
                return
        gathers = [self._match_gather(chain, number, constants) for chain in chains]
        if all(gathers):
            yield from (gather for gather in gathers if gather is not None)

    def _find_users(self, instruction: Any) -> list[Any]:
        users = [i for i in self.instructions if instruction.id in i.operand_ids]
        return users if self.fused else [i for i in users if i is self.root]

    def _match_gather(self, chain: _IndexChain, number: int, constants: Sequence[bool]) -> Gather | None:
        table, operand = chain.gather, self.index.get_operands(chain.gather)[0]
        place = self.numbers.get(operand.id)
        if place is None or not constants[place] or not _is_table(operand):
            return None
        rows, width = operand.shape.dimensions
        if _slice_sizes(table)[1] != width:
            return None
        count = math.prod(chain.argument.shape.dimensions)
        dtype, wide = hlo_proto.get_dtype(chain.argument.shape), chain.dtypes[-1] == "int64"
        enough = all(count <= (_MOST_FLOAT if d == "float32" else int(np.iinfo(d).max) + 1) for d in chain.dtypes)
        if chain.rows not in (None, rows) or not enough or not 0 < count <= rows:
            return None
        row_count = math.prod(table.shape.dimensions) // width
        if count > _MOST_UNUSED * row_count:
            return None
        parts = (chain.argument, *chain.steps, table)
        plain = count == row_count and all(hlo_proto.is_row_major(i.shape) and i.opcode != "transpose" for i in parts)
        result = plain and self._skip_bitcasts(self.root) is table and _has_contiguous_rows(table)
        name = table.metadata.op_name or get_op_name(self.index.get_operands(self.instruction)[place])
        step = GatherStep(
            "",
            UNPLACED,
            UNPLACED,
            UNPLACED,
            rows=rows,
            width=width,
            count=count,
            index=dtype,
            wide=wide,
            negative=chain.rows is not None,
            layer=name,
        )
        return Gather(step, place, number, result)

    def _skip_bitcasts(self, instruction: Any) -> Any:
        """Return the instruction behind a chain of bitcasts."""
        while instruction.opcode in ("bitcast", "reshape") and hlo_proto.is_row_major(instruction.shape):
            (instruction,) = self.index.get_operands(instruction)
        return instruction

    def _trace_indices(self, gather: Any) -> _IndexChain | None:
        """Trace the indices of ``gather`` to an argument; return None for other sources and for other gathers."""
        if gather.opcode not in GATHERS:
            return None
        operands = self.index.get_operands(gather)
        if not _takes_rows(gather, [self._is_zero(o) for o in operands]):
            return None
        rows: int | None = None
        steps: list[Any] = []
        dtypes: list[str] = []
        source = operands[1]
        while source.id not in self.numbers:
            dtypes.insert(0, hlo_proto.get_dtype(source.shape))
            steps.append(source)
            inner = self.index.get_operands(source)
            match source.opcode:
                case "bitcast" | "reshape" | "convert" | "copy" | "transpose" | "slice" | "dynamic-slice":
                    source = inner[0]
                case "select" if (
                    rows is None and len({*dtypes}) == 1 and (wrapped := self._match_wrapping(source)) is not None
                ):
                    source, rows, more = wrapped
                    steps += more
                case "select" if self._is_cast(*inner):
                    steps.append(inner[0])
                    source = inner[1]
                case _:
                    return None
        dtypes.insert(0, hlo_proto.get_dtype(source.shape))
        # The runtime converts directly from the first dtype to the last, as XLA does where there is no third one.
        exact = len(dict.fromkeys(dtypes)) <= 2 and dtypes[-1] in ("int32", "int64") and dtypes[0] in INDEX_TYPES
        return _IndexChain(gather, source, tuple(steps), tuple(dtypes), rows) if exact else None

    def _match_wrapping(self, select: Any) -> tuple[Any, int, list[Any]] | None:
        """Match ``x < 0 ? x + rows : x``: return x, the rows, and the instructions on the way."""
        less, moved, plain = self.index.get_operands(select)
        if less.opcode != "compare" or less.comparison_direction != "LT" or moved.opcode != "add":
            return None
        left, zero = self.index.get_operands(less)
        addends = self.index.get_operands(moved)
        rows = next((self._read_number(o) for o in addends if o.id != plain.id), None)
        if left.id != plain.id or plain.id not in [o.id for o in addends] or not self._is_zero(zero) or rows is None:
            return None
        return plain, rows, [less, moved]

    def _is_cast(self, less: Any, whole: Any, least: Any) -> bool:
        """Return whether a select makes integers of floats as the rewrite of Cast does: x < 2^31 ? whole(x) : -2^31."""
        if less.opcode != "compare" or less.comparison_direction != "LT" or whole.opcode != "convert":
            return False
        bound, lowest = self._read_number(self.index.get_operands(less)[1]), self._read_number(least)
        return lowest in (-(2**31), -(2**63)) and bound == -lowest and less.operand_ids[0] == whole.operand_ids[0]

    def _read_number(self, instruction: Any) -> int | None:
        """Return the one whole number of a constant, repeated or not."""
        while instruction.opcode in ("broadcast", "bitcast", "reshape", "convert"):
            (instruction,) = self.index.get_operands(instruction)
        if instruction.opcode != "constant":
            return None
        literal = instruction.literal
        numbers = [*literal.s32s, *literal.s64s, *literal.f32s, *literal.f64s]
        return int(numbers[0]) if len(numbers) == 1 and float(numbers[0]).is_integer() else None

    def _is_zero(self, instruction: Any) -> bool:
        return self._read_number(instruction) == 0


@dataclass(frozen=True)
class _IndexChain:
    """``steps`` by which ``gather`` takes its indices from ``argument``, and their ``dtypes``, argument first.

    ``rows``: the number added to indices below 0; None if nothing is added.
    """

    gather: Any
    argument: Any
    steps: tuple[Any, ...]
    dtypes: tuple[str, ...]
    rows: int | None


def _is_table(instruction: Any) -> bool:
    shape = instruction.shape
    plain = len(shape.dimensions) == 2 and hlo_proto.is_row_major(shape)
    return plain and min(shape.dimensions) > 0 and hlo_proto.get_dtype(shape) == "float32"


def _takes_rows(instruction: Any, zeros: Sequence[bool]) -> bool:
    """Return whether a gather or dynamic-slice takes whole rows by number; ``zeros``: whether each operand is 0."""
    sizes = _slice_sizes(instruction)
    if len(sizes) != 2 or sizes[0] != 1:
        return False
    if instruction.opcode == "dynamic-slice":
        return zeros[2]
    numbers = instruction.gather_dimension_numbers
    return list(numbers.start_index_map) == [0] and not list(numbers.operand_batching_dims)


def _slice_sizes(instruction: Any) -> list[int]:
    match instruction.opcode:
        case "dynamic-slice":
            return list(instruction.dynamic_slice_sizes)
        case "gather":
            return list(instruction.gather_slice_sizes)
    return []


def _has_contiguous_rows(instruction: Any) -> bool:
    """Return whether the rows are whole and adjacent in the result."""
    if instruction.opcode == "dynamic-slice":
        return True
    numbers, rank = instruction.gather_dimension_numbers, len(instruction.shape.dimensions)
    offsets = list(numbers.offset_dims)
    return offsets == list(range(rank - len(offsets), rank))
