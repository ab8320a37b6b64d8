"""The faithful path: one step per XLA thunk, over XLA's own buffer plan.

It is always right, and every new model starts on it. A thunk kind, dtype or geometry for which the runtime has no step
is refused here, by name, never at run time.
"""

from __future__ import annotations

from typing import Any

from builder.base.errors import LowerError
from builder.compiler.lower import hlo_proto
from builder.compiler.lower.buffers import BufferPlan, find_result_buffers, plan_buffers
from builder.compiler.lower.program import BoundPort, Program
from builder.compiler.lower.steps.base import Buffer, align_offset
from builder.compiler.lower.steps.thunk_reader import ThunkReader
from builder.config.tensor import TensorSpec
from builder.importers.graph import GraphPort


def lower_faithfully(
    result: Any, feeds: tuple[GraphPort, ...], fetches: tuple[GraphPort, ...], share: bool = True
) -> Program:
    """Turn a CompilationResultProto into a Program with the given feeds and fetches, in order.

    Equal constants share one place if ``share``. Raises LowerError naming every thunk the runtime cannot run.
    """
    plan = plan_buffers(result, share)
    reader = ThunkReader(plan)
    steps = reader.read_sequence(result.thunk_sequence)
    if reader.refused:
        raise LowerError(
            "the runtime cannot run what XLA made of this graph:\n  "
            + "\n  ".join(reader.refused)
            + "\nRewrite these operations in the model, or report it."
        )
    return Program(
        steps=steps,
        feeds=_bind_feeds(result, plan, feeds),
        fetches=_bind_fetches(result, plan, fetches),
        weights=(*plan.weights, *reader.constants.weights),
        arena_size=plan.arena_size + align_offset(reader.scratch_size),
        weights_size=reader.constants.size,
    )


def _bind_feeds(result: Any, plan: BufferPlan, feeds: tuple[GraphPort, ...]) -> tuple[BoundPort, ...]:
    layout = result.hlo_module.hlo_module.host_program_shape.parameters
    if len(layout) != len(feeds) or sorted(plan.parameters) != list(range(len(feeds))):
        raise LowerError(f"XLA compiled {len(layout)} parameters for {len(feeds)} feeds; report this model.")
    return tuple(
        _bind_port(port, shape, plan.parameters[i]) for i, (port, shape) in enumerate(zip(feeds, layout, strict=True))
    )


def _bind_fetches(result: Any, plan: BufferPlan, fetches: tuple[GraphPort, ...]) -> tuple[BoundPort, ...]:
    outputs = find_result_buffers(result, plan)
    if len(outputs) != len(fetches):
        raise LowerError(f"XLA compiled {len(outputs)} results for {len(fetches)} fetches; report this model.")
    return tuple(_bind_port(port, shape, buffer) for port, (shape, buffer) in zip(fetches, outputs, strict=True))


def _bind_port(port: GraphPort, shape: Any, buffer: Buffer) -> BoundPort:
    actual = (hlo_proto.get_dtype(shape), tuple(shape.dimensions))
    limited = (hlo_proto.get_dtype(shape), _limit_dimensions(port.spec, shape))
    if limited != (port.spec.dtype, port.spec.shape) or not hlo_proto.is_row_major(shape):
        raise LowerError(f"{port.spec.name} is {port.spec}, but XLA compiled it as {actual}; report this model.")
    return BoundPort(port.spec, Buffer(buffer.space, buffer.offset, port.spec.size))


def _limit_dimensions(spec: TensorSpec, shape: Any) -> tuple[int, ...]:
    """Return XLA's dimensions; dynamic ones are limited to the spec's, as their elements come first, without gaps."""
    dynamic = tuple(at for at, does in enumerate(shape.is_dynamic_dimension) if does)
    if dynamic != spec.dynamic or len(shape.dimensions) != len(spec.shape):
        return tuple(shape.dimensions)
    pairs = zip(shape.dimensions, spec.shape, strict=True)
    return tuple(min(pair) if at in dynamic else pair[0] for at, pair in enumerate(pairs))
