"""Transposed convolutions as ordinary layers, for any sizes: against a convolution of the input with zeros inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from builder.compiler.lower.geometry import Geometry
from builder.compiler.lower.hlo import read_dag
from builder.compiler.lower.layers import explain_no_core, find_cores
from builder.compiler.lower.steps.image_step import RepackStep
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.compiler.lower.transposed import split_output
from tests.support.hlo import Module
from tests.support.interpret import Interpreter
from tests.unit.test_optimise import conv, lowered, random


def transpose_conv(x: Any, kernel: Any, upsampling: tuple[int, int], padding: int, more: int) -> Any:
    batch, height, width, channels = x.shape
    spread = np.zeros((batch, (height - 1) * upsampling[0] + 1, (width - 1) * upsampling[1] + 1, channels))
    spread[:, :: upsampling[0], :: upsampling[1]] = x
    sides = (padding, padding + more)
    return conv(np.pad(spread, [(0, 0), sides, sides, (0, 0)]), kernel)


@settings(max_examples=150, deadline=None)
@given(
    size=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    taps=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    upsampling=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.integers(0, 5),
    more=st.integers(0, 3),
    channels=st.sampled_from([(1, 1), (3, 5), (2, 24)]),
    also=st.sets(st.sampled_from(["residual", "reader"])),
)
def test_any_transposed_convolution_is_ordinary_layers(
    size: tuple[int, int],
    taps: tuple[int, int],
    upsampling: tuple[int, int],
    padding: int,
    more: int,
    channels: tuple[int, int],
    also: set[str],
) -> None:
    """With a residual, and with a 3x3 layer behind it, which reads it with zeros around."""
    assume(all(k >= s for k, s in zip(taps, upsampling, strict=True)))
    inner, outer = channels
    x, kernel, after = random(2, *size, inner), random(*taps, inner, outer), random(3, 3, outer, 4)
    assume(all((n - 1) * s + 1 + 2 * padding + more >= k for n, s, k in zip(size, upsampling, taps, strict=True)))
    expected = transpose_conv(x, kernel, upsampling, padding, more)
    m, feeds = Module(), [x]
    y = m.convolution(m.parameter(*x.shape), m.constant(kernel), padding=padding, upsampling=upsampling, more=more)
    if "residual" in also:
        feeds.append(random(*expected.shape, seed=1))
        y = m.elementwise("add", y, m.parameter(*expected.shape))
        expected = expected + feeds[-1]
    y, expected = m.elementwise("maximum", y, m.spread(0.0, expected.shape)), np.maximum(expected, 0)
    if "reader" in also:
        y, expected = m.convolution(y, m.constant(after), padding=1), conv(expected, after, padding=1)
    m.tuple(y)
    program, _, _ = lowered(m)
    assert {type(step) for step in program.steps} <= {LayerStep, RepackStep}
    (answer,) = Interpreter(program).run(feeds)
    np.testing.assert_allclose(answer, expected, rtol=1e-4, atol=1e-4)


def test_a_tap_without_a_pixel_is_multiplied_nowhere() -> None:
    """Adjacent columns are computed as one only where their parts of the kernel meet the same pixels."""
    for taps, padding, channels, layers, joined in (
        (2, 1, 24, 2, 2),
        (4, 2, 64, 4, 1),
        (3, 2, 16, 4, 1),
        (2, 1, 1, 2, 2),
    ):
        whole = Geometry(1, 8, (10, 12), channels, (taps, taps), upsampling=(2, 2))
        parts = split_output(whole, (padding, padding), gapless=True)
        assert (len(parts), parts[0].joined) == (layers, joined)
        assert sum(part.geometry.flop for part in parts) == whole.flop


@pytest.mark.parametrize("kernel", [(1, 2), (2, 1)])
def test_pixels_that_no_tap_meets_are_left_to_xla(kernel: tuple[int, int]) -> None:
    m = Module()
    y = m.convolution(m.parameter(1, 4, 4, 3), m.constant(random(*kernel, 3, 2)), upsampling=(2, 2))
    m.tuple(y)

    dag = read_dag(m.result)
    assert find_cores(dag) == []
    assert "transposed" in explain_no_core(dag.names[y.name])
