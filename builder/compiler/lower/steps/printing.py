"""Parts of C that the steps print: numbers, addresses, and a call of a kernel with its two structures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from builder.compiler.lower.steps.base import Buffer, View

CF_DTYPES = {
    "float16": "CF_F16", "float32": "CF_F32", "float64": "CF_F64",
    "int8": "CF_S8", "int16": "CF_S16", "int32": "CF_S32", "int64": "CF_S64",
    "uint8": "CF_U8", "uint16": "CF_U16", "uint32": "CF_U32", "uint64": "CF_U64",
}  # fmt: skip
"""Name in cf_dtype of runtime/ops/kernels.h for each of NumPy's dtype names."""


def format_float(value: float) -> str:
    """Format a number exactly, as hexadecimal; infinities have the compiler's own name."""
    if math.isinf(value):
        return "-__builtin_inff()" if value < 0 else "__builtin_inff()"
    return f"{float(value).hex()}f"


def format_list(values: Iterable[int | bool]) -> str:
    """Return the initialiser of an array of whole numbers."""
    return "{" + ", ".join(str(int(v)) for v in values) + "}"


def format_view(view: View) -> str:
    """Return the initialiser of a cf_view."""
    return format_list((view.first, view.image, view.row, view.pixel))


def format_pointer(buffer: Buffer) -> str:
    """Return the C expression of a buffer's start."""
    if buffer.space == "feed":
        return f"FEED({buffer.offset}, {buffer.size}u)"
    return f"{buffer.space.upper()}({buffer.offset}u)"


def format_pointers(*buffers: tuple[str, Buffer]) -> str:
    """Return the C expressions of the starts of buffers, each with the type of its elements."""
    return ", ".join(f"({kind} *){format_pointer(buffer)}" for kind, buffer in buffers)


def format_fields(values: Mapping[str, object]) -> list[str]:
    """Return the lines that initialise the fields of a structure; those that are None stay 0."""
    return [f"    .{name} = {value}," for name, value in values.items() if value is not None]


def format_starts(buffers: Mapping[str, Buffer | None]) -> dict[str, str]:
    """Return the values of fields that point to the start of buffers."""
    return {name: f"(void *){format_pointer(b)}" for name, b in buffers.items() if b is not None}


def format_kernel_call(
    kind: str, kernel: str, values: Mapping[str, object], buffers: Mapping[str, Buffer | None]
) -> list[str]:
    """Return the call of ``context->kernel`` with a cf_<kind> and a cf_<kind>_data, which says where buffers start."""
    return [
        f"static const cf_{kind} {kind} = {{",
        *format_fields(values),
        "};",
        f"const cf_{kind}_data data = {{",
        *format_fields(format_starts(buffers)),
        "};",
        f"context->{kernel}(context, &{kind}, &data);",
    ]


def format_two_view_call(
    kind: str, kernel: str, values: dict[str, object], source: View, target: View, halo: tuple[int, int, int, int]
) -> list[str]:
    """Return the call of a kernel that reads ``source`` and writes ``target`` with a ``halo`` of zeros around it."""
    values |= {"input": format_view(source), "output": format_view(target), "halo": format_list(halo)}
    return [
        f"static const cf_{kind} {kind} = {{",
        *format_fields(values),
        "};",
        f"context->fused->{kernel}(context, &{kind}, (const void *){format_pointer(source.buffer)}, "
        f"(float *){format_pointer(target.buffer)});",
    ]
