"""Layers of integers as quantised models write them in HLO: what is matched, what is not, and the steps that follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from builder.base.errors import LowerError
from builder.compiler.lower.build_program import assemble_program
from builder.compiler.lower.hlo import read_dag
from builder.compiler.lower.integer_concatenations import find_integer_concatenations
from builder.compiler.lower.integer_layers import IntegerLayer, find_integer_layers
from builder.compiler.lower.integer_pools import find_integer_pools
from builder.compiler.lower.program import Program
from builder.compiler.lower.schedule import schedule_tasks
from builder.compiler.lower.steps.addition_step import AdditionStep
from builder.compiler.lower.steps.image_step import PoolStep, RepackStep, SumRounding
from builder.compiler.lower.steps.layer_step import LayerStep
from tests.support.hlo import Module
from tests.support.places import ports_of

RANDOM = np.random.default_rng(5)


def weights(*shape: int) -> Any:
    return RANDOM.integers(-128, 128, shape)


def centre(m: Module, x: Any, zero: int) -> Any:
    wide = m.convert(x, "int32")
    return m.elementwise("add", wide, m.spread(-zero, x.shape.dimensions, "int32")) if zero else wide


def round_sums(m: Module, sums: Any, zero: int = -3, dtype: str = "int8", least: int = -128) -> Any:
    """What follows a convolution: its bias, a factor for each channel, and bytes."""
    shape, channels = sums.shape.dimensions, sums.shape.dimensions[-1]
    sums = m.elementwise("add", sums, m.spread(RANDOM.integers(-99, 99, channels), shape, "int32"))
    scaled = m.elementwise(
        "multiply", m.convert(sums, "float32"), m.spread(RANDOM.uniform(0.001, 0.01, channels), shape)
    )
    moved = m.elementwise("round-nearest-even", scaled)
    moved = m.elementwise("add", moved, m.spread(float(zero), shape)) if zero else moved
    bounds = [m.spread(float(bound), shape) for bound in (least, least + 255)]
    return m.convert(m.add("clamp", (bounds[0], moved, bounds[1]), shape), dtype)


def convolve(m: Module, x: Any, outputs: int, zero: int = 7, kernel: Any = None) -> Any:
    kernel = weights(3, 3, x.shape.dimensions[-1], outputs) if kernel is None else kernel
    return m.convolution(centre(m, x, zero), m.constant(kernel, "int32"), padding=1)


def lower(m: Module) -> Program:
    dag = read_dag(m.result)
    feeds, fetches = ports_of(dag)
    program, _ = assemble_program(dag, schedule_tasks(dag, []), Program((), feeds, fetches, (), 0, 0))
    return program


@pytest.mark.parametrize(("dtype", "least", "zero"), [("int8", -128, -128), ("int8", -128, 0), ("uint8", 0, 255)])
def test_a_chain_stays_bytes(dtype: str, least: int, zero: int) -> None:
    """Bytes have another form only where the caller sees them, and halos are where a layer reads them."""
    m = Module()
    first = round_sums(m, convolve(m, m.parameter(2, 6, 6, 8, dtype=dtype), 16, zero), zero, dtype, least)
    m.tuple(round_sums(m, convolve(m, first, 24, zero), zero, dtype, least))
    program = lower(m)
    assert [type(step) for step in program.steps] == [RepackStep, LayerStep, LayerStep, RepackStep]
    one, two = (step for step in program.steps if isinstance(step, LayerStep))
    assert one.rounded is not None
    assert two.rounded is not None
    assert (one.rounded.halo, two.rounded.halo) == ((1, 1, 1, 1), (0, 0, 0, 0))
    assert one.rounded.by.zero == zero - least
    assert two.quantisation is not None
    assert two.quantisation.zero == zero - least
    assert (one.epilogue.low, one.epilogue.high) == (least - zero, least + 255 - zero)


def test_the_numbers_of_a_layer() -> None:
    m, kernel = Module(), weights(3, 3, 5, 4)
    m.tuple(round_sums(m, convolve(m, m.parameter(1, 4, 4, 5, dtype="int8"), 4, kernel=kernel)))
    (layer,) = find_integer_layers(read_dag(m.result))
    np.testing.assert_array_equal(layer.kernel, kernel)
    assert layer.zero == 135
    assert layer.rounding is not None
    assert (layer.rounding.by.zero, layer.rounding.low, layer.rounding.high) == (125, -125.0, 130.0)


def test_channels_that_are_no_fours_are_read_as_words() -> None:
    m = Module()
    m.tuple(round_sums(m, convolve(m, m.parameter(1, 4, 4, 3, dtype="int8"), 4)))
    step = next(step for step in lower(m).steps if isinstance(step, LayerStep))
    assert step.input.pixel == 4


def test_rows_of_a_flat_image_are_read_where_they_lie() -> None:
    m = Module()
    x = round_sums(m, convolve(m, m.parameter(2, 4, 4, 8, dtype="int8"), 4))
    flat = m.add("reshape", (x,), (2, 64), "int8")
    m.tuple(round_sums(m, m.dot(centre(m, flat, -3), m.constant(weights(64, 10), "int32"))))
    assert [type(step) for step in lower(m).steps] == [RepackStep, LayerStep, LayerStep, RepackStep]


def write_out(m: Module, filters: Any, axes: tuple[int, int] = (2, 3)) -> Any:
    """A depthwise kernel [KH, KW, C] as XLA's CPU backend writes it: with zeros beside the diagonal."""
    shape = (*filters.shape, filters.shape[2])
    numbers = [m.add("iota", (), shape, "int32", dimensions=[axis]) for axis in axes]
    mask = m.elementwise("compare", *numbers, dtype="bool", comparison_direction="EQ")
    spread = m.add("broadcast", (m.constant(filters, "int32"),), shape, "int32", dimensions=[0, 1, 3])
    return m.elementwise("select", mask, spread, m.spread(0, shape, "int32"), dtype="int32")


def test_a_filter_for_each_channel() -> None:
    m, filters = Module(), weights(3, 5, 12)
    x = m.parameter(1, 6, 6, 12, dtype="int8")
    m.tuple(round_sums(m, m.convolution(centre(m, x, 4), write_out(m, filters), padding=2)))
    (layer,) = find_integer_layers(read_dag(m.result))
    assert layer.core.geometry.depthwise
    np.testing.assert_array_equal(layer.kernel[:, :, 0], filters)
    assert [s.algorithm for s in lower(m).steps if isinstance(s, LayerStep)] == ["integer_depthwise"]


def test_a_kernel_with_another_diagonal_is_whole() -> None:
    m, filters = Module(), weights(4, 4, 4)
    x = m.parameter(1, 6, 6, 4, dtype="int8")
    m.tuple(round_sums(m, m.convolution(centre(m, x, 4), write_out(m, filters, (0, 3)), padding=2)))
    (layer,) = find_integer_layers(read_dag(m.result))
    assert layer.kernel.shape == (4, 4, 4, 4)
    for y, x, i, o in np.ndindex(4, 4, 4, 4):
        assert layer.kernel[y, x, i, o] == (filters[y, x, o] if y == o else 0)


def add_bytes(m: Module, a: Any, b: Any, factor: int = 3000) -> Any:
    """A residual as LiteRT adds it."""
    shape = a.shape.dimensions
    scaled = [
        m.elementwise("multiply", centre(m, x, zero), m.spread(number, shape, "int32"))
        for x, zero, number in ((a, -3, 1500), (b, 9, factor))
    ]
    total = m.elementwise("add", m.elementwise("add", *scaled), m.spread(1 << 11, shape, "int32"))
    shifted = m.elementwise("shift-right-arithmetic", total, m.spread(12, shape, "int32"))
    moved = m.elementwise("add", shifted, m.spread(-20, shape, "int32"))
    bounds = [m.spread(bound, shape, "int32") for bound in (-128, 127)]
    return m.convert(m.add("clamp", (bounds[0], moved, bounds[1]), shape, "int32"), "int8")


def test_a_residual_stays_bytes() -> None:
    m = Module()
    first = round_sums(m, convolve(m, m.parameter(1, 6, 6, 8, dtype="int8"), 8))
    m.tuple(round_sums(m, convolve(m, add_bytes(m, first, round_sums(m, convolve(m, first, 8, -3))), 8, -20)))
    kinds = [type(step) for step in lower(m).steps]
    assert kinds == [RepackStep, LayerStep, LayerStep, AdditionStep, LayerStep, RepackStep]
    step = next(step for step in lower(m).steps if isinstance(step, AdditionStep))
    assert (step.shift, step.low, step.high, step.output.by.zero) == (12, 0, 255, 108)
    a, b = np.meshgrid(np.arange(-128, 128), np.arange(-128, 128))
    expected = ((a + 3) * 1500 + (b - 9) * 3000 + 2048) >> 12
    found = ((a + 128) * step.factors[0] + (b + 128) * step.factors[1] + step.start) >> 12
    np.testing.assert_array_equal(found, expected)


def test_bytes_with_another_scale() -> None:
    """A sum of one tensor."""
    m = Module()
    x = m.parameter(2, 5, 8, dtype="int8")
    m.tuple(add_bytes(m, x, x))
    (step,) = (step for step in lower(m).steps if isinstance(step, AdditionStep))
    assert step.factors == (4500, 0)


def clamp_bytes(m: Module, x: Any, bounds: tuple[int, int] = (-128, 127), dtype: str = "int8") -> Any:
    shape, wide = x.shape.dimensions, m.convert(x, "int32")
    low, high = (m.spread(bound, shape, "int32") for bound in bounds)
    return m.convert(m.add("clamp", (low, wide, high), shape, "int32"), dtype)


def rescale_sums(m: Module, sums: Any, factor: float = float(np.float32(0.0304)), offset: float = 6.5) -> Any:
    """The mean of bytes, with another scale."""
    shape = sums.shape.dimensions
    product = m.elementwise("multiply", m.convert(sums, "float64"), m.spread(factor, shape, "float64"))
    moved = m.elementwise("add", m.convert(product, "float32"), m.spread(offset, shape))
    bounds = [m.spread(float(bound), shape) for bound in (-128, 127)]
    rounded = m.elementwise("round-nearest-even", moved)
    return m.convert(m.add("clamp", (bounds[0], rounded, bounds[1]), shape), "int8")


def divide_sums(m: Module, sums: Any, counts: Any) -> Any:
    """The mean of the bytes in each window, of ``counts`` [h, w] pixels or one number."""
    shape = sums.shape.dimensions
    divisor = m.constant(counts, "float64")
    spread = m.add("broadcast", (divisor,), shape, "float64", dimensions=[1, 2] if np.ndim(counts) else [])
    mean = m.convert(m.elementwise("divide", m.convert(sums, "float64"), spread), "float32")
    return clamp_bytes(m, m.elementwise("round-nearest-afz", mean))


def widen(m: Module, x: Any) -> Any:
    return m.convert(x, "int32")


POOLS: dict[str, Callable[[Module, Any], Any]] = {
    "maximum": lambda m, x: clamp_bytes(m, m.reduce_window("maximum", x, (3, 3), 2, (1, 1))),
    "maximum without a clamp": lambda m, x: m.reduce_window("maximum", x, (2, 2), 2),
    "mean with another scale": lambda m, x: rescale_sums(m, m.reduce_window("add", widen(m, x), (3, 3), 3)),
    "mean": lambda m, x: divide_sums(m, m.reduce_window("add", widen(m, x), (2, 2), 2), 4.0),
    "mean at the edges": lambda m, x: divide_sums(
        m, m.reduce_window("add", widen(m, x), (2, 2), 1, (1, 0)), np.outer([1, *[2] * 5], [1, *[2] * 5])
    ),
}


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_stays_bytes(name: str) -> None:
    """Its output has the halo that the layer behind it reads."""
    m = Module()
    x = round_sums(m, convolve(m, m.parameter(2, 6, 6, 8, dtype="int8"), 16), -3)
    m.tuple(round_sums(m, convolve(m, POOLS[name](m, x), 8, -5)))
    program = lower(m)
    assert [type(step) for step in program.steps] == [RepackStep, LayerStep, PoolStep, LayerStep, RepackStep]
    pool = program.steps[2]
    assert isinstance(pool, PoolStep)
    assert pool.halo == (1, 1, 1, 1)
    assert pool.rounded is not None
    assert pool.rounded.zero == 123


def test_the_mean_of_an_image() -> None:
    m = Module()
    x = m.parameter(2, 6, 7, 8, dtype="int8")
    m.tuple(rescale_sums(m, m.reduce("add", widen(m, x), [1, 2])))
    (step,) = (step for step in lower(m).steps if isinstance(step, PoolStep))
    assert (step.window, step.out_size) == ((6, 7), (1, 1))
    assert step.sums == SumRounding(-128, -128, 127, float(np.float32(0.0304)), 6.5)


NOT_POOLS: dict[str, Callable[[Module, Any], Any]] = {
    "a clamp to fewer numbers": lambda m, x: clamp_bytes(m, m.reduce_window("maximum", x, (2, 2)), (-9, 99)),
    "bytes of another type": lambda m, x: clamp_bytes(m, m.reduce_window("maximum", x, (2, 2)), (0, 255), "uint8"),
    "another count": lambda m, x: divide_sums(m, m.reduce_window("add", widen(m, x), (2, 2), 2), 5.0),
    "padding that counts": lambda m, x: divide_sums(m, m.reduce_window("add", widen(m, x), (2, 2), 1, (1, 0)), 4.0),
    "a factor that no float32 is": lambda m, x: rescale_sums(m, m.reduce("add", widen(m, x), [1, 2]), 0.1),
    "an offset beyond all sums": lambda m, x: rescale_sums(m, m.reduce("add", widen(m, x), [1, 2]), 0.5, 1e7),
    "sums of no image": lambda m, x: rescale_sums(m, m.reduce("add", widen(m, x), [3])),
}


@pytest.mark.parametrize("name", NOT_POOLS)
def test_pools_that_stay_with_xla(name: str) -> None:
    """The maximum before a clamp may be one."""
    m = Module()
    m.tuple(NOT_POOLS[name](m, m.parameter(2, 6, 6, 8, dtype="int8")))
    dag = read_dag(m.result)
    assert dag.outputs[0].base not in {pool.value for pool in find_integer_pools(dag)}


def join_channels(m: Module, *values: Any) -> Any:
    first = values[0].shape.dimensions
    shape = (*first[:-1], sum(value.shape.dimensions[-1] for value in values))
    return m.add("concatenate", values, shape, "int8", dimensions=[len(shape) - 1])


def test_channels_are_joined_as_bytes() -> None:
    """Each source, of any number of channels, is copied to its place with its part of the halo."""
    m = Module()
    x = round_sums(m, convolve(m, m.parameter(2, 6, 6, 8, dtype="int8"), 6), -3)
    joined = join_channels(m, x, round_sums(m, convolve(m, x, 5, -3), -3), x)
    m.tuple(round_sums(m, convolve(m, joined, 8, -3)))
    copies = [step for step in lower(m).steps if isinstance(step, RepackStep)][1:-1]
    assert [step.channels for step in copies] == [6, 5, 6]
    assert {(step.dtype, step.halo, step.zero, step.output.pixel) for step in copies} == {("byte", (1,) * 4, 125, 20)}
    starts = [step.output.first for step in copies]
    assert [start - starts[0] for start in starts] == [0, 6, 11]


def test_tensors_that_xla_stores_are_joined_by_xla() -> None:
    m = Module()
    x = m.parameter(2, 6, 6, 8, dtype="int8")
    y = round_sums(m, convolve(m, x, 8))
    m.tuple(join_channels(m, x, y))
    dag = read_dag(m.result)
    assert find_integer_concatenations(dag, find_integer_layers(dag)) == []


def test_a_tensor_with_two_zero_points_has_no_halo_for_both() -> None:
    m = Module()
    x = m.parameter(1, 6, 6, 8, dtype="int8")
    m.tuple(*(round_sums(m, convolve(m, x, 4, zero)) for zero in (1, 2)))
    with pytest.raises(LowerError, match="two zero points"):
        lower(m)


def _spoil(change: Callable[[Module, Any], Any]) -> Module:
    m = Module()
    x = m.parameter(1, 4, 4, 8, dtype="int8")
    m.tuple(round_sums(m, change(m, x)))
    return m


NOT_LAYERS = {
    "weights beyond int8": lambda m, x: convolve(m, x, 4, kernel=np.full((3, 3, 8, 4), 128)),
    "weights that are an input": lambda m, x: m.convolution(centre(m, x, 1), m.parameter(3, 3, 8, 4, dtype="int32")),
    "a zero point that no byte has": lambda m, x: convolve(m, x, 4, zero=300),
    "integers that are no bytes": lambda m, x: m.convolution(
        m.parameter(1, 4, 4, 8, dtype="int32"), m.constant(weights(3, 3, 8, 4), "int32"), padding=1
    ),
}


@pytest.mark.parametrize("name", NOT_LAYERS)
def test_what_stays_with_xla(name: str) -> None:
    m = _spoil(NOT_LAYERS[name])
    assert find_integer_layers(read_dag(m.result)) == []
    with pytest.raises(LowerError, match="nothing stores"):
        lower(m)


def test_sums_that_are_fetched_are_stored() -> None:
    """As everything is that XLA's kernels need on the way to bytes."""
    m = Module()
    sums = convolve(m, m.parameter(1, 4, 4, 8, dtype="int8"), 4)
    m.tuple(sums)
    dag = read_dag(m.result)
    (task,) = schedule_tasks(dag, []).tasks
    assert isinstance(task, IntegerLayer)
    assert task.rounding is None
    assert [step.stores_sums for step in lower(m).steps if isinstance(step, LayerStep)] == [True]
