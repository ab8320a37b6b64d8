"""The fused kernels as functions of NumPy arrays, with guard values around everything they may write."""

from __future__ import annotations

import ctypes
import math
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from builder.base.project import RUNTIME, cache_folder
from builder.base.targets import X86_64
from builder.compiler.link.shared_library import (
    BASELINE_SOURCES,
    TABLE_SOURCES,
)
from builder.compiler.link.toolchain import Toolchain
from builder.compiler.lower.compress import StoredWeights, quantise_weights
from builder.compiler.lower.geometry import Algorithm, Geometry
from builder.compiler.lower.packing import (
    TILED,
    choose_thin_block,
    choose_winograd_band,
    compute_scratch_size,
    pack_bias,
    pack_layer,
    pack_scale,
    pack_sums,
    pad_channels,
)
from builder.compiler.lower.pixel_packing import join_pixels, join_weights
from builder.compiler.lower.steps.image_step import SumRounding
from builder.compiler.lower.steps.layer_step import ActivationName
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.config.schema import WeightType
from tests.support.quantise import to_bytes

ALGORITHMS: tuple[str, ...] = get_args(Algorithm)
WEIGHT_TYPES: tuple[str, ...] = get_args(WeightType)
"""In the order of cf_algorithm and cf_weight_type."""

ACTIVATIONS: dict[str, int] = {"identity": 0, **{n: i for i, n in enumerate(get_args(ActivationName)[1:])}}
"""ActivationName to cf_activation, whose CF_CLAMP has bounds that make it the identity."""

HARNESS = Path(__file__).with_name("fused.c")
PLATFORM = tuple(RUNTIME / name for name in (*BASELINE_SOURCES, f"platform/cpu_{X86_64.name}.c"))
CACHE = cache_folder() / "zig"

_NAMES = ("v3", "wide", "narrow", "v4", "pairs", "vnni", "wide_pairs", "matrix", "tiles", "amx")
TABLES = {name: number for number, name in enumerate(_NAMES)}
"""Of kernels: AVX2's; the same compiled for AVX2 with 16 and with 4 lanes; AVX-512's. Others: integer GEMM alone."""

VARIANTS = (
    ("cf_fused_v3", "x86_64_v3", ()),
    ("cf_fused_wide", "x86_64_v3", ("-DCF_LANES=16",)),
    ("cf_fused_narrow", "x86_64_v3", ("-DCF_LANES=4", "-DCF_BYTES_LESS=128")),
    ("cf_fused_v4", "x86_64_v4", ("-mprefer-vector-width=512",)),
)

ATTENTIONS = tuple((name.replace("fused", "attention"), cpu, flags) for name, cpu, flags in VARIANTS)
"""The copies of attention, as TABLES are numbered."""

INTEGERS = (
    ("cf_integer_v3", "x86_64_v3", ()),
    # VNNI's logic, and arm64's: what four bytes give is computed as those instructions do.
    ("cf_integer_wide", "x86_64_v3", ("-DCF_LANES=16", "-DCF_FORM=1")),
    ("cf_integer_narrow", "x86_64_v3", ("-DCF_LANES=4", "-DCF_FORM=2", "-DCF_BYTES_LESS=128")),
    ("cf_integer_v4", "x86_64_v4", ("-mprefer-vector-width=512",)),
    # What WebAssembly has without SIMD.
    ("cf_integer_pairs", "x86_64_v3", ("-DCF_LANES=4",)),
    ("cf_integer_vnni", "x86_64_v4+avx512vnni", ("-mprefer-vector-width=512",)),
    # AVX-512's logic without VNNI.
    ("cf_integer_wide_pairs", "x86_64_v3", ("-DCF_LANES=16", "-DCF_FORM=0")),
    # arm64's with i8mm.
    ("cf_integer_matrix", "x86_64_v3", ("-DCF_LANES=4", "-DCF_FORM=2", "-DCF_BYTES_LESS=128", "-DCF_MATRIX=1")),
    # AMX's logic, and AMX.
    (
        "cf_integer_tiles",
        "x86_64_v3",
        ("-DCF_LANES=16", "-DCF_FORM=1", "-DCF_TILES=1", "-DCF_WITHOUT_TILES=cf_integer_wide"),
    ),
    (
        "cf_integer_amx",
        "x86_64_v4+avx512vnni+amx_tile+amx_int8",
        ("-mprefer-vector-width=512", "-DCF_WITHOUT_TILES=cf_integer_vnni"),
    ),
)
"""The copies of integer GEMM, as TABLES are numbered and six more."""

SOURCES = (
    (TABLE_SOURCES["fused"], VARIANTS),
    (TABLE_SOURCES["attention"], ATTENTIONS),
    (TABLE_SOURCES["integer"], INTEGERS),
)

KINDS = ("INTEGER", "SMALL_WEIGHTS", "CONVOLUTIONS", "HARD_SWISH", "NORM", "RECURRENT", "ONE_BY_ONE")
HAS = tuple(f"-DCF_HAS_{kind}=1" for kind in KINDS)
"""The kernels of programs with steps of every kind, which do all that those of others do."""

SANITIZERS = (
    "-std=c11", "-O0", "-g", "-march=x86-64-v3", "-fPIC", "-shared", "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror", "-DCF_STACK=(8 << 20)",
)  # fmt: skip
"""Unoptimised: gcc takes twice as long to compile the kernels at -O1, and the tests no less to run."""

GUARD = np.float32(1234.5)

EXTREMES = (
    math.inf, -math.inf, math.nan, 0.0, -0.0, 1e-42, 3e38, -3e38, 2.0**31, -(2.0**31), 2.0**22, 254.5, 255.5, -254.5,
    0.5, -0.5, 1.5, -1.5, 2.5, 127.5, -128.5,
)  # fmt: skip
"""Times an input's scale: what rounding has to get right, ties among them."""


def _tables(folder: Path, sanitized: bool = False) -> Path:
    """The tables as TABLES numbers them; without AVX-512's if ``sanitized``."""
    path = folder / "tables.c"
    names = [v[0] for v in VARIANTS[: 3 if sanitized else 4]]
    integers = [v[0] for v in INTEGERS if not sanitized or v[1] == "x86_64_v3"]
    arguments = "cf_context *, const cf_layer *, const cf_layer_data *"
    attentions = [v[0] for v in ATTENTIONS[: 3 if sanitized else 4]]
    declared = "".join(f"extern const cf_fused {name};\n" for name in names)
    declared += "".join(f"void {name}({arguments});\n" for name in integers)
    of_attention = "cf_context *, const cf_attention *, const cf_attention_data *"
    declared += "".join(f"void {name}({of_attention});\n" for name in attentions)
    fused = dict.fromkeys(TABLES, "cf_fused_v3") | dict(zip(TABLES, names, strict=False))
    fused["vnni"] = fused["amx"] = fused["v4"]  # as targets.py has it
    listed = ", ".join(f"&{name}" for name in fused.values())
    functions = ", ".join(f"[{number}] = {v[0]}" for number, v in enumerate(INTEGERS) if v[0] in integers)
    path.write_text(
        f'#include "abi/program.h"\n{declared}const cf_fused *const cf_test_tables[] = {{{listed}}};\n'
        f"const cf_integer_layer cf_test_integers[{len(TABLES)}] = {{{functions}}};\n"
        f"const cf_attention_layer cf_test_attentions[{len(TABLES)}] = {{{', '.join(attentions)}}};\n"
    )
    return path


def build(folder: Path, extra: tuple[str, ...] = ()) -> Path:
    """Compile the kernels, the pool and the harness as the builder does."""
    toolchain = Toolchain(X86_64, CACHE)
    objects = []
    for source, variants in SOURCES:
        for name, cpu, flags in variants:
            objects.append(folder / f"{name}.o")
            toolchain.compile_source(
                RUNTIME / source,
                objects[-1],
                include=(RUNTIME,),
                cpu=cpu,
                flags=(*flags, f"-DCF_TABLE={name}", *HAS, *extra),
            )
    for source in (*PLATFORM, HARNESS, _tables(folder)):
        objects.append(folder / f"{source.stem}.o")
        toolchain.compile_source(source, objects[-1], include=(RUNTIME,))
    exports = folder / "exports.map"
    exports.write_text("{ global: cf_test_*; local: *; };\n")
    toolchain.link_shared_library(objects, exports, folder / "libfused.so")
    return folder / "libfused.so"


def build_with_gcc(folder: Path, flags: Sequence[str] = SANITIZERS) -> Path:
    """The same with gcc, without the AVX-512 copy. ``flags``: its sanitizers, if nothing else is said."""
    objects = []
    common = [f for f in flags if f != "-shared"]
    for source, variants in SOURCES:
        for name, cpu, own in variants:
            if cpu != "x86_64_v3":
                continue
            objects.append(str(folder / f"{name}.o"))
            command = [
                "gcc",
                *common,
                *own,
                f"-I{RUNTIME}",
                f"-DCF_TABLE={name}",
                *HAS,
                "-c",
                str(RUNTIME / source),
                "-o",
                objects[-1],
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    sources = [*PLATFORM, HARNESS, _tables(folder, sanitized=True)]
    output = folder / "libfused-gcc.so"
    command = ["gcc", *flags, f"-I{RUNTIME}", *map(str, sources), *objects, "-lpthread", "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output


class View(ctypes.Structure):
    _fields_ = tuple((n, ctypes.c_int64) for n in ("first", "image", "row", "pixel"))


class Halo(ctypes.Structure):
    _fields_ = tuple((n, ctypes.c_int64) for n in ("top", "left", "bottom", "right"))


Pair = ctypes.c_int64 * 2


class Layer(ctypes.Structure):
    _fields_ = (
        ("algorithm", ctypes.c_int),
        ("activation", ctypes.c_int),
        *((n, ctypes.c_int64) for n in ("batch", "groups", "in_channels", "out_channels")),
        *((n, Pair) for n in ("out", "kernel", "stride", "dilation", "padding")),
        *((n, View) for n in ("input", "output", "residual", "second")),
        *((n, Halo) for n in ("halo", "second_halo")),
        ("residual_channels", ctypes.c_int64),
        *((n, ctypes.c_float) for n in ("low", "high", "second_low", "second_high")),
        ("finishes", ctypes.c_int32),
        ("band", ctypes.c_int64),
        ("block", Pair),
        ("weight_type", ctypes.c_int),
        ("input_scale", ctypes.c_float),
        ("input_zero", ctypes.c_int32),
        ("input_rounded", ctypes.c_int32),
        ("stores_sums", ctypes.c_int32),
        ("joined", ctypes.c_int64),
        ("one_by_one", ctypes.c_int32),
        ("rounded", View),
        ("rounded_halo", Halo),
        ("rounded_scale", ctypes.c_float),
        ("rounded_zero", ctypes.c_int32),
    )


class _Data(ctypes.Structure):
    _fields_ = tuple(
        (n, ctypes.c_void_p)
        for n in (
            "input", "weights", "factor", "bias", "output", "rounded", "residual", "residual_scale", "slopes",
            "second", "second_scale", "second_shift", "scratch", "weight_sums", "sum_bias", "weight_scale",
        )
    )  # fmt: skip


class _Pooling(ctypes.Structure):
    _fields_ = (
        ("maximum", ctypes.c_int32),
        ("scale", ctypes.c_float),
        ("batch", ctypes.c_int64),
        ("channels", ctypes.c_int64),
        *((n, Pair) for n in ("in_", "out", "window", "stride", "padding")),
        ("input", View),
        ("output", View),
        ("halo", Halo),
        *((n, ctypes.c_int32) for n in ("rounded", "zero", "least", "low", "high", "divided")),
        ("offset", ctypes.c_float),
    )


class _Repack(ctypes.Structure):
    _fields_ = (
        ("form", ctypes.c_int),
        ("zero", ctypes.c_int32),
        ("batch", ctypes.c_int64),
        ("size", Pair),
        ("channels", ctypes.c_int64),
        ("input", View),
        ("output", View),
        ("halo", Halo),
    )


class _Addition(ctypes.Structure):
    _fields_ = (
        ("batch", ctypes.c_int64),
        ("size", Pair),
        ("channels", ctypes.c_int64),
        *((n, View) for n in ("first", "second", "output")),
        ("halo", Halo),
        ("factors", ctypes.c_int32 * 2),
        *((n, ctypes.c_int32) for n in ("start", "shift", "zero", "low", "high")),
    )


@dataclass(frozen=True)
class Picture:
    """An NHWC tensor inside a buffer of guard values: ``halo`` pixels around it, ``gap`` floats after each pixel."""

    shape: tuple[int, int, int, int]
    halo: tuple[int, int, int, int] = (0, 0, 0, 0)
    gap: int = 0
    buffer: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        n, h, w, c = self.shape
        top, left, bottom, right = self.halo
        # 64 floats of guard before and after, and 64-byte alignment of the start.
        size = n * (h + top + bottom) * (w + left + right) * (c + self.gap) + 128
        raw = np.full(size + 16, GUARD, np.float32)
        shift = (-raw.ctypes.data // 4) % 16
        object.__setattr__(self, "buffer", raw[shift : shift + size])

    @property
    def whole(self) -> Any:
        """With its halo and gaps: [n, h + top + bottom, w + left + right, c + gap]."""
        n, h, w, c = self.shape
        top, left, bottom, right = self.halo
        return self.buffer[64:-64].reshape(n, h + top + bottom, w + left + right, c + self.gap)

    @property
    def inner(self) -> Any:
        _, h, w, c = self.shape
        top, left, _, _ = self.halo
        return self.whole[:, top : top + h, left : left + w, :c]

    @property
    def view(self) -> View:
        _, h, w, c = self.shape
        top, left, bottom, right = self.halo
        pixel = c + self.gap
        row = pixel * (w + left + right)
        return View(64 + top * row + left * pixel, row * (h + top + bottom), row, pixel)

    def with_values(self, values: Any, halo_value: float = 0.0) -> Picture:
        """Fill it: the values, zeros in the halo, guards in the gaps."""
        self.whole[..., : self.shape[3]] = halo_value
        self.inner[...] = values
        return self

    def check_guards(self, halo_written: tuple[int, int, int, int]) -> None:
        """``halo_written`` of the halo holds zeros; the rest of the buffer is as it was."""
        _, h, w, c = self.shape
        top, left, _, _ = self.halo
        expected = np.full_like(self.buffer, GUARD)
        copy = replace(self)
        a, b, d, e = halo_written
        copy.whole[:, top - a : top + h + d, left - b : left + w + e, :c] = 0
        copy.inner[...] = self.inner
        expected[...] = copy.buffer
        np.testing.assert_array_equal(self.buffer, expected)


BYTES_LESS = {"narrow": 128, "matrix": 128}
"""How much less than the byte is stored, as CF_BYTES_LESS says, by table."""


@dataclass(frozen=True)
class Bytes:
    """A picture of bytes inside a buffer of guard values, with ``halo`` pixels around it and ``gap`` after each."""

    shape: tuple[int, int, int, int]
    halo: tuple[int, int, int, int] = (0, 0, 0, 0)
    gap: int = 0
    buffer: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        floats = Picture(self.shape, self.halo, self.gap)
        size = floats.buffer.size
        object.__setattr__(self, "buffer", _aligned(b"\x5a" * (size + -size % 4)).view(np.uint8)[:size])

    @property
    def view(self) -> View:
        return Picture(self.shape, self.halo, self.gap).view

    @property
    def whole(self) -> Any:
        n, h, w, c = self.shape
        top, left, bottom, right = self.halo
        return self.buffer[64:-64].reshape(n, h + top + bottom, w + left + right, c + self.gap)[..., :c]

    def filled(self, values: Any, by: Quantisation, less: int, halo: tuple[int, int, int, int]) -> Bytes:
        """The same with what ``values`` are rounded to, zeros in ``halo`` of its own, and guards elsewhere."""
        made = Bytes(self.shape, self.halo, self.gap)
        (_, h, w, _), (top, left, _, _), (a, b, d, e) = self.shape, self.halo, halo
        made.whole[:, top - a : top + h + d, left - b : left + w + e] = (by.zero - less) % 256
        made.whole[:, top : top + h, left : left + w] = to_bytes(values, by) - np.uint8(less)
        return made


@dataclass
class Case:
    """One layer to run: geometry, layout and epilogue."""

    geometry: Geometry
    algorithm: str
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)  # top, left, bottom, right
    in_size: tuple[int, int] = (1, 1)
    in_gap: int = 0
    out_gap: int = 0
    halo: tuple[int, int, int, int] = (0, 0, 0, 0)
    activation: str = "identity"
    low: float = -math.inf
    high: float = math.inf
    residual: bool = False
    residual_share: float = 1.0  # of the channels, that it has: the first ones
    residual_in_place: bool = False
    residual_scale: bool = False
    second: bool = False
    finishes: bool = False  # the same in the place of the output
    weights: str = "float32"
    quantisation: Quantisation | None = None
    input_rounded: bool = False
    rounded: Quantisation | None = None
    alone: bool = False  # the last output: as bytes only
    extremes: bool = False  # among the inputs
    factor: bool = False  # of each channel of the input
    joined: int = 1
    whole: bool = False  # the bias is added to the sums, in int32
    stores_sums: bool = False
    seed: int = 0


@dataclass
class Prepared:
    """Arrays of a Case and the structures that point at them; ``weights`` as they were rounded."""

    case: Case
    x: Any
    weights: Any
    bias: Any
    residual: Any
    scales: tuple[Any, Any, Any]  # of the residual, and scale and shift of the second output
    slopes: Any
    picture: Picture
    output: Picture
    second: Picture | None
    rounded: Bytes | None
    layer: Layer
    data: _Data
    arrays: dict[str, Any]
    """What the structures point at, by the field's name."""
    scratch: Any
    stored: StoredWeights


def _aligned(data: bytes) -> Any:
    raw = np.empty(len(data) // 4 + 16, np.float32)
    shift = (-raw.ctypes.data // 4) % 16
    view = raw[shift : shift + len(data) // 4]
    view.view(np.uint8)[...] = np.frombuffer(data, np.uint8)
    return view


def prepare(case: Case, threads: int = 8, less: int = 0) -> Prepared:
    """``less``: than each byte of a picture of bytes."""
    g, random = case.geometry, np.random.default_rng(case.seed)
    (h, w), (oh, ow) = case.in_size, g.out_size
    normal = lambda *shape: random.standard_normal(shape, dtype=np.float32)  # noqa: E731
    x = normal(g.batch, h, w, g.in_channels)
    weights = normal(*g.kernel_size, g.in_channels // g.groups, g.out_channels)
    bias = np.zeros(g.out_channels, np.float32) if case.whole else normal(g.out_channels)
    if case.extremes:
        scale = case.quantisation.scale if case.quantisation else 1.0
        odd = np.array(EXTREMES, np.float32) * np.float32(scale)
        places = random.integers(0, x.size, max(1, x.size // 8))
        x.reshape(-1)[places] = random.choice(odd, len(places))
    picture = Picture((g.batch, h, w, g.in_channels), case.padding, case.in_gap).with_values(x)
    shape = (g.batch, oh, ow, g.out_channels)
    roomy = tuple(v + 1 for v in case.halo)
    output = Picture(shape, roomy, case.out_gap)  # type: ignore[arg-type]
    rounded = Bytes(shape, roomy, case.out_gap) if case.rounded else None  # type: ignore[arg-type]
    arrays: dict[str, Any] = {}
    data, layer = _Data(), Layer()

    def point(name: str, array: Any) -> None:
        arrays[name] = array
        setattr(data, name, array.ctypes.data)

    if case.factor:
        factor = normal(g.in_channels)
        point("factor", _aligned(factor.tobytes()))
        x = x.astype(np.float64) * factor
    if case.input_rounded:
        assert case.quantisation is not None
        read = Bytes(picture.shape, case.padding, case.in_gap).filled(x, case.quantisation, less, case.padding)
        point("input", read.buffer)
        layer.input_rounded = 1
    else:
        point("input", picture.buffer)
    if not case.alone or case.second:
        point("output", output.buffer)
    if rounded is not None and case.rounded is not None:
        point("rounded", rounded.buffer)
        layer.rounded, layer.rounded_halo = rounded.view, Halo(*case.halo)
        layer.rounded_scale, layer.rounded_zero = case.rounded.scale, case.rounded.zero
    stored = quantise_weights(weights, case.weights)  # type: ignore[arg-type]
    numbers = join_weights(stored.numbers, case.joined, g.stride[1])
    packed = pack_layer(numbers, case.algorithm, groups=g.groups, kind=stored.type)  # type: ignore[arg-type]
    point("weights", _aligned(packed))
    if stored.scale is not None:
        groups = 1 if g.depthwise else g.groups
        point("weight_scale", _aligned(pack_scale(np.tile(stored.scale, case.joined), groups=groups)))
    if case.quantisation is not None:
        point("weight_sums", _aligned(pack_sums(numbers)))
        layer.input_scale, layer.input_zero = case.quantisation.scale, case.quantisation.zero
    if case.whole:
        added = random.integers(-20000, 20000, g.out_channels, np.int32)
        point("sum_bias", _aligned(pack_bias(np.tile(added, case.joined))))
    layer.stores_sums = case.stores_sums
    channels = lambda vector: _aligned(pad_channels(np.tile(vector, case.joined)))  # noqa: E731
    point("bias", channels(bias))
    residual = normal(*shape) if case.residual or case.residual_in_place else None
    if case.residual_in_place:
        output.inner[...] = residual
        data.residual, layer.residual = data.output, output.view
    elif case.residual:
        has = math.ceil(case.residual_share * g.out_channels)
        residual[..., has:] = 0
        layer.residual_channels = has if has < g.out_channels else 0
        other = Picture((*shape[:3], has), (1, 0, 0, 2)).with_values(residual[..., :has])
        point("residual", other.buffer)
        layer.residual = other.view
    scales = tuple(normal(g.out_channels) for _ in range(3))
    if case.residual_scale:
        point("residual_scale", channels(scales[0]))
    second = None
    if case.second:
        second = Picture(shape, (2, 1, 1, 1))
        if not case.alone:
            point("second", second.buffer)
        layer.second, layer.second_halo = second.view, Halo(1, 0, 1, 1)
    if case.second or case.finishes:
        point("second_scale", channels(scales[1]))
        point("second_shift", channels(scales[2]))
        layer.second_low, layer.second_high = 0.0, 2.5
    layer.finishes = case.finishes
    slopes = np.clip(normal(g.out_channels), -1, 1)
    if case.activation == "prelu":
        point("slopes", channels(slopes))
    size = compute_scratch_size(join_pixels(g, case.joined), case.algorithm, threads)  # type: ignore[arg-type]
    scratch = _aligned(b"\x01" * (size + 4096))
    scratch[size // 4 :] = GUARD
    point("scratch", scratch)
    layer.algorithm = ALGORITHMS.index(case.algorithm)
    layer.weight_type = WEIGHT_TYPES.index(case.weights)
    layer.activation = ACTIVATIONS[case.activation]
    layer.low, layer.high = case.low, case.high
    layer.batch, layer.groups = g.batch, g.groups
    layer.in_channels, layer.out_channels = g.in_channels, g.out_channels
    layer.out, layer.kernel = Pair(*g.out_size), Pair(*g.kernel_size)
    layer.stride, layer.dilation = Pair(*g.stride), Pair(*g.dilation)
    layer.padding = Pair(*case.padding[:2])
    layer.joined = case.joined
    layer.input, layer.output, layer.halo = picture.view, output.view, Halo(*case.halo)
    layer.band = choose_winograd_band(g, case.algorithm) if case.algorithm in TILED else 0  # type: ignore[arg-type]
    layer.block = Pair(*(choose_thin_block(g) if case.algorithm == "thin" else (0, 0)))
    rest = scratch[size // 4 :]
    multiplied = stored.restored
    return Prepared(
        case,
        x,
        multiplied,
        bias,
        residual,
        scales,
        slopes,
        picture,
        output,
        second,
        rounded,
        layer,
        data,
        arrays,
        rest,
        stored,
    )


class Kernels:
    """The harness library, loaded."""

    def __init__(self, library: Path) -> None:
        self.library = ctypes.CDLL(str(library))
        self.library.cf_test_open.restype = ctypes.c_void_p
        self.library.cf_test_open.argtypes = [ctypes.c_int, ctypes.c_uint32]
        self.library.cf_test_close.argtypes = [ctypes.c_void_p]
        self.library.cf_test_layer.argtypes = [ctypes.c_void_p] * 3
        self.library.cf_test_pool.argtypes = [ctypes.c_void_p] * 4
        self.library.cf_test_repack.argtypes = [ctypes.c_void_p] * 4
        self.library.cf_test_add.argtypes = [ctypes.c_void_p] * 3
        self.library.cf_test_norm.argtypes = [ctypes.c_void_p] * 3
        self.library.cf_test_recurrent.argtypes = [ctypes.c_void_p] * 3
        self.library.cf_test_time.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int]
        self.library.cf_test_time.restype = ctypes.c_double
        self.library.cf_test_peak.restype = ctypes.c_double
        self.library.cf_test_count.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int64]
        self.contexts: dict[tuple[str, int], Any] = {}

    def context(self, table: str, threads: int) -> Any:
        key = (table, threads)
        if key not in self.contexts:
            self.contexts[key] = self.library.cf_test_open(TABLES[table], threads)
        return self.contexts[key]

    def close(self) -> None:
        for context in self.contexts.values():
            self.library.cf_test_close(context)
        self.contexts.clear()

    def layer(self, case: Case, table: str = "v3", threads: int = 1) -> Prepared:
        """Run the layer on fresh buffers and check that nothing else was written."""
        p = prepare(case, threads, BYTES_LESS.get(table, 0))
        self.run(p, table, threads)
        nothing = (0, 0, 0, 0)
        p.output.check_guards(nothing if case.alone and not case.second else case.halo)
        if p.rounded is not None and case.rounded is not None and not case.alone:
            expected = p.rounded.filled((p.second or p.output).inner, case.rounded, BYTES_LESS.get(table, 0), case.halo)
            np.testing.assert_array_equal(p.rounded.buffer, expected.buffer)
        if p.second is not None:
            p.second.check_guards(nothing if case.alone else (1, 0, 1, 1))
        assert (p.scratch == GUARD).all()
        return p

    def run(self, p: Prepared, table: str = "v3", threads: int = 1) -> None:
        """Once more on buffers that are there."""
        self.library.cf_test_layer(self.context(table, threads), ctypes.byref(p.layer), ctypes.byref(p.data))

    def time(self, case: Case, table: str = "v3", threads: int = 1, seconds: float = 0.1) -> float:
        """Seconds of the fastest run."""
        p = prepare(case)
        arguments = (self.context(table, threads), ctypes.byref(p.layer), ctypes.byref(p.data))
        once = self.library.cf_test_time(*arguments, 2)
        return float(min(once, self.library.cf_test_time(*arguments, max(3, min(2000, int(seconds / once))))))

    def pool(self, kind: str, x: Any, out: tuple[int, int], window: Any, stride: Any, padding: Any, scale: float,
             halo: Any, gap: int, table: str, threads: int) -> Any:  # fmt: skip
        n, h, w, c = x.shape
        roomy: Any = tuple(v + 1 for v in halo)
        source, target = Picture(x.shape, (1, 0, 0, 1), gap), Picture((n, *out, c), roomy, gap)
        source.inner[...] = x
        pooling = _Pooling(int(kind == "max"), scale, n, c, Pair(h, w), Pair(*out), Pair(*window), Pair(*stride),
                           Pair(*padding), source.view, target.view, Halo(*halo))  # fmt: skip
        self.library.cf_test_pool(
            self.context(table, threads), ctypes.byref(pooling), source.buffer.ctypes.data, target.buffer.ctypes.data
        )
        target.check_guards(halo)
        return target.inner

    def pool_bytes(self, x: Any, by: Quantisation, out: tuple[int, int], window: Any, stride: Any, padding: Any,
                   halo: Any, gap: int, table: str, threads: int) -> Any:  # fmt: skip
        """The buffer of the largest of what ``x`` is rounded to, and what it should be of floats."""
        n, h, w, c = x.shape
        roomy: Any = tuple(v + 1 for v in halo)
        less = BYTES_LESS.get(table, 0)
        source = Bytes(x.shape, (1, 0, 0, 1), gap).filled(x, by, less, (0, 0, 0, 0))
        target = Bytes((n, *out, c), roomy, gap)
        pooling = _Pooling(1, 1.0, n, c, Pair(h, w), Pair(*out), Pair(*window), Pair(*stride), Pair(*padding),
                           source.view, target.view, Halo(*halo), 1, by.zero)  # fmt: skip
        self.library.cf_test_pool(
            self.context(table, threads), ctypes.byref(pooling), source.buffer.ctypes.data, target.buffer.ctypes.data
        )
        floats = self.pool("max", x, out, window, stride, padding, 1.0, halo, gap, table, threads)
        return target.buffer, target.filled(floats, by, less, halo).buffer

    def pool_byte_sums(self, x: Any, sums: SumRounding, out: tuple[int, int], window: Any, stride: Any, padding: Any,
                       halo: Any, gap: int, table: str, threads: int) -> Any:  # fmt: skip
        """What sums of the numbers ``x`` that bytes stand for become; the byte 7 must be in the halo."""
        n, h, w, c = x.shape
        roomy: Any = tuple(v + 1 for v in halo)
        less = BYTES_LESS.get(table, 0)
        source, target = Bytes(x.shape, (1, 0, 0, 1), gap), Bytes((n, *out, c), roomy, gap)
        source.whole[:, 1:, :-1] = (x - sums.least - less).astype(np.uint8)
        scale, divided = (1.0, 1) if sums.factor is None else (sums.factor, 0)
        pooling = _Pooling(0, scale, n, c, Pair(h, w), Pair(*out), Pair(*window), Pair(*stride), Pair(*padding),
                           source.view, target.view, Halo(*halo), 1, 7, sums.least, sums.low, sums.high, divided,
                           sums.offset)  # fmt: skip
        # As the library's own buffers, the source has room behind it for a vector that begins in it.
        self.library.cf_test_pool(
            self.context(table, threads), ctypes.byref(pooling), source.buffer.ctypes.data, target.buffer.ctypes.data
        )
        inner = target.whole[:, roomy[0] : roomy[0] + out[0], roomy[1] : roomy[1] + out[1]]
        numbers = (inner + np.uint8(less)).astype(np.int64) + sums.least
        expected = target.filled(np.zeros(numbers.shape), Quantisation(1.0, 7), less, halo)
        expected.whole[:, roomy[0] : roomy[0] + out[0], roomy[1] : roomy[1] + out[1]] = inner
        np.testing.assert_array_equal(target.buffer, expected.buffer)
        return numbers

    def add(self, images: Sequence[Bytes], numbers: Sequence[Any], halo: Any, table: str, threads: int) -> None:
        """Add the first two of ``images`` into the third; ``numbers``: the last fields of a cf_addition."""
        n, h, w, c = images[0].shape
        factors, *rest = numbers
        fields = (n, Pair(h, w), c, *(i.view for i in images), Halo(*halo), (ctypes.c_int32 * 2)(*factors), *rest)
        starts = (ctypes.c_void_p * 3)(*(i.buffer.ctypes.data for i in images))
        addition = _Addition(*fields)
        self.library.cf_test_add(self.context(table, threads), ctypes.byref(addition), ctypes.byref(starts))

    def repack_bytes(self, x: Any, to: Bytes, form: int, zero: int, halo: Any, table: str) -> None:
        """Copy a dense tensor to bytes as integer layers have them; ``form``: of a cf_repack."""
        n, h, w, c = x.shape
        dense = View(0, h * w * c, w * c, c)
        repack = _Repack(form, zero, n, Pair(h, w), c, dense, to.view, Halo(*halo))
        self.library.cf_test_repack(self.context(table, 1), ctypes.byref(repack), x.ctypes.data, to.buffer.ctypes.data)

    def unpack_bytes(self, source: Bytes, x: Any, form: int, table: str) -> None:
        """Copy bytes to a dense tensor."""
        n, h, w, c = x.shape
        dense = View(0, h * w * c, w * c, c)
        repack = _Repack(form, 0, n, Pair(h, w), c, source.view, dense, Halo(0, 0, 0, 0))
        self.library.cf_test_repack(
            self.context(table, 1), ctypes.byref(repack), source.buffer.ctypes.data, x.ctypes.data
        )

    def repack(self, x: Any, in_gap: int, out_gap: int, halo: Any, table: str, threads: int) -> Any:
        n, h, w, c = x.shape
        roomy: Any = tuple(v + 1 for v in halo)
        source, target = Picture(x.shape, (0, 1, 0, 0), in_gap), Picture(x.shape, roomy, out_gap)
        source.inner[...] = x
        repack = _Repack(0, 0, n, Pair(h, w), c, source.view, target.view, Halo(*halo))
        self.library.cf_test_repack(
            self.context(table, threads), ctypes.byref(repack), source.buffer.ctypes.data, target.buffer.ctypes.data
        )
        target.check_guards(halo)
        return target.inner
