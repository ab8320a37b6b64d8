"""Step that runs a convolution or dense layer, with everything after it fused in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from builder.compiler.lower.geometry import Algorithm, Geometry
from builder.compiler.lower.packing import INTEGER, TILED, choose_thin_block, choose_winograd_band, compute_scratch_size
from builder.compiler.lower.pixel_packing import join_pixels
from builder.compiler.lower.steps.base import (
    Buffer,
    KernelKind,
    Reads,
    Scratch,
    Step,
    StepPrinter,
    View,
    Writes,
)
from builder.compiler.lower.steps.printing import (
    format_fields,
    format_float,
    format_kernel_call,
    format_list,
    format_starts,
    format_view,
)
from builder.compiler.lower.steps.quantisation import Quantisation, RoundedImage
from builder.config.schema import WeightType

ActivationName = Literal[
    "identity", "clamp", "sigmoid", "swish", "hard_sigmoid", "hard_swish", "gelu", "gelu_tanh", "tanh", "elu", "prelu"
]


@dataclass(frozen=True)
class Epilogue:
    """Operations on a layer's sums before they are stored, per output channel.

    value = sum + bias; value += residual * residual_scale (scale 1 if None); value = activation(value); and if there is
    ``second_scale`` also second = clamp(value * second_scale + second_shift), stored as floats if ``second`` is a View.
    ``finishes``: second takes the place of value. ``slopes``: of "prelu".
    Channel vectors (bias, scales, shifts, slopes) are weights padded with zeros to a multiple of 32 floats.
    """

    bias: Reads[Buffer]
    activation: ActivationName = "identity"
    low: float = float("-inf")  # ``low`` and ``high`` are limits of "clamp"
    high: float = float("inf")
    residual: Reads[View | None] = None
    residual_channels: int = 0  # the first ones, if it does not have all
    residual_scale: Reads[Buffer | None] = None
    slopes: Reads[Buffer | None] = None
    second: Writes[View | None] = None
    second_scale: Reads[Buffer | None] = None
    second_shift: Reads[Buffer | None] = None
    second_low: float = float("-inf")
    second_high: float = float("inf")
    finishes: bool = False


@dataclass(frozen=True)
class LayerStep(Step):
    """A convolution or dense layer with everything after it fused in; float32, NHWC.

    A dense layer is a 1x1 convolution on a 1 x rows image. The input View points at element [0, 0] of the image; if
    padding is not zero, its halo of zeros is already in the buffer (``padding[0]`` rows above ...), so the kernel never
    tests for borders. ``weights``: packed for ``algorithm`` by builder/compiler/lower/packing.py. ``halo``: (top, left,
    bottom, right) of zeros that this step writes around its output (and ``second``) because a later layer reads them as
    its padding. ``rounded``: the last output, the second if there is one, as bytes, for integer layers with
    ``input_rounded``, which read it in place of floats; ``output``, or ``second``, is None if nothing reads floats.
    ``factor``: float32 [in_channels], computed by another step, by which the input of "direct" 1x1 layers of one image
    is multiplied. ``joined``: output pixels side by side that are computed as one: see pixel_packing.py.
    """

    kernel_table = "fused"

    algorithm: Algorithm
    input: Reads[View]
    weights: Reads[Buffer]
    output: Writes[View | None]
    epilogue: Epilogue
    geometry: Geometry
    in_size: tuple[int, int]
    padding: tuple[int, int] = (0, 0)  # at the top and left
    halo: tuple[int, int, int, int] = (0, 0, 0, 0)
    second_halo: tuple[int, int, int, int] = (0, 0, 0, 0)
    scratch: Scratch[Buffer | None] = None  # its size is packing.compute_scratch_size(...)
    weight_type: WeightType = "float32"
    weight_scale: Reads[Buffer | None] = None  # int8 has one, from packing.pack_scale
    weight_sums: Reads[Buffer | None] = None  # integer layers have them, from packing.pack_sums
    sum_bias: Reads[Buffer | None] = (
        None  # only for integer layers: int32 that is added to sums, from packing.pack_bias
    )
    stores_sums: bool = False  # only for integer layers: the output is the sums in int32, and there is no epilogue
    quantisation: Quantisation | None = None  # only integer layers have it
    input_rounded: bool = False  # only for integer layers
    rounded: Writes[RoundedImage | None] = None
    factor: Reads[Buffer | None] = None
    joined: int = 1  # only for integer layers; weights and channel vectors are those of the joined layer
    layer: str = ""  # the op's name in the model
    kept: str = ""  # why its weights are not of the requested type

    @property
    def stored(self) -> View:
        """Stored output: floats, or bytes if nothing reads floats."""
        if self.output is not None:
            return self.output
        assert self.rounded is not None
        return self.rounded.view

    @property
    def flop(self) -> int:
        """Floating-point operations, a multiply-add counted as two."""
        return self.geometry.flop

    @property
    def kernel_kinds(self) -> frozenset[KernelKind]:
        """Optional parts of the fused kernels that the step needs."""
        needed: dict[KernelKind, bool] = {
            "INTEGER": self.algorithm in INTEGER,
            "SMALL_WEIGHTS": self.weight_type != "float32",
            "CONVOLUTIONS": self.algorithm not in ("direct", "integer", "integer_depthwise"),
            "HARD_SWISH": self.algorithm == "direct" and self.epilogue.activation == "hard_swish",
        }
        return frozenset(kind for kind, is_needed in needed.items() if is_needed)

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the layer; raise ValueError if its scratch is too small for the algorithm."""
        needed = compute_scratch_size(join_pixels(self.geometry, self.joined), self.algorithm)
        if needed and (self.scratch is None or self.scratch.size < needed):
            raise ValueError(f"{self.name}: {self.algorithm} needs {needed} bytes of scratch")
        kernel = "integer" if self.algorithm in INTEGER else "fused->layer"
        return format_kernel_call("layer", kernel, self.c_fields, self.c_buffers)

    def shared_c_lines(self, places: Mapping[str, str]) -> list[str]:
        """Return the lines of C that call the layer kernel for ``inputs`` images, each with the same sums as alone.

        ``places``: the C expressions that replace those of the step's input and output.
        """
        return [
            "static const cf_layer layer = {",
            *format_fields(self.c_fields | {"one_by_one": 1}),
            "};",
            "cf_layer all = layer;",
            "all.batch = (int64_t)inputs;",
            "const cf_layer_data data = {",
            *format_fields(format_starts(self.c_buffers) | {k: f"(void *)({place})" for k, place in places.items()}),
            "};",
            "context->fused->layer(context, &all, &data);",
        ]

    @property
    def c_fields(self) -> dict[str, object]:
        """Fields of a cf_layer."""
        e, shape = self.epilogue, self.geometry
        clamped = e.activation == "clamp"
        values: dict[str, object] = {
            "algorithm": f"CF_{self.algorithm.upper()}",
            "activation": "CF_CLAMP" if e.activation in ("identity", "clamp") else f"CF_{e.activation.upper()}",
            "batch": shape.batch,
            "groups": shape.groups,
            "in_channels": shape.in_channels,
            "out_channels": shape.out_channels,
            "out": format_list(shape.out_size),
            "kernel": format_list(shape.kernel_size),
            "stride": format_list(shape.stride),
            "dilation": format_list(shape.dilation),
            "padding": format_list(self.padding),
            "input": format_view(self.input),
            "output": self.output and format_view(self.output),
            "low": format_float(e.low if clamped else -math.inf),
            "high": format_float(e.high if clamped else math.inf),
        }
        if any(self.halo):
            values["halo"] = format_list(self.halo)
        if e.residual is not None:
            values["residual"] = format_view(e.residual)
        if e.residual_channels:
            values["residual_channels"] = e.residual_channels
        if e.second is not None:
            values |= {"second": format_view(e.second), "second_halo": format_list(self.second_halo)}
        if e.second_scale is not None:
            values |= {"second_low": format_float(e.second_low), "second_high": format_float(e.second_high)}
        if e.finishes:
            values["finishes"] = 1
        if self.weight_type != "float32":
            values["weight_type"] = f"CF_{self.weight_type.upper()}"
        if self.algorithm in TILED:
            values["band"] = choose_winograd_band(shape, self.algorithm)
        if self.algorithm == "thin":
            values["block"] = format_list(choose_thin_block(shape))
        if self.quantisation is not None:
            values |= {"input_scale": format_float(self.quantisation.scale), "input_zero": self.quantisation.zero}
        if self.input_rounded:
            values["input_rounded"] = 1
        if self.joined > 1:
            values["joined"] = self.joined
        if self.stores_sums:
            values["stores_sums"] = 1
        rounded = self.rounded
        if rounded is not None:
            values |= {"rounded": format_view(rounded.view), "rounded_halo": format_list(rounded.halo)}
            values |= {"rounded_scale": format_float(rounded.by.scale), "rounded_zero": rounded.by.zero}
        return values

    @property
    def c_buffers(self) -> dict[str, Buffer | None]:
        """Fields of a cf_layer_data."""
        e, rounded = self.epilogue, self.rounded
        return {
            "input": self.input.buffer,
            "weights": self.weights,
            "factor": self.factor,
            "bias": e.bias,
            "output": self.output.buffer if self.output else None,
            "rounded": rounded.view.buffer if rounded else None,
            "residual": e.residual.buffer if e.residual else None,
            "residual_scale": e.residual_scale,
            "slopes": e.slopes,
            "second": e.second.buffer if e.second else None,
            "second_scale": e.second_scale,
            "second_shift": e.second_shift,
            "scratch": self.scratch,
            "weight_scale": self.weight_scale,
            "weight_sums": self.weight_sums,
            "sum_bias": self.sum_bias,
        }
