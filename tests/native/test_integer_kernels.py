"""Integer GEMM against exact sums in NumPy, for every form that the instruction sets have.

"v3" is AVX2's, with pairs of int16; "wide" multiplies unsigned bytes four at a time in plain C, which is VNNI's logic,
"narrow" signed ones, which is arm64's, and "matrix" eight at a time, which is i8mm's; "tiles" is AMX's logic, 16 pixels
by 16 channels at a time; "pairs" is what WebAssembly has without SIMD, "wide_pairs" AVX-512's logic without VNNI. The
sums are exact, so the bound is that of the epilogue alone, relative to the sum itself and not to its terms. The
sanitizers' run is that of test_fused_kernels.py.
"""

from __future__ import annotations

import math
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from builder.compiler.lower.geometry import MAX_SUM, Geometry
from builder.compiler.lower.packing import compute_scratch_size, get_quantised_shape, pack_layer, pack_sums
from builder.compiler.lower.steps.quantisation import Quantisation
from tests.support import needs, portable
from tests.support.fused import BYTES_LESS, Case, Kernels, Prepared, prepare
from tests.support.layers import LIBRARY, activate, convolve, epilogues, examples, halos

CPU = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
PORTABLE = ["v3", "wide", "narrow", "matrix", "tiles", "pairs", "wide_pairs"]
NATIVE = {"v4": "avx512bw", "vnni": "avx512_vnni", "amx": "amx_int8"}
PAIRS = ("v3", "pairs", "wide_pairs", "v4")
"""Those that multiply pairs of int16."""

PRODUCTS = ((0, 4, 6), (1, 4, 7), (2, 5, 6), (3, 5, 7))
"""The tiles of sums, of inputs and of weights in AMX's instructions."""

TABLES = [*PORTABLE, *(name for name, flag in NATIVE.items() if flag in CPU and LIBRARY not in os.environ)]


def rounded(x: Any, q: Quantisation) -> Any:
    """byte - zero, as Quantisation says."""
    with np.errstate(all="ignore"):
        scaled = x * (np.float32(1) / np.float32(q.scale))
    scaled = np.where(np.isnan(scaled), np.float32(0), scaled)
    return np.rint(np.clip(scaled, -q.zero, 255 - q.zero)).astype(np.int64)


def find_largest_of_tiles(x: Any) -> Any:
    """Each element of ``x`` [n, h, w, c] replaced by the largest of its channel in its tile of 4x4 pixels."""
    _, height, width, _ = x.shape
    rows, columns = range(0, height, 4), range(0, width, 4)
    tiles = np.maximum.reduceat(np.maximum.reduceat(x, rows, axis=1), columns, axis=2)
    return tiles.repeat(4, axis=1)[:, :height].repeat(4, axis=2)[:, :, :width]


def check(p: Prepared, tiles: bool = False) -> None:
    """``tiles``: the sums are Winograd's, of floats, whose error goes with the largest terms of a tile."""
    case, q = p.case, p.case.quantisation
    assert q is not None
    assert p.stored.scale is not None
    scale = np.float64(np.float32(q.scale)) * p.stored.scale.astype(np.float64)
    steps = rounded(p.x, q)
    sums = convolve(steps, p.stored.numbers, case) * scale  # whole numbers far below 2^53
    terms = np.abs(sums)
    if tiles:
        terms = find_largest_of_tiles(convolve(np.abs(steps), np.abs(p.stored.numbers), case) * scale)
    magnitude = 1 + terms + np.abs(p.bias)
    sums = sums + p.bias
    if p.residual is not None:
        added = p.residual * (p.scales[0].astype(np.float64) if case.residual_scale else 1.0)
        sums, magnitude = sums + added, magnitude + np.abs(added)
    with np.errstate(over="ignore"):
        expected = activate(case.activation, sums, case.low, case.high, p.slopes)
    allowed = (2.4e-5 if tiles else 6e-7) * magnitude
    if case.finishes:
        expected = np.clip(expected * p.scales[1].astype(np.float64) + p.scales[2], 0.0, 2.5)
        allowed = allowed * (np.abs(p.scales[1]) + 1)
    error = np.abs(p.output.inner - expected)
    assert (error <= allowed).all(), f"{(error / magnitude).max():.2e} of the magnitude"
    if p.second is not None:
        scaled = np.clip(expected * p.scales[1].astype(np.float64) + p.scales[2], 0.0, 2.5)
        assert (np.abs(p.second.inner - scaled) <= allowed * (np.abs(p.scales[1]) + 1)).all()


quantisations = st.builds(
    Quantisation, st.sampled_from([0.02, 2.0**-5, 0.3, 1e-3]), st.sampled_from([0, 255, 128, 1, 7, 100, 254])
)


@st.composite
def layers(draw: st.DrawFn) -> Case:
    """Any convolution of one group, with a fair share of the edges where blocks, panels and fours of channels end."""
    dense = draw(st.booleans())
    kernel = (1, 1) if dense else (draw(st.integers(1, 5)), draw(st.integers(1, 5)))
    stride = (1, 1) if dense else (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    dilation = (1, 1) if dense else draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (2, 3)]))
    out = (1, draw(st.integers(1, 30))) if dense else (draw(st.integers(1, 9)), draw(st.integers(1, 9)))
    inner = draw(st.one_of(st.integers(1, 40), st.sampled_from([64, 130])))
    outer = draw(st.sampled_from([1, 7, 8, 10, 16, 17, 24, 32, 40, 48, 64, 101]))
    reach = [(out[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 for i in (0, 1)]
    padding = [0, 0, 0, 0] if dense else [draw(st.integers(0, 2)) for _ in range(4)]
    size = (reach[0] - padding[0] - padding[2], reach[1] - padding[1] - padding[3])
    assume(size[0] > 0 and size[1] > 0)
    return Case(
        Geometry(draw(st.integers(1, 3)), inner, out, outer, kernel, stride, dilation),
        "integer",
        (padding[0], padding[1], padding[2], padding[3]),
        size,
        in_gap=draw(st.sampled_from([0, 0, 3, 16])),
        weights="int8",
        quantisation=draw(quantisations),
        extremes=draw(st.booleans()),
        **draw(epilogues()),
    )


@pytest.mark.parametrize("table", TABLES)
@examples(300)
@given(case=layers())
def test_any_layer(kernels: Kernels, table: str, case: Case) -> None:
    check(kernels.layer(case, table))


@examples(100)
@given(case=layers())
def test_every_form_and_number_of_threads_gives_the_same_bits(kernels: Kernels, case: Case) -> None:
    one = kernels.layer(case, "v3")
    for table, threads in (("v3", 2), ("v3", 3), *((table, 1) for table in TABLES[1:]), ("wide", 3)):
        other = kernels.layer(case, table, threads)
        np.testing.assert_array_equal(other.output.buffer, one.output.buffer)
        if one.second is not None and other.second is not None:
            np.testing.assert_array_equal(other.second.buffer, one.second.buffer)


@pytest.mark.parametrize("table", TABLES)
@examples(150)
@given(case=layers(), by=quantisations)
def test_bytes_between_layers(kernels: Kernels, table: str, case: Case, by: Quantisation) -> None:
    """Reading bytes gives the same bits as rounding floats; storing them, what NumPy makes of the floats."""
    floats = kernels.layer(case, table)
    if case.geometry.in_channels % 4 == 0 and case.in_gap % 4 == 0:
        read = kernels.layer(replace(case, input_rounded=True), table)
        np.testing.assert_array_equal(read.output.buffer, floats.output.buffer)
    both = kernels.layer(replace(case, rounded=by), table)
    np.testing.assert_array_equal(both.output.buffer, floats.output.buffer)
    if not case.residual_in_place:
        alone = kernels.layer(replace(case, rounded=by, alone=True), table)
        np.testing.assert_array_equal(alone.rounded.buffer, both.rounded.buffer)
        if case.second:
            np.testing.assert_array_equal(alone.output.buffer, both.output.buffer)


@pytest.mark.parametrize("table", TABLES)
@examples(100)
@given(case=layers(), by=st.none() | quantisations, data=st.data())
def test_pixels_computed_as_one(
    kernels: Kernels, table: str, case: Case, by: Quantisation | None, data: st.DataObject
) -> None:
    """The same bits, of every output. Only pixels without gaps are joined, so a residual has all channels."""
    g, case = case.geometry, replace(case, residual_share=1.0)
    outer, width = data.draw(st.sampled_from([1, 2, 3, 5, 8])), data.draw(st.sampled_from([2, 3, 4, 6, 8, 16]))
    pixels = data.draw(st.sampled_from([p for p in range(2, 17) if width % p == 0 and p * outer <= 40]))
    stride, padding = g.stride[1], (case.padding[1], case.padding[3])
    narrow = replace(g, out_channels=outer, out_size=(g.out_size[0], width), dilation=(g.dilation[0], 1))
    size = (case.in_size[0], max(1, (width - 1) * stride + g.kernel_size[1] - sum(padding)))
    one = replace(case, geometry=narrow, in_size=size, out_gap=0, rounded=by)
    whole, joined = kernels.layer(one, table), kernels.layer(replace(one, joined=pixels), table, 2)
    np.testing.assert_array_equal(joined.output.buffer, whole.output.buffer)
    for ours, theirs in ((joined.second, whole.second), (joined.rounded, whole.rounded)):
        if ours is not None and theirs is not None:
            np.testing.assert_array_equal(ours.buffer, theirs.buffer)


@st.composite
def depthwise_layers(draw: st.DrawFn) -> Case:
    """Any filter for each channel, with those that have loops of their own in plenty."""
    square = draw(st.sampled_from([3, 3, 5, 0]))
    kernel = (square, square) if square else (draw(st.integers(1, 9)), draw(st.integers(1, 5)))
    stride = draw(st.sampled_from([(1, 1), (1, 1), (2, 2), (1, 2), (3, 3)]))
    dilation = draw(st.sampled_from([(1, 1), (1, 1), (1, 1), (2, 1), (1, 2)]))
    out, channels = (draw(st.integers(1, 6)), draw(st.integers(1, 19))), draw(st.integers(2, 50))
    reach = [(out[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 for i in (0, 1)]
    padding = [draw(st.integers(0, 2)) for _ in range(4)]
    size = (reach[0] - padding[0] - padding[2], reach[1] - padding[1] - padding[3])
    assume(size[0] > 0 and size[1] > 0)
    return Case(
        Geometry(draw(st.integers(1, 2)), channels, out, channels, kernel, stride, dilation, channels),
        "integer_depthwise",
        (padding[0], padding[1], padding[2], padding[3]),
        size,
        in_gap=draw(st.sampled_from([0, 0, 4, 16])),
        weights="int8",
        halo=draw(halos),
    )


whole_layers = st.builds(
    lambda case, zero: replace(
        case,
        in_gap=-case.geometry.in_channels % 4 + case.in_gap // 4 * 4,
        input_rounded=True,
        quantisation=Quantisation(2.0**-5, zero),
        whole=True,
        activation="clamp",
        **dict.fromkeys(("residual", "residual_in_place", "residual_scale", "second", "finishes", "extremes"), False),
    ),
    layers() | depthwise_layers(),
    st.integers(0, 255),
)
"""Layers of bytes whose bias belongs to the sums, as quantised models have them."""


def whole_sums(p: Prepared) -> Any:
    """Of the bytes that the layer read, with the bias."""
    assert p.case.quantisation is not None
    bias = p.arrays["sum_bias"].view(np.int32)[: p.case.geometry.out_channels]
    return convolve(rounded(p.x, p.case.quantisation), p.stored.numbers, p.case) + bias


@pytest.mark.parametrize("table", TABLES)
@examples(150)
@given(case=whole_layers, zero=st.integers(0, 255), bounds=st.tuples(st.integers(0, 255), st.integers(0, 255)))
def test_bytes_that_are_made_of_sums(
    kernels: Kernels, table: str, case: Case, zero: int, bounds: tuple[int, int]
) -> None:
    """Each is one product in float32, rounded to even and cut off: the same bits on every processor."""
    low, high = min(bounds) - zero, max(bounds) - zero
    by = Quantisation(1.0, zero)
    p = kernels.layer(replace(case, rounded=by, alone=True, low=float(low), high=float(high)), table)
    assert p.stored.scale is not None
    factor = p.stored.scale * np.float32(2.0**-5)
    expected = np.clip(np.rint(whole_sums(p).astype(np.int32).astype(np.float32) * factor), low, high)
    halo = p.rounded.filled(expected, by, BYTES_LESS.get(table, 0), case.halo)
    np.testing.assert_array_equal(p.rounded.buffer, halo.buffer)


@pytest.mark.parametrize("table", TABLES)
@examples(60)
@given(case=whole_layers, threads=st.integers(1, 3))
def test_sums_as_they_are(kernels: Kernels, table: str, case: Case, threads: int) -> None:
    p = kernels.layer(replace(case, stores_sums=True, halo=(0, 0, 0, 0)), table, threads)
    np.testing.assert_array_equal(p.output.inner.view(np.int32), whole_sums(p))


@st.composite
def tiled_layers(draw: st.DrawFn) -> Case:
    """Any layer that a processor without products of bytes transforms tiles for."""
    out = (draw(st.integers(1, 14)), draw(st.integers(1, 14)))
    padding = draw(st.sampled_from([(1, 1, 1, 1), (0, 0, 0, 0), (2, 1, 0, 1)]))
    size = (out[0] + 2 - padding[0] - padding[2], out[1] + 2 - padding[1] - padding[3])
    assume(size[0] > 0 and size[1] > 0)
    channels, outer = draw(st.sampled_from([16, 20, 32, 44, 144, 272])), draw(st.sampled_from([3, 16, 24, 32, 48, 80]))
    return Case(
        Geometry(draw(st.integers(1, 2)), channels, out, outer, (3, 3)),
        "integer_winograd4",
        padding,
        size,
        in_gap=draw(st.sampled_from([0, 16])),
        weights="int8",
        quantisation=draw(quantisations),
        extremes=draw(st.booleans()),
        **draw(epilogues()),
    )


@pytest.mark.parametrize("table", TABLES)
@examples(50, sanitized=5)
@given(case=tiled_layers(), by=quantisations)
def test_tiles_of_rounded_inputs(kernels: Kernels, table: str, case: Case, by: Quantisation) -> None:
    """Where bytes are multiplied, the bits of integer sums; elsewhere Winograd's sums of the same numbers."""
    done = kernels.layer(case, table)
    check(done, tiles=table in PAIRS)
    if table not in PAIRS:
        whole = kernels.layer(replace(case, algorithm="integer"), table)
        np.testing.assert_array_equal(done.output.buffer, whole.output.buffer)
    for other, threads in ((replace(case, input_rounded=True), 1), (replace(case, rounded=by), 1), (case, 3)):
        np.testing.assert_array_equal(kernels.layer(other, table, threads).output.buffer, done.output.buffer)


def case_of(geometry: Geometry, padding: int = 0, **more: Any) -> Case:
    size = tuple((o - 1) * s + k - 2 * padding for o, s, k in zip(
        geometry.out_size, geometry.stride, geometry.kernel_size, strict=True))  # fmt: skip
    q = more.pop("quantisation", Quantisation(0.02, 77))
    return Case(geometry, "integer", (padding,) * 4, (size[0], size[1]), weights="int8", quantisation=q, **more)


LARGE = {
    "deep 1x1": case_of(Geometry(1, 1100, (7, 7), 70), in_gap=16),
    "deep 3x3": case_of(Geometry(1, 300, (7, 9), 48, (3, 3)), 1, activation="swish"),
    "one segment in parts": case_of(Geometry(2, 520, (5, 5), 33, (3, 3)), 1, second=True),
    "many pixels": case_of(Geometry(1, 3, (60, 61), 24, (3, 3), (2, 2)), 1),
    "many panels": case_of(Geometry(1, 16, (30, 30), 200), activation="clamp", low=0.0, residual=True),
    "strided 1x1": case_of(Geometry(1, 64, (28, 28), 96, (1, 1), (2, 2))),
    "dense": case_of(Geometry(1, 2048, (1, 1), 1000)),
    "dense, two rows": case_of(Geometry(1, 700, (1, 2), 101), activation="gelu"),
    "dense, three rows": case_of(Geometry(1, 700, (1, 3), 48), second=True),
    "rows of a transformer": case_of(Geometry(1, 256, (1, 100), 768), activation="gelu_tanh"),
    "large kernel": case_of(Geometry(1, 5, (4, 4), 20, (11, 7))),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", LARGE)
def test_layers_of_many_blocks(kernels: Kernels, name: str, table: str) -> None:
    one = kernels.layer(LARGE[name], table)
    check(one)
    np.testing.assert_array_equal(kernels.layer(LARGE[name], table, 3).output.buffer, one.output.buffer)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("zero", [0, 3, 255])
def test_the_largest_sums_there_are(kernels: Kernels, table: str, zero: int) -> None:
    """Every product at its largest, of one sign, as deep as int32 holds: nothing saturates on the way."""
    case = case_of(Geometry(1, MAX_SUM, (1, 1), 17), quantisation=Quantisation(1.0, zero))
    p = prepare(case)
    largest = -255.0 if zero == 255 else 255.0 - zero
    p.picture.inner[...] = largest
    p.arrays["weights"].view(np.int8)[...] = np.frombuffer(
        pack_layer(np.full((1, 1, MAX_SUM, 17), 127, np.float32), "integer", kind="int8"), np.int8
    )
    p.arrays["weight_sums"].view(np.int32)[:17] = 127 * MAX_SUM
    p.arrays["weight_scale"][...] = 1
    p.arrays["bias"][...] = 0
    kernels.run(p, table)
    np.testing.assert_array_equal(p.output.inner.ravel(), np.float32(largest * 127 * MAX_SUM))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("zero", [0, 100, 255])
def test_rounding(kernels: Kernels, table: str, zero: int) -> None:
    """Ties to even, clamping, both infinities, NaN: through a layer that multiplies by one."""
    values = np.concatenate([np.arange(-300, 300.5, 0.5), np.arange(-300, 301) + 0.499, [1e30, -1e30, 2**31, -(2**31)]])
    values = np.concatenate([values, [math.inf, -math.inf, math.nan, -0.0, 1e-45]]).astype(np.float32)
    case = case_of(Geometry(1, 1, (1, len(values)), 1), quantisation=Quantisation(0.25, zero))
    p = prepare(case)
    p.picture.inner[...] = (values * np.float32(0.25)).reshape(1, 1, -1, 1)
    p.arrays["weights"].view(np.int8)[...] = np.arange(64) == 0
    p.arrays["weight_sums"].view(np.int32)[...] = np.arange(16) == 0
    p.arrays["weight_scale"][...] = 1
    p.arrays["bias"][...] = 0
    kernels.run(p, table)
    expected = np.clip(np.rint(np.nan_to_num(values, nan=0.0, posinf=1e9, neginf=-1e9)), -zero, 255 - zero) * 0.25
    np.testing.assert_array_equal(p.output.inner.ravel(), expected.astype(np.float32))


SMALL = {
    "3x3": case_of(Geometry(2, 21, (7, 6), 40, (3, 3)), 1, activation="clamp", low=0.0, extremes=True),
    "strided": case_of(Geometry(1, 8, (5, 4), 17, (3, 2), (2, 3), (1, 1)), second=True, residual=True),
    "dilated": case_of(Geometry(1, 6, (9, 1), 16, (1, 1), (1, 2)), activation="swish"),
    "deep": case_of(Geometry(1, 600, (1, 14), 33), extremes=True),
    "dense": case_of(Geometry(1, 130, (1, 1), 50), quantisation=Quantisation(0.05, 255)),
    "dense, three rows": case_of(Geometry(1, 64, (1, 3), 32), quantisation=Quantisation(0.05, 0)),
    "three channels": case_of(Geometry(2, 3, (6, 9), 16, (3, 3)), 1, extremes=True),
    "of bytes": case_of(Geometry(1, 24, (5, 6), 40, (3, 3)), 1, input_rounded=True, in_gap=4),
    "tiles": replace(case_of(Geometry(1, 16, (9, 6), 16, (3, 3)), 1), algorithm="integer_winograd4"),
    "tiles of bytes": replace(
        case_of(Geometry(1, 32, (4, 9), 48, (3, 3)), 1, input_rounded=True), algorithm="integer_winograd4"
    ),
    "sums": case_of(Geometry(1, 24, (5, 6), 40, (3, 3)), 1, input_rounded=True, whole=True, stores_sums=True),
    "depthwise": replace(
        case_of(Geometry(1, 20, (5, 7), 20, (3, 3), groups=20), 1, input_rounded=True, whole=True, stores_sums=True),
        algorithm="integer_depthwise",
    ),
    "tall depthwise": replace(
        case_of(Geometry(1, 8, (2, 3), 8, (9, 1), groups=8), input_rounded=True, whole=True, stores_sums=True),
        algorithm="integer_depthwise",
    ),
    "of bytes, strided": case_of(Geometry(2, 8, (5, 6), 17, (1, 1), (2, 2)), input_rounded=True),
}


@pytest.mark.full
@pytest.mark.parametrize("target", portable.TARGETS)
def test_on_another_processor(target: str, tmp_path: Path) -> None:
    """arm64's dot products in QEMU, WebAssembly's with SIMD and without: in one program of all the cases."""
    less = 128 if target == "arm64" else 0
    prepared = [prepare(case, threads=1, less=less) for case in SMALL.values()]
    for p, output in zip(prepared, portable.run(prepared, target, tmp_path), strict=True):
        p.output.buffer[...] = output
        p.second = None  # of what was stored in the first, by code that is no other than the float kernels'
        if p.case.stores_sums:
            np.testing.assert_array_equal(p.output.inner.view(np.int32), whole_sums(p))
        else:
            check(p, tiles=p.case.algorithm == "integer_winograd4" and target != "arm64")


@pytest.mark.parametrize(("variant", "instruction"), portable.INSTRUCTIONS)
def test_the_instruction_that_each_copy_is_for(variant: str, instruction: str, tmp_path: Path) -> None:
    """VNNI's copy cannot run everywhere the tests do; what it is made of can be seen everywhere."""
    needs.objdump()
    path = portable.compile_variant(variant, tmp_path)
    done = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if f"\t{instruction}" in line]
    if instruction == "tdpbusd":
        assert {line.split()[-1] for line in lines} == {f"%tmm{w},%tmm{x},%tmm{s}" for s, x, w in PRODUCTS}
        return
    assert len(lines) > 24
    register = "%ymm" if variant == "cf_integer_v3" else "%zmm"
    assert all(register in line for line in lines)
    if instruction == "vpdpbusd":
        assert "vpmaddwd" not in done.stdout


def test_packing_by_hand() -> None:
    weights = np.arange(1, 1 + 2 * 5 * 17).reshape(2, 1, 5, 17).astype(np.float32) % 120
    packed = np.frombuffer(pack_layer(weights, "integer", kind="int8"), np.int8).reshape(2, 2, 2, 16, 4)
    for panel, tap, quad, channel, i in np.ndindex(packed.shape):
        c, o = quad * 4 + i, panel * 16 + channel
        expected = weights[tap, 0, c, o] if c < 5 and o < 17 else 0
        assert packed[panel, tap, quad, channel, i] == expected
    sums = np.frombuffer(pack_sums(weights), np.int32)
    np.testing.assert_array_equal(sums, np.pad(weights.sum(axis=(0, 1, 2)).astype(np.int32), (0, 15)))


@pytest.mark.parametrize(
    ("kind", "groups", "depth", "message"),
    [
        ("float32", 1, 4, "int8 weights and one group"),
        ("int8", 2, 4, "int8 weights and one group"),
        ("int8", 1, MAX_SUM + 1, "int32 does not hold"),
    ],
)
def test_weights_that_cannot_be_packed(kind: Any, groups: int, depth: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pack_layer(np.ones((1, 1, depth, 4), np.float32), "integer", groups=groups, kind=kind)


def test_how_deep_a_sum_may_be() -> None:
    assert MAX_SUM * 255 * 127 < 2**31 <= (MAX_SUM + 1) * 255 * 127
    assert Geometry(1, MAX_SUM, (1, 1), 8).summable
    assert not Geometry(1, MAX_SUM + 1, (1, 1), 8).summable
    assert not Geometry(1, MAX_SUM // 9 + 1, (1, 1), 8, (3, 3)).summable
    assert not Geometry(1, 8, (1, 1), 8, groups=2).summable


def test_what_is_rounded_has_room() -> None:
    geometry = Geometry(2, 5, (4, 6), 3, (3, 2), (2, 1), (1, 3))
    assert get_quantised_shape(geometry) == (2, 9, 9, 8)
    assert compute_scratch_size(geometry, "integer") >= 2 * 2 * 9 * 9 * 8
