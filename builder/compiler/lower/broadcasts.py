"""Steps of coldforge's own for XLA's kernels that add, multiply or copy arrays, one of them repeated or transposed.

XLA's kernel for such a step runs on one thread, and one that transposes reads a cache line for every number. The
arithmetic is the same, so the bits are too: ``target = source``, ``source + other`` or ``source * other``.
"""

from __future__ import annotations

from collections.abc import Sequence

from builder.compiler.lower.hlo import Value
from builder.compiler.lower.steps.base import Buffer
from builder.compiler.lower.steps.copy_step import BroadcastOp, BroadcastStep
from builder.compiler.lower.steps.kernel_step import KernelStep

LEAST = 4096
"""Minimum number of elements worth a step: smaller arrays are as fast in XLA's kernel."""

RANK = 4
"""Number of dimensions that the runtime has, after those adjacent in memory have been merged."""

Strides = tuple[int, ...]


def find_broadcast(
    step: KernelStep, reads: Sequence[Buffer], sources: Sequence[Value | Buffer], write: Buffer, output: Value | None
) -> BroadcastStep | None:
    """Return the step that stores ``output`` into ``write`` as ``step`` does, or None if the kernel does anything else.

    ``sources``: the value or constant that each of ``reads`` holds.
    """
    if output is None or output.dtype != "float32" or output.elements < LEAST or write.size != 4 * output.elements:
        return None
    value, target = output, output.strides
    while value.op in ("copy", "transpose"):
        if value.op == "transpose":
            order = list(value.instruction.dimensions)
            target = tuple(target[order.index(d)] for d in range(len(order)))
        value = value.operands[0]
    op: BroadcastOp = "copy"
    operands: tuple[Value, ...] = (value,)
    if value.op in ("add", "multiply") and not any(source is value for source in sources):
        op = "add" if value.op == "add" else "multiply"
        operands = value.operands
    elif value is output:
        return None
    operand_buffers = [_find_operand(o, value.dims, reads, sources) for o in operands]
    if len(operand_buffers) != len(reads) or any(f is None for f in operand_buffers):
        return None
    arrays = sorted((f for f in operand_buffers if f is not None), key=lambda f: -f[0].size)  # the repeated is last
    if len({buffer for buffer, _ in arrays}) != len(reads) or arrays[0][0].size != write.size:
        return None
    if any(buffer == write and own != target for buffer, own in arrays):
        return None  # it is in place, but the numbers move
    merged = _merge_dimensions(value.dims, [target, *(own for _, own in arrays)])
    if merged is None:
        return None
    dims, (target, source, *others) = merged
    other = arrays[1][0] if others else None
    return BroadcastStep(
        step.name,
        op,
        arrays[0][0],
        other=other,
        target=write,
        dims=dims,
        source_strides=source,
        other_strides=others[0] if others else None,
        target_strides=target,
    )


def _find_operand(
    value: Value, dims: tuple[int, ...], reads: Sequence[Buffer], sources: Sequence[Value | Buffer]
) -> tuple[Buffer, Strides] | None:
    """Find the buffer of an operand and its strides over ``dims``, which are 0 where it is repeated."""
    if value.dims != dims or value.dtype != "float32":
        return None
    strides = value.strides
    if value.op == "broadcast":
        value, axes = value.operands[0], list(value.instruction.dimensions)
        inner, repeated = value.strides, [0] * len(dims)
        for axis, size, step in zip(axes, value.dims, inner, strict=True):
            repeated[axis] = step if size > 1 else 0
        strides = tuple(repeated)
    if value.is_constant:
        candidates = [r for r, s in zip(reads, sources, strict=True) if isinstance(s, Buffer)]
    else:
        candidates = [r for r, s in zip(reads, sources, strict=True) if isinstance(s, Value) and s.base is value.base]
    if len(candidates) != 1 or candidates[0].size != 4 * value.elements:
        return None
    return candidates[0], strides


def _merge_dimensions(dims: Sequence[int], arrays: Sequence[Strides]) -> tuple[tuple[int, ...], list[Strides]] | None:
    """Merge the dimensions that are adjacent in every array, in the order of the first array, into RANK dimensions.

    Sizes of 1 are dropped, and fill the front. Return None if RANK is too few or the first array ends with gaps.
    """
    order = sorted((d for d in range(len(dims)) if dims[d] > 1), key=lambda d: -arrays[0][d])
    sizes: list[int] = []
    steps: list[list[int]] = []
    for d in order:
        strides = [array[d] for array in arrays]
        if sizes and all(before == step * dims[d] for before, step in zip(steps[-1], strides, strict=True)):
            sizes[-1] *= dims[d]
            steps[-1] = strides
        else:
            sizes.append(dims[d])
            steps.append(strides)
    if not sizes or len(sizes) > RANK or steps[-1][0] != 1:
        return None
    missing = RANK - len(sizes)
    front = [[0] * len(arrays)] * missing
    return (*[1] * missing, *sizes), [tuple(s) for s in zip(*front, *steps, strict=True)]
