"""Steps of layers of integers, and the tensors of bytes between them.

XLA's kernels, feeds and fetches have such a tensor as it is, densely. Layers of integers have it as the kernels count
bytes, with a halo, and with pixels that begin at words of four bytes: a RepackStep makes one of the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from builder.base.errors import LowerError
from builder.compiler.lower.allocation import Allocator, PlacedImage
from builder.compiler.lower.compress import StoredWeights
from builder.compiler.lower.decisions import StepInfo
from builder.compiler.lower.geometry import Algorithm
from builder.compiler.lower.hlo import Value
from builder.compiler.lower.integer_concatenations import IntegerConcatenation
from builder.compiler.lower.integer_layers import IntegerLayer
from builder.compiler.lower.integer_pools import IntegerPool
from builder.compiler.lower.integer_sums import IntegerSum
from builder.compiler.lower.layers import get_op_name
from builder.compiler.lower.layouts import (
    NO_HALO,
    Sides,
    TensorLayout,
    get_written_image,
    list_read_images,
    make_byte_layout,
    make_dense_layout,
)
from builder.compiler.lower.packing import pack_bias, pack_layer
from builder.compiler.lower.pixel_packing import choose_joined_pixels, join_pixels, join_weights
from builder.compiler.lower.program_plan import ProgramPlan
from builder.compiler.lower.steps.addition_step import AdditionStep
from builder.compiler.lower.steps.image_step import PoolStep, RepackStep
from builder.compiler.lower.steps.layer_step import Epilogue, LayerStep
from builder.compiler.lower.steps.quantisation import Quantisation, RoundedImage


def get_integer_algorithm(layer: IntegerLayer) -> Algorithm:
    """Return the algorithm that computes a layer of integers."""
    return "integer_depthwise" if layer.core.geometry.depthwise else "integer"


class IntegerAllocator(Allocator):
    """Allocator of the tensors of bytes of layers of integers; ``byte_images`` has them as those layers read them."""

    def __init__(self, plan: ProgramPlan, states: int) -> None:
        super().__init__(plan, states)
        self.byte_images: dict[tuple[Value, TensorLayout], PlacedImage] = {}
        self.byte_zeros: dict[tuple[Value, TensorLayout], int] = {}

    def add_integer_layer(self, layer: IntegerLayer) -> None:
        """Append the step of ``layer``, and copies of its input and output for steps that have bytes otherwise."""
        core, rounding = layer.core, layer.rounding
        name, image = core.value.instruction.name, get_written_image(layer)
        source = self._find_bytes(*list_read_images(layer)[0], layer.zero)
        rounded = output = None
        if rounding is None:
            output = self._place_output(layer.end.base, image)
        else:
            rounded = self._place_bytes(layer.end.base, rounding.by.zero)
        target = output or rounded
        assert target is not None
        gapless = target.layout.pixel == core.geometry.out_channels and output is None
        joined = choose_joined_pixels(core.geometry) if gapless else 1
        computed = join_pixels(core.geometry, joined)
        algorithm = get_integer_algorithm(layer)
        scratch = self._reserve_scratch(computed, algorithm, None)
        step = LayerStep(
            name,
            algorithm,
            source.make_view(),
            output=output.make_view() if output else None,
            epilogue=self._make_integer_epilogue(layer, joined),
            geometry=core.geometry,
            in_size=core.in_size,
            padding=core.padding,
            scratch=scratch.buffer if scratch else None,
            input_rounded=True,
            rounded=RoundedImage(rounded.make_view(), rounded.layout.halo, rounding.by)
            if rounded and rounding
            else None,
            joined=joined,
            **self._store_integer_weights(layer, joined),
        )
        matched = ("sums",) if rounding is None else ("bias", "affine", "rounding")
        moved = source.layout.size + target.layout.size * (4 if output else 1) + step.weights.size
        note = StepInfo(
            name, "layer", matched, algorithm, core.geometry.flop, moved, gives=get_op_name(layer.end.instruction)
        )
        self._append_step(step, note)
        if rounded is not None:
            self._unpack_bytes(layer.end.base, rounded)

    def add_integer_sum(self, task: IntegerSum) -> None:
        """Append the step of ``task``, and copies as for a layer."""
        images = [self._find_bytes(value, image, halo, 0) for value, image, halo in list_read_images(task)]
        output, name = self._place_bytes(task.value.base, task.zero), task.value.instruction.name
        batch, height, width, channels = get_written_image(task)
        step = AdditionStep(
            name,
            images[0].make_view(),
            images[-1].make_view(),
            RoundedImage(output.make_view(), output.layout.halo, Quantisation(1.0, task.zero)),
            batch,
            (height, width),
            channels,
            factors=(task.factors[0], task.factors[1] if len(images) > 1 else 0),
            start=(task.start + 2**31) % 2**32 - 2**31,
            shift=task.shift,
            low=task.low,
            high=task.high,
        )
        moved = sum(image.layout.size for image in (*images, output))
        matched = ("sum of bytes",) if len(images) > 1 else ("bytes with another scale",)
        gives = get_op_name(task.value.instruction)
        self._append_step(step, StepInfo(name, "add", matched, bytes=moved, gives=gives))
        self._unpack_bytes(task.value.base, output)

    def add_integer_pool(self, task: IntegerPool) -> None:
        """Append the step of ``task``, and copies as for a layer."""
        source = self._find_bytes(*list_read_images(task)[0], 0)
        zero, name, pool = self._find_halo_byte(task.value.base), task.value.instruction.name, task.pool
        output = self._place_bytes(task.value.base, zero)
        step = PoolStep(
            name,
            pool.kind,
            source.make_view(),
            output.make_view(),
            batch=pool.in_image[0],
            in_size=pool.in_image[1:],
            channels=pool.channels,
            out_size=pool.out_image[1:],
            window=pool.window,
            stride=pool.stride,
            padding=pool.padding,
            scale=1.0,
            halo=output.layout.halo,
            rounded=Quantisation(1.0, zero),
            sums=task.rounding,
        )
        matched = ("max of bytes" if task.rounding is None else "mean of bytes",)
        moved, gives = source.layout.size + output.layout.size, get_op_name(task.value.instruction)
        self._append_step(step, StepInfo(name, "pool", matched, bytes=moved, gives=gives))
        self._unpack_bytes(task.value.base, output)

    def add_integer_concatenation(self, task: IntegerConcatenation) -> None:
        """Append steps that copy each source of ``task`` to its channels, and copies as for a layer."""
        images = [self._find_bytes(value, image, halo, 0) for value, image, halo in list_read_images(task)]
        zero, first = self._find_halo_byte(task.value.base), 0
        target = self._place_bytes(task.value.base, zero)
        for number, source in enumerate(images, 1):
            name, whole = f"{task.value.instruction.name} source {number}", target.make_view()
            batch, height, width, channels = source.layout.image
            part, halo = replace(whole, first=whole.first + first), target.layout.halo
            size = (height, width)
            step = RepackStep(name, source.make_view(), part, batch, size, channels, halo, dtype="byte", zero=zero)
            note = StepInfo(name, "repack", ("concatenation",), bytes=2 * source.layout.size)
            self._append_step(step, note)
            first += channels
        self._unpack_bytes(task.value.base, target)

    def _find_halo_byte(self, value: Value) -> int:
        """Return the byte that the readers of ``value`` need in its halo."""
        readers = self.plan.readers.get(value, {}).values()
        zeros = (t.zero for t in readers if isinstance(t, IntegerLayer) and list_read_images(t)[0][2] != NO_HALO)
        return next(zeros, 0)

    def _place_bytes(self, value: Value, zero: int) -> PlacedImage:
        layout = self.plan.byte_layouts[value]
        self.byte_zeros[value, layout] = zero
        image = PlacedImage(self._reserve_memory(layout.size), layout)
        self.byte_images[value, layout] = image
        return image

    def _make_integer_epilogue(self, layer: IntegerLayer, joined: int) -> Epilogue:
        nothing = self._place_channels(np.zeros(layer.core.geometry.out_channels), joined)
        if layer.rounding is None:
            return Epilogue(nothing)
        return Epilogue(nothing, "clamp", layer.rounding.low, layer.rounding.high)

    def _store_integer_weights(self, layer: IntegerLayer, joined: int) -> dict[str, Any]:
        geometry, rounding = layer.core.geometry, layer.rounding
        numbers = join_weights(layer.kernel, joined, geometry.stride[1])
        factor = np.ones(geometry.out_channels, np.float32) if rounding is None else rounding.factor
        stored = StoredWeights("int8", layer.kernel, layer.kernel, factor)
        packed = pack_layer(numbers, get_integer_algorithm(layer), groups=geometry.groups, kind="int8")
        fields = self.store.add_layer(
            layer.core.name, stored, packed, Quantisation(1.0, layer.zero), joined=joined, numbers=numbers
        )
        if rounding is None:
            return fields | {"stores_sums": True}
        bias = np.tile(rounding.bias, joined)
        return fields | {"sum_bias": self.store.add_constant(pack_bias(bias))}

    def _find_bytes(self, value: Value, image: tuple[int, int, int, int], halo: Sides, zero: int) -> PlacedImage:
        """Return ``value`` as a layer reads it: with a ``halo`` of ``zero`` around it."""
        base = value.base
        layout = self.plan.byte_layouts[base]
        if layout.image != image:
            stored, layout = self.byte_images.get((base, layout)), make_byte_layout(image, halo)
            if stored is not None and stored.layout.is_dense and layout.is_dense:
                return PlacedImage(stored.storage, layout)
        if (base, layout) not in self.byte_images:
            self.byte_images[base, layout] = self._pack_bytes(base, layout, zero)
        if halo != NO_HALO and self.byte_zeros.setdefault((base, layout), zero) != zero:
            raise LowerError(f"{value} is read with two zero points")
        return self.byte_images[base, layout]

    def _pack_bytes(self, value: Value, layout: TensorLayout, zero: int) -> PlacedImage:
        """Copy ``value`` from where XLA's kernels or the caller put it."""
        source = PlacedImage(self.values[value], make_dense_layout(layout.image))
        target = PlacedImage(self._reserve_memory(layout.size), layout)
        self._append_repack(value, source, target, zero)
        return target

    def _unpack_bytes(self, value: Value, source: PlacedImage) -> None:
        """Copy bytes to where XLA's kernels or the caller find them, if they read them."""
        if value not in self.plan.dense_bytes:
            return
        dense = make_dense_layout(source.layout.image)
        target = PlacedImage(self._reserve_memory(dense.size), dense)
        self.values[value] = target.storage
        self._append_repack(value, source, target, 0)

    def _append_repack(self, value: Value, source: PlacedImage, target: PlacedImage, zero: int) -> None:
        batch, height, width, channels = target.layout.image
        name = f"{value.instruction.name} as bytes"
        step = RepackStep(
            name,
            source.make_view(),
            target.make_view(),
            batch,
            (height, width),
            channels,
            halo=target.layout.halo,
            dtype=value.dtype,
            zero=zero,
        )
        self._append_step(step, StepInfo(name, "repack", bytes=source.storage.size + target.storage.size))
