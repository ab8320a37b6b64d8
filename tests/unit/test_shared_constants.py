"""What Python and C both know has the same value on both sides: packing's constants, and the names that emit prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from builder.compiler.abi import CF_ERR_RANGE, STATUS
from builder.compiler.lower import absorbed_inputs, cascade, geometry, packing
from builder.compiler.lower.geometry import Algorithm
from builder.compiler.lower.steps import fft_step
from builder.compiler.lower.steps.layer_step import ActivationName
from builder.config.schema import WeightType
from handler.model import OUT_OF_RANGE

RUNTIME = Path(__file__).parents[2] / "builder" / "runtime"


def _constants(header: str, name: str) -> set[int]:
    """Every value that a header gives a constant, by an enum or #define, one for each instruction set."""
    text = (RUNTIME / header).read_text()
    found = re.findall(rf"\b{name}(?: =)? (\d+)(?: << (\d+))?\b", text)
    return {int(value) << int(shift or 0) for value, shift in found}


def _enumerators(name: str, header: str = "fused/fused.h") -> list[str]:
    """The enumerators of an enum of ``header`` that has no values of its own, in lower case, without CF_."""
    text = re.sub(r"/\*.*?\*/", "", (RUNTIME / header).read_text(), flags=re.S)
    body = re.search(rf"typedef enum \{{([^}}]*)\}} {name};", text)
    assert body is not None
    assert "=" not in body[1]
    return [word.strip().removeprefix("CF_").lower() for word in body[1].split(",")]


@pytest.mark.parametrize(
    ("header", "name", "value"),
    [
        ("fused/vector.h", "CF_PANEL", geometry.PANEL),
        ("fused/integer_dot.h", "CF_QUAD", packing.QUAD),
        ("fused/fused.h", "CF_MAX_TAPS", packing.MAX_TAPS),
        ("fused/blocking.h", "CF_L2_INPUT_BYTES", absorbed_inputs.BLOCK_BYTES),
        ("fused/blocking.h", "CF_MC", packing.TILED_PIXELS[1]),
        ("abi/cascade.c", "MOST_LAYERS", cascade.MOST_LAYERS),
        ("fused/winograd.h", "CF_WINOGRAD_KC", packing.WINOGRAD_KC),
        ("fused/winograd.h", "CF_WINOGRAD_MC", packing.WINOGRAD_MC),
        ("ops/fft_lines.h", "CF_LARGEST_RADIX", fft_step.LARGEST_RADIX),
        ("ops/fft_lines.h", "CF_LINES", fft_step.LINES),
        ("platform/threads.h", "CF_MAX_THREADS", packing.MAX_THREADS),
    ],
)
def test_a_constant_of_lower_is_the_kernels(header: str, name: str, value: int) -> None:
    assert _constants(header, name) == {value}


def test_channel_vectors_are_padded_for_the_widest_tile() -> None:
    assert max(_constants("fused/vector.h", "CF_NR")) == packing.MAX_NR


def test_the_enums_are_named_as_emit_prints_them() -> None:
    assert _enumerators("cf_weight_type", "ops/weight_type.h") == list(get_args(WeightType))
    assert _enumerators("cf_algorithm") == list(get_args(Algorithm))
    assert ["identity", *_enumerators("cf_activation")] == list(get_args(ActivationName))


def test_the_statuses_are_those_of_the_abi() -> None:
    text = (RUNTIME / "abi" / "model.h").read_text()
    statuses = {int(number): name for name, number in re.findall(r"(CF_ERR_\w+) = (\d+)", text)}
    assert statuses == STATUS
    assert statuses[CF_ERR_RANGE] == statuses[OUT_OF_RANGE] == "CF_ERR_RANGE"
