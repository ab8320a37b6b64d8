"""Recurrent layers: a loop of XLA's whose body is one step of an LSTM or a GRU, as one step of coldforge.

Two of the body's values are products with constant weights, of a row of the input and of the state. From these the body
must compute the new state as the cell does. The cell and its biases are recognised by values, as activations are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.arrays import Array
from builder.base.errors import LowerError
from builder.compiler.lower.evaluate import ELEMENTWISE, evaluate_value
from builder.compiler.lower.hlo import Value, find_sources, read_computation
from builder.compiler.lower.hlo_proto import HloIndex
from builder.compiler.lower.loop_products import LoopBody, match_matrix_product, read_number, skip_copies
from builder.compiler.lower.steps.base import UNPLACED
from builder.compiler.lower.steps.recurrent_step import RecurrentStep

_FEWEST = 4
"""The fewest units: with fewer, most lanes of the kernel's vectors would be idle."""
_MOST_STEPS = 1 << 16
_TOLERANCE = 1e-5
_SCALES = ((1.0, 1.0), (1.0, 1e4), (1e4, 1e4))
"""The scales of products and states by draw: the large ones reveal a cell that clips uncommon values."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class RecurrentLayer:
    """A loop as a recurrent layer: its ``step``, over memory that has no place yet.

    ``parts``: the parts of the loop's tuple that are the step's input, state, cell and output; None for those that it
    does not have. ``input_weights`` [features, gates * units] and ``input_bias`` turn rows of that input [steps, batch,
    features] into the step's. ``input_name`` and ``state_name``: the products' instructions.
    """

    step: RecurrentStep
    parts: tuple[int, int, int | None, int | None]
    input_weights: Floats
    input_bias: Floats
    weights: Floats
    bias: Floats
    input_name: str
    state_name: str


def find_recurrent(index: HloIndex, loop: Any) -> RecurrentLayer | None:
    """Find the recurrent layer that the while instruction ``loop`` computes; None if it computes anything else."""
    called = index.get_called(loop)
    body = next((c for c in called if index.get_root(c).opcode == "tuple"), None)
    condition = next((c for c in called if c is not body), None)
    if body is None or condition is None:
        return None
    try:
        loop_body = _RecurrentBody(index, loop, body, condition)
    except LowerError:  # The loop has values of a type that no step has.
        return None
    products = loop_body.find_products()
    return None if products is None else loop_body.match_recurrent(*products)


@dataclass(frozen=True)
class _LoopProduct:
    """The product ``value = data @ weights``, with as many rows as there are states."""

    value: Value
    data: Value
    weights: Floats


class _RecurrentBody(LoopBody):
    """The body of the while instruction ``loop``."""

    def __init__(self, index: HloIndex, loop: Any, body: Any, condition: Any) -> None:
        super().__init__(index, body)
        self.index, self.loop = index, loop
        self.condition = read_computation(index, condition)[1]
        self.after = self.root.operands
        others = index.owners[loop.id].instructions
        users = [o for o in others if loop.id in o.operand_ids]
        self.used = {u.tuple_index if u.opcode == "get-tuple-element" else -1 for u in users}
        if index.get_root(index.owners[loop.id]) is loop:
            self.used.add(-1)

    def find_products(self) -> tuple[_LoopProduct, _LoopProduct] | None:
        """Find the products of the input and of the state, if the loop has just these two."""
        products = [_match_product(value) for value in _list_sources(self.root) if value.op == "dot"]
        if len(products) != 2 or None in products:
            return None
        first, second = (product for product in products if product is not None)
        if self.find_part(first.data) is not None:
            first, second = second, first
        return (first, second) if self.find_part(second.data) is not None else None

    def match_recurrent(self, of_input: _LoopProduct, of_state: _LoopProduct) -> RecurrentLayer | None:
        """Return the layer whose step the body computes from these two products, else None."""
        units, columns = of_state.weights.shape
        gates, hidden = columns // units, self.find_part(of_state.data)
        batch = of_state.data.elements // units
        row = self._match_row(of_input.data, batch)
        if row is None or hidden is None or columns != gates * units or of_input.weights.shape[1] != columns:
            return None
        source, steps, backwards = row
        if units < _FEWEST or gates not in (3, 4) or of_input.data.elements != batch * of_input.weights.shape[0]:
            return None
        end = skip_copies(self.after[hidden])
        output = self._match_output(end, hidden, steps)
        cells = [
            i for i in range(len(self.after)) if self._is_cell(i, {source, hidden, *_list_parts(output)}, batch * units)
        ]
        cell = cells[0] if gates == 4 and len(cells) == 1 else None
        if output is None or len(cells) != (gates == 4):
            return None
        allowed = {hidden, *_list_parts(output), *([] if cell is None else [cell])}
        if any(number not in allowed and not self.is_unchanged(number) for number in self.used):
            return None
        biases = self._find_biases(of_input, of_state, hidden, cell, (batch, units))
        if biases is None:
            return None
        step = RecurrentStep(
            self.loop.name,
            "lstm" if gates == 4 else "gru",
            steps,
            batch,
            units,
            input=UNPLACED,
            weights=UNPLACED,
            bias=UNPLACED,
            hidden=UNPLACED,
            cell=None,
            output=None,
            output_stride=output[1],
            backwards=backwards,
            scratch=UNPLACED,
            bounded=self._is_bounded(hidden),
        )
        names = (str(product.value.instruction.name) for product in (of_input, of_state))
        parts = (source, hidden, cell, output[0])
        return RecurrentLayer(step, parts, of_input.weights, biases[0], of_state.weights, biases[1], *names)

    def _is_cell(self, number: int, others: set[int], size: int) -> bool:
        value = self.after[number]
        return (
            number not in others
            and value.dtype == "float32"
            and value.elements == size
            and not self.is_unchanged(number)
        )

    # The following methods find the input's rows and the output of the states.

    def _match_row(self, value: Value, batch: int) -> tuple[int, int, bool] | None:
        """Return (part of the tuple, steps, whether backwards) of the array that each step reads the next row of."""
        piece = skip_copies(value)
        if piece.op != "dynamic-slice":
            return None
        array, first, *others = piece.operands
        source = self.find_part(array)
        if source is None or not self.is_unchanged(source) or array.dtype != "float32" or any(map(read_number, others)):
            return None
        if any(read_number(o) is None for o in others) or piece.dims != (1, *array.dims[1:]):
            return None
        places = self._trace_positions(first, array.dims[0])
        steps = len(places)
        if steps != array.dims[0] or places not in ([*range(steps)], [*range(steps)][::-1]):
            return None
        return source, steps, places != [*range(steps)]

    def _match_output(self, end: Value, hidden: int, steps: int) -> tuple[int | None, int] | None:
        """Return (part of the tuple for the states, floats from one state to the next or 0 if they share one place)."""
        outputs: list[tuple[int, int]] = []
        for number, value in enumerate(self.after):
            value = skip_copies(value)
            if number == hidden:
                continue
            if value is end:
                outputs.append((number, 0))
            elif value.op == "dynamic-update-slice":
                array, update, first, *others = value.operands
                whole = array.dims == (steps, *update.dims[1:]) and update.dims[:1] == (1,)
                if self.find_part(array) != number or skip_copies(update) is not end or not whole:
                    return None
                if any(read_number(o) != 0 for o in others) or self._trace_positions(first, steps) != [*range(steps)]:
                    return None
                outputs.append((number, end.elements))
        if len(outputs) > 1:
            return None
        return outputs[0] if outputs else (None, 0)

    def _is_bounded(self, hidden: int) -> bool:
        """Return whether the state begins as a constant between -1 and 1, which is mostly zeros."""
        (start,) = self.index.get_operands(self.loop)
        if start.opcode != "tuple":
            return False
        first, fusions = self.index.get_operands(start)[hidden], []
        while first.opcode in ("copy", "bitcast", "broadcast", "reshape", "fusion", "parameter"):
            if first.opcode == "fusion":
                fusions.append(first)
                first = self.index.get_root(self.index.get_called(first)[0])
            elif first.opcode == "parameter":
                if not fusions:
                    return False
                first = self.index.get_operands(fusions.pop())[first.parameter_number]
            else:
                (first,) = self.index.get_operands(first)
        if first.opcode != "constant":
            return False
        numbers = np.asarray(first.literal.f32s, np.float32)
        return numbers.size > 0 and bool((np.abs(numbers) <= 1).all())

    def _trace_positions(self, place: Value, most: int) -> list[int]:
        """List the values of ``place`` by step; empty where they are unknown or there are more than ``most`` steps."""
        state = self._read_start()
        positions: list[int] = []
        while len(positions) <= min(most, _MOST_STEPS):
            counters = {number: np.asarray(value) for number, value in state.items()}
            goes_on = _evaluate_whole_number(self.condition, counters)
            if goes_on == 0:
                return positions
            position = _evaluate_whole_number(place, counters)
            if goes_on is None or position is None:
                return []
            positions.append(position)
            after = {number: _evaluate_whole_number(self.after[number], counters) for number in state}
            state = {number: value for number, value in after.items() if value is not None}
        return []

    def _read_start(self) -> dict[int, int]:
        """Read the counters' first values: the integers in the tuple that the loop begins with."""
        (start,) = self.index.get_operands(self.loop)
        if start.opcode != "tuple":
            return {}
        counters = {}
        for number, value in enumerate(self.index.get_operands(start)):
            while value.opcode in ("copy", "bitcast"):
                (value,) = self.index.get_operands(value)
            if value.opcode == "constant" and list(value.literal.s32s) and not list(value.shape.dimensions):
                counters[number] = int(value.literal.s32s[0])
        return counters

    # The following method recognises the cell.

    def _find_biases(
        self, of_input: _LoopProduct, of_state: _LoopProduct, hidden: int, cell: int | None, size: tuple[int, int]
    ) -> tuple[Floats, Floats] | None:
        """Find the biases of both products, if the values after a step are those of the cell; else None."""
        batch, units = size
        gates = 3 if cell is None else 4
        draws = [
            _RandomDraw(seed, of_input.value, of_state.value, (batch, gates, units), scales)
            for seed, scales in enumerate(_SCALES)
        ]
        for draw in draws:
            for value in _list_sources(self.root):
                number = self.find_part(value) if value.op == "get-tuple-element" else None
                if number in (hidden, cell) and number is not None:
                    draw.numbers[value] = draw.get_state(number == hidden).reshape(value.dims)
            draw.evaluate_values(self.root)
        first = [np.zeros(units)] * gates
        second = [np.zeros(units)] * gates
        for gate in range(gates):
            apart = cell is None and gate == 2
            bias = _find_bias(draws, [d.x[:, gate] + (0 if apart else d.sums[:, gate]) for d in draws])
            other = _find_bias(draws, [d.sums[:, gate] for d in draws]) if apart else np.zeros(units)
            if bias is None or other is None:
                return None
            first[gate], second[gate] = bias, other
        for draw in draws:
            x, sums = draw.x + np.stack(first), draw.sums + np.stack(second)
            expected = {hidden: _apply_lstm(x + sums, draw.c)[0] if cell is not None else _apply_gru(x, sums, draw.h)}
            if cell is not None:
                expected[cell] = _apply_lstm(x + sums, draw.c)[1]
            for number, numbers in expected.items():
                actual = draw.numbers.get(skip_copies(self.after[number]))
                if actual is None or actual.size != numbers.size:
                    return None
                if not np.allclose(actual.reshape(batch, units), numbers, rtol=_TOLERANCE, atol=_TOLERANCE):
                    return None
        return np.concatenate(first).astype(np.float32), np.concatenate(second).astype(np.float32)


class _RandomDraw:
    """The body's values for random products [batch, gates, units] and random states [batch, units]."""

    def __init__(
        self, seed: int, of_input: Value, of_state: Value, shape: tuple[int, int, int], scales: tuple[float, float]
    ) -> None:
        random = np.random.default_rng(seed)
        self.x, self.sums = scales[0] * random.standard_normal((2, *shape))
        self.h, self.c = scales[1] * random.standard_normal((2, shape[0], shape[2]))
        self.numbers: dict[Value, Array] = {of_input: self.x.reshape(of_input.dims)}
        self.numbers[of_state] = self.sums.reshape(of_state.dims)

    def get_state(self, hidden: bool) -> Array:
        return np.asarray(self.h if hidden else self.c)

    def evaluate_values(self, root: Value) -> None:
        for value in _list_sources(root):
            if value in self.numbers:
                continue
            if value.op == "constant" and value.dtype == "float32":
                self.numbers[value] = value.literal.astype(np.float64)
                continue
            operands = [self.numbers[o] for o in value.operands if o in self.numbers]
            if value.operands and value.dtype == "float32" and len(operands) == len(value.operands):
                result = evaluate_value(value, operands)
                if result is not None:
                    self.numbers[value] = np.asarray(result, np.float64)


def _find_bias(draws: list[_RandomDraw], bases: list[Array]) -> Array | None:
    """Find the vector that some value of the body adds to ``bases`` [batch, units], the same in all draws and rows."""
    for value, numbers in draws[0].numbers.items():
        values = [draw.numbers.get(value) for draw in draws]
        if numbers.size != bases[0].size:
            continue
        offsets = [n.reshape(base.shape) - base for n, base in zip(values, bases, strict=True) if n is not None]
        if len(offsets) == len(draws) and np.ptp(np.concatenate(offsets), axis=0).max() < 1e-9:
            return np.asarray(offsets[0][0])
    return None


def _compute_sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


def _apply_lstm(sums: Array, cell: Array) -> tuple[Array, Array]:
    """Return (hidden, cell) after a step."""
    after = _compute_sigmoid(sums[:, 1]) * cell + _compute_sigmoid(sums[:, 0]) * np.tanh(sums[:, 2])
    return _compute_sigmoid(sums[:, 3]) * np.tanh(after), after


def _apply_gru(x: Array, sums: Array, hidden: Array) -> Array:
    z, r = _compute_sigmoid(x[:, 0] + sums[:, 0]), _compute_sigmoid(x[:, 1] + sums[:, 1])
    return np.asarray(z * hidden + (1 - z) * np.tanh(x[:, 2] + r * sums[:, 2]))


def _match_product(dot: Value) -> _LoopProduct | None:
    operands = match_matrix_product(dot)
    if operands is None or operands[1].op != "constant":
        return None
    data, weights, transposed = operands
    return _LoopProduct(dot, data, np.asarray(weights.literal.T if transposed else weights.literal, np.float32))


def _list_sources(root: Value) -> list[Value]:
    """List ``root`` and the values that it is made of, operands first."""
    return sorted(find_sources([root]), key=lambda v: v.number)


def _list_parts(output: tuple[int | None, int] | None) -> list[int]:
    return [output[0]] if output is not None and output[0] is not None else []


def _evaluate_whole_number(value: Value, parts: Mapping[int, Array]) -> int | None:
    """Evaluate an integer made of ``parts`` of the loop's tuple; None where it is made of anything else."""
    numbers: dict[Value, Array] = {}
    for v in _list_sources(value):
        if v.op == "constant" and v.elements == 1 and not v.dims:
            numbers[v] = v.literal
        elif v.op == "get-tuple-element" and v.operands[0].op == "parameter" and v.instruction.tuple_index in parts:
            numbers[v] = parts[v.instruction.tuple_index]
        elif v.op in {*ELEMENTWISE, "copy", "bitcast"} and all(o in numbers for o in v.operands):
            result = evaluate_value(v, [numbers[o] for o in v.operands])
            if result is not None:
                numbers[v] = result
    return int(numbers[value].reshape(-1)[0]) if value in numbers and math.prod(numbers[value].shape) == 1 else None
