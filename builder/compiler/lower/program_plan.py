"""The decisions about a program that are made before its memory: options, types, algorithms, layouts and cascades."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from builder.compiler.lower.attention import Attention
from builder.compiler.lower.cascade import Cascade, LayerOutput, find_cascades
from builder.compiler.lower.compress import Compressor, StoredWeights, WeightRules
from builder.compiler.lower.fuse import Layer
from builder.compiler.lower.gather_tables import find_tables
from builder.compiler.lower.gathers import GATHERS
from builder.compiler.lower.geometry import Algorithm, Geometry
from builder.compiler.lower.hlo import Dag, Value
from builder.compiler.lower.layers import Core
from builder.compiler.lower.layouts import (
    Int8Edge,
    IntegerTask,
    TensorLayouts,
    find_int8_edge,
    flatten_pixels,
    get_written_image,
    list_read_images,
    make_byte_layout,
    plan_byte_layouts,
    plan_layouts,
)
from builder.compiler.lower.packing import resolve_algorithm
from builder.compiler.lower.pooling import Pool
from builder.compiler.lower.program import Program
from builder.compiler.lower.schedule import Schedule, Task, find_makers, list_inputs
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.compiler.lower.strided import VIEWS
from builder.compiler.lower.thunks import Thunk


@dataclass(frozen=True)
class LoweringOptions:
    """The options of lowering. ``algorithms``: a tuner's choices by ``Geometry.label``; a static rule makes the others.

    ``share``: whether equal weights are kept once; if not, their offsets do not depend on their values. ``weights``:
    the type of each layer's weights. ``quantisations``: the rounding of inputs of integer layers, by ``Core.name``.
    ``whole``: whether every value of a layer is in memory, as floats, for inspection. If not, layers store the inputs
    of integer layers as bytes, run in cascades, and multiply weights by factors of channels. Only the last of these
    changes any bit of an answer.
    """

    allow_winograd: bool = True
    algorithms: Mapping[str, Algorithm] = field(default_factory=dict)
    share: bool = True
    weights: WeightRules = field(default_factory=WeightRules)
    quantisations: Mapping[str, Quantisation] = field(default_factory=dict)
    whole: bool = False

    def is_product_wanted(self, core: Core) -> bool:
        """Return whether a layer needs its input itself, even where it is a product with factors of its channels."""
        return self.whole or core.name in self.quantisations


class ProgramPlan:
    """A schedule with the layouts of its values, the readers of each, and the choices for each layer."""

    def __init__(
        self, dag: Dag, scheduled: Schedule, faithful: Program, options: LoweringOptions, compressor: Compressor
    ) -> None:
        self.dag, self.scheduled, self.faithful = dag, scheduled, faithful
        self.options, self.compressor = options, compressor
        self.layouts: TensorLayouts = plan_layouts(dag, scheduled.tasks)
        self.makers = find_makers(scheduled.tasks)
        self.fetched = {output.base for output in dag.outputs}
        self.readers: dict[Value, dict[int, Task]] = {}
        for number, task in enumerate(scheduled.tasks):
            for value in list_inputs(task):
                self.readers.setdefault(value.base, {})[number] = task
        self.byte_layouts = plan_byte_layouts(scheduled.tasks)
        self.dense_bytes = self.fetched | set(self._find_dense_bytes())
        self.constants = {weight.offset: weight.data for weight in faithful.weights}
        self.tables = find_tables(scheduled.tasks, self.constants, self.fetched, compressor.rules)
        self.weights: dict[Value, StoredWeights] = {}
        self.cascades = {n: run for run in self._find_cascades() for n in range(run.first, run.last + 1)}

    def _find_dense_bytes(self) -> Iterator[Value]:
        """Yield every value that a step reads where XLA's kernels would have it, though it may be stored as bytes."""
        for value, tasks in self.readers.items():
            for task in tasks.values():
                if not isinstance(task, IntegerTask):
                    yield value
                    continue
                for read, image, halo in list_read_images(task):
                    layout, wanted = self.byte_layouts[read.base], make_byte_layout(image, halo)
                    if layout.image != image and not (layout.is_dense and wanted.is_dense):
                        yield read.base

    def stays_with_caller(self, feed: Value) -> bool:
        """Return whether only GEMM and steps that copy it with a halo read ``feed``: both take any alignment."""
        for task in self.readers.get(feed, {}).values():
            if isinstance(task, IntegerTask):
                continue
            images = () if isinstance(task, Thunk | Attention) else list_read_images(task)
            copied = {value.base: self.layouts.get_read_layout(value, image, halo)[0] for value, image, halo in images}
            if not copied.get(feed) and not self._is_gemm_input(task, feed):
                return False
        return feed in self.readers and feed not in self.fetched

    def _is_gemm_input(self, task: Task, value: Value) -> bool:
        """Return whether ``task`` is a GEMM layer that reads ``value`` only as the floats that it multiplies."""
        if self.options.whole or not isinstance(task, Layer) or task.core.name in self.options.quantisations:
            return False
        if task.is_transposed:
            return False
        others = (task.affine.residual, task.core.factor)
        alone = all(used is None or used.base is not value for used in others)
        return alone and all(
            self._choose_float_algorithm(used.core.geometry) == "direct" for used in (task, flatten_pixels(task))
        )

    def _choose_float_algorithm(self, geometry: Geometry) -> Algorithm:
        """Choose the algorithm of a layer whose weights and input are floats."""
        return resolve_algorithm(geometry, self.options.algorithms, allow_winograd=self.options.allow_winograd)

    def get_quantisation(self, layer: Layer) -> Quantisation | None:
        """Return how the input of ``layer`` is rounded, or None unless its sums are of integers."""
        wanted = self.options.quantisations.get(layer.core.name) if layer.core.geometry.summable else None
        return wanted if wanted is not None and self.store_weights(layer).type == "int8" else None

    def find_edge(self, task: Layer | Pool) -> Int8Edge | None:
        """Find out how the last output of ``task`` is stored as bytes; return None if it is not."""
        if self.options.whole or not self.options.quantisations or (isinstance(task, Layer) and task.is_transposed):
            return None
        value = task.outputs[-1]
        readers = list(self.readers.get(value, {}).values())
        return find_int8_edge(task, readers, self._find_rounding, fetched=value in self.fetched)

    def _find_rounding(self, reader: Layer | Pool) -> Quantisation | None:
        """Return how the input of ``reader`` is rounded; for a max pool, how its readers round it if all of them do."""
        if isinstance(reader, Layer):
            return self.get_quantisation(reader)
        edge = self.find_edge(reader) if reader.kind == "max" else None
        return edge.by if edge is not None and edge.alone else None

    def choose_algorithm(
        self, geometry: Geometry, stored: StoredWeights, quantisation: Quantisation | None
    ) -> Algorithm:
        """Choose the algorithm of a layer with weights as stored, whose input is rounded by ``quantisation``."""
        tuned, winograd = self.options.algorithms, self.options.allow_winograd
        rounded = quantisation is not None
        return resolve_algorithm(geometry, tuned, allow_winograd=winograd, kind=stored.type, rounded=rounded)

    def store_weights(self, layer: Layer) -> StoredWeights:
        """Return the weights of ``layer`` as the library stores them, computed at the first request."""
        value = layer.core.value
        if value not in self.weights:
            self.weights[value] = self._compress_layer(layer)
        return self.weights[value]

    def _compress_layer(self, layer: Layer) -> StoredWeights:
        core = layer.core
        kernel = (core.arrange_kernel().astype(np.float64) * layer.affine.scale).astype(np.float32)
        if core.geometry.depthwise:
            wanted = self.compressor.rules.choose_type(core.name) != "float32"
            return StoredWeights("float32", kernel, kernel, kept="a depthwise filter" if wanted else "")
        constant = core.weights.base
        layers = {task.core.value for task in self.scheduled.tasks if isinstance(task, Layer)}
        others = set(self._find_readers(constant)) - layers
        table = all(reader.op in GATHERS for reader in others) and self.tables.by_constant.get(constant, False)
        return self.compressor.compress_layer(
            core.name,
            kernel,
            core.weights.literal,
            core.arrange_weights,
            layer.affine.scale,
            alone=constant not in self.fetched and (table or (not others and constant not in self.tables.by_constant)),
        )

    def _find_readers(self, value: Value) -> Iterator[Value]:
        for user in self.dag.users[value]:
            if user.op == "bitcast" or (user.op in VIEWS and user.base not in self.fetched):
                yield from self._find_readers(user)
            else:
                yield user

    def _find_cascades(self) -> tuple[Cascade, ...]:
        if self.options.whole:
            return ()
        stored = self.layouts.stored
        return find_cascades(
            self.scheduled.tasks,
            self.readers,
            lambda value: value in self.fetched or value not in stored,
            self.find_layer_output,
            lambda layer: self._choose_float_algorithm(layer.core.geometry),
        )

    def find_layer_output(self, layer: Layer) -> LayerOutput:
        """Return the output that ``layer`` passes to its one reader in a cascade."""
        edge = self.find_edge(layer)
        if edge is not None and edge.alone:
            return LayerOutput(edge.layout, 1)
        return LayerOutput(self.layouts.get_written_layout(layer.end.base, get_written_image(layer)), 4)
