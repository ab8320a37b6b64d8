"""The C runtime against NumPy. Values are small whole numbers, so that every sum is exact in every type.

The same tests run once more on a build with gcc's address and undefined-behaviour sanitizers.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.compiler.lower.compress import ITEM_SIZES, encode_numbers, quantise_weights
from builder.compiler.lower.gathers import INDEX_TYPES
from builder.compiler.lower.steps.fft_step import FFT_KINDS, FftKind
from builder.config import WeightType
from tests.support import needs
from tests.support.runtime import DTYPES, Runtime, build, build_with_gcc, sanitizer_environment

LIBRARY = "COLDFORGE_TEST_RUNTIME"
"""Names the library to test instead of a fresh build; set in the sanitized run."""


def examples(count: int) -> settings:
    count = count // 4 if LIBRARY in os.environ else count  # sanitizers are slow
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])


seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    given_library = os.environ.get(LIBRARY)
    return Runtime(Path(given_library) if given_library else build(tmp_path_factory.mktemp("runtime")))


@dataclass(frozen=True)
class Layout:
    """How a tensor lies in memory: its axes from the outermost inwards, and whether each has a gap."""

    order: tuple[int, ...]
    gaps: tuple[int, ...]

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """A buffer that ends with the tensor's last element, and the tensor in it."""
        sizes = [shape[axis] * gap for axis, gap in zip(self.order, self.gaps, strict=True)]
        steps = np.cumprod([1, *reversed(sizes)])[::-1][1:] * np.array(self.gaps, int)
        strides = dict(zip(self.order, map(int, steps), strict=True))
        last = sum((n - 1) * strides[axis] for axis, n in enumerate(shape)) if 0 not in shape else 0
        buffer = np.zeros(last + 1, dtype)
        in_bytes = [strides[axis] * dtype.itemsize for axis in range(len(shape))]
        return buffer, np.lib.stride_tricks.as_strided(buffer, shape, in_bytes)

    def place(self, values: np.ndarray) -> np.ndarray:
        """``values`` in this layout; gaps are poisoned."""
        buffer, view = self.allocate(values.shape, values.dtype)
        buffer[...] = poison(values.dtype)
        view[...] = values
        return view


def poison(dtype: np.dtype) -> float:
    return np.nan if dtype.kind == "f" else 101


@st.composite
def layouts(draw: st.DrawFn, rank: int, usual: tuple[int, ...] | None = None) -> Layout:
    """Any layout, but often the ``usual`` order of axes, and dense or with one gap."""
    order = tuple(range(rank)) if usual is None else usual
    kind = draw(st.sampled_from(("dense", "dense", "one gap", "any")))
    gaps = [1] * rank
    if kind == "one gap" and rank:
        gaps[draw(st.integers(0, rank - 1))] = 2
    if kind == "any":
        order = tuple(draw(st.permutations(order)))
        gaps = [draw(st.sampled_from((1, 1, 1, 2))) for _ in range(rank)]
    return Layout(order, tuple(gaps))


def whole_numbers(seed: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = np.dtype(dtype)
    generator = np.random.default_rng(seed)
    if kind.kind == "f":
        return generator.integers(-60, 61, shape).astype(kind)
    limits = np.iinfo(kind)
    return generator.integers(limits.min, limits.max, shape, kind, endpoint=True)


def widen(array: np.ndarray) -> np.ndarray:
    """To a type in which products and sums are exact, or wrap around as they do in the narrow one."""
    return array.astype("f8" if array.dtype.kind == "f" else "i8").view("f8" if array.dtype.kind == "f" else "u8")


# Convolution


@dataclass(frozen=True)
class Case:
    """source [N, C, spatial...], kernel [C / groups, O, spatial...]; the rest per spatial dimension."""

    batch: int
    groups: int
    in_channels: int
    out_channels: int
    space: tuple[int, ...]
    taps: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[tuple[int, int], ...]
    base: tuple[int, ...]
    window: tuple[int, ...]
    reverse: tuple[bool, ...] = field(default=())

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        out = [
            max(0, (n - 1) * b + 1 + low + high - (k - 1) * w - 1) // s + 1
            for n, b, (low, high), k, w, s in zip(
                self.space, self.base, self.pad, self.taps, self.window, self.stride, strict=True
            )
        ]
        return (
            (self.batch, self.in_channels, *self.space),
            (self.in_channels // self.groups, self.out_channels, *self.taps),
            (self.batch, self.out_channels, *out),
        )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 3))

    def per_axis(strategy: st.SearchStrategy) -> tuple:
        return tuple(draw(strategy) for _ in range(rank))

    def mostly(simple: object, strategy: st.SearchStrategy) -> tuple:
        return per_axis(strategy) if draw(st.integers(0, 2)) == 0 else (simple,) * rank

    longest = (40, 15, 6)[rank - 1]
    groups = draw(st.sampled_from((1, 1, 1, 2, 3, 8, 19)))
    channels = draw(st.sampled_from((1, 1, 2, 3, 5, 16)))
    multiplier = draw(st.sampled_from((1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 21, 35)))
    if groups * multiplier > 70:
        multiplier = 2
    return Case(
        draw(st.integers(1, 2)),
        groups,
        groups * channels,
        groups * multiplier,
        per_axis(st.integers(1, longest)),
        mostly(draw(st.sampled_from((1, 2, 3))), st.integers(1, 4)),
        mostly(1, st.sampled_from((1, 2, 3))),
        mostly(draw(st.sampled_from(((0, 0), (1, 1)))), st.tuples(st.integers(-2, 4), st.integers(-2, 4))),
        mostly(1, st.integers(1, 3)),
        mostly(1, st.integers(1, 3)),
        mostly(False, st.booleans()),
    )


def reference(case: Case, source: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """XLA's definition, step by step: dilate, pad, then slide."""
    rank = len(case.space)
    source, kernel = widen(source), widen(kernel)
    for axis in range(rank):
        at = axis + 2
        if case.reverse[axis]:
            kernel = np.flip(kernel, at)
        shape = list(source.shape)
        shape[at] = (shape[at] - 1) * case.base[axis] + 1
        dilated = np.zeros(shape, source.dtype)
        dilated[(slice(None),) * at + (slice(None, None, case.base[axis]),)] = source
        low, high = case.pad[axis]
        widths = [(0, 0)] * source.ndim
        widths[at] = (max(0, low), max(0, high))
        end = dilated.shape[at] + min(0, high)
        cut = dilated[(slice(None),) * at + (slice(max(0, -low), max(0, -low, end)),)]
        source = np.pad(cut, widths)
    out = np.zeros(case.shapes[2], source.dtype)
    channels, outputs = kernel.shape[0], case.out_channels // case.groups
    for tap in np.ndindex(*case.taps):
        window = tuple(
            slice(t * w, t * w + (n - 1) * s + 1, s)
            for t, w, n, s in zip(tap, case.window, out.shape[2:], case.stride, strict=True)
        )
        for g in range(case.groups):
            seen = source[(slice(None), slice(g * channels, (g + 1) * channels), *window)]
            weights = kernel[(slice(None), slice(g * outputs, (g + 1) * outputs), *tap)]
            out[:, g * outputs : (g + 1) * outputs] += np.einsum("nc...,co->no...", seen, weights)
    return out


def fits(case: Case) -> bool:
    """Whether the window fits the padded input somewhere, and no padding cuts away everything."""
    return all(
        (n - 1) * b + 1 + min(0, low) + min(0, high) > 0 and (n - 1) * b + 1 + low + high >= (k - 1) * w + 1
        for n, b, (low, high), k, w in zip(case.space, case.base, case.pad, case.taps, case.window, strict=True)
    )


def convolve(runtime: Runtime, case: Case, source: np.ndarray, kernel: np.ndarray, output: np.ndarray) -> None:
    runtime.convolution(
        source,
        kernel,
        output,
        groups=case.groups,
        stride=case.stride,
        pad_low=[low for low, _ in case.pad],
        base_dilation=case.base,
        window_dilation=case.window,
        reversed_=case.reverse,
    )


@examples(300)
@given(data=st.data(), case=cases().filter(fits), dtype=st.sampled_from(DTYPES), seed=seeds)
def test_convolution(runtime: Runtime, data: st.DataObject, case: Case, dtype: str, seed: int) -> None:
    rank = len(case.space)
    space = tuple(range(2, rank + 2))
    source_shape, kernel_shape, out_shape = case.shapes
    source = data.draw(layouts(rank + 2, (0, *space, 1))).place(whole_numbers(seed, source_shape, dtype))
    kernel = data.draw(layouts(rank + 2, (*space, 0, 1))).place(whole_numbers(seed + 1, kernel_shape, dtype))
    garbage = np.full(out_shape, poison(np.dtype(dtype)), dtype)
    output = data.draw(layouts(rank + 2, (0, *space, 1))).place(garbage)
    convolve(runtime, case, source, kernel, output)
    np.testing.assert_array_equal(output, reference(case, source, kernel).astype(dtype))


@examples(600)
@given(data=st.data(), case=cases().filter(fits), seed=seeds)
def test_convolution_of_dense_channels(runtime: Runtime, data: st.DataObject, case: Case, seed: int) -> None:
    """float32 in XLA's own layouts, or in those but for one gap: the fast paths."""
    rank = len(case.space)
    images, kernels = (0, *range(2, rank + 2), 1), (*range(2, rank + 2), 0, 1)
    source_shape, kernel_shape, out_shape = case.shapes
    dense = (1,) * (rank + 2)
    gaps = st.sampled_from((dense, dense, (1,) * (rank + 1) + (2,), (1,) * rank + (2, 1), (1, 2) + (1,) * rank))
    place_source, place_output = (Layout(images, data.draw(gaps)) for _ in range(2))
    source = place_source.place(whole_numbers(seed, source_shape, "f4"))
    kernel = Layout(kernels, dense).place(whole_numbers(seed + 1, kernel_shape, "f4"))
    output = place_output.place(np.full(out_shape, np.nan, "f4"))
    convolve(runtime, case, source, kernel, output)
    np.testing.assert_array_equal(output, reference(case, source, kernel).astype("f4"))


def test_pointwise_convolution_with_padding(runtime: Runtime) -> None:
    """Negative padding at one end and positive at the other: a size that stays, but a shifted image."""
    case = Case(1, 1, 3, 9, (4, 5), (1, 1), (1, 1), ((1, -1), (-2, 2)), (1, 1), (1, 1), (False, False))
    nhwc, hwio = Layout((0, 2, 3, 1), (1,) * 4), Layout((2, 3, 0, 1), (1,) * 4)
    source, kernel = (whole_numbers(5, shape, "f4") for shape in case.shapes[:2])
    output = nhwc.place(np.full(case.shapes[2], np.nan, "f4"))
    convolve(runtime, case, nhwc.place(source), hwio.place(kernel), output)
    np.testing.assert_array_equal(output, reference(case, source, kernel).astype("f4"))


def test_convolution_rounds_like_floats(runtime: Runtime) -> None:
    case = Case(1, 1, 64, 48, (14, 14), (3, 3), (1, 1), ((1, 1),) * 2, (1, 1), (1, 1), (False, False))
    generator = np.random.default_rng(7)
    nhwc, hwio = Layout((0, 2, 3, 1), (1,) * 4), Layout((2, 3, 0, 1), (1,) * 4)
    source = nhwc.place(generator.standard_normal(case.shapes[0], "f4"))
    kernel = hwio.place(generator.standard_normal(case.shapes[1], "f4"))
    output = nhwc.place(np.full(case.shapes[2], np.nan, "f4"))
    convolve(runtime, case, source, kernel, output)
    np.testing.assert_allclose(output, reference(case, source, kernel), rtol=1e-4, atol=1e-4)


# Dot


@examples(1000)
@given(
    data=st.data(),
    dtype=st.sampled_from(("f4", "f8") * 5 + DTYPES),
    batch=st.integers(0, 3),
    sizes=st.tuples(*[st.sampled_from((0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 24, 33, 70))] * 3),
    seed=seeds,
)
def test_dot(
    runtime: Runtime, data: st.DataObject, dtype: str, batch: int, sizes: tuple[int, int, int], seed: int
) -> None:
    m, n, k = sizes
    lhs = data.draw(layouts(3, (0, 1, 2))).place(whole_numbers(seed, (batch, m, k), dtype))
    rhs = data.draw(layouts(3, (0, 1, 2))).place(whole_numbers(seed + 1, (batch, k, n), dtype))
    out = data.draw(layouts(3, (0, 1, 2))).place(np.full((batch, m, n), poison(np.dtype(dtype)), dtype))
    runtime.dot(lhs, rhs, out)
    np.testing.assert_array_equal(out, (widen(lhs) @ widen(rhs)).astype(dtype))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("sizes", [(1, 19, 19), (19, 1, 19), (3, 6, 37), (6, 3, 37), (5, 5, 1), (1, 1, 20), (7, 17, 9)])
def test_dot_of_every_layout(runtime: Runtime, dtype: str, sizes: tuple[int, int, int]) -> None:
    """Rows, columns or neither are dense: each pair has its own way to be multiplied."""
    m, n, k = sizes
    ways = (Layout((0, 1, 2), (1, 1, 1)), Layout((0, 2, 1), (1, 1, 1)), Layout((0, 1, 2), (1, 1, 2)))
    left, right = whole_numbers(1, (2, m, k), dtype), whole_numbers(2, (2, k, n), dtype)
    for lhs_layout, rhs_layout, out_layout in itertools.product(ways, repeat=3):
        out = out_layout.place(np.full((2, m, n), poison(np.dtype(dtype)), dtype))
        runtime.dot(lhs_layout.place(left), rhs_layout.place(right), out)
        np.testing.assert_array_equal(out, left @ right)


# Copy


@examples(100)
@given(data=st.data(), item=st.sampled_from((1, 2, 3, 4, 8, 16, 24)), shape=st.lists(st.integers(0, 4), max_size=8))
def test_copy(runtime: Runtime, data: st.DataObject, item: int, shape: list[int]) -> None:
    layout = layouts(len(shape), tuple(range(len(shape))))
    dtype = np.dtype(f"V{item}")
    plain = np.random.default_rng(item).integers(1, 256, (*shape, item)).astype("u1").view(dtype)[..., 0]
    _, source = data.draw(layout).allocate(plain.shape, dtype)
    source[...] = plain
    if 0 not in shape and shape and data.draw(st.booleans()):
        axis = data.draw(st.integers(0, len(shape) - 1))
        source = np.broadcast_to(source[(slice(None),) * axis + (slice(0, 1),)], shape)
    buffer, target = data.draw(layout).allocate(plain.shape, dtype)
    runtime.copy(source, target)
    assert target.tobytes() == source.tobytes()
    assert np.count_nonzero(buffer.view("u1")) == source.size * item, "a gap was written to"


@pytest.mark.parametrize("item", [1, 2, 3, 4, 8, 16, 24])
def test_a_turned_copy(runtime: Runtime, item: int) -> None:
    """Of more dimensions than any that lie alike can be joined to."""
    shape = (3, 4, 2, 5)
    source = np.random.default_rng(item).integers(1, 256, (*shape, item)).astype("u1").view(f"V{item}")[..., 0]
    target = np.zeros(shape[::-1], source.dtype).transpose()
    runtime.copy(source, target)
    assert target.tobytes() == source.tobytes()


@pytest.mark.parametrize("gaps", [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2)])
@pytest.mark.parametrize("into", [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2)])
def test_copy_of_dimensions_that_may_be_joined(
    runtime: Runtime, gaps: tuple[int, int, int], into: tuple[int, int, int]
) -> None:
    """Those that lie the same way on both sides, and no others."""
    values = np.arange(60, dtype="i4").reshape(3, 4, 5)
    target = Layout((0, 1, 2), into).place(np.zeros_like(values))
    runtime.copy(Layout((0, 1, 2), gaps).place(values), target)
    np.testing.assert_array_equal(target, values)


def test_copy_onto_itself_changes_nothing(runtime: Runtime) -> None:
    values = np.arange(60, dtype="i4").reshape(3, 4, 5)
    runtime.copy(values, values)
    np.testing.assert_array_equal(values.ravel(), np.arange(60))


# Broadcast


@examples(150)
@given(
    data=st.data(),
    op=st.sampled_from(("copy", "add", "multiply")),
    shape=st.tuples(*[st.sampled_from((1, 2, 3))] * 2, *[st.sampled_from((1, 2, 3, 7, 8, 16, 17, 33))] * 2),
    seed=seeds,
)
def test_broadcast(runtime: Runtime, data: st.DataObject, op: str, shape: tuple[int, int, int, int], seed: int) -> None:
    source = data.draw(layouts(4, (0, 1, 2, 3))).place(whole_numbers(seed, shape, "f4"))
    repeated = tuple(1 if data.draw(st.booleans()) else size for size in shape)
    other = np.broadcast_to(whole_numbers(seed + 1, repeated, "f4"), shape)
    expected = {"copy": source, "add": source + other, "multiply": source * other}[op]
    order = (*data.draw(st.permutations(range(3))), 3)
    in_place = source.strides[3] == 4 and data.draw(st.booleans())
    _, target = Layout(order, (1, 1, 1, 1)).allocate(shape, np.dtype("f4"))
    out = source if in_place else target
    cut = data.draw(st.integers(0, int(np.prod(shape[:3]))))
    number = ("copy", "add", "multiply").index(op)
    expected = np.array(expected)
    runtime.broadcast(number, source, None if op == "copy" else other, out, cut)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("op", ["copy", "add", "multiply"])
@pytest.mark.parametrize("turned", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("width", [41, 3])
def test_broadcast_of_columns(runtime: Runtime, op: str, width: int, turned: tuple[bool, bool]) -> None:
    """What is dense along the third dimension, not along the last one; three are the planes of a picture."""
    shape = (2, 3, 35, width)
    source, other = (
        Layout((0, 1, 3, 2) if columns else (0, 1, 2, 3), (1, 1, 1, 1)).place(whole_numbers(seed, shape, "f4"))
        for seed, columns in enumerate(turned)
    )
    target = np.zeros(shape, "f4")
    number = ("copy", "add", "multiply").index(op)
    runtime.broadcast(number, source, None if op == "copy" else other, target, 50)
    np.testing.assert_array_equal(target, {"copy": source, "add": source + other, "multiply": source * other}[op])


def test_one_number_for_all_keeps_its_sign(runtime: Runtime) -> None:
    source, other = np.ones((1, 1, 2, 9), "f4"), np.broadcast_to(np.array(-0.0, "f4"), (1, 1, 2, 9))
    target = np.zeros_like(source)
    runtime.broadcast(2, source, other, target, 1)
    assert np.signbit(target).all()


# Sort


@examples(100)
@given(
    outer=st.integers(0, 2), length=st.integers(0, 40), inner=st.integers(1, 3), descending=st.booleans(), seed=seeds
)
def test_sort_is_stable(runtime: Runtime, outer: int, length: int, inner: int, descending: bool, seed: int) -> None:
    shape = (outer, length, inner)
    generator = np.random.default_rng(seed)
    payload = np.arange(np.prod(shape), dtype="i8").reshape(shape)
    keys = generator.integers(0, 8, shape).astype("f4")
    bytes_ = payload.astype("u1")
    shorts = (payload * 37).astype("i2")
    pairs = np.stack([payload, -payload], -1).astype("f8").view("c16")[..., 0].copy()
    order = np.argsort(-keys if descending else keys, axis=1, kind="stable")
    arrays = [payload.copy(), keys.copy(), bytes_.copy(), shorts.copy(), pairs.copy()]
    runtime.sort(arrays, 1, lambda a, b: a[1] > b[1] if descending else a[1] < b[1])
    for result, original in zip(arrays, (payload, keys, bytes_, shorts, pairs), strict=True):
        np.testing.assert_array_equal(result, np.take_along_axis(original, order, 1))


@examples(100)
@given(values=st.lists(st.floats(width=32), max_size=30))
def test_sort_with_nans_is_a_permutation(runtime: Runtime, values: list[float]) -> None:
    array = np.array(values, "f4")
    result = array.copy()
    runtime.sort([result], 0, lambda a, b: a[0] < b[0])
    np.testing.assert_array_equal(np.sort(result.view("u4")), np.sort(array.view("u4")))


@examples(100)
@given(length=st.integers(0, 50), seed=seeds)
def test_sort_survives_any_comparator(runtime: Runtime, length: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    array = np.arange(length, dtype="i4")
    runtime.sort([array], 0, lambda a, b: bool(generator.integers(2)))
    np.testing.assert_array_equal(np.sort(array), np.arange(length))


# Top-k


@examples(300)
@given(data=st.data(), batch=st.integers(0, 3), length=st.integers(0, 40))
def test_top_k(runtime: Runtime, data: st.DataObject, batch: int, length: int) -> None:
    few = st.sampled_from((-0.0, 0.0, 1.0, -1.0, np.inf, -np.inf, np.nan))
    numbers = data.draw(st.sampled_from((few, st.floats(width=32))))
    rows = data.draw(st.lists(st.lists(numbers, min_size=length, max_size=length), min_size=batch, max_size=batch))
    values = np.array(rows, "f4").reshape(batch, length)
    values = np.where(np.isnan(values) & data.draw(st.booleans()), -values, values)
    k = data.draw(st.integers(0, length))
    bits = values.view("i4").astype("i8")
    keys = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    expected = np.argsort(-keys, axis=1, kind="stable")[:, :k]
    out, indices = runtime.top_k(np.ascontiguousarray(values), k)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(out.view("u4"), np.take_along_axis(values, expected, 1).view("u4"))


# Rows of tables


def converted(indices: np.ndarray, wide: bool) -> np.ndarray:
    """As XLA converts them: floats to the nearest bound and NaN to 0; whole numbers lose their upper bits."""
    if indices.dtype.kind != "f":
        return indices.astype("i8" if wide else "i4").astype("i8")
    bounds = np.iinfo("i8" if wide else "i4")
    exact = np.clip(np.nan_to_num(indices.astype("f8"), nan=0.0), float(bounds.min), float(bounds.max))
    return np.array([min(int(x), bounds.max) for x in exact.ravel()], "i8").reshape(indices.shape)


@examples(200)
@given(
    data=st.data(),
    kind=st.sampled_from(tuple(ITEM_SIZES)),
    dtype=st.sampled_from(INDEX_TYPES),
    rows=st.integers(1, 12),
    width=st.integers(1, 70),
)
def test_gather(runtime: Runtime, data: st.DataObject, kind: WeightType, dtype: str, rows: int, width: int) -> None:
    """Bit for bit the floats that are multiplied with elsewhere, of indices within and far beyond the table."""
    near = st.integers(-2 * rows, 2 * rows)
    far = st.floats(width=32) if dtype == "float32" else st.integers(np.iinfo(dtype).min, np.iinfo(dtype).max)
    drawn = data.draw(st.lists(near | far, max_size=9))
    indices = np.array([0 if dtype.startswith("u") and x < 0 else x for x in drawn]).astype(dtype)
    wide, negative = data.draw(st.booleans()), data.draw(st.booleans())
    table = np.random.default_rng(rows).normal(size=(rows, width)).astype("f4")
    stored = quantise_weights(table.T[None, None], kind)
    found = runtime.gather(
        kind,
        encode_numbers(stored.numbers[0, 0].T, kind),
        stored.scale,
        indices,
        (rows, width),
        wide=wide,
        negative=negative,
    )
    numbers = converted(indices, wide)
    numbers = np.where((numbers < 0) & negative, numbers + rows, numbers).clip(0, rows - 1)
    np.testing.assert_array_equal(found, stored.restored[0, 0].T[numbers])


# Fourier transforms


def transformed(kind: str, values: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """By NumPy, in float64."""
    axes = tuple(range(-len(sizes), 0))
    wide = values.astype("c16" if values.dtype.kind == "c" else "f8")
    if kind == "IRFFT":
        return np.fft.irfftn(wide, sizes, axes)
    return {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn}[kind](wide, axes=axes)


def check_fft(runtime: Runtime, kind: FftKind, batch: int, sizes: tuple[int, ...], seed: int) -> None:
    """Within 5e-7 of the largest result; the worst of thousands was 3e-7."""
    generator = np.random.default_rng(seed)
    shape = (batch, *sizes[:-1], sizes[-1] // 2 + 1 if kind == "IRFFT" else sizes[-1])
    values = generator.standard_normal((*shape, 1 if kind == "RFFT" else 2), "f4")
    values = values[..., 0].copy() if kind == "RFFT" else values.view("c8")[..., 0]
    expected = transformed(kind, values, sizes)
    output = np.full(expected.shape, np.nan, "c8" if expected.dtype.kind == "c" else "f4")
    runtime.fft(kind, values, sizes, output)
    np.testing.assert_allclose(output, expected, rtol=0, atol=5e-7 * max(1e-9, np.abs(expected).max(initial=0)))


fft_kinds = st.sampled_from(FFT_KINDS)


@examples(300)
@given(kind=fft_kinds, batch=st.sampled_from((1, 2, 7, 8, 9, 19)), size=st.integers(1, 300), seed=seeds)
def test_fft(runtime: Runtime, kind: FftKind, batch: int, size: int, seed: int) -> None:
    check_fft(runtime, kind, batch, (size,), seed)


@pytest.mark.parametrize("kind", FFT_KINDS)
@pytest.mark.parametrize(("batch", "size"), [(1, 1103), (9, 2206), (9, 1024), (1, 4096), (9, 5000), (3, 8 * 4129)])
def test_fft_of_many(runtime: Runtime, kind: FftKind, batch: int, size: int) -> None:
    check_fft(runtime, kind, batch, (size,), size)


@examples(150)
@given(kind=fft_kinds, batch=st.integers(1, 3), sizes=st.lists(st.integers(1, 40), min_size=2, max_size=3), seed=seeds)
def test_fft_of_several_dimensions(runtime: Runtime, kind: FftKind, batch: int, sizes: list[int], seed: int) -> None:
    check_fft(runtime, kind, batch, tuple(sizes), seed)


# Non-maximum suppression


def overlaps_of(boxes: np.ndarray) -> np.ndarray:
    """Intersection over union of each box with each other, in float32 as the kernel computes it."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    sides = np.minimum(high[:, None], high) - np.maximum(low[:, None], low)
    both = np.maximum(sides, 0).prod(-1)
    area = (high - low).prod(-1)
    there = (area[:, None] > 0) & (area > 0)
    return np.where(there, both / np.where(there, area[:, None] + area - both, 1), 0).astype("f4")


def kept_of(overlaps: np.ndarray, scores: np.ndarray, size: int, overlap: float, score: float) -> list[int]:
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        if len(kept) < size and scores[i] > score and not (overlaps[i, kept] > np.float32(overlap)).any():
            kept.append(int(i))
    return kept


def draw_boxes(generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Many overlap, some are given by their other corners, and some are empty."""
    first = generator.random((*shape, 2), "f4")
    boxes = np.concatenate([first, first + generator.random((*shape, 2), "f4") / 3], -1)
    boxes = np.where(generator.random((*shape, 1)) < 0.3, boxes[..., [2, 3, 0, 1]], boxes)
    return np.where(generator.random((*shape, 1)) < 0.1, boxes[..., [0, 1, 0, 3]], boxes).astype("f4")


@examples(300)
@given(count=st.integers(0, 60), size=st.integers(0, 70), steps=st.sampled_from((4, 1000)), seed=seeds)
def test_nms(runtime: Runtime, count: int, size: int, steps: int, seed: int) -> None:
    """``steps``: different scores; with 4, most are the same as others, and the lower index is the first."""
    generator = np.random.default_rng(seed)
    boxes = draw_boxes(generator, count)
    scores = generator.integers(0, steps, count).astype("f4") / np.float32(steps)
    overlap, score = generator.random(), generator.choice([-np.inf, 0.0, 0.5])
    overlaps = overlaps_of(boxes)
    expected = kept_of(overlaps, scores, size, overlap, score)
    for source in (boxes, overlaps) if count != 4 else (boxes,):
        indices, kept, found = runtime.nms(source, scores, size, overlap, score)
        assert found == len(expected)
        assert indices.tolist() == expected + [0] * (size - found)
        assert kept.tolist() == scores[expected].tolist() + [0.0] * (size - found)


@examples(100)
@given(count=st.integers(1, 30), decay=st.sampled_from((-0.5, -1.0, -200.0)), seed=seeds)
def test_soft_nms(runtime: Runtime, count: int, decay: float, seed: int) -> None:
    generator = np.random.default_rng(seed)
    boxes, scores = draw_boxes(generator, count), generator.random(count, "f4")
    left, expected = scores.astype("f8"), []
    while left.max() > 0.05:
        expected.append((int(left.argmax()), left.max()))
        left = left * np.exp(decay * overlaps_of(boxes)[expected[-1][0]].astype("f8") ** 2)
        left[[i for i, _ in expected]] = -1
    indices, kept, found = runtime.nms(boxes, scores, count, 1.0, 0.05, decay)
    assert indices[:found].tolist() == [i for i, _ in expected]
    np.testing.assert_allclose(kept[:found], [s for _, s in expected], rtol=1e-5)


@examples(100)
@given(
    batch=st.integers(1, 2),
    count=st.integers(1, 30),
    classes=st.integers(1, 4),
    per_class=st.integers(1, 30),
    size=st.integers(1, 40),
    own=st.booleans(),
    clip=st.booleans(),
    seed=seeds,
)
def test_combined_nms(
    runtime: Runtime, batch: int, count: int, classes: int, per_class: int, size: int, own: bool, clip: bool, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    boxes = draw_boxes(generator, batch, count, classes if own else 1) * 2 - np.float32(0.5)
    scores = generator.random((batch, count, classes), "f4")
    per_class = min(per_class, count)
    found = runtime.combined_nms(boxes, scores, per_class, size, 0.4, 0.2, clip)
    for image in range(batch):
        rows = []
        for c in range(classes):
            of_class = boxes[image, :, c if own else 0]
            kept = kept_of(overlaps_of(of_class), scores[image, :, c], per_class, 0.4, 0.2)
            rows += [(-scores[image, i, c], c, of_class[i].clip(0, 1) if clip else of_class[i]) for i in kept]
        rows = sorted(rows, key=lambda row: row[0])[:size]
        assert found[3][image] == len(rows)
        for output, column in zip(found, (2, 0, 1), strict=False):
            expected = [row[column] if column else -row[0] for row in rows]
            np.testing.assert_array_equal(
                output[image, : len(rows)], np.array(expected).reshape(len(rows), *output.shape[2:])
            )
            assert not output[image, len(rows) :].any()


# The same again, watched


@pytest.mark.full
@pytest.mark.xdist_group("sanitized runtime kernels")
@pytest.mark.skipif(LIBRARY in os.environ, reason="this is the sanitized run")
def test_under_sanitizers(tmp_path: Path) -> None:
    needs.gcc()
    environment = sanitizer_environment() | {LIBRARY: str(build_with_gcc(tmp_path))}
    # -s: a sanitizer's report must get past pytest's capture before the process ends
    options = ["-q", "-x", "-s", "-p", "no:cacheprovider", "-m", "not integration"]
    command = [sys.executable, "-m", "pytest", *options, __file__]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[:4000]


# Against TensorFlow


@pytest.mark.integration
@pytest.mark.skipif(LIBRARY in os.environ, reason="TensorFlow does not run under the sanitizers")
@pytest.mark.parametrize("kind", ["strided", "dilated", "grouped", "depthwise", "transposed", "volume"])
def test_against_tensorflow(runtime: Runtime, kind: str) -> None:
    tf = needs.needs_module("tensorflow")
    generator = np.random.default_rng(3)
    rank = 3 if kind == "volume" else 2
    space, ones, plain = tuple(range(1, rank + 1)), (1,) * rank, (False,) * rank

    def random(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape, "f4")

    if kind == "strided":  # SAME padding of 11 by stride 2 and 3 taps: 1 low, 1 high
        x, w = random(2, 11, 11, 5), random(3, 3, 5, 18)
        expected = tf.nn.conv2d(x, w, 2, "SAME")
        case = Case(2, 1, 5, 18, (11, 11), (3, 3), (2, 2), ((1, 1),) * 2, ones, ones, plain)
    elif kind == "dilated":
        x, w = random(1, 12, 13, 6), random(3, 3, 6, 7)
        expected = tf.nn.conv2d(x, w, 1, "VALID", dilations=2)
        case = Case(1, 1, 6, 7, (12, 13), (3, 3), ones, ((0, 0),) * 2, ones, (2, 2), plain)
    elif kind == "grouped":
        x, w = random(1, 9, 9, 12), random(3, 3, 4, 24)
        expected = tf.nn.conv2d(x, w, 1, "SAME")
        case = Case(1, 3, 12, 24, (9, 9), (3, 3), ones, ((1, 1),) * 2, ones, ones, plain)
    elif kind == "depthwise":
        x, w = random(1, 9, 9, 10), random(3, 3, 10, 2)
        expected = tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME")
        w = w.reshape(3, 3, 1, 20)
        case = Case(1, 10, 10, 20, (9, 9), (3, 3), ones, ((1, 1),) * 2, ones, ones, plain)
    elif kind == "transposed":
        x, w = random(1, 7, 7, 10), random(3, 3, 9, 10)
        expected = tf.nn.conv2d_transpose(x, w, (1, 15, 15, 9), 2, "VALID")
        w = w.transpose(0, 1, 3, 2)
        case = Case(1, 1, 10, 9, (7, 7), (3, 3), ones, ((2, 2),) * 2, (2, 2), ones, (True, True))
    else:
        x, w = random(1, 6, 7, 8, 3), random(3, 3, 3, 3, 9)
        expected = tf.nn.conv3d(x, w, [1] * 5, "VALID")
        case = Case(1, 1, 3, 9, (6, 7, 8), (3, 3, 3), ones, ((0, 0),) * 3, ones, ones, plain)
    expected = expected.numpy()
    output = np.full(expected.shape, np.nan, "f4")
    convolve(
        runtime,
        case,
        x.transpose(0, rank + 1, *space),
        w.transpose(rank, rank + 1, *range(rank)),
        output.transpose(0, rank + 1, *space),
    )
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)
