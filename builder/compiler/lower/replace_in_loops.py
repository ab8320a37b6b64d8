"""Products with constant weights inside loops and branches: XLA's kernels, each exchanged where it stands.

A graph that is no straight line of steps keeps XLA's plan of memory. But a kernel that multiplies a vector or matrix
by constant weights, and adds one thing at most, can give way to a layer that reads and writes the same memory. If it
multiplies one row of an array that its loop never changes (the input of an LSTM), all rows are multiplied before
the loop, in one layer, and the loop copies a row of the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import LowerError
from builder.compiler.lower.buffers import SLACK, align, plan_buffers
from builder.compiler.lower.compress import Compressor, Stored
from builder.compiler.lower.fetch_buffers import Resolver
from builder.compiler.lower.geometry import Algorithm, Geometry
from builder.compiler.lower.layers import op_name
from builder.compiler.lower.loop_tables import exchange_gathers
from builder.compiler.lower.options import Options
from builder.compiler.lower.packing import (
    pack_layer,
    pack_scale,
    pack_sums,
    pack_units,
    pad_channels,
    recurrent_scratch,
    scratch_size,
)
from builder.compiler.lower.products import Fusions, Product, Products, Row
from builder.compiler.lower.program import Program, Weight
from builder.compiler.lower.prune_weights import compact
from builder.compiler.lower.recurrent_layers import find_recurrent
from builder.compiler.lower.step_info import Note
from builder.compiler.lower.steps.base import Buffer, Step, Steps, View, change_bodies
from builder.compiler.lower.steps.control_step import WhileStep
from builder.compiler.lower.steps.copy_step import CopyStep
from builder.compiler.lower.steps.gather_step import GatherStep
from builder.compiler.lower.steps.layer_step import Epilogue, LayerStep
from builder.compiler.lower.steps.quantisation import STATE_ROUNDING, Quantisation
from builder.compiler.lower.steps.recurrent_step import RecurrentStep
from builder.compiler.lower.steps.row_step import RowStep

LEAST_WEIGHTS = 2048
"""A product with fewer weights is as fast in XLA's kernel."""


def exchange_products(
    result: Any, faithful: Program, options: Options | None = None, compressor: Compressor | None = None
) -> tuple[Program, tuple[Note, ...]] | None:
    """``faithful``, made of ``result`` (a CompilationResultProto), with layers in it and a note for each step.

    None where nothing is to be exchanged.
    """
    options = options or Options()
    share = options.share
    resolver = Resolver(result, plan_buffers(result, share))
    exchange = _Exchange(Fusions(result), faithful, compressor or Compressor(), resolver, options.quantisations)
    steps = exchange.steps(faithful.steps)
    program = replace(
        faithful,
        steps=steps,
        weights=(*faithful.weights, *exchange.weights),
        arena_size=exchange.arena + SLACK if exchange.weights else faithful.arena_size,
        weights_size=exchange.weights_end,
    )
    gathered = exchange_gathers(result, program, exchange.compressor)
    if not exchange.weights and gathered is program:
        return None
    program = compact(gathered, share)
    return program, tuple(_note(step) for step in program.steps)


@dataclass
class _Exchange:
    module: Fusions
    faithful: Program
    compressor: Compressor
    resolver: Resolver
    quantisations: Mapping[str, Quantisation]
    weights: list[Weight] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.products = Products(self.module, self.faithful.weights)
        self.arena = align(self.faithful.arena_size)
        self.weights_end = align(self.faithful.weights_size)

    def steps(self, steps: Steps) -> Steps:
        return self.sequence(steps, None)[0]

    def sequence(self, steps: Steps, loop: Any | None) -> tuple[Steps, list[Step]]:
        """What takes the place of ``steps``, and what must run before the loop whose body (an HloComputationProto)
        they are."""
        changed: dict[int, list[Step]] = {}
        before: list[Step] = []
        for number, step in enumerate(steps):
            product = self.products.product(step)
            row = self.products.row(product, steps, loop) if product is not None and loop is not None else None
            if product is not None and row is not None:
                rows = self._rows_before(product, row)
                before.append(rows)
                kept = self._new(product.output.size)
                copied = RowStep(row.name, row.index, rows.stored.buffer, kept, row.count)
                changed[row.step] = [copied] if row.needed_once else [copied, *changed[row.step]]
                changed[number] = [
                    CopyStep(product.name, kept, product.output, 4, (kept.size // 4,), (1,), target_strides=(1,))
                ]
            elif product is not None and product.weights.size >= LEAST_WEIGHTS:
                changed[number] = [self._layer(product)]
            else:
                changed[number] = self._nested(step)
        return tuple(step for number in range(len(steps)) for step in changed[number]), before

    def _nested(self, step: Step) -> list[Step]:
        """The step with what is inside it; before a loop, the products that leave it."""
        if not isinstance(step, WhileStep):
            return [change_bodies(step, self.steps)]
        if recurrent := self._recurrent(step):
            return recurrent
        body, before = self.sequence(step.body, self._body(step.name))
        return [*before, replace(step, condition=self.steps(step.condition), body=body)]

    def _recurrent(self, step: WhileStep) -> list[Step] | None:
        """What takes the place of a loop that is a recurrent layer: the product of its inputs, and all of its steps."""
        loop = self.module.names.get(step.name)
        found = find_recurrent(self.module, loop) if loop is not None and loop.opcode == "while" else None
        if found is None:
            return None
        parts = [
            None if n is None else self._part(loop, n) for n in (found.input, found.hidden, found.cell, found.output)
        ]
        rows, size = found.steps * found.batch, 4 * found.batch * found.units
        source, hidden, cell, output = parts
        if source is None or hidden is None or source.size != 4 * rows * found.features or hidden.size != size:
            return None
        if (cell is not None and cell.size != size) or any(p is not None and p.space != "arena" for p in parts):
            return None
        columns = found.weights.shape[1]
        sums = self._new(4 * rows * columns)
        product = Product(found.input_name, source, sums, found.input_weights, rows)
        inputs = self._layer(product, found.input_bias)
        name = op_name(self.module.names[found.state_name])
        stored = self._stored(name, found.weights)
        wanted = self.quantisations.get(name) if found.bounded else None
        quantisation = self._rounding(name, found.weights, stored, wanted if wanted == STATE_ROUNDING else None)
        by_units = found.batch == 1 and stored.type == "float32"
        if by_units:
            weights = pack_units(stored.numbers.reshape(found.units, -1, found.units))
        else:
            weights = pack_layer(stored.numbers, "integer" if quantisation else "direct", kind=stored.type)
        return [
            inputs,
            RecurrentStep(
                step.name,
                kind=found.kind,
                steps=found.steps,
                batch=found.batch,
                units=found.units,
                input=sums,
                weights=self._put(weights),
                bias=self._put(pad_channels(found.bias)),
                hidden=hidden,
                cell=cell,
                output=output,
                output_stride=found.output_stride,
                backwards=found.backwards,
                scratch=self._new(recurrent_scratch(found.batch, found.units, columns, quantisation is not None)),
                by_units=by_units,
                bounded=found.bounded,
                quantisation=quantisation,
                weight_type=stored.type,
                weight_scale=None if stored.scale is None else self._put(pack_scale(stored.scale)),
                weight_sums=None if quantisation is None else self._put(pack_sums(stored.numbers)),
                layer=name,
                kept=stored.kept,
            ),
        ]

    def _part(self, loop: Any, number: int) -> Buffer | None:
        try:
            return self.resolver.find(loop, (number,))
        except LowerError:
            return None

    def _body(self, name: str) -> Any | None:
        """The computation that a while repeats: of its two the one that makes a tuple."""
        instruction = self.module.names.get(name)
        if instruction is None or instruction.opcode != "while":
            return None
        return next((c for c in self.module.called(instruction) if self.module.root(c).opcode == "tuple"), None)

    # What takes its place.

    def _rows_before(self, product: Product, row: Row) -> LayerStep:
        output = self._new(row.count * product.output.size)
        rows = row.count * product.rows
        return self._layer(replace(product, data=row.source, output=output, rows=rows))

    def _stored(self, name: str, matrix: NDArray[np.float32]) -> Stored:
        return self.compressor.layer(name, matrix[None, None], matrix, lambda constant: constant[None, None])

    def _rounding(
        self, name: str, matrix: NDArray[np.float32], stored: Stored, wanted: Quantisation | None
    ) -> Quantisation | None:
        """How what is multiplied with ``matrix`` is rounded, as is wanted of the layer ``name``, if it can be."""
        if stored.type != "int8":
            wanted = None
        if stored.type != "float32":
            self.compressor.input(name, matrix, wanted)
        return wanted

    def _layer(self, product: Product, bias: NDArray[np.float32] | None = None) -> LayerStep:
        rows, (k, n) = product.rows, product.weights.shape
        residual = None
        if product.added is not None and product.added.space == "weights":
            bias = self.products.constant(product.added)
        elif product.added is not None:
            residual = _rows(product.added, rows, n)
        name = op_name(self.module.names[product.name])
        stored = self._stored(name, product.weights)
        quantisation = self._rounding(name, product.weights, stored, self.quantisations.get(name))
        algorithm: Algorithm = "integer" if quantisation else "direct"
        geometry = Geometry(1, k, (1, rows), n)
        scratch = scratch_size(geometry, algorithm)
        return LayerStep(
            product.name,
            algorithm,
            _rows(product.data, rows, k),
            self._put(pack_layer(stored.numbers, algorithm, kind=stored.type)),
            _rows(product.output, rows, n),
            Epilogue(self._put(pad_channels(np.zeros(n, np.float32) if bias is None else bias)), residual=residual),
            geometry=geometry,
            in_size=(1, rows),
            scratch=self._new(scratch) if scratch else None,
            weight_type=stored.type,
            weight_scale=None if stored.scale is None else self._put(pack_scale(stored.scale)),
            weight_sums=None if quantisation is None else self._put(pack_sums(stored.numbers)),
            quantisation=quantisation,
            layer=name,
            kept=stored.kept,
        )

    def _new(self, size: int) -> Buffer:
        buffer = Buffer("arena", self.arena, size)
        self.arena = align(self.arena + size)
        return buffer

    def _put(self, data: bytes) -> Buffer:
        self.weights.append(Weight(self.weights_end, data))
        self.weights_end = align(self.weights_end + len(data))
        return Buffer("weights", self.weights[-1].offset, len(data))


def _rows(buffer: Buffer, rows: int, width: int) -> View:
    return View(buffer, 0, rows * width, rows * width, width)


def _note(step: Step) -> Note:
    if isinstance(step, LayerStep):
        moved = step.weights.size + step.input.buffer.size + step.stored.buffer.size
        return Note(step.name, "layer", (), step.algorithm, step.flop, moved)
    if isinstance(step, RecurrentStep):
        what, sums = (step.kind, f"{step.steps} steps"), "integer" if step.quantisation else ""
        return Note(step.name, "recurrent", what, sums, step.flop, step.weights.size)
    if isinstance(step, GatherStep):
        return Note(step.name, "gather", (step.weight_type,), "", 0, 0)
    layers = isinstance(step, WhileStep) and any(isinstance(s, LayerStep | RowStep) for s in step.body)
    inside = ("with layers inside",) if layers else ()
    return Note(step.name, "copy" if isinstance(step, CopyStep | RowStep) else "xla", inside, "", 0, 0)
