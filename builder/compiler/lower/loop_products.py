"""Products with constant weights that XLA's kernels inside loops and branches compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import LowerError
from builder.compiler.lower.hlo import Value, read_computation
from builder.compiler.lower.hlo_proto import HloIndex
from builder.compiler.lower.steps.base import Buffer, Step, Steps
from builder.compiler.lower.steps.dot_step import DotStep
from builder.compiler.lower.steps.kernel_step import KernelStep

LEAST_ROWS = 4
"""The fewest rows of an array that is multiplied before the loop, not row by row in it."""


@dataclass(frozen=True)
class Product:
    """``output = data [rows, k] @ weights [k, n] + added``; ``added`` is a constant [n] or in the arena like output.

    ``value``: the value that ``data`` holds.
    """

    name: str
    data: Buffer
    output: Buffer
    weights: NDArray[np.float32]
    rows: int
    added: Buffer | None = None
    value: Value | None = None


@dataclass(frozen=True)
class LoopRow:
    """The kernel ``step`` of a loop's body, which reads row ``index`` of ``source``, an array that the loop keeps."""

    step: int
    name: str
    source: Buffer
    index: Buffer
    count: int
    needed_once: bool
    """True if only the product reads the row."""


class LoopBody:
    """The values of a computation; a loop's body makes a tuple of the same parts that its parameter has."""

    def __init__(self, index: HloIndex, computation: Any) -> None:
        self.dag, self.root = read_computation(index, computation)

    def find_part(self, value: Value) -> int | None:
        """Return the number of the tuple's part that ``value`` is a row-major copy of, else None."""
        value = skip_copies(value)
        if value.op != "get-tuple-element" or value.operands[0].op != "parameter":
            return None
        return int(value.instruction.tuple_index) if value.row_major else None

    def is_unchanged(self, number: int) -> bool:
        """Return whether the loop leaves part ``number`` of its tuple unchanged."""
        return number >= 0 and self.find_part(self.root.operands[number]) == number


@dataclass
class ProductFinder:
    """A finder of products among the steps of a program; ``constants``: the bytes of each, by its offset."""

    index: HloIndex
    constants: Mapping[int, bytes]
    bodies: dict[int, LoopBody | None] = field(default_factory=dict)

    def read_body(self, computation: Any) -> LoopBody | None:
        """Read the values of ``computation``; None where some are of a type that no step has."""
        if computation.id not in self.bodies:
            try:
                self.bodies[computation.id] = LoopBody(self.index, computation)
            except LowerError:
                self.bodies[computation.id] = None
        return self.bodies[computation.id]

    def match_product(self, step: Step) -> Product | None:
        """Return the product with constant weights that ``step`` computes, else None."""
        reads = self._find_reads(step) if isinstance(step, DotStep | KernelStep) else None
        if reads is None or len(step.writes) != 1:
            return None
        (value, buffers), (output,), added = reads, step.writes, None
        if value.op == "add":
            left, right = (operand.base for operand in value.operands)
            value, other = (right, left) if left in buffers else (left, right)
            added = buffers.get(other)
            if added is None:
                return None
        operands = match_matrix_product(value) if value.op == "dot" and value not in buffers else None
        if operands is None:
            return None
        data, weights, transposed = operands
        source, matrix = buffers.get(data.base), self._read_matrix(weights, buffers)
        if source is None or matrix is None or source.space != "arena" or source.overlaps_buffer(output):
            return None
        k, n = (matrix := matrix.T if transposed else matrix).shape
        rows = output.size // (4 * n)
        if (source.size, output.size) != (4 * rows * k, 4 * rows * n):
            return None
        if added is not None:
            shared = added != output and added.overlaps_buffer(output)
            if shared or added.size != output.size or (added.space != "arena" and rows != 1):
                return None
        return Product(step.name, source, output, matrix, rows, added, value=data)

    def match_row(self, product: Product, steps: Steps, loop: LoopBody) -> LoopRow | None:
        """Match the row that ``product`` multiplies, if it may do so before ``loop``, which never changes the array."""
        piece = None if product.value is None else product.value.base
        if piece is None or piece.op != "dynamic-slice" or loop.dag.names.get(product.name) is None:
            return None
        array, first, *others = piece.operands
        part = loop.find_part(array) if array.base.op == "get-tuple-element" else None
        if (
            part is None
            or not loop.is_unchanged(part)
            or (product.added is not None and product.added.space == "arena")
        ):
            return None
        if piece.dims != (1, *array.dims[1:]) or first.dtype != "int32" or any(read_number(o) != 0 for o in others):
            return None
        for number, step in enumerate(steps):
            reads = self._find_reads(step) if step.writes == (product.data,) and isinstance(step, KernelStep) else None
            if reads is None or reads[0] is not piece:
                continue
            source, place = (reads[1].get(operand.base) for operand in (array, first))
            count = array.dims[0]
            if source is None or place is None or source.size != count * product.data.size:
                continue
            if count < LEAST_ROWS or source.space != "arena" or place.size != 4:
                continue
            users = self._find_users(self.index.names[step.name])
            return LoopRow(number, step.name, source, place, count, [u.name for u in users] == [product.name])
        return None

    def get_constant(self, buffer: Buffer) -> NDArray[np.float32] | None:
        """Return the float32 numbers of ``buffer`` where they are constant, else None."""
        data = self.constants.get(buffer.offset, b"") if buffer.space == "weights" else b""
        return None if buffer.size % 4 or len(data) < buffer.size else np.frombuffer(data[: buffer.size], np.float32)

    def _find_reads(self, step: Step) -> tuple[Value, dict[Value, Buffer]] | None:
        """Return the value that a step computes, and the buffer of each value that it reads."""
        instruction = self.index.names.get(step.name)
        if instruction is None or len(step.reads) != len(instruction.operand_ids):
            return None
        body = self.read_body(self.index.owners[instruction.id])
        if body is None:
            return None
        names = body.dag.names
        operands = (names[operand.name].base for operand in self.index.get_operands(instruction))
        return names[step.name].base, dict(zip(operands, step.reads, strict=True))

    def _read_matrix(self, weights: Value, buffers: Mapping[Value, Buffer]) -> NDArray[np.float32] | None:
        """Read a matrix in logical order where it is constant."""
        buffer = buffers.get(weights.base)
        flat = None if buffer is None else self.get_constant(buffer)
        if flat is None or flat.size != weights.elements:
            return None
        return flat.reshape(weights.dims) if weights.row_major else flat.reshape(weights.dims[::-1]).T

    def _find_users(self, instruction: Any) -> Iterator[Any]:
        """Yield the instructions of the same computation that read ``instruction``, through bitcasts."""
        for other in self.index.owners[instruction.id].instructions:
            if instruction.id in other.operand_ids:
                if other.opcode == "bitcast":
                    yield from self._find_users(other)
                else:
                    yield other


def match_matrix_product(dot: Value) -> tuple[Value, Value, bool] | None:
    """Return the rows and the matrix of a float32 product, and whether the matrix is [outputs, inputs]; else None."""
    numbers = dot.instruction.dot_dimension_numbers
    data, weights = dot.operands[:2]
    batches, inner = [*numbers.lhs_batch_dimensions, *numbers.rhs_batch_dimensions], numbers.rhs_contracting_dimensions
    plain = dot.row_major and data.row_major and {dot.dtype, data.dtype, weights.dtype} == {"float32"}
    if batches or not plain or len(weights.dims) != 2 or len(inner) != 1:
        return None
    last = [len(data.dims) - 1]
    return (data, weights, inner[0] == 1) if list(numbers.lhs_contracting_dimensions) == last else None


def read_number(value: Value) -> int | None:
    """Read a constant integer; None if ``value`` is anything else."""
    return int(value.literal.reshape(-1)[0]) if value.op == "constant" and value.elements == 1 else None


def skip_copies(value: Value) -> Value:
    """Return the value that ``value`` copies, or has the bytes of in other dimensions."""
    while value.op == "copy" or (value.op == "bitcast" and value.row_major and value.operands[0].row_major):
        value = value.operands[0]
    return value
