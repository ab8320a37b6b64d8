"""Print the steps of the optimised path as calls of the fused kernels; see runtime/fused/fused.h."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from builder.emit.literals import float_literal, list_literal
from builder.lower.fused_steps import (
    AttentionStep,
    LayerStep,
    NormStep,
    PoolStep,
    RecurrentStep,
    RepackStep,
    Rows,
    View,
)
from builder.lower.joined import join
from builder.lower.packing import INTEGER, TILED, scratch_size, thin_block, winograd_band
from builder.lower.program import CascadeStep
from builder.lower.steps import Buffer

Pointer = Callable[[Buffer], str]
"""The C expression of a buffer's start."""


def layer_lines(step: LayerStep, pointer: Pointer) -> list[str]:
    """The lines of C that call the layer kernel; ``pointer`` gives the C expression of a buffer's start.

    Raises ValueError where the step's scratch is too small for its algorithm.
    """
    needed = scratch_size(join(step.geometry, step.joined), step.algorithm)
    if needed and (step.scratch is None or step.scratch.size < needed):
        raise ValueError(f"{step.name}: {step.algorithm} needs {needed} bytes of scratch")
    kernel = "integer" if step.algorithm in INTEGER else "fused->layer"
    return _call("layer", kernel, _layer_fields(step), _layer_buffers(step), pointer)


def shared_layer_lines(step: LayerStep, places: Mapping[str, str], pointer: Pointer) -> list[str]:
    """The lines of C that call the layer kernel for ``inputs`` images, each with the sums it has alone.

    ``places``: the C expressions of its input and output, in place of those of the step.
    """
    return [
        "static const cf_layer layer = {",
        *_fields(_layer_fields(step) | {"one_by_one": 1}),
        "};",
        "cf_layer all = layer;",
        "all.batch = (int64_t)inputs;",
        "const cf_layer_data data = {",
        *_fields(_starts(_layer_buffers(step), pointer) | {k: f"(void *)({place})" for k, place in places.items()}),
        "};",
        "context->fused->layer(context, &all, &data);",
    ]


def cascade_lines(step: CascadeStep, pointer: Pointer, first: int | None) -> list[str]:
    """The lines of C that run a cascade; ``first``: the number of its first layer, where they tell when they begin."""
    fields: dict[str, object] = {"count": len(step.layers), "rows": step.rows}
    fields |= {"layers": "layers", "rolling": "rolling"}
    lines = [f"static const size_t rolling[] = {list_literal(step.rolling)};"]
    if any(step.scratch):
        lines.append(f"static const size_t scratch[] = {list_literal(step.scratch)};")
        fields["scratch"] = "scratch"
    if first is not None:
        fields |= {"step": "cf_step", "first_step": first}
    return [
        "static const cf_layer layers[] = {",
        *_entries([_fields(_layer_fields(one)) for one in step.layers]),
        "};",
        *lines,
        "static const cf_cascade cascade = {",
        *_fields(fields),
        "};",
        "const cf_layer_data data[] = {",
        *_entries([_fields(_starts(_layer_buffers(one), pointer)) for one in step.layers]),
        "};",
        "cf_run_cascade(context, &cascade, data);",
    ]


def _entries(structures: Iterable[list[str]]) -> list[str]:
    return [line for fields in structures for line in ("    {", *(f"    {field}" for field in fields), "    },")]


def _layer_fields(step: LayerStep) -> dict[str, object]:
    """The fields of a cf_layer."""
    e = step.epilogue
    shape = step.geometry
    clamped = e.activation == "clamp"
    fields: dict[str, object] = {
        "algorithm": f"CF_{step.algorithm.upper()}",
        "activation": "CF_CLAMP" if e.activation in ("identity", "clamp") else f"CF_{e.activation.upper()}",
        "batch": step.batch,
        "groups": step.groups,
        "in_channels": step.in_channels,
        "out_channels": step.out_channels,
        "out": list_literal(step.out_size),
        "kernel": list_literal(step.kernel_size),
        "stride": list_literal(step.stride),
        "dilation": list_literal(step.dilation),
        "padding": list_literal(step.padding),
        "input": _view(step.input),
        "output": step.output and _view(step.output),
        "low": float_literal(e.low if clamped else -math.inf),
        "high": float_literal(e.high if clamped else math.inf),
    }
    if any(step.halo):
        fields["halo"] = list_literal(step.halo)
    if e.residual is not None:
        fields["residual"] = _view(e.residual)
    if e.second is not None:
        fields |= {"second": _view(e.second), "second_halo": list_literal(step.second_halo)}
    if e.second_scale is not None:
        fields |= {"second_low": float_literal(e.second_low), "second_high": float_literal(e.second_high)}
    if step.weight_type != "float32":
        fields["weight_type"] = f"CF_{step.weight_type.upper()}"
    if step.algorithm in TILED:
        fields["band"] = winograd_band(shape, step.algorithm)
    if step.algorithm == "thin":
        fields["block"] = list_literal(thin_block(shape))
    if step.quantisation is not None:
        fields |= {"input_scale": float_literal(step.quantisation.scale), "input_zero": step.quantisation.zero}
    if step.input_rounded:
        fields["input_rounded"] = 1
    if step.joined > 1:
        fields["joined"] = step.joined
    rounded = step.rounded
    if rounded is not None:
        fields |= {"rounded": _view(rounded.view), "rounded_halo": list_literal(rounded.halo)}
        fields |= {"rounded_scale": float_literal(rounded.by.scale), "rounded_zero": rounded.by.zero}
    return fields


def _layer_buffers(step: LayerStep) -> dict[str, Buffer | None]:
    """The fields of a cf_layer_data."""
    e, rounded = step.epilogue, step.rounded
    return {
        "input": step.input.buffer,
        "weights": step.weights,
        "factor": step.factor,
        "bias": e.bias,
        "output": step.output.buffer if step.output else None,
        "rounded": rounded.view.buffer if rounded else None,
        "residual": e.residual.buffer if e.residual else None,
        "residual_scale": e.residual_scale,
        "second": e.second.buffer if e.second else None,
        "second_scale": e.second_scale,
        "second_shift": e.second_shift,
        "scratch": step.scratch,
        "weight_scale": step.weight_scale,
        "weight_sums": step.weight_sums,
    }


def pool_lines(step: PoolStep, pointer: Pointer) -> list[str]:
    """The lines of C that call the pooling kernel."""
    fields = {
        "maximum": int(step.kind == "max"),
        "scale": float_literal(step.scale),
        "batch": step.batch,
        "channels": step.channels,
        "in": list_literal(step.in_size),
        "out": list_literal(step.out_size),
        "window": list_literal(step.window),
        "stride": list_literal(step.stride),
        "padding": list_literal(step.padding),
    }
    if step.rounded is not None:
        fields |= {"rounded": 1, "zero": step.rounded.zero}
    return _two_views("pooling", "pool", fields, step, pointer)


def norm_lines(step: NormStep, pointer: Pointer) -> list[str]:
    """The lines of C that call the kernel of layer normalisation."""
    fields: dict[str, object] = {"batch": step.batch, "size": list_literal(step.size), "channels": step.channels}
    fields |= {"input": _view(step.input), "output": _view(step.output), "halo": list_literal(step.halo)}
    fields |= {"epsilon": float_literal(step.epsilon), "centred": int(step.centred)}
    buffers = {"input": step.input.buffer, "gamma": step.gamma, "beta": step.beta, "output": step.output.buffer}
    return _call("norm", "fused->norm", fields, buffers, pointer)


def recurrent_lines(step: RecurrentStep, pointer: Pointer) -> list[str]:
    """The lines of C that call the kernel of recurrent layers."""
    rows, gates = (1, step.batch), step.gates * step.units
    product: dict[str, object] = {
        "algorithm": "CF_DIRECT",
        "activation": "CF_CLAMP",
        "batch": 1,
        "groups": 1,
        "in_channels": step.units,
        "out_channels": gates,
        "out": list_literal(rows),
        "kernel": list_literal((1, 1)),
        "stride": list_literal((1, 1)),
        "dilation": list_literal((1, 1)),
        "input": list_literal((0, step.batch * step.units, step.batch * step.units, step.units)),
        "output": list_literal((0, step.batch * gates, step.batch * gates, gates)),
        "low": float_literal(-math.inf),
        "high": float_literal(math.inf),
    }
    if step.weight_type != "float32":
        product["weight_type"] = f"CF_{step.weight_type.upper()}"
    if step.quantisation is not None:
        product |= {"algorithm": "CF_INTEGER", "input_zero": step.quantisation.zero}
        product["input_scale"] = float_literal(step.quantisation.scale)
    fields: dict[str, object] = {"kind": f"CF_{step.kind.upper()}"}
    fields |= {name: getattr(step, name) for name in ("steps", "batch", "units")}
    fields |= {"output_step": step.output_stride, "backwards": int(step.backwards)}
    fields["by_units"] = int(step.by_units)
    if step.quantisation is not None:
        fields["product_scratch"] = scratch_size(step.geometry, "integer") // 4
    fields["product"] = "{" + ", ".join(f".{name} = {value}" for name, value in product.items()) + "}"
    names = ("input", "weights", "bias", "weight_scale", "weight_sums", "hidden", "cell", "output", "scratch")
    buffers = {name: getattr(step, name) for name in names}
    return _call("recurrent", "fused->recurrent", fields, buffers, pointer)


def attention_lines(step: AttentionStep, pointer: Pointer) -> list[str]:
    """The lines of C that call the kernel of attention."""
    rows = {"query": step.query, "key": step.key, "value": step.value, "output": step.output}
    fields: dict[str, object] = {"outer": list_literal(step.outer)}
    fields |= {name: getattr(step, name) for name in ("queries", "keys", "size", "value_size")}
    fields |= {name: _rows(at) for name, at in rows.items()}
    fields |= {"scale": float_literal(step.scale), "safe": int(step.safe)}
    buffers = {name: at.buffer for name, at in rows.items()}
    mask = step.mask
    if mask is not None:
        fields |= {"mask": f"CF_MASK_{mask.kind.upper()}", "fill": float_literal(mask.fill)}
        if mask.buffer is None:
            fields["past"] = mask.past
        else:
            fields |= {"mask_type": f"CF_MASK_{mask.type.upper()}", "mask_first": mask.first}
            fields |= {"mask_scale": float_literal(mask.scale), "mask_shift": float_literal(mask.shift)}
            fields["mask_strides"] = list_literal(mask.strides)
            buffers["mask"] = mask.buffer
    return _call("attention", "attention", fields, buffers, pointer)


def repack_lines(step: RepackStep, pointer: Pointer) -> list[str]:
    """The lines of C that call the repacking kernel."""
    fields = {"batch": step.batch, "size": list_literal(step.size), "channels": step.channels}
    return _two_views("repack", "repack", fields, step, pointer)


def _call(
    kind: str, kernel: str, fields: Mapping[str, object], buffers: Mapping[str, Buffer | None], pointer: Pointer
) -> list[str]:
    """The call of ``context->kernel`` with a cf_<kind>, and where its buffers start."""
    return [
        f"static const cf_{kind} {kind} = {{",
        *_fields(fields),
        "};",
        f"const cf_{kind}_data data = {{",
        *_fields(_starts(buffers, pointer)),
        "};",
        f"context->{kernel}(context, &{kind}, &data);",
    ]


def _starts(buffers: Mapping[str, Buffer | None], pointer: Pointer) -> dict[str, str]:
    return {name: f"(void *){pointer(b)}" for name, b in buffers.items() if b is not None}


def _two_views(
    kind: str, function: str, fields: dict[str, object], step: PoolStep | RepackStep, pointer: Pointer
) -> list[str]:
    fields |= {"input": _view(step.input), "output": _view(step.output), "halo": list_literal(step.halo)}
    source, target = pointer(step.input.buffer), pointer(step.output.buffer)
    return [
        f"static const cf_{kind} {kind} = {{",
        *_fields(fields),
        "};",
        f"context->fused->{function}(context, &{kind}, (const void *){source}, (float *){target});",
    ]


def _fields(fields: Mapping[str, object]) -> list[str]:
    return [f"    .{name} = {value}," for name, value in fields.items() if value is not None]


def _rows(rows: Rows) -> str:
    return f"{{{rows.first}, {list_literal(rows.outer)}, {rows.row}}}"


def _view(view: View) -> str:
    return list_literal((view.first, view.image, view.row, view.pixel))
