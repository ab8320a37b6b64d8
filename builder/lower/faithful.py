"""The faithful path: one step per XLA thunk, over XLA's own buffer plan.

This is always right and is where a new model starts. A thunk kind, dtype or geometry that the
runtime has no step for is refused here, by name, never at run time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from builder.errors import LowerError
from builder.importers.graph import Port
from builder.lower import shapes
from builder.lower.buffers import BufferPlan, align, plan_buffers
from builder.lower.custom_calls import step_of, tensor
from builder.lower.fft import plan_fft
from builder.lower.program import BoundPort, CallStep, ConditionalStep, Program, Step, Steps, Weight, WhileStep
from builder.lower.results import result_buffers
from builder.lower.steps import (
    Buffer,
    ConvolutionStep,
    CopyStep,
    DotStep,
    FftKind,
    FftStep,
    KernelStep,
    RngStep,
    SortStep,
    TopKStep,
)
from builder.spec.tensor import TensorSpec

CONVOLUTION_DTYPES = {"float16", "float32", "float64"}
DOT_DTYPES = {
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
}  # fmt: skip
FFT_KINDS: tuple[FftKind, ...] = ("FFT", "IFFT", "RFFT", "IRFFT")
"""In the order of FftTypeProto in xla/xla_data.proto, by the number of FftThunkProto.fft_type."""


def lower_faithfully(result: Any, feeds: tuple[Port, ...], fetches: tuple[Port, ...], share: bool = True) -> Program:
    """Turn a CompilationResultProto into a Program with the given feeds and fetches, in order.

    Equal constants share one place if ``share``.
    Raises LowerError naming every thunk the runtime cannot run.
    """
    plan = plan_buffers(result, share)
    lowering = _Thunks(plan)
    steps = lowering.sequence(result.thunk_sequence)
    if lowering.refused:
        raise LowerError(
            "the runtime cannot run what XLA made of this graph:\n  "
            + "\n  ".join(lowering.refused)
            + "\nRewrite these operations in the model, or report it."
        )
    return Program(
        steps=steps,
        feeds=_bind_feeds(result, plan, feeds),
        fetches=_bind_fetches(result, plan, fetches),
        weights=(*plan.weights, *lowering.tables.values()),
        arena_size=plan.arena_size + align(lowering.scratch),
        weights_size=plan.weights_size + sum(align(len(data)) for data in lowering.tables),
    )


def _bind_feeds(result: Any, plan: BufferPlan, feeds: tuple[Port, ...]) -> tuple[BoundPort, ...]:
    layout = result.hlo_module.hlo_module.host_program_shape.parameters
    if len(layout) != len(feeds) or sorted(plan.parameters) != list(range(len(feeds))):
        raise LowerError(f"XLA compiled {len(layout)} parameters for {len(feeds)} feeds; report this model.")
    return tuple(
        _bind(port, shape, plan.parameters[i]) for i, (port, shape) in enumerate(zip(feeds, layout, strict=True))
    )


def _bind_fetches(result: Any, plan: BufferPlan, fetches: tuple[Port, ...]) -> tuple[BoundPort, ...]:
    outputs = result_buffers(result, plan)
    if len(outputs) != len(fetches):
        raise LowerError(f"XLA compiled {len(outputs)} results for {len(fetches)} fetches; report this model.")
    return tuple(_bind(port, shape, buffer) for port, (shape, buffer) in zip(fetches, outputs, strict=True))


def _bind(port: Port, shape: Any, buffer: Buffer) -> BoundPort:
    actual = (shapes.dtype(shape), tuple(shape.dimensions))
    taken = (shapes.dtype(shape), _taken(port.spec, shape))
    if taken != (port.spec.dtype, port.spec.shape) or not shapes.is_row_major(shape):
        raise LowerError(f"{port.spec.name} is {port.spec}, but XLA compiled it as {actual}; report this model.")
    return BoundPort(port.spec, Buffer(buffer.space, buffer.offset, port.spec.size))


def _taken(spec: TensorSpec, shape: Any) -> tuple[int, ...]:
    """XLA's dimensions, or where the data decides as few as the spec takes: what is there comes first, without gaps."""
    dynamic = tuple(at for at, does in enumerate(shape.is_dynamic_dimension) if does)
    if dynamic != spec.dynamic or len(shape.dimensions) != len(spec.shape):
        return tuple(shape.dimensions)
    pairs = zip(shape.dimensions, spec.shape, strict=True)
    return tuple(min(pair) if at in dynamic else pair[0] for at, pair in enumerate(pairs))


@dataclass
class _Thunks:
    """Turns thunks into steps, and collects the refused ones, so that a person learns of all of them at once."""

    plan: BufferPlan
    scratch: int = 0
    refused: list[str] = field(default_factory=list)
    tables: dict[bytes, Weight] = field(default_factory=dict)
    """Constants that are not XLA's: behind all of those."""

    def sequence(self, sequence: Any) -> Steps:
        steps: list[Step] = []
        for thunk in sequence.thunks:
            kind = thunk.WhichOneof("impl")
            lower: Callable[[str, Any], Step] | None = getattr(self, str(kind), None)
            try:
                if lower is None:
                    raise LowerError(f"there is no step for the thunk kind {thunk.kind or kind!r}.")
                steps.append(lower(thunk.info.op_name, getattr(thunk, str(kind))))
            except LowerError as error:
                self.refused.append(f"{thunk.info.op_name}: {error}")
        return tuple(steps)

    # One method per thunk kind, named as the oneof field in xla/backends/cpu/runtime/thunk.proto.

    def kernel_thunk(self, name: str, thunk: Any) -> Step:
        groups = thunk.num_workgroups
        slices = [*thunk.arguments_buffers, *thunk.results_buffers]
        return KernelStep(
            name,
            thunk.kernel_name,
            tuple(self.plan.slice(s.slice, name) for s in slices),
            (max(1, groups.x), max(1, groups.y), max(1, groups.z)),
        )

    def convolution_thunk(self, name: str, thunk: Any) -> Step:
        numbers, window = thunk.dimension_numbers, list(thunk.window.dimensions)
        source, kernel, target = (
            thunk.input_buffer_shape.shape,
            thunk.kernel_buffer_shape.shape,
            thunk.output_buffer_shape.shape,
        )
        kind = shapes.dtype(source)
        if kind not in CONVOLUTION_DTYPES or not 1 <= len(window) <= 3:
            raise LowerError(f"there is no {len(window)}-dimensional convolution of {kind}.")
        if shapes.dtype(kernel) != kind or shapes.dtype(target) != kind:
            raise LowerError(f"there is no convolution of {kind} with mixed types.")
        in_space = list(numbers.input_spatial_dimensions)
        kernel_space = list(numbers.kernel_spatial_dimensions)
        out_space = list(numbers.output_spatial_dimensions)
        in_strides, kernel_strides, out_strides = (shapes.strides(s) for s in (source, kernel, target))
        return ConvolutionStep(
            name,
            kind,
            input=self._shaped(thunk.input_buffer_shape, name),
            kernel=self._shaped(thunk.kernel_buffer_shape, name),
            output=self._shaped(thunk.output_buffer_shape, name),
            batch=source.dimensions[numbers.input_batch_dimension],
            groups=max(1, thunk.feature_group_count),
            in_channels=source.dimensions[numbers.input_feature_dimension],
            out_channels=target.dimensions[numbers.output_feature_dimension],
            in_size=tuple(source.dimensions[d] for d in in_space),
            out_size=tuple(target.dimensions[d] for d in out_space),
            kernel_size=tuple(w.size for w in window),
            stride=tuple(w.stride for w in window),
            pad_low=tuple(w.padding_low for w in window),
            base_dilation=tuple(max(1, w.base_dilation) for w in window),
            window_dilation=tuple(max(1, w.window_dilation) for w in window),
            reversed=tuple(w.window_reversal for w in window),
            in_strides=(
                in_strides[numbers.input_batch_dimension],
                in_strides[numbers.input_feature_dimension],
                *(in_strides[d] for d in in_space),
            ),
            kernel_strides=(
                kernel_strides[numbers.kernel_input_feature_dimension],
                kernel_strides[numbers.kernel_output_feature_dimension],
                *(kernel_strides[d] for d in kernel_space),
            ),
            out_strides=(
                out_strides[numbers.output_batch_dimension],
                out_strides[numbers.output_feature_dimension],
                *(out_strides[d] for d in out_space),
            ),
        )

    def dot_thunk(self, name: str, thunk: Any) -> Step:
        numbers = thunk.dot_dimensions
        lhs, rhs, out = (s.shape for s in (thunk.lhs_buffer_shape, thunk.rhs_buffer_shape, thunk.out_buffer_shape))
        kind = shapes.dtype(out)
        if kind not in DOT_DTYPES or shapes.dtype(lhs) != kind or shapes.dtype(rhs) != kind:
            raise LowerError(f"there is no dot of {shapes.dtype(lhs)} and {shapes.dtype(rhs)} to {kind}.")

        def split(shape: Any, batch: list[int], contracting: list[int]) -> list[tuple[int, int]]:
            free = [d for d in range(len(shape.dimensions)) if d not in batch and d not in contracting]
            return [shapes.merge(shape, dims, name) for dims in (batch, contracting, free)]

        left = split(lhs, list(numbers.lhs_batch_dimensions), list(numbers.lhs_contracting_dimensions))
        right = split(rhs, list(numbers.rhs_batch_dimensions), list(numbers.rhs_contracting_dimensions))
        # The result's dimensions are the batch, then the left's free, then the right's free ones.
        batches = len(numbers.lhs_batch_dimensions)
        rows = len(lhs.dimensions) - batches - len(numbers.lhs_contracting_dimensions)
        order = list(range(len(out.dimensions)))
        product = [
            shapes.merge(out, dims, name)
            for dims in (order[:batches], order[batches : batches + rows], order[batches + rows :])
        ]
        return DotStep(
            name,
            kind,
            lhs=self._shaped(thunk.lhs_buffer_shape, name),
            rhs=self._shaped(thunk.rhs_buffer_shape, name),
            out=self._shaped(thunk.out_buffer_shape, name),
            batch=left[0][0],
            m=left[2][0],
            n=right[2][0],
            k=left[1][0],
            lhs_strides=(left[0][1], left[2][1], left[1][1]),
            rhs_strides=(right[0][1], right[1][1], right[2][1]),
            out_strides=(product[0][1], product[1][1], product[2][1]),
        )

    def copy_thunk(self, name: str, thunk: Any) -> Step:
        source, target = thunk.src_buffer_shape.shape, thunk.dst_buffer_shape.shape
        if list(source.dimensions) != list(target.dimensions):
            raise LowerError(f"there is no copy from {list(source.dimensions)} to {list(target.dimensions)}.")
        if len(source.dimensions) > 8:
            raise LowerError(f"a copy has {len(source.dimensions)} dimensions; the runtime handles 8.")
        return CopyStep(
            name,
            self._shaped(thunk.src_buffer_shape, name),
            self._shaped(thunk.dst_buffer_shape, name),
            shapes.item_size(source),
            tuple(source.dimensions),
            shapes.strides(source),
            shapes.strides(target),
        )

    def sort_thunk(self, name: str, thunk: Any) -> Step:
        inputs = list(thunk.inputs_shapes)
        shape = inputs[0].shape
        if len(inputs) > 16:
            raise LowerError(f"a sort takes {len(inputs)} tensors together; the runtime handles 16.")
        if any(shapes.strides(i.shape) != shapes.strides(shape) for i in inputs):
            raise LowerError("a sort's tensors have different layouts.")
        length = shape.dimensions[thunk.dimension]
        inner = shapes.strides(shape)[thunk.dimension]
        sizes = tuple(shapes.item_size(i.shape) for i in inputs)
        return SortStep(
            name,
            thunk.comparator_name,
            tuple(self._shaped(i, name) for i in inputs),
            sizes,
            outer=math.prod(shape.dimensions) // max(1, length * inner),
            length=length,
            inner=inner,
            # See cf_run_sort: two index arrays and one column of the widest input.
            scratch=self._scratch(length * (16 + max(sizes))),
        )

    def top_k_thunk(self, name: str, thunk: Any) -> Step:
        values, out_values, out_indices = (
            self.plan.slice(s, name) for s in (thunk.values_buffer, thunk.output_buffer, thunk.indices_buffer)
        )
        return TopKStep(name, values, out_values, out_indices, thunk.batch_size, thunk.input_size, thunk.k)

    def fft_thunk(self, name: str, thunk: Any) -> Step:
        source, target = thunk.input_buffer_shape.shape, thunk.output_buffer_shape.shape
        kind, sizes = FFT_KINDS[thunk.fft_type], tuple(thunk.fft_length)
        real, complex_ = (source, target) if kind == "RFFT" else (target, source)
        if shapes.dtype(complex_) != "complex64" or shapes.dtype(real) not in ("float32", "complex64"):
            raise LowerError(f"there is no {kind} of {shapes.dtype(complex_)}.")
        if not (shapes.is_row_major(source) and shapes.is_row_major(target)):
            raise LowerError(f"there is no {kind} of dimensions in another order.")
        batch = math.prod(source.dimensions[: -len(sizes)])
        plan = plan_fft(kind, sizes, batch)
        return FftStep(
            name,
            kind,
            input=self._shaped(thunk.input_buffer_shape, name),
            tables=self._table(plan.tables.tobytes()),
            output=self._shaped(thunk.output_buffer_shape, name),
            batch=batch,
            axes=plan.axes,
            lines=plan.lines,
            copy=plan.copy,
            scratch=self._scratch(4 * plan.scratch),
        )

    def custom_call_thunk(self, name: str, thunk: Any) -> Step:
        buffers = thunk.op_buffers
        inputs, outputs = (
            [tensor(proto.shape, self._shaped(proto, name)) for proto in side]
            for side in (buffers.arguments_shapes, buffers.results_shapes)
        )
        return step_of(thunk.target_name, name, thunk.backend_config, inputs, outputs, self._scratch)

    def rng_get_and_update_state_thunk(self, name: str, thunk: Any) -> Step:
        return RngStep(name, self.plan.slice(thunk.state_buffer, name), thunk.delta)

    def call_thunk(self, name: str, thunk: Any) -> Step:
        return CallStep(name, self.sequence(thunk.called_sequence))

    def conditional_thunk(self, name: str, thunk: Any) -> Step:
        index = self.plan.slice(thunk.branch_index_buffer, name)
        return ConditionalStep(name, index, tuple(self.sequence(s) for s in thunk.branch_sequences))

    def while_thunk(self, name: str, thunk: Any) -> Step:
        return WhileStep(
            name,
            condition=self.sequence(thunk.cond_sequence),
            predicate=self.plan.slice(thunk.cond_buffer, name),
            body=self.sequence(thunk.body_sequence),
            trip_count=thunk.trip_count.value if thunk.trip_count.contains_value else None,
        )

    def _scratch(self, size: int) -> Buffer:
        """Memory that a step needs only while it runs: the same for all, behind the plan's."""
        self.scratch = max(self.scratch, size)
        return Buffer("arena", self.plan.arena_size, size)

    def _table(self, data: bytes) -> Buffer:
        if data not in self.tables:
            end = self.plan.weights_size + sum(align(len(other)) for other in self.tables)
            self.tables[data] = Weight(end, data)
        return Buffer("weights", self.tables[data].offset, len(data))

    def _shaped(self, proto: Any, name: str) -> Buffer:
        return self.plan.slice(proto.slice, name)
