"""Products with constant weights that XLA's kernels inside loops and branches compute."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower import hlo_proto
from builder.compiler.lower.hlo_proto import HloIndex
from builder.compiler.lower.program import Weight
from builder.compiler.lower.steps.base import Buffer, Step, Steps
from builder.compiler.lower.steps.dot_step import DotStep
from builder.compiler.lower.steps.kernel_step import KernelStep

LEAST_ROWS = 4
"""The fewest rows of an array that is multiplied before the loop, not row by row in it."""


@dataclass(frozen=True)
class Product:
    """``output = data [rows, k] @ weights [k, n] + added``; ``added`` is a constant [n] or in the arena like output."""

    name: str
    data: Buffer
    output: Buffer
    weights: NDArray[np.float32]
    rows: int
    added: Buffer | None = None


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


class FusionIndex(HloIndex):
    """An HLO module seen through its fusions and bitcasts."""

    def skip_bitcasts(self, instruction: Any) -> Any:
        while instruction.opcode == "bitcast":
            (instruction,) = self.get_operands(instruction)
        return instruction

    def get_inner_root(self, instruction: Any) -> Any:
        """Return the root of a fusion, without bitcasts; any other instruction is returned itself."""
        if instruction.opcode != "fusion":
            return instruction
        return self.skip_bitcasts(self.get_root(self.get_called(instruction)[0]))

    def find_argument(self, fusion: Any, inner: Any) -> int | None:
        """Return the number of the operand of ``fusion`` that its instruction ``inner`` is, through bitcasts."""
        inner = self.skip_bitcasts(inner)
        if fusion.opcode != "fusion":
            operands = [self.skip_bitcasts(o).id for o in self.get_operands(fusion)]
            return operands.index(inner.id) if inner.id in operands else None
        return int(inner.parameter_number) if inner.opcode == "parameter" else None

    def find_users(self, instruction: Any) -> Iterator[Any]:
        """Yield the instructions of the same computation that read ``instruction``, through bitcasts."""
        for other in self.owners[instruction.id].instructions:
            if instruction.id in other.operand_ids:
                if other.opcode == "bitcast":
                    yield from self.find_users(other)
                else:
                    yield other


@dataclass(frozen=True)
class ProductFinder:
    """A finder of products among the steps of a program, which read ``weights``."""

    module: FusionIndex
    weights: tuple[Weight, ...]

    def match_product(self, step: Step) -> Product | None:
        """Return the product with constant weights that ``step`` computes, else None."""
        match step:
            case DotStep():
                return self._match_dot(step)
            case KernelStep():
                return self._match_kernel(step)
        return None

    def _match_dot(self, step: DotStep) -> Product | None:
        dense = step.batch == 1 and step.lhs_strides[1:] == (step.k, 1) and step.out_strides[1:] == (step.n, 1)
        if step.m == 1:
            dense = step.batch == 1 and step.lhs_strides[2] == 1 and step.out_strides[2] == 1
        weights = self.get_constant(step.rhs) if step.dtype == "float32" and dense else None
        if weights is None or step.lhs.space != "arena" or step.lhs.overlaps_buffer(step.out):
            return None
        _, down, across = step.rhs_strides
        if weights.size != step.k * step.n or {down, across} - {1} - {step.n if across == 1 else step.k}:
            return None
        matrix = weights.reshape(step.k, step.n) if across == 1 else weights.reshape(step.n, step.k).T
        return Product(step.name, step.lhs, step.out, matrix, step.m)

    def _match_kernel(self, step: KernelStep) -> Product | None:
        instruction = self.module.names.get(step.name)
        if instruction is None or instruction.opcode not in ("fusion", "dot"):
            return None
        if (len(step.arguments), len(step.results)) != (len(instruction.operand_ids), 1):
            return None
        root, added = self.module.get_inner_root(instruction), None
        if root.opcode == "add" and instruction.opcode == "fusion":
            left, right = (self.module.skip_bitcasts(o) for o in self.module.get_operands(root))
            root, other = (left, right) if left.opcode == "dot" else (right, left)
            added = self.module.find_argument(instruction, other)
            if added is None:
                return None
        if root.opcode != "dot":
            return None
        operands = self.module.get_operands(root)
        data, weights = (self.module.find_argument(instruction, o) for o in operands)
        if data is None or weights is None:
            return None
        matrix = self._read_matrix(root, operands[1], step.arguments[weights])
        source, output = step.arguments[data], step.results[0]
        if matrix is None or source.space != "arena" or source.overlaps_buffer(output):
            return None
        k, n = matrix.shape
        rows = output.size // (4 * n)
        if (source.size, output.size) != (4 * rows * k, 4 * rows * n) or not _is_last_contracted(operands[0], root):
            return None
        other_buffer = None if added is None else step.arguments[added]
        if other_buffer is not None:
            shared = other_buffer != output and other_buffer.overlaps_buffer(output)
            whole = other_buffer.size == output.size and (other_buffer.space == "arena" or rows == 1)
            if shared or not whole:
                return None
        return Product(step.name, source, output, matrix, rows, other_buffer)

    def _read_matrix(self, dot: Any, operand: Any, buffer: Buffer) -> NDArray[np.float32] | None:
        """Read the constant right side of a dot as [contracted, other]."""
        flat = self.get_constant(buffer)
        if flat is None or len(operand.shape.dimensions) != 2 or hlo_proto.get_dtype(dot.shape) != "float32":
            return None
        dims, layout = list(operand.shape.dimensions), list(operand.shape.layout.minor_to_major)
        if flat.size != math.prod(dims):
            return None
        logical = flat.reshape(dims) if layout == [1, 0] else flat.reshape(dims[::-1]).T
        contracted = list(dot.dot_dimension_numbers.rhs_contracting_dimensions)
        if list(dot.dot_dimension_numbers.rhs_batch_dimensions) or len(contracted) != 1:
            return None
        return logical if contracted == [0] else logical.T

    def match_row(self, product: Product, steps: Steps, loop: Any) -> LoopRow | None:
        """Match the row that ``product`` multiplies, if it may do so before ``loop``, which never changes the array."""
        if product.added is not None and product.added.space == "arena":
            return None
        instruction = self.module.names.get(product.name)
        if instruction is None or self.module.owners[instruction.id] is not loop:
            return None
        operands = [self.module.skip_bitcasts(o) for o in self.module.get_operands(instruction)]
        for operand in operands:
            piece = self.module.get_inner_root(operand)
            number = next((n for n, s in enumerate(steps) if s.name == operand.name), None)
            if piece.opcode != "dynamic-slice" or number is None:
                continue
            step, row = steps[number], self._match_slice(operand, piece, loop)
            if row is None or not isinstance(step, KernelStep) or step.results != (product.data,):
                continue
            array, index, count = row
            source, place = step.arguments[array], step.arguments[index]
            if len(step.arguments) != len(operand.operand_ids) or source.size != count * product.data.size:
                continue
            if count < LEAST_ROWS or source.space != "arena" or place.size != 4:
                continue
            once = [u.name for u in self.module.find_users(operand)] == [product.name]
            return LoopRow(number, operand.name, source, place, count, once)
        return None

    def _match_slice(self, outer: Any, piece: Any, loop: Any) -> tuple[int, int, int] | None:
        """Match a dynamic-slice of one whole row; return the argument numbers of the array and the index, and the rows.

        Returns None for anything else, or where ``loop`` may change the array."""
        array, first, *others = self.module.get_operands(piece)
        whole = list(array.shape.dimensions)
        if [1, *whole[1:]] != list(piece.shape.dimensions) or not hlo_proto.is_row_major(array.shape):
            return None
        zeros = all(other.opcode == "constant" and list(other.literal.s32s) == [0] for other in others)
        if hlo_proto.get_dtype(first.shape) != "int32" or not zeros:
            return None
        numbers = self.module.find_argument(outer, array), self.module.find_argument(outer, first)
        if numbers[0] is None or numbers[1] is None:
            return None
        source = self.module.skip_bitcasts(self.module.get_operands(outer)[numbers[0]])
        if source.opcode != "get-tuple-element":
            return None
        (state,) = self.module.get_operands(source)
        after = self.module.get_operands(self.module.get_root(loop))[source.tuple_index]
        same = after.opcode == "get-tuple-element" and after.tuple_index == source.tuple_index
        if not same or state.opcode != "parameter" or self.module.get_operands(after) != [state]:
            return None
        return numbers[0], numbers[1], whole[0]

    def get_constant(self, buffer: Buffer) -> NDArray[np.float32] | None:
        """Return the float32 numbers of ``buffer`` where they are constant, else None."""
        if buffer.space != "weights" or buffer.size % 4:
            return None
        weight = next((w for w in self.weights if w.offset == buffer.offset), None)
        if weight is None or len(weight.data) < buffer.size:
            return None
        return np.frombuffer(weight.data[: buffer.size], np.float32)


def _is_last_contracted(data: Any, dot: Any) -> bool:
    """Return whether the left side is dense and only its last dimension is summed over."""
    numbers = dot.dot_dimension_numbers
    last = [len(data.shape.dimensions) - 1]
    plain = list(numbers.lhs_contracting_dimensions) == last and not list(numbers.lhs_batch_dimensions)
    return plain and hlo_proto.is_row_major(data.shape) and hlo_proto.is_row_major(dot.shape)
