"""The sums a LayerStep can compute: convolutions and matrix products with constant weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.geometry import Geometry
from builder.compiler.lower.hlo import Dag, Value
from builder.compiler.lower.packing import MAX_TAPS
from builder.compiler.lower.strided import Strided, find_strided_view
from builder.compiler.lower.transposed import find_halo


@dataclass(frozen=True)
class Core:
    """A convolution or product: ``value`` is its sums, NHWC or [..., channels].

    ``in_size``: the rows and columns of ``input``, to which ``padding`` (at the top and left) is not added.
    """

    value: Value
    input: Value
    weights: Value
    geometry: Geometry
    in_size: tuple[int, int]
    padding: tuple[int, int] = (0, 0)
    swapped: bool = False
    """XLA made the weights the convolution's first operand, as it does if the kernel is larger than the image."""
    transposed: bool = False
    """True if the weights of a product are a matrix [outputs, channels]."""
    absorbed: Value | None = None
    """A zero ``pad`` that became part of ``padding``."""
    factor: Value | None = None
    """A vector, computed while the program runs, by which the input's channels are multiplied."""

    @property
    def name(self) -> str:
        """The op's name in the model, or the instruction's name if XLA does not know that."""
        return get_op_name(self.value.instruction)

    @property
    def input_halo(self) -> tuple[int, int, int, int]:
        """Pixels of padding (top, left, bottom, right) that the kernel reads around its input."""
        if self.geometry.upsampling != (1, 1):
            return find_halo(self.geometry, self.in_size, self.padding)

        def after(axis: int) -> int:
            last = self.geometry.compute_span(axis, self.geometry.out_size[axis])
            return max(0, last - self.in_size[axis] - self.padding[axis])

        return (*self.padding, after(0), after(1))

    def arrange_kernel(self) -> NDArray[np.float32]:
        """Return the weights as [height, width, in channels / groups, out channels]."""
        return np.asarray(self.arrange_weights(self.weights.literal), np.float32)

    def arrange_weights(self, literal: NDArray[np.float32]) -> NDArray[np.float32]:
        """View an array that has the order of the constant in the order of ``arrange_kernel``."""
        if self.swapped:
            numbers = self.value.instruction.convolution_dimension_numbers
            space = list(numbers.input_spatial_dimensions)
            kernel = literal.transpose([*space, numbers.input_feature_dimension, numbers.input_batch_dimension])
            return np.flip(kernel, (0, 1))
        if self.value.op == "dot":
            return (literal.T if self.transposed else literal)[None, None]
        numbers = self.value.instruction.convolution_dimension_numbers
        space = list(numbers.kernel_spatial_dimensions)
        order = [*space, numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension]
        kernel = literal.transpose(order)
        for axis, window in enumerate(self.value.instruction.window.dimensions):
            if window.window_reversal:
                kernel = np.flip(kernel, axis)
        return kernel if len(space) == 2 else kernel[None]


def get_op_name(instruction: Any) -> str:
    """Return the model's name for the op that an HLO instruction was made of, or else the instruction's name."""
    return instruction.metadata.op_name or str(instruction.name)


def get_image_shape(dims: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return batch, height, width and channels of an array whose last dimension is its channels."""
    match dims:
        case (batch, height, width, channels):
            return batch, height, width, channels
        case (batch, width, channels):
            return batch, 1, width, channels
        case (rows, channels):
            return 1, 1, rows, channels
        case (channels,):
            return 1, 1, 1, channels
    return 1, 1, int(np.prod(dims[:-1])), dims[-1] if dims else 1


def find_cores(dag: Dag, dtype: str = "float32") -> list[Core]:
    """Find every live convolution and product of ``dtype`` that a LayerStep can compute, producers first.

    The weights of integers may be any value: evaluate_constant says whether they are known.
    """
    cores = []
    for value in dag.live:
        core = None
        if value.dtype != dtype:
            continue
        if value.op == "convolution":
            core = _match_convolution(value) or _match_swapped(value)
        elif value.op == "dot":
            core = _match_dense(value)
        if core is not None and core.geometry.flop:
            cores.append(core)
    return cores


def explain_no_core(value: Value) -> str:
    """Explain why a convolution or product cannot be a core; return an empty string for anything else."""
    if value.op not in ("convolution", "dot"):
        return ""
    if value.dtype != "float32":
        return f"a {value.op} of {value.dtype}"
    if not any(operand.is_constant for operand in value.operands):
        return "no weights known at build time"
    if value.op == "convolution" and any(w.base_dilation > 1 for w in value.instruction.window.dimensions):
        return "a transposed convolution"
    return "dimensions in an order that the kernels do not have"


def _is_suitable(value: Value, data: Value, weights: Value) -> bool:
    """Return whether all is of one type, the data is row-major and the weights are known at build time."""
    known = weights.is_constant if value.dtype == "float32" else weights.row_major
    return value.dtype == data.dtype == weights.dtype and value.row_major and data.row_major and known


def _match_convolution(value: Value) -> Core | None:
    instruction = value.instruction
    numbers, windows = instruction.convolution_dimension_numbers, list(instruction.window.dimensions)
    rank = len(windows)
    if not _is_suitable(value, *value.operands) or rank not in (1, 2) or max(1, instruction.batch_group_count) != 1:
        return None
    outside_in = (0, rank + 1, list(range(1, rank + 1)))
    layouts = (
        (numbers.input_batch_dimension, numbers.input_feature_dimension, list(numbers.input_spatial_dimensions)),
        (numbers.output_batch_dimension, numbers.output_feature_dimension, list(numbers.output_spatial_dimensions)),
    )
    if any(layout != outside_in for layout in layouts):
        return None
    if any(w.padding_low < 0 for w in windows):
        return None

    def pair(values: list[int], fill: int) -> tuple[int, int]:
        return (fill, values[0]) if rank == 1 else (values[0], values[1])

    kernel_size = pair([w.size for w in windows], 1)
    if kernel_size[0] * kernel_size[1] > MAX_TAPS:
        return None
    batch, height, width, channels = get_image_shape(value.operands[0].dims)
    *_, rows, columns, outputs = get_image_shape(value.dims)
    geometry = Geometry(
        batch,
        channels,
        (rows, columns),
        outputs,
        kernel_size,
        stride=pair([max(1, w.stride) for w in windows], 1),
        dilation=pair([max(1, w.window_dilation) for w in windows], 1),
        groups=max(1, instruction.feature_group_count),
        upsampling=pair([max(1, w.base_dilation) for w in windows], 1),
    )
    if geometry.upsampling != (1, 1) and not _can_split(value, geometry):
        return None
    padding = pair([w.padding_low for w in windows], 0)
    data, weights = value.operands
    return Core(value, data, weights, geometry, (height, width), padding)


def _can_split(value: Value, geometry: Geometry) -> bool:
    """Return whether ordinary layers can compute a transposed convolution; see transposed.py."""
    covers = all(taps >= step for taps, step in zip(geometry.kernel_size, geometry.upsampling, strict=True))
    plain = geometry.stride == geometry.dilation == (1, 1) and geometry.groups == 1
    return covers and plain and value.dtype == "float32"


def _match_swapped(value: Value) -> Core | None:
    """Match a 2-D convolution whose kernel and data XLA exchanged, as it was before.

    With data of size S in the kernel's place, reversed, and padding p, output o meets weight k at pixel o + S - 1 - p -
    k: a convolution with the weights reversed and a padding of K - S + p.
    """
    instruction = value.instruction
    numbers, windows = instruction.convolution_dimension_numbers, list(instruction.window.dimensions)
    weights, data = value.operands
    if len(windows) != 2 or not _is_suitable(value, data, weights):
        return None
    if max(1, instruction.batch_group_count) != 1 or max(1, instruction.feature_group_count) != 1:
        return None
    if (numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension) != (0, 3):
        return None
    if (numbers.output_feature_dimension, numbers.output_batch_dimension) != (0, 3):
        return None
    if list(numbers.kernel_spatial_dimensions) != [1, 2] or list(numbers.output_spatial_dimensions) != [1, 2]:
        return None
    if any(max(1, w.stride) * max(1, w.base_dilation) * max(1, w.window_dilation) != 1 for w in windows):
        return None
    if any(not w.window_reversal and w.size != 1 for w in windows):
        return None
    height, width = (weights.dims[d] for d in numbers.input_spatial_dimensions)
    top = height - windows[0].size + windows[0].padding_low
    left = width - windows[1].size + windows[1].padding_low
    if min(top, left) < 0 or height * width > MAX_TAPS:
        return None
    batch, *in_size, channels = get_image_shape(data.dims)
    *_, rows, columns, outputs = get_image_shape(value.dims)
    geometry = Geometry(batch, channels, (rows, columns), outputs, (height, width))
    return Core(value, data, weights, geometry, (in_size[0], in_size[1]), padding=(top, left), swapped=True)


def _match_dense(value: Value) -> Core | None:
    numbers = value.instruction.dot_dimension_numbers
    data, repeated = value.operands[:2]
    batches = list(numbers.lhs_batch_dimensions)
    if not data.dims or batches != list(range(len(batches))):
        return None
    if list(numbers.lhs_contracting_dimensions) != [len(data.dims) - 1]:
        return None
    if len(numbers.rhs_contracting_dimensions) != 1 or len(repeated.dims) != len(batches) + 2:
        return None
    matrix = _find_matrix(repeated, list(numbers.rhs_batch_dimensions), numbers.rhs_contracting_dimensions[0])
    if matrix is None or not _is_suitable(value, data, matrix[0]):
        return None
    weights, transposed = matrix
    channels, outputs = data.dims[-1], value.dims[-1]
    # The pixels are those of the producer, so that a product can read an image with a halo.
    source = data.base
    same = source.row_major and source.dims[-1:] == (channels,)
    batch, height, width, _ = get_image_shape(source.dims if same else data.dims)
    size = (height, width)
    return Core(value, data, weights, Geometry(batch, channels, size, outputs), size, transposed=transposed)


def _find_matrix(operand: Value, batches: list[int], inner: int) -> tuple[Value, bool] | None:
    """Find the constant matrix on a product's right side, and whether its rows are outputs; ``inner`` is summed over.

    It may be repeated for every one of ``batches``, as PyTorch repeats weights for a tensor that isn't dense.
    """
    if not batches:
        return operand, inner == 1
    view = find_strided_view(operand, frozenset())
    if view is None or view.base.op != "constant" or (view.first, view.factor) != (0, 1.0):
        return None
    (outer,) = {*range(len(operand.dims))} - {*batches, inner}
    if len(view.base.dims) != 2 or any(stride for axis in batches for _, stride in view.dims[axis]):
        return None
    sides, axes = (view.dims[inner], view.dims[outer]), Strided.from_dense(view.base).dims
    return (view.base, sides != axes) if sides in (axes, axes[::-1]) else None
