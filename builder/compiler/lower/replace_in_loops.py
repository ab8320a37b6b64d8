"""Products with constant weights inside loops and branches, which replace XLA's kernels in place.

A graph that is not a straight line of steps keeps XLA's plan of memory. But a kernel that multiplies a vector or matrix
by constant weights, and adds at most one value, can be replaced by a layer that reads and writes the same memory. If it
multiplies one row of an array that its loop never changes (the input of an LSTM), one layer multiplies all rows before
the loop, and the loop copies a row of the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import LowerError
from builder.compiler.lower.buffers import SLACK, BufferResolver, plan_buffers
from builder.compiler.lower.compress import Compressor, StoredWeights
from builder.compiler.lower.decisions import StepInfo
from builder.compiler.lower.gather_tables import replace_gathers
from builder.compiler.lower.geometry import Algorithm, Geometry
from builder.compiler.lower.hlo_proto import HloIndex
from builder.compiler.lower.layers import get_op_name
from builder.compiler.lower.loop_products import LoopBody, Product, ProductFinder
from builder.compiler.lower.packing import (
    compute_recurrent_scratch,
    compute_scratch_size,
    pack_layer,
    pack_units,
    pad_channels,
)
from builder.compiler.lower.program import Program
from builder.compiler.lower.program_plan import LoweringOptions
from builder.compiler.lower.recurrent_layers import find_recurrent
from builder.compiler.lower.steps.base import Buffer, Step, Steps, View, align_offset, change_bodies
from builder.compiler.lower.steps.control_step import WhileStep
from builder.compiler.lower.steps.copy_step import CopyStep, RowStep
from builder.compiler.lower.steps.gather_step import GatherStep
from builder.compiler.lower.steps.layer_step import Epilogue, LayerStep
from builder.compiler.lower.steps.quantisation import STATE_ROUNDING, Quantisation
from builder.compiler.lower.steps.recurrent_step import RecurrentStep
from builder.compiler.lower.weight_store import WeightStore, drop_unused_weights

LEAST_WEIGHTS = 2048
"""The fewest weights of a product that is replaced: one with fewer is as fast in XLA's kernel."""


def replace_products(
    result: Any, faithful: Program, options: LoweringOptions | None = None, compressor: Compressor | None = None
) -> tuple[Program, tuple[StepInfo, ...]] | None:
    """Replace products in ``faithful``, the program of ``result`` (a CompilationResultProto), by layers.

    Returns the program and a note for each step, or None where nothing is replaced.
    """
    options, compressor = options or LoweringOptions(), compressor or Compressor()
    resolver = BufferResolver(result, plan_buffers(result, options.share))
    store = WeightStore(options.share, align_offset(faithful.weights_size))
    replacer = _ProductReplacer(resolver.index, faithful, compressor, resolver, options.quantisations, store)
    steps = replacer.replace_steps(faithful.steps)
    program = replace(
        faithful,
        steps=steps,
        weights=(*faithful.weights, *store.weights),
        arena_size=replacer.arena + SLACK if store.weights else faithful.arena_size,
        weights_size=store.size,
    )
    gathered = replace_gathers(resolver.index, program, compressor)
    if not store.weights and gathered is program:
        return None
    program = drop_unused_weights(gathered, options.share)
    return program, tuple(_describe_replaced(step) for step in program.steps)


@dataclass
class _ProductReplacer:
    module: HloIndex
    faithful: Program
    compressor: Compressor
    resolver: BufferResolver
    quantisations: Mapping[str, Quantisation]
    store: WeightStore

    def __post_init__(self) -> None:
        self.products = ProductFinder(self.module, {weight.offset: weight.data for weight in self.faithful.weights})
        self.arena = align_offset(self.faithful.arena_size)

    def replace_steps(self, steps: Steps) -> Steps:
        return self.replace_sequence(steps, None)[0]

    def replace_sequence(self, steps: Steps, loop: LoopBody | None) -> tuple[Steps, list[Step]]:
        """Return the replacement of ``steps``, and the steps before the loop whose body they are."""
        changed: dict[int, list[Step]] = {}
        before: list[Step] = []
        for number, step in enumerate(steps):
            product = self.products.match_product(step)
            row = self.products.match_row(product, steps, loop) if product is not None and loop is not None else None
            if product is not None and row is not None:
                array = self._reserve_memory(row.count * product.output.size)
                count = row.count * product.rows
                before.append(self._make_layer(replace(product, data=row.source, output=array, rows=count)))
                buffer = self._reserve_memory(product.output.size)
                copied = RowStep(row.name, row.index, array, buffer, row.count)
                changed[row.step] = [copied] if row.needed_once else [copied, *changed[row.step]]
                changed[number] = [
                    CopyStep(product.name, buffer, product.output, 4, (buffer.size // 4,), (1,), target_strides=(1,))
                ]
            elif product is not None and product.weights.size >= LEAST_WEIGHTS:
                changed[number] = [self._make_layer(product)]
            else:
                changed[number] = self._replace_nested(step)
        return tuple(step for number in range(len(steps)) for step in changed[number]), before

    def _replace_nested(self, step: Step) -> list[Step]:
        """Replace products inside ``step``, and put before a loop the products that leave it."""
        if not isinstance(step, WhileStep):
            return [change_bodies(step, self.replace_steps)]
        if recurrent := self._replace_recurrent(step):
            return recurrent
        body, before = self.replace_sequence(step.body, self._find_body(step.name))
        return [*before, replace(step, condition=self.replace_steps(step.condition), body=body)]

    def _replace_recurrent(self, step: WhileStep) -> list[Step] | None:
        """Replace a loop that is a recurrent layer by the product of its inputs and a step for all of its steps."""
        loop = self.module.names.get(step.name)
        layer = find_recurrent(self.module, loop) if loop is not None and loop.opcode == "while" else None
        if layer is None:
            return None
        parts = [None if number is None else self._find_part(loop, number) for number in layer.parts]
        source, hidden, cell, output = parts
        (features, columns), (units, _), batch = layer.input_weights.shape, layer.weights.shape, layer.step.batch
        rows, size = layer.step.steps * batch, 4 * batch * units
        if source is None or hidden is None or source.size != 4 * rows * features or hidden.size != size:
            return None
        if (cell is not None and cell.size != size) or any(p is not None and p.space != "arena" for p in parts):
            return None
        sums = self._reserve_memory(4 * rows * columns)
        product = Product(layer.input_name, source, sums, layer.input_weights, rows)
        inputs = self._make_layer(product, layer.input_bias)
        name = get_op_name(self.module.names[layer.state_name])
        stored = self._store_weights(name, layer.weights)
        wanted = self.quantisations.get(name) if layer.step.bounded else None
        quantisation = self._find_rounding(name, layer.weights, stored, wanted if wanted == STATE_ROUNDING else None)
        by_units = batch == 1 and stored.type == "float32"
        if by_units:
            weights = pack_units(stored.numbers.reshape(units, -1, units))
        else:
            weights = pack_layer(stored.numbers, "integer" if quantisation else "direct", kind=stored.type)
        scratch = compute_recurrent_scratch(batch, units, columns, quantisation is not None)
        recurrent = replace(
            layer.step,
            input=sums,
            bias=self.store.add_constant(pad_channels(layer.bias)),
            hidden=hidden,
            cell=cell,
            output=output,
            scratch=self._reserve_memory(scratch),
            by_units=by_units,
            **self.store.add_layer(name, stored, weights, quantisation),
        )
        return [inputs, recurrent]

    def _find_part(self, loop: Any, number: int) -> Buffer | None:
        try:
            return self.resolver.find_buffer(loop, (number,))
        except LowerError:
            return None

    def _find_body(self, name: str) -> LoopBody | None:
        """Find the body of a while: of its two computations, the one that makes a tuple."""
        instruction = self.module.names.get(name)
        called = (
            self.module.get_called(instruction) if instruction is not None and instruction.opcode == "while" else []
        )
        body = next((c for c in called if self.module.get_root(c).opcode == "tuple"), None)
        return None if body is None else self.products.read_body(body)

    # The following methods make the layers that replace products.

    def _store_weights(self, name: str, matrix: NDArray[np.float32]) -> StoredWeights:
        return self.compressor.compress_layer(name, matrix[None, None], matrix, lambda constant: constant[None, None])

    def _find_rounding(
        self, name: str, matrix: NDArray[np.float32], stored: StoredWeights, wanted: Quantisation | None
    ) -> Quantisation | None:
        """Return the rounding ``wanted`` of the data that layer ``name`` multiplies with ``matrix``, if possible."""
        if stored.type != "int8":
            wanted = None
        if stored.type != "float32":
            self.compressor.record_input(name, matrix, wanted)
        return wanted

    def _make_layer(self, product: Product, bias: NDArray[np.float32] | None = None) -> LayerStep:
        rows, (k, n) = product.rows, product.weights.shape
        residual = None
        if product.added is not None and product.added.space == "weights":
            bias = self.products.get_constant(product.added)
        elif product.added is not None:
            residual = _view_rows(product.added, rows, n)
        name = get_op_name(self.module.names[product.name])
        stored = self._store_weights(name, product.weights)
        quantisation = self._find_rounding(name, product.weights, stored, self.quantisations.get(name))
        algorithm: Algorithm = "integer" if quantisation else "direct"
        geometry = Geometry(1, k, (1, rows), n)
        scratch = compute_scratch_size(geometry, algorithm)
        vector = self.store.add_constant(pad_channels(np.zeros(n, np.float32) if bias is None else bias))
        return LayerStep(
            product.name,
            algorithm,
            _view_rows(product.data, rows, k),
            output=_view_rows(product.output, rows, n),
            epilogue=Epilogue(vector, residual=residual),
            geometry=geometry,
            in_size=(1, rows),
            scratch=self._reserve_memory(scratch) if scratch else None,
            **self.store.add_layer(name, stored, pack_layer(stored.numbers, algorithm, kind=stored.type), quantisation),
        )

    def _reserve_memory(self, size: int) -> Buffer:
        buffer = Buffer("arena", self.arena, size)
        self.arena = align_offset(self.arena + size)
        return buffer


def _view_rows(buffer: Buffer, rows: int, width: int) -> View:
    return View(buffer, 0, rows * width, rows * width, width)


def _describe_replaced(step: Step) -> StepInfo:
    if isinstance(step, LayerStep):
        moved = step.weights.size + step.input.buffer.size + step.stored.buffer.size
        return StepInfo(step.name, "layer", (), step.algorithm, step.flop, moved)
    if isinstance(step, RecurrentStep):
        kind, sums = (step.kind, f"{step.steps} steps"), "integer" if step.quantisation else ""
        return StepInfo(step.name, "recurrent", kind, sums, step.flop, step.weights.size)
    if isinstance(step, GatherStep):
        return StepInfo(step.name, "gather", (step.weight_type,), "", 0, 0)
    layers = isinstance(step, WhileStep) and any(isinstance(s, LayerStep | RowStep) for s in step.body)
    matched = ("with layers inside",) if layers else ()
    return StepInfo(step.name, "copy" if isinstance(step, CopyStep | RowStep) else "xla", matched, "", 0, 0)
