"""A vector that stands for the input, as numbers or as bytes in base64."""

from __future__ import annotations

import binascii
import math
import struct
from array import array

from ..answer import ItemOutputs, convert_numbers
from ..description import Output
from ..typed import Any

FORMATS = ("float32", "float16", "int8", "base64")


def format_answer(output: Output, item: ItemOutputs) -> Any:
    """Return the vector in the output's format.

    float32, float16: numbers. int8: whole numbers scaled to a largest magnitude of 127, which keep the direction alone.
    base64: float32, little-endian.
    """
    port, _ = item.fetches[output.fetch]
    data, _ = item.get_values(output.fetch)
    values: Any = data if output.dimensions is None else _shorten_vector(data[: output.dimensions], output.normalise)
    if output.format == "base64":
        return binascii.b2a_base64(array("f", values).tobytes(), newline=False).decode()
    if output.format == "int8":
        return _scale_to_int8(values)
    if output.format == "float16":
        return [_round_float16(value) for value in values]
    return convert_numbers(port.dtype, values)


def _shorten_vector(values: memoryview, normalise: bool) -> list[float]:
    """Return ``values``, the first numbers of a vector, scaled to length 1 if ``normalise``."""
    length = math.hypot(*values) if normalise else 1.0
    return [value / length for value in values] if math.isfinite(length) and length else list(values)


def _round_float16(value: float) -> float | None:
    """Round to the nearest float16, in the five digits that identify it; None beyond its range."""
    try:
        (rounded,) = struct.unpack("<e", struct.pack("<e", float(value)))
    except OverflowError:
        return None
    return float(format(rounded, ".5g")) if math.isfinite(rounded) else None


def _scale_to_int8(values: Any) -> list[int | None]:
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return [round(value / (largest or 1.0) * 127) if math.isfinite(value) else None for value in values]
