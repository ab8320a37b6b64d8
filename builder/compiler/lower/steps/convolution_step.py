"""A convolution as XLA defines it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from builder.base.errors import LowerError
from builder.compiler.lower import hlo_proto
from builder.compiler.lower.geometry import count_flop
from builder.compiler.lower.steps.base import Buffer, Reads, Step, StepPrinter, Writes
from builder.compiler.lower.steps.printing import CF_DTYPES, format_fields, format_list, format_pointer
from builder.compiler.lower.steps.thunk_reader import ThunkReader, reads_thunk

CONVOLUTION_DTYPES = {"float16", "float32", "float64"}


@dataclass(frozen=True)
class ConvolutionStep(Step):
    """XLA's convolution on logical dimensions; see ``cf_convolution`` in runtime/ops/kernels.h."""

    dtype: str
    input: Reads[Buffer]
    kernel: Reads[Buffer]
    output: Writes[Buffer]
    batch: int
    groups: int
    in_channels: int
    out_channels: int
    in_size: tuple[int, ...]
    out_size: tuple[int, ...]
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    pad_low: tuple[int, ...]
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]
    reversed: tuple[bool, ...]
    in_strides: tuple[int, ...]
    """Strides of batch, channel, then each spatial dimension; ``out_strides`` in the same order."""
    kernel_strides: tuple[int, ...]
    """Strides of input channel, output channel, then each spatial dimension."""
    out_strides: tuple[int, ...]

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        fields = {
            "dtype": CF_DTYPES[self.dtype],
            "spatial_rank": len(self.in_size),
            "batch": self.batch,
            "groups": self.groups,
            "in_channels": self.in_channels,
            "out_channels": self.out_channels,
            "in": format_list(self.in_size),
            "out": format_list(self.out_size),
            "kernel": format_list(self.kernel_size),
            "stride": format_list(self.stride),
            "pad_low": format_list(self.pad_low),
            "base_dilation": format_list(self.base_dilation),
            "window_dilation": format_list(self.window_dilation),
            "reversed": format_list(self.reversed),
            "in_batch": self.in_strides[0],
            "in_channel": self.in_strides[1],
            "in_spatial": format_list(self.in_strides[2:]),
            "kernel_in": self.kernel_strides[0],
            "kernel_out": self.kernel_strides[1],
            "kernel_spatial": format_list(self.kernel_strides[2:]),
            "out_batch": self.out_strides[0],
            "out_channel": self.out_strides[1],
            "out_spatial": format_list(self.out_strides[2:]),
        }
        return [
            "static const cf_convolution convolution = {",
            *format_fields(fields),
            "};",
            f"cf_run_convolution(&convolution, {format_pointer(self.input)}, {format_pointer(self.kernel)}, "
            f"{format_pointer(self.output)});",
        ]

    @property
    def flop(self) -> int:
        """Floating-point operations, a multiply-add counted as two, without those with zeros between pixels."""
        k = math.prod(self.kernel_size) * self.in_channels // self.groups
        outputs = self.batch * math.prod(self.out_size) * self.out_channels
        return count_flop(outputs, k) // math.prod(self.base_dilation)


@reads_thunk("convolution_thunk")
def _read_convolution(name: str, thunk: Any, reader: ThunkReader) -> Step:
    numbers, window = thunk.dimension_numbers, list(thunk.window.dimensions)
    source, kernel, target = (
        thunk.input_buffer_shape.shape,
        thunk.kernel_buffer_shape.shape,
        thunk.output_buffer_shape.shape,
    )
    kind = hlo_proto.get_dtype(source)
    if kind not in CONVOLUTION_DTYPES or not 1 <= len(window) <= 3:
        raise LowerError(f"there is no {len(window)}-dimensional convolution of {kind}.")
    if hlo_proto.get_dtype(kernel) != kind or hlo_proto.get_dtype(target) != kind:
        raise LowerError(f"there is no convolution of {kind} with mixed types.")
    in_space = list(numbers.input_spatial_dimensions)
    kernel_order = (
        numbers.kernel_input_feature_dimension,
        numbers.kernel_output_feature_dimension,
        *numbers.kernel_spatial_dimensions,
    )
    out_space = list(numbers.output_spatial_dimensions)
    in_order = (numbers.input_batch_dimension, numbers.input_feature_dimension, *in_space)
    out_order = (numbers.output_batch_dimension, numbers.output_feature_dimension, *out_space)
    in_strides, kernel_strides, out_strides = (
        tuple(hlo_proto.compute_shape_strides(shape)[d] for d in order)
        for shape, order in ((source, in_order), (kernel, kernel_order), (target, out_order))
    )
    return ConvolutionStep(
        name,
        kind,
        input=reader.resolve_shaped_slice(thunk.input_buffer_shape, name),
        kernel=reader.resolve_shaped_slice(thunk.kernel_buffer_shape, name),
        output=reader.resolve_shaped_slice(thunk.output_buffer_shape, name),
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
        in_strides=in_strides,
        kernel_strides=kernel_strides,
        out_strides=out_strides,
    )
