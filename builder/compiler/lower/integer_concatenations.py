"""Concatenations of tensors of bytes along their channels, all of which steps of ours store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from builder.compiler.lower.hlo import Dag, Value
from builder.compiler.lower.integer_layers import LEAST_BYTES, IntegerLayer
from builder.compiler.lower.integer_pools import IntegerPool
from builder.compiler.lower.integer_sums import IntegerSum


@dataclass(frozen=True)
class IntegerConcatenation:
    """The channels of ``sources``, one after the other."""

    value: Value
    sources: tuple[Value, ...]
    inside: tuple[Value, ...] = ()

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The value that it stores, as ``base``."""
        return (self.value.base,)


def find_integer_concatenations(
    dag: Dag, tasks: Sequence[IntegerLayer | IntegerSum | IntegerPool]
) -> list[IntegerConcatenation]:
    """Find every live concatenation of channels of bytes that ``tasks``, or others of them, store."""
    stored, found = {output for task in tasks for output in task.outputs}, []
    for value in dag.live:
        if value.op != "concatenate" or value.dtype not in LEAST_BYTES or not value.row_major:
            continue
        along_channels = list(value.instruction.dimensions) == [len(value.dims) - 1]
        if along_channels and all(source.row_major and source.base in stored for source in value.operands):
            found.append(IntegerConcatenation(value, value.operands))
            stored.add(value)
    return found
