"""Small HLO modules, written by hand, in the message that tfcompile leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from builder.base.project import cache_folder
from builder.compiler.xla.compilation_result import load_result_class

ROOT = Path(__file__).resolve().parents[2]
FLOAT32 = 11
TYPES = {"int8": 2, "int32": 4, "uint8": 6, "float32": FLOAT32, "float64": 12, "bool": 1}
"""PrimitiveType of xla_data.proto, by NumPy's names."""


class Module:
    """An entry computation being written; every method adds an instruction and returns it."""

    def __init__(self) -> None:
        self.result = load_result_class(cache_folder())()
        self.module = self.result.hlo_module.hlo_module
        self.entry = self.module.computations.add(name="entry", id=1)
        self.module.entry_computation_id = 1
        self.count = 0

    def add(
        self, opcode: str, operands: Sequence[Any], shape: Sequence[int], dtype: str = "float32", **fields: Any
    ) -> Any:
        self.count += 1
        instruction = self.entry.instructions.add(name=f"{opcode}.{self.count}", opcode=opcode, id=self.count, **fields)
        instruction.operand_ids.extend(o.id for o in operands)
        _shape(instruction.shape, shape, TYPES[dtype])
        self.entry.root_id = self.count
        return instruction

    def parameter(self, *shape: int, dtype: str = "float32") -> Any:
        number = sum(i.opcode == "parameter" for i in self.entry.instructions)
        return self.add("parameter", (), shape, dtype, parameter_number=number)

    def constant(self, values: Any, dtype: str = "float32") -> Any:
        array = np.asarray(values, dtype)
        instruction = self.add("constant", (), array.shape, dtype)
        _shape(instruction.literal.shape, array.shape, TYPES[dtype])
        if array.dtype.itemsize == 1:
            setattr(instruction.literal, {"int8": "s8s", "uint8": "u8s"}[dtype], array.tobytes())
        else:
            numbers = {"float32": "f32s", "float64": "f64s", "int32": "s32s"}[dtype]
            getattr(instruction.literal, numbers).extend(array.ravel().tolist())
        return instruction

    def spread(self, values: Any, shape: Sequence[int], dtype: str = "float32") -> Any:
        """A constant scalar or channel vector, broadcast to ``shape``."""
        constant = self.constant(values, dtype)
        axes = [len(shape) - 1] if np.ndim(values) else []
        return self.add("broadcast", (constant,), shape, dtype, dimensions=axes)

    def elementwise(self, opcode: str, *operands: Any, **fields: Any) -> Any:
        fields.setdefault("dtype", _name_type(operands[0]))
        return self.add(opcode, operands, operands[0].shape.dimensions, **fields)

    def convert(self, value: Any, dtype: str) -> Any:
        return self.add("convert", (value,), value.shape.dimensions, dtype)

    def convolution(
        self,
        source: Any,
        kernel: Any,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        upsampling: tuple[int, int] = (1, 1),
        more: int = 0,
    ) -> Any:
        """``upsampling``: of a transposed one. ``more``: padding at the bottom and right beside that of all sides."""
        batch, height, width, _ = source.shape.dimensions
        spread = ((height - 1) * upsampling[0] + 1, (width - 1) * upsampling[1] + 1)
        out = [
            (n + 2 * padding + more - k) // stride + 1 for n, k in zip(spread, kernel.shape.dimensions, strict=False)
        ]
        shape = (batch, *out, kernel.shape.dimensions[3])
        instruction = self.add(
            "convolution", (source, kernel), shape, _name_type(source), feature_group_count=groups, batch_group_count=1
        )
        for size, apart in zip(kernel.shape.dimensions[:2], upsampling, strict=True):
            window = instruction.window.dimensions.add(size=size, stride=stride, window_dilation=1, base_dilation=apart)
            window.padding_low, window.padding_high = padding, padding + more
        numbers = instruction.convolution_dimension_numbers
        numbers.input_feature_dimension = numbers.output_feature_dimension = 3
        numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension = 2, 3
        numbers.input_spatial_dimensions.extend([1, 2])
        numbers.output_spatial_dimensions.extend([1, 2])
        numbers.kernel_spatial_dimensions.extend([0, 1])
        return instruction

    def dot(self, left: Any, right: Any) -> Any:
        """[..., m, k] times [..., k, n]."""
        batch = list(range(len(left.shape.dimensions) - 2))
        instruction = self.add(
            "dot", (left, right), (*left.shape.dimensions[:-1], right.shape.dimensions[-1]), _name_type(left)
        )
        numbers = instruction.dot_dimension_numbers
        numbers.lhs_batch_dimensions.extend(batch)
        numbers.rhs_batch_dimensions.extend(batch)
        numbers.lhs_contracting_dimensions.append(len(batch) + 1)
        numbers.rhs_contracting_dimensions.append(len(batch))
        return instruction

    def reduce(self, opcode: str, source: Any, axes: Sequence[int]) -> Any:
        """ "add" or "maximum" of ``source`` over ``axes``."""
        shape = [size for axis, size in enumerate(source.shape.dimensions) if axis not in axes]
        return self._add_reduction("reduce", opcode, source, shape, dimensions=axes)

    def reduce_window(
        self, opcode: str, source: Any, window: tuple[int, int], stride: int = 1, padding: tuple[int, int] = (0, 0)
    ) -> Any:
        """ "add" or "maximum" of windows of an image; ``padding``: at the top and left, and at the bottom and right."""
        batch, *size, channels = source.shape.dimensions
        out = [(n + sum(padding) - k) // stride + 1 for n, k in zip(size, window, strict=True)]
        instruction = self._add_reduction("reduce-window", opcode, source, (batch, *out, channels))
        for length in (1, *window, 1):
            one = length == 1
            instruction.window.dimensions.add(
                size=length,
                stride=1 if one else stride,
                padding_low=0 if one else padding[0],
                padding_high=0 if one else padding[1],
                window_dilation=1,
                base_dilation=1,
            )
        return instruction

    def _add_reduction(self, name: str, opcode: str, source: Any, shape: Sequence[int], **fields: Any) -> Any:
        dtype, number = _name_type(source), 1000 * (len(self.module.computations) + 1)
        reducer = self.module.computations.add(name=opcode, id=number, root_id=number + 2)
        for at, operation in enumerate(("parameter", "parameter", opcode)):
            p = reducer.instructions.add(name=f"{operation}.{number + at}", opcode=operation, id=number + at)
            p.shape.element_type = TYPES[dtype]
        p.operand_ids.extend([number, number + 1])
        reducer.instructions[1].parameter_number = 1
        least = -np.inf if dtype == "float32" else np.iinfo(dtype).min
        start = self.constant(0 if opcode == "add" else least, dtype)
        return self.add(name, (source, start), shape, dtype, called_computation_ids=[number], **fields)

    def pad(self, source: Any, pixels: int, more: int = 0) -> Any:
        """``more``: channels behind those of ``source``."""
        batch, height, width, channels = source.shape.dimensions
        shape = (batch, height + 2 * pixels, width + 2 * pixels, channels + more)
        instruction = self.add("pad", (source, self.constant(0.0)), shape)
        for side in (0, pixels, pixels, 0):
            instruction.padding_config.dimensions.add(edge_padding_low=side, edge_padding_high=side)
        instruction.padding_config.dimensions[3].edge_padding_high += more
        return instruction

    def tuple(self, *values: Any) -> Any:
        instruction = self.add("tuple", values, ())
        instruction.shape.element_type = 13
        for value in values:
            instruction.shape.tuple_shapes.add().CopyFrom(value.shape)
        return instruction


def _name_type(instruction: Any) -> str:
    return next(name for name, number in TYPES.items() if number == instruction.shape.element_type)


def _shape(shape: Any, dims: Sequence[int], element_type: int = FLOAT32) -> None:
    shape.element_type = element_type
    shape.dimensions.extend(dims)
    shape.layout.minor_to_major.extend(reversed(range(len(dims))))
