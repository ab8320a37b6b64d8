"""The fused kernels against float64 NumPy: every algorithm, epilogue and layout, on one to three threads.

Each runs as compiled for AVX2, and with 16 and 4 lanes for the same CPU, which is the logic of the AVX-512 and
NEON copies; AVX-512's own copy where this CPU has it. Everything runs once more under gcc's sanitizers.

The bounds hold for the error relative to the sum of magnitudes |x| * |w| of the output: a float32 sum of n terms
in any order stays within n * 6e-8; random signs stay far below. Winograd's transforms cost F(2x2) about twice and
F(4x4) about ten times the direct kernel's error.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from builder.compiler.lower.geometry import Geometry
from builder.compiler.lower.packing import (
    GEMV_PIXELS,
    choose_algorithm,
    compute_scratch_size,
    list_algorithms,
    pack_layer,
    pad_channels,
)
from builder.compiler.lower.steps.image_step import SumRounding
from builder.compiler.lower.steps.quantisation import Quantisation
from tests.support import needs
from tests.support.fused import Case, Kernels, Prepared, build_with_gcc, prepare
from tests.support.layers import ACTIVATIONS, LIBRARY, activate, convolve, epilogues, examples, halos
from tests.support.runtime import sanitizer_environment

BOUND = {"direct": 1e-6, "depthwise": 1e-6, "winograd2": 3e-6, "winograd4": 2e-5, "thin": 1e-6}
V4 = "avx512bw" in Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else False
TABLES = ["v3", "wide", "narrow", *(["v4"] if V4 and LIBRARY not in os.environ else [])]


def check(p: Prepared) -> None:
    """The output and the second output, within the algorithm's bound."""
    case = p.case
    sums = convolve(p.x, p.weights, case) + p.bias
    magnitude = convolve(np.abs(p.x), np.abs(p.weights), case) + np.abs(p.bias) + 1
    if p.residual is not None:
        scale = p.scales[0].astype(np.float64) if case.residual_scale else 1.0
        sums = sums + p.residual * scale
        magnitude = magnitude + np.abs(p.residual * scale)
    with np.errstate(over="ignore"):
        expected = activate(case.activation, sums, case.low, case.high, p.slopes)
    # No activation here has a slope above 1.2.
    allowed = 1.2 * BOUND[case.algorithm] * magnitude
    if case.finishes:
        expected = np.clip(expected * p.scales[1].astype(np.float64) + p.scales[2], 0.0, 2.5)
        allowed = allowed * (np.abs(p.scales[1]) + 1)
    error = np.abs(p.output.inner - expected)
    assert (error <= allowed).all(), f"{(error / magnitude).max():.2e} of the sum of magnitudes"
    if p.second is not None:
        scaled = np.clip(expected * p.scales[1].astype(np.float64) + p.scales[2], 0.0, 2.5)
        assert (np.abs(p.second.inner - scaled) <= allowed * (np.abs(p.scales[1]) + 1)).all()


weight_types = st.sampled_from(["float32", "float16", "bfloat16", "int8"])


@st.composite
def layers(draw: st.DrawFn) -> Case:
    """Any convolution: small sizes, with a fair share of the edges where blocks and panels end."""
    kind = draw(st.sampled_from(["direct", "direct", "grouped", "depthwise", "dense", "thin"]))
    kernel = (1, 1) if kind == "dense" else (draw(st.integers(1, 5)), draw(st.integers(1, 5)))
    if kind == "depthwise" and draw(st.booleans()):
        kernel = draw(st.sampled_from([(3, 3), (5, 5)]))
    stride = (1, 1) if kind == "dense" else (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    dilation = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (2, 3)])) if kind != "dense" else (1, 1)
    out = (1, draw(st.integers(1, 30))) if kind == "dense" else (draw(st.integers(1, 9)), draw(st.integers(1, 9)))
    groups = {"grouped": draw(st.integers(2, 4)), "depthwise": draw(st.integers(2, 70))}.get(kind, 1)
    if kind == "thin":
        groups = draw(st.sampled_from([1, 1, 3]))
        out = draw(st.sampled_from([out, out, (1, draw(st.integers(1, 300)))]))
    inner = 1 if kind == "depthwise" else draw(st.integers(1, 40))
    outer = 1 if kind == "depthwise" else draw(st.sampled_from([1, 7, 8, 10, 16, 17, 24, 32, 40, 48, 64, 101]))
    if kind == "thin":
        outer = draw(st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 9, 20]))
    assume(kind != "grouped" or inner * outer > 1)  # that is depthwise, which GEMM is never chosen for
    algorithm = kind if kind in ("depthwise", "thin") else "direct"
    batch = draw(st.integers(1, 3))
    reach = [(out[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 for i in (0, 1)]
    padding = [0, 0, 0, 0] if kind == "dense" else [draw(st.integers(0, 2)) for _ in range(4)]
    size = (reach[0] - padding[0] - padding[2], reach[1] - padding[1] - padding[3])
    assume(size[0] > 0 and size[1] > 0)
    return Case(
        Geometry(batch, groups * inner, out, groups * outer, kernel, stride, dilation, groups),
        algorithm,
        (padding[0], padding[1], padding[2], padding[3]),
        size,
        in_gap=draw(st.sampled_from([0, 0, 3, 16])),
        weights=draw(weight_types) if algorithm == "direct" else "float32",
        factor=kind == "dense" and batch * out[1] > GEMV_PIXELS and draw(st.booleans()),
        **draw(epilogues()),
    )


@st.composite
def winograd_layers(draw: st.DrawFn) -> Case:
    out = (draw(st.integers(1, 14)), draw(st.integers(1, 14)))
    channels = draw(st.sampled_from([16, 20, 32, 44, 48, 132, 144, 272]))
    outer = draw(st.sampled_from([1, 9, 16, 24, 32, 40, 48, 57, 80]))
    padding = draw(st.sampled_from([(1, 1, 1, 1), (0, 0, 0, 0), (2, 1, 0, 1)]))
    size = (out[0] + 2 - padding[0] - padding[2], out[1] + 2 - padding[1] - padding[3])
    assume(size[0] > 0 and size[1] > 0)
    geometry = Geometry(draw(st.integers(1, 2)), channels, out, outer, (3, 3))
    algorithm = draw(st.sampled_from(["winograd2", "winograd4"]))
    gap, weights = draw(st.sampled_from([0, 16])), draw(weight_types)
    return Case(geometry, algorithm, padding, size, in_gap=gap, weights=weights, **draw(epilogues()))


@pytest.mark.parametrize("table", TABLES)
@examples(300)
@given(case=layers())
def test_any_layer(kernels: Kernels, table: str, case: Case) -> None:
    check(kernels.layer(case, table))


@pytest.mark.parametrize("table", TABLES)
@examples(80)
@given(case=winograd_layers())
def test_any_winograd_layer(kernels: Kernels, table: str, case: Case) -> None:
    check(kernels.layer(case, table))


@pytest.mark.parametrize("table", TABLES)
@examples(60)
@given(
    batch=st.integers(1, 8),
    inner=st.integers(1, 300),
    outer=st.sampled_from([1, 16, 33, 64, 70, 128, 150, 200]),
    weights=weight_types,
    activation=st.sampled_from(["clamp", "hard_swish", "sigmoid"]),
    threads=st.integers(1, 3),
)
def test_images_one_by_one_have_the_sums_of_one_alone(
    kernels: Kernels, table: str, batch: int, inner: int, outer: int, weights: Any, activation: Any, threads: int
) -> None:
    geometry = Geometry(batch, inner, (1, 1), outer)
    case = Case(geometry, "direct", (0, 0, 0, 0), (1, 1), weights=weights, activation=activation, low=-1.0, high=2.0)
    p = prepare(case, threads)
    p.layer.one_by_one = 1
    kernels.run(p, table, threads)
    check(p)
    together = p.output.inner.copy()
    p.layer.batch = 1
    for image in range(batch):
        kernels.run(p, table, threads)
        np.testing.assert_array_equal(p.output.inner[image], together[image])
        p.layer.input.first += p.layer.input.image
        p.layer.output.first += p.layer.output.image


@pytest.mark.parametrize("table", TABLES)
@examples(60)
@given(
    case=st.one_of(layers(), winograd_layers()),
    by=st.builds(Quantisation, st.sampled_from([0.02, 0.3]), st.sampled_from([0, 100, 255])),
)
def test_bytes_for_a_layer_of_integer_sums(kernels: Kernels, table: str, case: Case, by: Quantisation) -> None:
    """With the floats, and without them."""
    both = kernels.layer(replace(case, rounded=by), table)
    check(both)
    if not case.residual_in_place:
        alone = kernels.layer(replace(case, rounded=by, alone=True), table)
        np.testing.assert_array_equal(alone.rounded.buffer, both.rounded.buffer)
        if case.second:
            np.testing.assert_array_equal(alone.output.buffer, both.output.buffer)


@pytest.mark.parametrize("table", TABLES)
@examples(60)
@given(case=st.one_of(layers(), winograd_layers()))
def test_the_number_of_threads_does_not_change_a_bit(kernels: Kernels, table: str, case: Case) -> None:
    alone = kernels.layer(case, table)
    for threads in (2, 3):
        together = kernels.layer(case, table, threads)
        np.testing.assert_array_equal(together.output.buffer, alone.output.buffer)
        if alone.second is not None and together.second is not None:
            np.testing.assert_array_equal(together.second.buffer, alone.second.buffer)


LARGE = {
    "deep 1x1": Case(Geometry(1, 1100, (7, 7), 70), "direct", in_size=(7, 7), in_gap=16),
    "deep 1x1 with factors": Case(Geometry(1, 1100, (7, 7), 70), "direct", in_size=(7, 7), in_gap=16, factor=True),
    "1x1 with factors": Case(
        Geometry(1, 96, (20, 21), 24), "direct", in_size=(20, 21), residual=True, activation="swish", factor=True
    ),
    "deep 3x3": Case(Geometry(1, 300, (7, 9), 48, (3, 3)), "direct", (1, 1, 1, 1), (7, 9), activation="swish"),
    "one segment in parts": Case(Geometry(1, 150, (5, 5), 33, (3, 3)), "direct", (1, 1, 1, 1), (5, 5)),
    "many pixels": Case(Geometry(1, 3, (60, 61), 24, (3, 3), (2, 2)), "direct", (1, 1, 1, 1), (119, 121)),
    "24 channels, added": Case(
        Geometry(1, 96, (20, 21), 24), "direct", in_size=(20, 21), residual=True, low=0.0, high=6.0, activation="clamp"
    ),
    "40 channels of a long K": Case(
        Geometry(1, 576, (7, 7), 40), "direct", in_size=(7, 7), residual_in_place=True, low=0.0, activation="clamp"
    ),
    "72 channels": Case(
        Geometry(1, 16, (21, 30), 72), "direct", in_size=(21, 30), activation="hard_swish", second=True
    ),
    "hard_swish of a short K": Case(Geometry(1, 24, (19, 21), 88), "direct", in_size=(19, 21), activation="hard_swish"),
    "hard_swish of a first layer": Case(
        Geometry(1, 3, (60, 61), 16, (3, 3), (2, 2)), "direct", (1, 1, 1, 1), (119, 121), activation="hard_swish"
    ),
    "half a tile, from row to row": Case(
        Geometry(1, 20, (19, 37), 48), "direct", in_size=(19, 37), in_gap=3, low=0.0, activation="clamp"
    ),
    "half of AVX2's tile, from row to row": Case(
        Geometry(1, 20, (19, 37), 40), "direct", in_size=(19, 37), in_gap=3, activation="hard_swish"
    ),
    "half a tile of 3x3": Case(Geometry(2, 5, (30, 33), 16, (3, 3), (1, 2)), "direct", (1, 1, 1, 1), (30, 65)),
    "dense": Case(Geometry(1, 2048, (1, 1), 1000), "direct"),
    "dense, two rows": Case(Geometry(1, 700, (1, 2), 101), "direct", in_size=(1, 2), activation="gelu"),
    "dense, three rows": Case(Geometry(1, 700, (1, 3), 48), "direct", in_size=(1, 3), second=True),
    "rows of a transformer": Case(Geometry(1, 256, (1, 100), 768), "direct", in_size=(1, 100), activation="gelu_tanh"),
    "large kernel": Case(Geometry(1, 5, (4, 4), 20, (11, 7)), "direct", (5, 3, 5, 3), (4, 4)),
    "depthwise 7x7": Case(
        Geometry(1, 700, (6, 6), 700, (7, 7), groups=700), "depthwise", (3, 3, 3, 3), (6, 6), activation="hard_swish"
    ),
    "depthwise 3x3, half a vector": Case(
        Geometry(2, 8, (5, 9), 8, (3, 3), groups=8), "depthwise", (1, 1, 1, 1), (5, 9), low=0.0, activation="clamp"
    ),
    "depthwise 5x5, half of AVX2's vector": Case(
        Geometry(1, 4, (4, 12), 4, (5, 5), dilation=(2, 1), groups=4), "depthwise", (4, 2, 4, 2), (4, 12)
    ),
    "depthwise 3x3, half of NEON's vector": Case(
        Geometry(1, 2, (3, 2), 2, (3, 3), groups=2), "depthwise", (1, 1, 1, 1), (3, 2), halo=(1, 1, 1, 1)
    ),
    "depthwise 3x3, added": Case(
        Geometry(1, 40, (5, 9), 40, (3, 3), groups=40), "depthwise", (1, 1, 1, 1), (5, 9), residual=True
    ),
    "depthwise 5x5, added in place": Case(
        Geometry(2, 40, (4, 13), 40, (5, 5), (1, 2), groups=40),
        "depthwise",
        (2, 2, 2, 2),
        (4, 25),
        residual_in_place=True,
    ),
    "few pixels in many zeros": Case(
        Geometry(1, 40, (7, 7), 570), "direct", in_size=(7, 7), activation="hard_swish", halo=(2, 1, 2, 2)
    ),
    "many rows in zeros": Case(Geometry(2, 16, (40, 30), 96), "direct", in_size=(40, 30), halo=(1, 2, 0, 1), out_gap=5),
    "thin": Case(Geometry(2, 24, (70, 90), 8, (3, 5)), "thin", (1, 2, 1, 2), (70, 90), activation="swish"),
    "thin, strided": Case(Geometry(1, 9, (61, 67), 5, (5, 4), (2, 3), (1, 2)), "thin", (2, 1, 2, 1), (121, 204)),
    "thin, added": Case(
        Geometry(1, 7, (40, 230), 3, (3, 3)), "thin", (1, 1, 1, 1), (40, 230), residual_in_place=True, second=True
    ),
    "thin, of a sound": Case(Geometry(1, 48, (1, 3000), 1, (1, 9)), "thin", (0, 4, 0, 4), (1, 3000)),
    "bands": Case(Geometry(2, 160, (40, 41), 64, (3, 3)), "winograd4", (1, 1, 1, 1), (40, 41)),
    "bands of 2": Case(Geometry(1, 96, (40, 41), 48, (3, 3)), "winograd2", (1, 1, 1, 1), (40, 41), second=True),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", LARGE)
def test_layers_of_many_blocks(kernels: Kernels, name: str, table: str) -> None:
    if LIBRARY in os.environ and name.startswith("bands"):
        pytest.skip("too slow under the sanitizers; the small ones take the same paths")
    one = kernels.layer(LARGE[name], table)
    check(one)
    np.testing.assert_array_equal(kernels.layer(LARGE[name], table, 3).output.buffer, one.output.buffer)


PACKED = (
    "deep 1x1",
    "40 channels of a long K",
    "one segment in parts",
    "many pixels",
    "dense",
    "dense, three rows",
    "large kernel",
    "bands",
)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("weights", ["float16", "bfloat16", "int8"])
@pytest.mark.parametrize("name", PACKED)
def test_packed_weights_are_multiplied_as_the_floats_they_stand_for(
    kernels: Kernels, name: str, weights: str, table: str
) -> None:
    """To the last bit, where the sums are in the same order; the layers of few pixels have theirs in parts."""
    if LIBRARY in os.environ and name.startswith("bands"):
        pytest.skip("too slow under the sanitizers; the small ones take the same paths")
    packed = kernels.layer(replace(LARGE[name], weights=weights), table)
    check(packed)
    plain = prepare(LARGE[name])
    plain.arrays["weights"][...] = np.frombuffer(
        pack_layer(packed.weights, LARGE[name].algorithm, groups=LARGE[name].geometry.groups),  # type: ignore[arg-type]
        np.float32,
    )
    kernels.run(plain, table)
    if "dense" not in name:
        np.testing.assert_array_equal(packed.output.buffer, plain.output.buffer)


@pytest.mark.parametrize("table", TABLES)
def test_every_float16_number_is_unpacked(kernels: Kernels, table: str) -> None:
    """Both zeros, every subnormal and normal number, multiplied by one."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)].astype(np.float32)
    case = Case(Geometry(1, 1, (1, 4), len(finite)), "direct", in_size=(1, 4), weights="float16")
    p = prepare(case)
    p.picture.inner[...] = 1
    p.arrays["bias"][...] = 0
    packed = np.frombuffer(pack_layer(finite.reshape(1, 1, 1, -1), "direct", kind="float16"), np.float32)
    p.arrays["weights"].view(np.uint32)[...] = packed.view(np.uint32)
    kernels.run(p, table)
    for row in p.output.inner.reshape(4, -1):
        np.testing.assert_array_equal(row, finite)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("table", TABLES)
def test_activations_over_their_whole_range(kernels: Kernels, table: str, activation: str) -> None:
    """Within 3e-7 of the larger of 1 and |x|, also at infinity; NaN stays NaN; the exponential does not overflow."""
    values = np.concatenate([np.linspace(-110, 110, 4001), np.linspace(-5, 5, 4001), [0.0, 1e-8, -1e-8, 3e4, -3e4]])
    values = values.astype(np.float32)
    case = Case(Geometry(1, 1, (1, len(values)), 1), "direct", in_size=(1, len(values)), activation=activation)
    case.low, case.high = (-1.0, 6.0) if activation == "clamp" else (-math.inf, math.inf)
    p = prepare(case)
    p.picture.inner[...] = values.reshape(1, 1, -1, 1)
    p.arrays["weights"][...] = np.arange(16) == 0
    p.arrays["bias"][...] = 0
    kernels.run(p, table)
    with np.errstate(over="ignore"):
        expected = activate(activation, values.astype(np.float64), case.low, case.high, p.slopes)
    error = np.abs(p.output.inner.ravel() - expected)
    assert (error <= 3e-7 * np.maximum(1, np.abs(values))).all(), f"{error.max():.1e}"
    if activation in ("sigmoid", "swish"):  # relative as well, to the smallest normal numbers
        normal = np.abs(values) < 80
        assert (error[normal] <= 1e-6 * np.abs(expected[normal])).all()
    if activation == "gelu_tanh" and LIBRARY in os.environ:
        return  # -O0 fuses no multiplication with an addition, and so tanh does not reach 1
    values = np.where(np.arange(len(values)) % 2, np.inf, -np.inf)
    p.picture.inner[...] = values.reshape(1, 1, -1, 1)
    kernels.run(p, table)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = activate(activation, values, case.low, case.high, p.slopes)
    np.testing.assert_allclose(p.output.inner.ravel(), expected, atol=1e-6)
    p.picture.inner[...] = np.nan
    kernels.run(p, table)
    assert np.isnan(p.output.inner).all()


@st.composite
def pools(draw: st.DrawFn) -> dict[str, Any]:
    window = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    stride = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    size = (draw(st.integers(1, 12)), draw(st.integers(1, 12)))
    padding = (draw(st.integers(0, window[0] - 1)), draw(st.integers(0, window[1] - 1)))
    if draw(st.booleans()):  # the mean of the picture
        size = draw(st.sampled_from([size, (8, 16), (11, 12), (21, 9)]))
        window, padding = size, (0, 0)
    # Every window must hold a pixel of the picture.
    out = tuple((size[i] + padding[i] - 1) // stride[i] + 1 for i in (0, 1))
    out = (draw(st.integers(1, out[0])), draw(st.integers(1, out[1])))
    return {
        "size": size, "out": out, "window": window, "stride": stride, "padding": padding,
        "kind": draw(st.sampled_from(["max", "sum"])), "scale": draw(st.sampled_from([1.0, 0.25])),
        "halo": draw(halos), "gap": draw(st.sampled_from([0, 3])), "batch": draw(st.integers(1, 2)),
        "channels": draw(st.sampled_from([1, 7, 16, 33, 130])), "threads": draw(st.integers(1, 3)),
    }  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
@examples(120)
@given(c=pools(), seed=st.integers(0, 1000))
def test_any_pooling(kernels: Kernels, table: str, c: dict[str, Any], seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((c["batch"], *c["size"], c["channels"]), dtype=np.float32)
    ours = kernels.pool(
        c["kind"], x, c["out"], c["window"], c["stride"], c["padding"], c["scale"], c["halo"], c["gap"], table,
        c["threads"],
    )  # fmt: skip
    for i in range(c["out"][0]):
        for j in range(c["out"][1]):
            y, z = i * c["stride"][0] - c["padding"][0], j * c["stride"][1] - c["padding"][1]
            part = x[:, max(y, 0) : y + c["window"][0], max(z, 0) : z + c["window"][1]]
            if c["kind"] == "max":
                np.testing.assert_array_equal(ours[:, i, j], part.max(axis=(1, 2)))
            else:
                expected = part.sum(axis=(1, 2), dtype=np.float64) * c["scale"]
                np.testing.assert_allclose(ours[:, i, j], expected, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("table", TABLES)
@examples(80)
@given(
    c=pools(),
    seed=st.integers(0, 1000),
    by=st.builds(Quantisation, st.sampled_from([0.02, 0.3]), st.sampled_from([0, 100, 255])),
)
def test_the_largest_of_bytes(kernels: Kernels, table: str, c: dict[str, Any], seed: int, by: Quantisation) -> None:
    """Are the bytes of the largest."""
    x = np.random.default_rng(seed).standard_normal((c["batch"], *c["size"], c["channels"]), dtype=np.float32)
    ours, expected = kernels.pool_bytes(
        x, by, c["out"], c["window"], c["stride"], c["padding"], c["halo"], c["gap"], table, c["threads"]
    )
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("table", TABLES)
@examples(80)
@given(
    c=pools(),
    seed=st.integers(0, 1000),
    least=st.sampled_from([-128, 0]),
    limits=st.sampled_from([(0, 255), (0, 90), (100, 200)]),
    scale=st.one_of(
        st.none(), st.tuples(st.sampled_from([0.25, 0.0304, 3.0]), st.sampled_from([0.0, 6.5, -31.7, 20000.1]))
    ),
)
def test_bytes_of_sums(
    kernels: Kernels, table: str, c: dict[str, Any], seed: int, least: int, limits: Any, scale: Any
) -> None:
    """Are those that the definition gives, in integers and float32."""
    x = np.random.default_rng(seed).integers(least, least + 256, (c["batch"], *c["size"], c["channels"]))
    low, high = (least + limit for limit in limits)
    sums = SumRounding(least, low, high, *(scale or ()))
    ours = kernels.pool_byte_sums(
        x, sums, c["out"], c["window"], c["stride"], c["padding"], c["halo"], c["gap"], table, c["threads"]
    )
    for i in range(c["out"][0]):
        for j in range(c["out"][1]):
            y, z = i * c["stride"][0] - c["padding"][0], j * c["stride"][1] - c["padding"][1]
            part = x[:, max(y, 0) : y + c["window"][0], max(z, 0) : z + c["window"][1]]
            total, count = part.sum(axis=(1, 2)), part.shape[1] * part.shape[2]
            if scale is None:
                expected = np.sign(total) * ((abs(total) + count // 2) // count)
            else:
                expected = np.rint(total.astype(np.float32) * np.float32(scale[0]) + np.float32(scale[1]))
            np.testing.assert_array_equal(ours[:, i, j], np.clip(expected, low, high))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("channels", [3, 40, 1024])
def test_the_number_of_threads_does_not_change_a_bit_of_a_mean(kernels: Kernels, table: str, channels: int) -> None:
    """Of a picture that is summed in parts, in every image."""
    x = np.random.default_rng(channels).standard_normal((2, 17, 13, channels), dtype=np.float32)
    alone, *together = (
        kernels.pool("sum", x, (1, 1), (17, 13), (1, 1), (0, 0), 1 / 221, (0,) * 4, 0, table, threads)
        for threads in (1, 2, 3)
    )
    np.testing.assert_allclose(alone[:, 0, 0], x.mean(axis=(1, 2), dtype=np.float64), atol=1e-7)
    for other in together:
        np.testing.assert_array_equal(other, alone)


def test_the_largest_of_anything_and_nan_is_nan(kernels: Kernels) -> None:
    x = np.ones((1, 3, 3, 8), np.float32)
    x[0, 1, 1] = np.nan
    assert np.isnan(kernels.pool("max", x, (1, 1), (3, 3), (1, 1), (0, 0), 1.0, (0,) * 4, 0, "v3", 1)).all()


@pytest.mark.parametrize("table", TABLES)
@examples(60)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3, 16, 50])),
    gaps=st.tuples(st.sampled_from([0, 2]), st.sampled_from([0, 16])),
    halo=halos,
    threads=st.integers(1, 3),
)
def test_any_repacking(
    kernels: Kernels, table: str, shape: tuple[int, ...], gaps: tuple[int, int], halo: Any, threads: int
) -> None:
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    np.testing.assert_array_equal(kernels.repack(x, *gaps, halo, table, threads), x)


def test_a_large_repacking_in_parts(kernels: Kernels) -> None:
    x = np.random.default_rng(0).standard_normal((1, 64, 64, 64), dtype=np.float32)
    np.testing.assert_array_equal(kernels.repack(x, 0, 0, (1, 1, 1, 1), "v3", 3), x)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_the_pool_runs_every_task_once(kernels: Kernels, threads: int) -> None:
    rounds = 20 if LIBRARY in os.environ else 300
    for tasks in (0, 1, 2, 7, 64):
        assert kernels.library.cf_test_count(kernels.context("v3", threads), rounds, tasks)


def test_the_pool_works_in_the_child_of_a_fork_and_still_in_the_parent(kernels: Kernels) -> None:
    context = kernels.context("v3", 3)
    assert kernels.library.cf_test_count(context, 10, 64)
    child = os.fork()
    if child == 0:
        ok = kernels.library.cf_test_count(context, 50, 64)
        kernels.library.cf_test_close(context)  # must not wait for threads that are not there
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert kernels.library.cf_test_count(context, 50, 64)


def test_usable_cpus(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", raising=False)
    assert 1 <= kernels.library.cf_test_cpus() <= min(8, len(os.sched_getaffinity(0)))
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "1024")
    assert kernels.library.cf_test_cpus() == 1


@pytest.mark.parametrize("cpus", [1, 2])
def test_usable_cpus_follow_the_affinity(kernels: Kernels, cpus: int) -> None:
    before = os.sched_getaffinity(0)
    if len(before) < cpus:
        pytest.skip("NOT RUN: there are not as many CPUs")
    try:
        os.sched_setaffinity(0, sorted(before)[:cpus])
        assert kernels.library.cf_test_cpus() <= cpus
    finally:
        os.sched_setaffinity(0, before)


def test_packing_by_hand() -> None:
    weights = np.arange(2 * 17, dtype=np.float32).reshape(1, 1, 2, 17)
    packed = np.frombuffer(pack_layer(weights, "direct"), np.float32).reshape(2, 2, 16)
    np.testing.assert_array_equal(packed[0], weights[0, 0, :, :16])
    np.testing.assert_array_equal(packed[1, :, 0], [16, 33])
    assert not packed[1, :, 1:].any()
    depthwise = np.frombuffer(pack_layer(np.ones((3, 3, 1, 20), np.float32), "depthwise", groups=20), np.float32)
    assert depthwise[: 9 * 16].all()
    np.testing.assert_array_equal(depthwise[9 * 16 :].reshape(9, 16), np.tile(np.arange(16) < 4, (9, 1)))
    assert len(pad_channels(np.ones(33, np.float32))) == 256


@pytest.mark.parametrize(
    ("shape", "algorithm", "groups", "message"),
    [
        ((3, 3, 2, 4), "depthwise", 2, "one input channel"),
        ((3, 3, 8, 16), "winograd4", 1, "input channels"),
        ((3, 3, 18, 16), "winograd4", 1, "input channels"),
        ((1, 1, 2, 5), "direct", 2, "do not divide"),
        ((33, 33, 1, 1), "direct", 1, "taps"),
    ],
)
def test_weights_an_algorithm_cannot_have(shape: tuple[int, ...], algorithm: Any, groups: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pack_layer(np.zeros(shape, np.float32), algorithm, groups=groups)


def test_the_static_choice() -> None:
    wide = Geometry(1, 64, (56, 56), 64, (3, 3))
    assert choose_algorithm(wide) == "winograd4"
    assert choose_algorithm(wide, allow_winograd=False) == "direct"
    assert list_algorithms(wide, allow_winograd=False) == ("direct",)
    assert set(list_algorithms(wide)) == {"direct", "winograd2", "winograd4"}
    assert choose_algorithm(Geometry(1, 64, (56, 56), 64, (3, 3), (2, 2))) == "direct"
    assert choose_algorithm(Geometry(1, 64, (56, 56), 64, (3, 3), groups=64)) == "depthwise"
    assert compute_scratch_size(wide, "direct") == 0
    assert compute_scratch_size(wide, "winograd4", 1) < compute_scratch_size(wide, "winograd4")


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.xdist_group("sanitized fused kernels")
def test_the_same_under_sanitizers(tmp_path: Path) -> None:
    """Every test that loads the library."""
    if LIBRARY in os.environ:
        pytest.skip("this is the sanitized run")
    needs.gcc()
    library = build_with_gcc(tmp_path)
    files = [
        __file__,
        *(
            str(Path(__file__).with_name(f"test_{name}_kernels.py"))
            for name in ("attention", "integer", "norm", "recurrent")
        ),
    ]
    loaded = ("-k", "not on_another_processor and not the_instruction_that_each_copy_is_for")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *loaded, *files]
    environment = sanitizer_environment() | {LIBRARY: str(library)}
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
