"""The packing of a layer's weights into panels, the scratch that its kernel needs, and the choice of its algorithm.

The layouts are those that builder/runtime/fused/ reads; one layout serves every instruction set.

- direct (GEMM): per group, panels of 16 output channels ``[ceil(OC / 16)][KH * KW * C][16]``, zero-padded;
- depthwise: ``[ceil(C / 16)][KH * KW][16]``, zero-padded;
- integer and integer_winograd4: int8, panels of 16 output channels ``[ceil(OC / 16)][KH * KW][ceil(C / 4)][16][4]``,
  zero-padded in both kinds of channels;
- thin: float32, tiles of at most 8 output channels of a group, all about equally wide: ``[KH * KW][C / groups][width]``
  for each, nothing padded;
- winograd2 and winograd4: not transformed, ``[ceil(OC / 16)][C][9][16]``, zero-padded; the kernel transforms a
  block when it needs it.

Weights of the other algorithms than depthwise, thin and integer may be of any type; see compress.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.compress import encode_numbers
from builder.compiler.lower.costs import estimate_cost
from builder.compiler.lower.geometry import MAX_SUM, PANEL, THIN_CHANNELS, Algorithm, Geometry, are_winograd_channels
from builder.config.schema import WeightType

WINOGRAD: tuple[Algorithm, ...] = ("winograd2", "winograd4")
INTEGER: tuple[Algorithm, ...] = ("integer", "integer_winograd4", "integer_depthwise")
"""The algorithms of layers that sum products of bytes."""
TILED: tuple[Algorithm, ...] = (*WINOGRAD, "integer_winograd4")
"""The algorithms whose kernels transform tiles, a band of them at a time."""

QUAD = 4
"""Adjacent input channels that one instruction multiplies and adds up. CF_QUAD in runtime/fused/integer_dot.h."""

MAX_THREADS = 8
"""The number of threads that scratch is for; Lambda has six. CF_MAX_THREADS in runtime/platform/threads.h."""

MAX_TAPS = 1024
"""The largest KH * KW. CF_MAX_TAPS in runtime/fused/fused.h."""

MAX_NR = 32
"""The largest CF_NR of any instruction set, as in runtime/fused/vector.h: channel vectors are padded for it."""

GEMV_PIXELS = 3
"""The most pixels that are computed without tiles. CF_GEMV_PIXELS in runtime/fused/blocking.h."""

FEW_TILES = 4
"""The most tiles for which Winograd's kernel needs no scratch per thread. CF_FEW_TILES in runtime/fused/winograd.h."""

TILED_QUADS = 12
"""The fewest quads of K that are computed with tiles. CF_TILED_QUADS in runtime/fused/integer_tiles.h."""

TILE = 16
"""The quads of a tile's row. CF_TILE in runtime/fused/integer_tiles.h."""

TILED_PIXELS = (32, 192)
"""The fewest and the most pixels of a task with tiles. CF_TASK_MR in runtime/fused/integer_tiles.h, CF_MC in
runtime/fused/blocking.h."""

TILE_ROW_BYTES = 640 << 10
"""The most bytes of more than the fewest rows of a task. CF_TILE_ROW_BYTES in runtime/fused/integer_tiles.h."""

WINOGRAD_KC = 128
"""Input channels whose transformed weights are in a thread's scratch. CF_WINOGRAD_KC in runtime/fused/winograd.h."""

WINOGRAD_MC = 24
"""Tiles whose products are in a thread's scratch. CF_WINOGRAD_MC in runtime/fused/winograd.h."""

THIN_REACH = 128
"""The floats that a tile may read past the last position. CF_THIN_REACH in runtime/fused/thin.h."""

_BAND_BYTES = 3 << 20
_BAND_MIN = 64
_BLOCK_BYTES = 256 << 10  # The block of a thin layer's task has to stay in the second-level cache.
_THIN_PIXELS = 16  # With fewer, vector lanes would be idle again.
_BLOCK_COLUMNS = 64  # Narrower blocks copy many columns twice.
_LOAD = 64  # A vector load may read so many bytes past those that it needs.


def choose_algorithm(
    geometry: Geometry, *, allow_winograd: bool = True, kind: WeightType = "float32", rounded: bool = False
) -> Algorithm:
    """Choose the algorithm for weights of ``kind`` by a static rule, the same on every machine.

    ``rounded``: whether the input is rounded to bytes.
    """
    if rounded:
        floats = choose_algorithm(geometry, allow_winograd=allow_winograd, kind=kind)
        return "integer_winograd4" if floats == "winograd4" else "integer"
    if geometry.depthwise:
        return "depthwise"
    if kind == "float32" and geometry.thin and _is_thin_worthwhile(geometry):
        return "thin"
    if allow_winograd and geometry.winograd:
        return min(("direct", *WINOGRAD), key=lambda algorithm: estimate_cost(geometry, algorithm))
    return "direct"


def _is_thin_worthwhile(geometry: Geometry) -> bool:
    """Return whether pixels in vector lanes save more than their copying costs, as measured on an EPYC (Zen 4)."""
    inner, outer = geometry.in_channels // geometry.groups, geometry.out_channels // geometry.groups
    if math.prod(geometry.out_size) < _THIN_PIXELS:
        return False
    # More planes than these are on more pages than the processor can look up quickly.
    return inner <= 256 if math.prod(geometry.kernel_size) > 1 else inner <= 64 and outer <= 4


def list_algorithms(
    geometry: Geometry, *, allow_winograd: bool = True, kind: WeightType = "float32", rounded: bool = False
) -> tuple[Algorithm, ...]:
    """List every algorithm that can compute the layer, for a tuner to time; the static choice comes first."""
    winograd = allow_winograd and geometry.winograd
    possible: list[Algorithm] = ["integer" if rounded else "depthwise" if geometry.depthwise else "direct"]
    if winograd:
        possible += ("integer_winograd4",) if rounded else WINOGRAD
    if not rounded and kind == "float32" and geometry.thin and math.prod(geometry.out_size) >= _THIN_PIXELS:
        possible.append("thin")
    best = choose_algorithm(geometry, allow_winograd=allow_winograd, kind=kind, rounded=rounded)
    return (best, *(a for a in possible if a != best))


def resolve_algorithm(
    geometry: Geometry,
    tuned: Mapping[str, Algorithm],
    *,
    allow_winograd: bool = True,
    kind: WeightType = "float32",
    rounded: bool = False,
) -> Algorithm:
    """Return the algorithm in ``tuned`` for this geometry's label, if the layer can have it; else the static choice."""
    algorithm = tuned.get(geometry.label)
    if algorithm in list_algorithms(geometry, allow_winograd=allow_winograd, kind=kind, rounded=rounded):
        return algorithm
    return choose_algorithm(geometry, allow_winograd=allow_winograd, kind=kind, rounded=rounded)


def pack_layer(
    weights: NDArray[np.float32], algorithm: Algorithm, *, groups: int = 1, kind: WeightType = "float32"
) -> bytes:
    """Pack ``weights`` [KH, KW, C / groups, OC] as the kernel for ``algorithm`` reads them, each as ``kind``.

    Block g of the output channels reads block g of the input channels. Raises ValueError where the algorithm
    cannot have such weights.
    """
    height, width, inner, outer = weights.shape
    taps = height * width
    if taps > MAX_TAPS:
        raise ValueError(f"a {height}x{width} kernel has more than {MAX_TAPS} taps")
    weights = np.asarray(weights, np.float32)
    if algorithm == "depthwise":
        if kind != "float32":
            raise ValueError(f"the depthwise kernel takes no {kind}")
        if inner != 1 or groups != outer:
            raise ValueError("a depthwise layer has one input channel and one output channel per group")
        filters = _pad_last_axis(weights.reshape(taps, outer)).reshape(taps, -1, PANEL)
        return np.ascontiguousarray(filters.transpose(1, 0, 2)).tobytes()
    if algorithm == "thin":
        if kind != "float32":
            raise ValueError(f"the thin kernel takes no {kind}")
        tiles = -(-outer // groups // THIN_CHANNELS)
        grouped = weights.reshape(taps, inner, groups, outer // groups)
        cut = [tile * (outer // groups) // tiles for tile in range(1, tiles)]
        parts = [np.split(grouped[:, :, group], cut, axis=-1) for group in range(groups)]
        return b"".join(np.ascontiguousarray(tile).tobytes() for group in parts for tile in group)
    if algorithm in WINOGRAD:
        if (height, width) != (3, 3) or groups != 1 or not are_winograd_channels(inner):
            raise ValueError("Winograd takes 3x3 weights, one group, and 16, 20, 24 ... input channels")
        panels = _pad_last_axis(weights).reshape(9, inner, -1, PANEL)
        return encode_numbers(panels.transpose(2, 1, 0, 3), kind)
    if algorithm == "integer_depthwise":
        if kind != "int8" or inner != 1 or groups != outer:
            raise ValueError("a depthwise layer of integers takes int8 weights, one for each tap and channel")
        columns = _pad_last_axis(weights.reshape(height, width, outer).transpose(1, 0, 2))
        columns = np.pad(columns, [(0, 0), (0, -height % QUAD), (0, 0)])
        quads = columns.reshape(width, -1, QUAD, columns.shape[-1] // PANEL, PANEL)
        return encode_numbers(quads.transpose(3, 0, 1, 4, 2), kind)
    if algorithm in INTEGER:
        if kind != "int8" or groups != 1:
            raise ValueError("integer GEMM takes int8 weights and one group")
        if taps * inner > MAX_SUM:
            raise ValueError(f"more than {MAX_SUM} products have sums that int32 does not hold")
        quads = np.pad(_pad_last_axis(weights), [(0, 0), (0, 0), (0, -inner % QUAD), (0, 0)])
        quads = quads.reshape(taps, -1, QUAD, quads.shape[-1] // PANEL, PANEL)
        return encode_numbers(quads.transpose(3, 0, 1, 4, 2), kind)
    if outer % groups:
        raise ValueError(f"{outer} output channels do not divide into {groups} groups")
    blocks = weights.reshape(taps * inner, groups, outer // groups)
    panels = _pad_last_axis(blocks).reshape(taps * inner, groups, -1, PANEL)
    return encode_numbers(panels.transpose(1, 2, 0, 3), kind)


def pack_units(weights: NDArray[np.float32]) -> bytes:
    """Pack weights [units, gates, units] of a one-row recurrent layer as ``[units/16][units][gates][16]``, padded."""
    units, gates, _ = weights.shape
    return _pad_last_axis(weights).reshape(units, gates, -1, PANEL).transpose(2, 0, 1, 3).astype("<f4").tobytes()


def pack_scale(scale: NDArray[np.float32], *, groups: int = 1) -> bytes:
    """Pack scales [OC] like the panels of ``pack_layer``: ``[groups * panels][16]``, zero-padded."""
    return _pad_last_axis(np.asarray(scale, np.float32).reshape(groups, -1)).tobytes()


def pack_sums(numbers: NDArray[np.float32]) -> bytes:
    """Pack the sums of the output channels of int8 ``numbers`` [KH, KW, C, OC] as int32 ``[panels][16]``, zero-padded.

    A zero point of the input adds a multiple of these to a sum.
    """
    sums = np.asarray(numbers, np.float64).sum(axis=(0, 1, 2))
    return np.pad(sums, (0, -sums.size % PANEL)).astype("<i4").tobytes()


def pack_bias(bias: NDArray[np.int32]) -> bytes:
    """Pack what is added to the sums of the output channels as int32 ``[panels][16]``, zero-padded."""
    return np.pad(bias, (0, -bias.size % PANEL)).astype("<i4").tobytes()


def pad_channels(vector: NDArray[np.float32]) -> bytes:
    """Pad a per-channel vector (bias, scale, shift) with zeros up to a multiple of MAX_NR."""
    flat = np.asarray(vector, np.float32).ravel()
    return np.pad(flat, (0, -flat.size % MAX_NR)).tobytes()


def choose_winograd_band(geometry: Geometry, algorithm: Algorithm) -> int:
    """Choose how many tiles are transformed together: as many as stay in the last-level cache."""
    size = 2 if algorithm == "winograd2" else 4
    tiles = geometry.batch * -(-geometry.out_size[0] // size) * -(-geometry.out_size[1] // size)
    most = max(_BAND_MIN, _BAND_BYTES // (4 * (size + 2) ** 2 * geometry.in_channels))
    bands = -(-tiles // most)
    return -(-tiles // bands)


def compute_scratch_size(
    geometry: Geometry, algorithm: Algorithm, threads: int = MAX_THREADS, *, tiles: bool = True
) -> int:
    """Compute the bytes of scratch of ``LayerStep.scratch`` for up to ``threads`` threads; aligned to 64, may be 0.

    ``tiles``: whether it is also for a processor with AMX.
    """
    if algorithm == "integer":
        quantised = -(-(2 * math.prod(get_quantised_shape(geometry)) + _LOAD) // 64) * 64
        return quantised + (threads * _tile_rows(geometry) if tiles else 0)
    if algorithm == "integer_winograd4":  # A processor uses one or the other.
        return max(compute_scratch_size(geometry, a, threads, tiles=tiles) for a in ("integer", "winograd4"))
    if algorithm == "thin":
        return 4 * threads * _thin_floats(geometry, *choose_thin_block(geometry))
    if algorithm not in WINOGRAD:
        return 0
    points = 36 if algorithm == "winograd4" else 16
    band, channels = choose_winograd_band(geometry, algorithm), geometry.in_channels
    products = band if channels > WINOGRAD_KC else min(band, WINOGRAD_MC)
    per_thread = (
        _pad_plane(min(channels, WINOGRAD_KC) * MAX_NR) + _pad_plane(products * MAX_NR) if band > FEW_TILES else 0
    )
    return 4 * points * (_pad_plane(band * (channels + 16)) + threads * per_thread)


def _tile_rows(geometry: Geometry) -> int:
    """Compute the bytes of the rows that a thread copies inputs to.

    It is the most that plan_tiles in runtime/fused/integer_tiles.h needs, which may leave half of each tile idle.
    """
    pixels = math.prod(geometry.out_size) * geometry.batch
    quads = math.prod(geometry.kernel_size) * -(-geometry.in_channels // QUAD)
    if pixels <= GEMV_PIXELS or quads < TILED_QUADS:
        return 0
    fewest, most = TILED_PIXELS
    row = ((2 * -(-quads // TILE) + 1) | 1) * TILE * QUAD
    return max(fewest * row, min(min(most, -(-pixels // fewest) * fewest) * row, TILE_ROW_BYTES))


def compute_recurrent_scratch(batch: int, units: int, columns: int, rounded: bool = False) -> int:
    """Compute the bytes of scratch of a recurrent layer: a step's sums and, if ``rounded``, those of integer GEMM.

    The latter are for each of the tasks that share the rows, as in run_rows of runtime/fused/recurrent.h.
    """
    tasks = max(1, min(MAX_THREADS, batch // (GEMV_PIXELS + 1))) if rounded else 0
    return 4 * batch * columns + tasks * compute_scratch_size(Geometry(1, units, (1, batch), columns), "integer")


def choose_thin_block(geometry: Geometry) -> tuple[int, int]:
    """Choose the most output rows and columns that a task of a thin layer computes.

    They fit into a thread's part of the cache, and copy the fewest inputs twice.
    """
    height, width = geometry.out_size
    reach = [(k - 1) * d for k, d in zip(geometry.kernel_size, geometry.dilation, strict=True)]
    blocks: list[tuple[float, int, int]] = []
    parts = 1
    while parts == 1 or width // parts >= _BLOCK_COLUMNS:
        columns = -(-width // parts)
        rows = height
        while rows > 1 and 4 * _thin_floats(geometry, rows, columns) > _BLOCK_BYTES:
            rows = min(rows - 1, -(-height // (-(-height // rows) + 1)))  # One more block, all equally high.
        fits = 4 * _thin_floats(geometry, rows, columns) <= _BLOCK_BYTES
        copied = (rows * geometry.stride[0] + reach[0]) * (columns * geometry.stride[1] + reach[1]) / (rows * columns)
        idle = (columns * geometry.stride[1] + reach[1]) / (columns * geometry.stride[1])
        blocks.append((copied * idle if fits else math.inf, rows, columns))
        parts *= 2
    best = min(blocks, key=lambda block: block[0])
    return best[1:] if math.isfinite(best[0]) else blocks[-1][1:]


def _thin_floats(geometry: Geometry, rows: int, columns: int) -> int:
    """Compute the floats of a thread's scratch for such a block; see run_thin in runtime/fused/thin.h."""
    sizes = zip(geometry.kernel_size, geometry.dilation, geometry.stride, strict=True)
    reach = [(kernel - 1) * dilation // stride for kernel, dilation, stride in sizes]
    width = columns + reach[1]
    planes = math.prod(geometry.stride) * geometry.in_channels // geometry.groups
    sums = min(THIN_CHANNELS, geometry.out_channels // geometry.groups)
    return planes * _pad_plane((rows + reach[0]) * width + THIN_REACH) + sums * _pad_plane(rows * width + THIN_REACH)


def get_quantised_shape(geometry: Geometry) -> tuple[int, int, int, int]:
    """Return [batch, rows, columns, channels] of integer GEMM's quantised input, with all padding that the sums read.

    Channels are a multiple of 4. Each value takes one byte or, for some instruction sets, two.
    """
    rows, columns = (geometry.compute_span(axis, out) for axis, out in enumerate(geometry.out_size))
    return geometry.batch, rows, columns, -(-geometry.in_channels // QUAD) * QUAD


def _pad_plane(floats: int) -> int:
    """Pad to an odd number of cache lines, so that the planes of a transform do not share cache sets."""
    return (-(-floats // 16) | 1) * 16


def _pad_last_axis(array: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, -array.shape[-1] % PANEL)])
