"""An HLO module's entry computation as one hash-consed DAG of values, fusions inlined.

XLA copies producers into every fusion that reads them. Here equal expressions are one Value again, so a pattern is
matched once, whichever kernels its pieces were scattered over.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import LowerError
from builder.compiler.lower import hlo_proto
from builder.compiler.lower.hlo_proto import HloIndex, encode_literal

COMMUTATIVE = {"add", "multiply", "maximum", "minimum", "and", "or"}
_IMPURE = ("rng", "infeed", "outfeed", "send", "recv", "custom-call", "while", "conditional", "call", "async")
_NOT_IDENTITY = (
    "name", "id", "operand_ids", "shape", "metadata", "backend_config", "literal", "called_computation_ids",
    "control_predecessor_ids", "frontend_attributes", "sharding", "statistics_viz", "original_value",
)  # fmt: skip
_SMALL = 1 << 16
"""Maximum number of elements in constants that are compared by content; larger ones are compared by instruction."""


@dataclass(frozen=True, eq=False)
class Value:
    """One array (or tuple) of the graph; equal expressions are the same object."""

    number: int
    op: str
    operands: tuple[Value, ...]
    dims: tuple[int, ...]
    dtype: str
    row_major: bool
    layout: tuple[int, ...]
    """The dimensions from the fastest to the slowest."""
    instruction: Any
    """The HloInstructionProto it was first seen as: windows, dimensions and the like."""
    reducer: str = ""
    """Opcode of a reduce or reduce-window whose computation does nothing else; otherwise empty."""

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.dims)

    @functools.cached_property
    def strides(self) -> tuple[int, ...]:
        """The stride in memory of each dimension, in elements."""
        return hlo_proto.compute_strides(self.dims, self.layout)

    @functools.cached_property
    def literal(self) -> NDArray[Any]:
        """A constant's elements, in logical order."""
        order = list(reversed(self.layout))
        physical = np.frombuffer(self.base.data, np.dtype(self.dtype)).reshape([self.dims[d] for d in order])
        return physical.transpose(np.argsort(order)) if order else physical

    @functools.cached_property
    def data(self) -> bytes:
        """A constant's bytes, as they lie in its buffer."""
        size = self.elements * np.dtype(self.dtype).itemsize
        return encode_literal(self.instruction.literal, size, self.instruction.name)

    @property
    def is_constant(self) -> bool:
        """True if its bytes are those of a constant."""
        return self.base.op == "constant"

    @property
    def base(self) -> Value:
        """The value that owns these bytes: bitcasts move nothing."""
        value = self
        while value.op == "bitcast":
            value = value.operands[0]
        return value

    def __repr__(self) -> str:
        return f"%{self.number} {self.op}{list(self.dims)}"


@dataclass
class Dag:
    """Every value, operands first; ``names`` maps the names of the entry computation's instructions to values."""

    values: list[Value] = field(default_factory=list)
    names: dict[str, Value] = field(default_factory=dict)
    parameters: dict[int, Value] = field(default_factory=dict)
    outputs: tuple[Value, ...] = ()

    @functools.cached_property
    def users(self) -> dict[Value, tuple[Value, ...]]:
        """Readers of each value, among those that the outputs need."""
        readers: dict[Value, list[Value]] = {v: [] for v in self.live}
        for value in self.live:
            for operand in dict.fromkeys(value.operands):
                readers[operand].append(value)
        return {value: tuple(users) for value, users in readers.items()}

    @functools.cached_property
    def live(self) -> list[Value]:
        """The values that the outputs need, operands first."""
        needed = find_sources(self.outputs)
        return [v for v in self.values if v in needed]


def find_sources(values: Iterable[Value]) -> set[Value]:
    """Return ``values`` and all values that they depend on."""
    sources, pending = set[Value](), [*values]
    while pending:
        value = pending.pop()
        if value not in sources:
            sources.add(value)
            pending += value.operands
    return sources


def read_dag(result: Any) -> Dag:
    """Read the DAG of a CompilationResultProto's entry computation; raise LowerError for a dtype without a name."""
    builder = _DagBuilder(HloIndex(result))
    root = builder.evaluate_computation(builder.index.entry, None)
    builder.dag.outputs = root.operands if root.op == "tuple" else (root,)
    return builder.dag


def read_computation(index: HloIndex, computation: Any) -> tuple[Dag, Value]:
    """Read a computation's values, parameters included, and its root; raise LowerError as ``read_dag`` does."""
    builder = _DagBuilder(index)
    root = builder.evaluate_computation(computation, None)
    return builder.dag, root


class _DagBuilder:
    def __init__(self, index: HloIndex) -> None:
        self.index = index
        self.dag = Dag()
        self.by_key: dict[Any, Value] = {}

    def evaluate_computation(self, computation: Any, arguments: Sequence[Value] | None) -> Value:
        """Return the root of a computation; without ``arguments`` it is the entry, whose values get names."""
        local: dict[int, Value] = {}
        for instruction in computation.instructions:
            operands = tuple(local[i] for i in instruction.operand_ids)
            local[instruction.id] = value = self._evaluate_instruction(instruction, operands, arguments)
            if arguments is None:
                self.dag.names[instruction.name] = value
                if instruction.opcode == "parameter":
                    self.dag.parameters[instruction.parameter_number] = value
        root: int = computation.root_id
        return local[root]

    def _evaluate_instruction(
        self, instruction: Any, operands: tuple[Value, ...], arguments: Sequence[Value] | None
    ) -> Value:
        match instruction.opcode:
            case "parameter" if arguments is not None:
                number: int = instruction.parameter_number
                return arguments[number]
            case "fusion":
                return self.evaluate_computation(self.index.get_called(instruction)[0], operands)
            case "get-tuple-element" if operands[0].op == "tuple":
                index: int = instruction.tuple_index
                return operands[0].operands[index]
            case "reshape" if operands[0].row_major and hlo_proto.is_row_major(instruction.shape):
                return self.make_value("bitcast", operands, instruction)
        return self.make_value(instruction.opcode, operands, instruction)

    def make_value(self, op: str, operands: tuple[Value, ...], instruction: Any) -> Value:
        shape = instruction.shape
        dims, row_major, dtype = tuple(shape.dimensions), True, ""
        if shape.tuple_shapes or op in ("tuple", "after-all"):
            layout: tuple[int, ...] = ()
        else:
            layout, dtype = tuple(shape.layout.minor_to_major), hlo_proto.get_dtype(shape)
            row_major = hlo_proto.is_row_major(shape)
        if op == "bitcast":
            source = operands[0].base  # only the last of several bitcasts counts
            if source.dims == dims and source.row_major and row_major and source.dtype == dtype:
                return source
            operands = (source,)
        elif op in COMMUTATIVE:
            operands = tuple(sorted(operands, key=lambda v: v.number))
        reducers = tuple(self._identify_reducer(c) for c in self.index.get_called(instruction))
        key: Any = (op, operands, dims, layout, dtype, reducers, self._make_attribute_key(op, instruction))
        if key not in self.by_key:
            reducer = str(reducers[0]) if len(reducers) == 1 else ""
            value = Value(
                len(self.dag.values),
                op,
                operands,
                dims=dims,
                dtype=dtype,
                row_major=row_major,
                layout=layout,
                instruction=instruction,
                reducer=reducer,
            )
            self.dag.values.append(value)
            self.by_key[key] = value
        shared: Value = self.by_key[key]
        return shared

    def _make_attribute_key(self, op: str, instruction: Any) -> Any:
        """Return the attributes that distinguish instructions of one opcode, besides operands and shape."""
        if op in ("bitcast", "tuple"):
            return ()
        if op.startswith(_IMPURE):
            return instruction.id
        if op == "constant":
            if math.prod(instruction.shape.dimensions) > _SMALL:
                return instruction.id
            return instruction.literal.SerializeToString(deterministic=True)
        copy = type(instruction)()
        copy.CopyFrom(instruction)
        for name in _NOT_IDENTITY:
            if name in copy.DESCRIPTOR.fields_by_name:
                copy.ClearField(name)
        return copy.SerializeToString(deterministic=True)

    def _identify_reducer(self, computation: Any) -> str | int:
        """Return the opcode of a computation that is one binary operation on its two parameters, or its id."""
        root = self.index.get_root(computation)
        binary = [o.opcode for o in self.index.get_operands(root)] == ["parameter"] * 2
        if len(computation.instructions) == 3 and root.opcode in COMMUTATIVE and binary:
            return str(root.opcode)
        return int(computation.id)


def find_channel_vector(value: Value, dtype: str = "float32") -> NDArray[np.float64] | None:
    """Return the values along the last dimension (or one value) of a constant that varies only there, or None."""
    if value.dtype != dtype:
        return None
    if value.op == "constant":
        flat = value.elements == 1 or (value.dims and value.dims[-1] == value.elements)
        return value.literal.astype(np.float64).reshape(-1) if flat else None
    if value.op not in ("broadcast", "bitcast"):
        return None
    inner = find_channel_vector(value.operands[0], dtype)
    if inner is None or inner.size == 1:
        return inner
    if value.op == "broadcast":
        source = value.operands[0]
        axes = [axis for axis, size in zip(value.instruction.dimensions, source.dims, strict=True) if size > 1]
        return inner if axes == [len(value.dims) - 1] else None
    return inner if value.row_major and value.dims[-1] == inner.size else None


def find_split_channel_vector(value: Value, channels: int) -> NDArray[np.float64] | None:
    """Return the numbers of a constant of ``channels`` split over several last dimensions and repeated, or None."""
    if value.op != "broadcast" or value.dtype != "float32" or not value.row_major:
        return None
    source = value.operands[0]
    trailing = list(range(len(value.dims) - len(source.dims), len(value.dims)))
    plain = source.op == "constant" and source.row_major and source.elements == channels
    return (
        source.literal.astype(np.float64).reshape(-1)
        if plain and list(value.instruction.dimensions) == trailing
        else None
    )


def find_scalar(value: Value, dtype: str = "float32") -> float | None:
    """Return the number of a constant that is the same everywhere, or None."""
    vector = find_channel_vector(value, dtype)
    return float(vector[0]) if vector is not None and (vector == vector[0]).all() else None


def make_intermediate(name: str) -> Value:
    """Return a new value that is not in the graph: one that XLA computes inside the instruction ``name``."""
    return Value(-1, "intermediate", (), (), "", True, layout=(), instruction=name)


def require_entry(dag: Dag, name: str) -> Value:
    """Return the value of an instruction of the entry computation; raise LowerError if there is none."""
    if name not in dag.names:
        raise LowerError(f"{name} is not in the entry computation")
    return dag.names[name]
