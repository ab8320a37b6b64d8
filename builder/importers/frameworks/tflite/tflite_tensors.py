"""Tensors of a .tflite file: their types, their constant data, and how quantised ones stand for numbers.

Specification: https://github.com/google-ai-edge/LiteRT/blob/main/tflite/converter/schema/schema.fbs, and, for
quantisation, https://ai.google.dev/edge/litert/models/quantization_spec.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from builder.base.errors import ImportModelError

_TYPES = {
    "FLOAT32": np.float32, "FLOAT16": np.float16, "FLOAT64": np.float64, "BFLOAT16": ml_dtypes.bfloat16,
    "BOOL": np.bool_, "INT4": np.int8, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64, "COMPLEX64": np.complex64,
}  # fmt: skip
DTYPES = {getattr(schema.TensorType, name): np.dtype(dtype) for name, dtype in _TYPES.items()}
"""NumPy's types by the numbers of the file format."""
TYPE_NAMES = {number: name for name, number in vars(schema.TensorType).items() if isinstance(number, int)}


@dataclass(frozen=True, eq=False)
class TensorScale:
    """The scale and zero point of a tensor, one for all or one for each index of ``axis``."""

    scale: Any
    zero: Any
    axis: int

    def spread(self, rank: int) -> tuple[Any, Any]:
        """Return the scales and the zero points as they apply to a tensor of ``rank`` dimensions."""
        shape = [-1 if d == self.axis else 1 for d in range(rank)]
        scale, zero = (values.reshape(() if values.size == 1 else shape) for values in (self.scale, self.zero))
        return scale, zero


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor of a graph; ``data`` is None unless it is constant, ``kind`` the name of its type in the file.

    ``is_variable``: whether it is the state of a recurrent operator, and then ``data`` has its zeros.
    """

    name: str
    shape: tuple[int, ...]
    signature: tuple[int | None, ...]
    kind: str
    dtype: Any
    data: Any
    quantisation: TensorScale | None
    is_variable: bool = False

    @property
    def is_quantised(self) -> bool:
        """True if the integers stand for real numbers."""
        return self.quantisation is not None and self.dtype is not None and self.dtype.kind in "iu"

    @property
    def scale_and_zero(self) -> tuple[float, int] | None:
        """The scale and the zero point, if it is quantised with one of each."""
        if not self.is_quantised or self.quantisation is None or self.quantisation.scale.size != 1:
            return None
        return float(self.quantisation.scale.item()), int(self.quantisation.zero.item())

    @property
    def step(self) -> Any:
        """The only scale of a quantised tensor, in float32."""
        assert self.quantisation
        return self.quantisation.scale[0]

    @property
    def zero(self) -> int:
        """The only zero point of a quantised tensor."""
        assert self.quantisation
        return int(self.quantisation.zero[0])

    def to_real(self, value: Any) -> Any:
        """Return the numbers that ``value`` stands for, in float32 if it is quantised."""
        if not self.is_quantised:
            return value
        assert self.quantisation
        scale, zero = self.quantisation.spread(np.ndim(value))
        module = np if isinstance(value, (np.ndarray, np.generic)) else jnp
        return (module.asarray(value).astype(np.float32) - zero.astype(np.float32)) * scale

    def to_stored(self, value: Any) -> Any:
        """Return numbers as the tensor holds them: rounded to even on its grid, within the bounds of its type."""
        if not self.is_quantised:
            return value
        assert self.quantisation
        (scale, zero), bounds = self.quantisation.spread(np.ndim(value)), np.iinfo(self.dtype)
        rounded = jnp.round(value / scale) + zero.astype(np.float32)
        return jnp.clip(rounded, bounds.min, bounds.max).astype(self.dtype)


def read_tensor(model: Any, tensor: Any) -> Tensor:
    """Return a tensor of a subgraph of ``model``, the object of the schema. Raises ImportModelError."""
    name, kind = (tensor.name or b"").decode(), TYPE_NAMES.get(tensor.type, str(tensor.type))
    shape = tuple(int(size) for size in (tensor.shape if tensor.shape is not None else ()))
    declared = tensor.shapeSignature if tensor.shapeSignature is not None and len(tensor.shapeSignature) else shape
    signature = tuple(None if size < 0 else int(size) for size in declared)
    dtype = DTYPES.get(tensor.type)
    data, quantisation = _read_data(model, tensor, name, kind, dtype, shape), _read_quantisation(tensor.quantization)
    if tensor.isVariable:  # The state of a recurrent layer begins at zero.
        data = np.full(shape, 0 if quantisation is None else quantisation.zero[0], dtype)
    return Tensor(name, shape, signature, kind, dtype, data, quantisation, bool(tensor.isVariable))


def _read_quantisation(quantisation: Any) -> TensorScale | None:
    if quantisation is None or quantisation.scale is None or not len(quantisation.scale):
        return None
    scale = np.asarray(quantisation.scale, np.float32)
    zero = np.asarray(quantisation.zeroPoint if quantisation.zeroPoint is not None else [0] * scale.size, np.int64)
    return TensorScale(scale, zero, quantisation.quantizedDimension)


def _read_data(model: Any, tensor: Any, name: str, kind: str, dtype: Any, shape: tuple[int, ...]) -> Any:
    data = model.buffers[tensor.buffer].data if tensor.buffer < len(model.buffers) else None
    if data is None or not len(data):
        return None if 0 not in shape or dtype is None else np.zeros(shape, dtype)
    raw = np.asarray(data, np.uint8)
    if kind == "INT4":
        halves = np.stack([raw << 4, raw], -1).reshape(-1).view(np.int8) >> 4
        return halves[: int(np.prod(shape))].reshape(shape)
    if dtype is None:
        return None if kind in ("RESOURCE", "VARIANT", "STRING") else _refuse(name, kind)
    values = raw.tobytes()
    if tensor.sparsity is not None:
        return _densify(np.frombuffer(values, dtype), tensor.sparsity, shape)
    return np.frombuffer(values, dtype).reshape(shape)


def _refuse(name: str, kind: str) -> Any:
    raise ImportModelError(f"The tensor {name!r} has the type {kind}, which is not supported.")


def _densify(values: Any, sparsity: Any, shape: tuple[int, ...]) -> Any:
    """Return a sparse tensor with its zeros: dimensions in traversal order, blocks last, each dense or compressed."""
    order, blocks = list(sparsity.traversalOrder), list(sparsity.blockMap if sparsity.blockMap is not None else ())
    levels = sparsity.dimMetadata
    places = np.zeros((1, 0), np.int64)  # The coordinates, level by level, of the elements that are left.
    nodes = np.zeros(1, np.int64)
    for level in levels:
        if level.format == schema.DimensionType.DENSE:
            size = level.denseSize
            steps = np.arange(size)
            places = np.concatenate([places.repeat(size, 0), np.tile(steps, len(nodes))[:, None]], 1)
            nodes = (nodes[:, None] * size + steps).reshape(-1)
        else:
            segments = np.asarray(level.arraySegments.values, np.int64)
            indices = np.asarray(level.arrayIndices.values, np.int64)
            counts = segments[nodes + 1] - segments[nodes]
            places = places.repeat(counts, 0)
            nodes = np.concatenate([np.arange(segments[n], segments[n + 1]) for n in nodes] or [nodes])
            places = np.concatenate([places, indices[nodes][:, None]], 1)
    rank = len(shape)
    sizes = [levels[order.index(rank + i)].denseSize for i in range(len(blocks))]
    coordinates = np.zeros((len(nodes), rank), np.int64)
    for level_number, dimension in enumerate(order):
        if dimension < rank:
            factor = sizes[blocks.index(dimension)] if dimension in blocks else 1
            coordinates[:, dimension] += places[:, level_number] * factor
        else:
            coordinates[:, blocks[dimension - rank]] += places[:, level_number]
    dense = np.zeros(shape, values.dtype)
    dense[tuple(coordinates.T)] = values[nodes]
    return dense
