"""The passes of the optimised path on HLO written by hand: what they match, what they must not, and the answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builder.base.errors import LowerError
from builder.compiler.lower.absorbed_inputs import absorb_factor
from builder.compiler.lower.activations import FUNCTIONS, Activation
from builder.compiler.lower.build_program import assemble_program
from builder.compiler.lower.fuse import Layer
from builder.compiler.lower.hlo import Dag, read_dag
from builder.compiler.lower.layers import find_cores
from builder.compiler.lower.normalise import Norm
from builder.compiler.lower.planner import PAGE, Storage, find_touched_pages, place_storages
from builder.compiler.lower.pooling import Pool
from builder.compiler.lower.program import Program
from builder.compiler.lower.program_plan import LoweringOptions
from builder.compiler.lower.schedule import Schedule, schedule_tasks
from builder.compiler.lower.steps.image_step import PoolStep, RepackStep
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.compiler.lower.weight_store import WeightStore
from tests.support.hlo import Module
from tests.support.interpret import Interpreter
from tests.support.places import ports_of


def random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def lowered(module: Module, states: int = 0) -> tuple[Program, Schedule, Dag]:
    dag = read_dag(module.result)
    plan = schedule_tasks(dag, [])
    feeds, fetches = ports_of(dag)
    program, _ = assemble_program(dag, plan, Program((), feeds, fetches, (), 0, 0), states=states)
    return program, plan, dag


def conv(x: Any, kernel: Any, stride: int = 1, padding: int = 0) -> Any:
    x = np.pad(x.astype(np.float64), [(0, 0), (padding, padding), (padding, padding), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel.shape[:2], (1, 2))[:, ::stride, ::stride]
    return np.einsum("nyxckl,klco->nyxo", windows, kernel.astype(np.float64))


def only_layer(plan: Schedule) -> Layer:
    (task,) = plan.tasks
    assert isinstance(task, Layer)
    return task


def test_batch_norm_and_relu_fold_into_one_layer() -> None:
    m, kernel, scale, shift = Module(), random(3, 3, 4, 6), random(6), random(6, seed=1)
    c = m.convolution(m.parameter(2, 7, 7, 4), m.constant(kernel), stride=2, padding=1)
    shape = c.shape.dimensions
    c = m.elementwise("add", m.elementwise("multiply", c, m.spread(scale, shape)), m.spread(shift, shape))
    m.tuple(m.elementwise("maximum", c, m.spread(0.0, shape)))
    program, plan, _ = lowered(m)
    assert only_layer(plan).matched == ("affine", "bias", "relu")
    assert [type(s) for s in program.steps] == [RepackStep, LayerStep]
    x = random(2, 7, 7, 4)
    (answer,) = Interpreter(program).run([x])
    np.testing.assert_allclose(answer, np.maximum(conv(x, kernel, 2, 1) * scale + shift, 0), rtol=1e-5, atol=1e-5)


def test_equal_expressions_are_one_value() -> None:
    m = Module()
    x, y = m.parameter(2, 3), m.parameter(2, 3)
    m.tuple(m.elementwise("add", x, y), m.elementwise("add", y, x), m.elementwise("subtract", x, y))
    first, second, third = read_dag(m.result).outputs
    assert first is second
    assert third is not first


def activated(m: Module, name: str, x: Any) -> Any:
    def c(value: float) -> Any:
        return m.spread(value, x.shape.dimensions)

    def op(opcode: str, *operands: Any) -> Any:
        return m.elementwise(opcode, *operands)

    sigmoid = op("divide", c(1), op("add", c(1), op("exponential", op("negate", x)))) if "oi" in name else None
    six = op("clamp", c(0), op("add", x, c(3)), c(6)) if "hard" in name else None
    match name:
        case "sigmoid":
            return sigmoid
        case "swish":
            return op("multiply", x, op("logistic", x))
        case "hard_sigmoid":
            return op("multiply", six, c(1 / 6))
        case "hard_swish":
            return op("multiply", op("multiply", x, six), c(1 / 6))
        case "gelu":
            return op("multiply", op("multiply", c(0.5), x), op("add", c(1), op("erf", op("multiply", x, c(0.5**0.5)))))
        case "gelu_tanh":
            cube = op("multiply", op("multiply", x, x), x)
            inner = op("multiply", c((2 / np.pi) ** 0.5), op("add", x, op("multiply", c(0.044715), cube)))
            return op("multiply", op("multiply", c(0.5), x), op("add", c(1), op("tanh", inner)))
        case "tanh":
            return op("tanh", x)
        case "elu":
            positive = m.add("compare", (x, c(0)), x.shape.dimensions, comparison_direction="GT")
            positive.shape.element_type = 1
            return m.add("select", (positive, x, op("exponential-minus-one", x)), x.shape.dimensions)
    raise AssertionError(name)


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"identity"}))
def test_activations_are_told_by_their_values(name: str) -> None:
    m, kernel, bias = Module(), random(5, 4), random(4)
    d = m.dot(m.parameter(3, 5), m.constant(kernel))
    m.tuple(activated(m, name, m.elementwise("add", d, m.spread(bias, (3, 4)))))
    program, plan, _ = lowered(m)
    assert only_layer(plan).matched == ("bias", name)
    x = 3 * random(3, 5)
    (answer,) = Interpreter(program).run([x])
    np.testing.assert_allclose(answer, FUNCTIONS[only_layer(plan).activation.name](x @ kernel + bias), 1e-4, 1e-5)


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"identity", "hard_sigmoid"}))
@pytest.mark.parametrize("channels", [False, True])
def test_an_affine_and_a_clamp_of_an_activation_are_one_layer_with_it(name: str, channels: bool) -> None:
    m, kernel = Module(), random(5, 4)
    scale, shift = (random(4, seed=2), random(4, seed=3)) if channels else (np.float32(1.7), np.float32(-0.3))
    y = activated(m, name, m.dot(m.parameter(3, 5), m.constant(kernel)))
    y = m.elementwise("add", m.elementwise("multiply", y, m.spread(scale, (3, 4))), m.spread(shift, (3, 4)))
    m.tuple(m.elementwise("minimum", y, m.spread(0.9, (3, 4))))
    program, plan, _ = lowered(m)
    assert only_layer(plan).activation.name == name
    x = 3 * random(3, 5)
    (answer,) = Interpreter(program).run([x])
    np.testing.assert_allclose(answer, np.minimum(FUNCTIONS[name](x @ kernel) * scale + shift, 0.9), 1e-4, 1e-5)


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.504), (0.4, -1.2), (-2.0, 0.0), (1.0, -0.00791828)])
@pytest.mark.parametrize(("factor", "term"), [(1.0, 0.0), (0.476, -0.0076)])
def test_hard_swish_is_told_between_affines_that_are_merged_with_it(
    scale: float, shift: float, factor: float, term: float
) -> None:
    """As XLA leaves it: the clamp and the product have numbers of their own, and 1 / 6 is part of the factor."""
    m, kernel = Module(), random(5, 4)
    x = m.dot(m.parameter(3, 5), m.constant(kernel))

    def op(opcode: str, value: Any, number: float) -> Any:
        return m.elementwise(opcode, value, m.spread(number, (3, 4)))

    inner = op("multiply", x, scale) if scale != 1 else x
    gate = m.elementwise("clamp", m.spread(0.0, (3, 4)), op("add", inner, shift + 3), m.spread(6.0, (3, 4)))
    y = op("multiply", m.elementwise("multiply", op("add", inner, shift), gate), factor / 6)
    m.tuple(op("add", y, term) if term else y)
    program, plan, _ = lowered(m)
    assert only_layer(plan).activation.name == "hard_swish"
    x = 3 * random(3, 5)
    (answer,) = Interpreter(program).run([x])
    expected = FUNCTIONS["hard_swish"](x @ kernel * scale + shift) * factor + term
    np.testing.assert_allclose(answer, expected, 1e-4, 1e-5)


@pytest.mark.parametrize("slopes", [np.float32(0.1), random(4, seed=5)], ids=["one", "of channels"])
@pytest.mark.parametrize("form", ["select", "two relus"])
def test_a_leaky_relu_is_told_with_one_slope_or_one_for_each_channel(form: str, slopes: Any) -> None:
    m, kernel, shape = Module(), random(5, 4), (3, 4)
    x = m.dot(m.parameter(3, 5), m.constant(kernel))
    slope, zero = m.spread(slopes, shape), m.spread(0.0, shape)
    if form == "select":
        kept = m.elementwise("compare", x, zero, comparison_direction="GE", dtype="bool")
        m.tuple(m.elementwise("select", kept, x, m.elementwise("multiply", x, slope), dtype="float32"))
    else:
        below = m.elementwise("multiply", slope, m.elementwise("maximum", m.elementwise("negate", x), zero))
        m.tuple(m.elementwise("subtract", m.elementwise("maximum", x, zero), below))
    program, plan, _ = lowered(m)
    assert only_layer(plan).activation.name == "prelu"
    x = 3 * random(3, 5)
    (answer,) = Interpreter(program).run([x])
    y = x @ kernel
    np.testing.assert_allclose(answer, np.where(y > 0, y, slopes * y), 1e-4, 1e-5)


def test_whether_a_sum_is_above_a_number_is_no_activation() -> None:
    m = Module()
    x = m.dot(m.parameter(3, 5), m.constant(random(5, 4)))
    m.tuple(m.elementwise("compare", x, m.spread(0.5, (3, 4)), comparison_direction="GT", dtype="bool"))
    with pytest.raises(LowerError, match="nothing stores"):
        lowered(m)  # without XLA's kernels there is nothing to make it with


@pytest.mark.parametrize("factor", [0.5, -0.25])
def test_the_limits_of_a_clamp_follow_what_is_done_to_it(factor: float) -> None:
    m, kernel, bias = Module(), random(5, 4), random(4)
    y = m.elementwise("add", m.dot(m.parameter(3, 5), m.constant(kernel)), m.spread(bias, (3, 4)))
    y = m.elementwise("multiply", m.elementwise("maximum", y, m.spread(0.0, (3, 4))), m.spread(factor, (3, 4)))
    m.tuple(m.elementwise("add", y, m.spread(1.0, (3, 4))))
    program, plan, _ = lowered(m)
    assert only_layer(plan).finish is None
    x = 3 * random(3, 5)
    (answer,) = Interpreter(program).run([x])
    np.testing.assert_allclose(answer, np.maximum(x @ kernel + bias, 0) * factor + 1, 1e-4, 1e-5)


def test_an_activation_that_is_half_seen_as_pixels_and_half_as_rows() -> None:
    m, kernel, bias = Module(), random(5, 4), random(4)
    rows = m.elementwise("add", m.dot(m.parameter(6, 5), m.constant(kernel)), m.spread(bias, (6, 4)))
    half = m.add("bitcast", (m.elementwise("multiply", rows, m.spread(0.5, (6, 4))),), (2, 3, 4))
    inner = m.add("bitcast", (m.elementwise("multiply", rows, m.spread(0.5**0.5, (6, 4))),), (2, 3, 4))
    m.tuple(m.elementwise("multiply", half, m.elementwise("add", m.spread(1, (2, 3, 4)), m.elementwise("erf", inner))))
    program, plan, _ = lowered(m)
    assert only_layer(plan).matched == ("bias", "gelu")
    x = 3 * random(6, 5)
    (answer,) = Interpreter(program).run([x])
    np.testing.assert_allclose(answer, FUNCTIONS["gelu"](x @ kernel + bias).reshape(2, 3, 4), 1e-4, 1e-5)


def test_a_function_that_is_almost_an_activation_is_not_taken_for_it() -> None:
    m = Module()
    d = m.elementwise("negate", m.dot(m.parameter(3, 5), m.constant(random(5, 4))))
    exponential = m.elementwise("add", m.spread(1.0001, (3, 4)), m.elementwise("exponential", d))
    m.tuple(m.elementwise("divide", m.spread(1.0, (3, 4)), exponential))
    with pytest.raises(LowerError, match="nothing stores"):
        lowered(m)


def test_a_small_number_on_top_of_an_activation_is_kept() -> None:
    """Even 1e-7 on top of a sigmoid decides what a logarithm makes of it."""
    m = Module()
    almost = activated(m, "sigmoid", m.dot(m.parameter(3, 5), m.constant(-np.ones((5, 4), np.float32))))
    m.tuple(m.elementwise("add", almost, m.spread(1e-7, (3, 4))))
    program, _, _ = lowered(m)
    (answer,) = Interpreter(program).run([np.full((3, 5), 100, np.float32)])
    np.testing.assert_allclose(answer, 1e-7, rtol=1e-6)


def test_a_residual_is_added_by_the_later_layer() -> None:
    m, first, second, scale = Module(), random(1, 1, 4, 6), random(3, 3, 4, 6), random(6)
    x = m.parameter(1, 5, 5, 4)
    a = m.convolution(x, m.constant(first))
    b = m.elementwise("multiply", m.convolution(x, m.constant(second), padding=1), m.spread(scale, (1, 5, 5, 6)))
    m.tuple(m.elementwise("subtract", a, b))
    program, plan, _ = lowered(m)
    assert [t.matched for t in plan.tasks if isinstance(t, Layer)] == [(), ("affine", "residual")]
    value = random(1, 5, 5, 4)
    (answer,) = Interpreter(program).run([value])
    np.testing.assert_allclose(answer, conv(value, first) - conv(value, second, 1, 1) * scale, 1e-4, 1e-5)


@pytest.mark.parametrize(("pixels", "fused"), [(0, True), (1, False)])
def test_a_residual_may_lack_the_last_channels(pixels: int, fused: bool) -> None:
    m, first, second = Module(), random(1, 1, 4, 6), random(3, 3, 6, 9)
    a = m.convolution(m.parameter(1, 5, 5, 4), m.constant(first))
    b = m.convolution(a, m.constant(second), padding=1 + pixels)
    m.tuple(m.elementwise("maximum", m.elementwise("add", m.pad(a, pixels, 3), b), m.spread(0.0, b.shape.dimensions)))
    if not fused:
        with pytest.raises(LowerError, match="nothing stores"):
            lowered(m)
        return
    program, plan, _ = lowered(m)
    assert [t.matched for t in plan.tasks if isinstance(t, Layer)] == [(), ("residual", "relu")]
    value = random(1, 5, 5, 4)
    (answer,) = Interpreter(program).run([value])
    one = conv(value, first)
    expected = np.pad(one, [(0, 0)] * 3 + [(0, 3)]) + conv(one, second, 1, 1)
    np.testing.assert_allclose(answer, np.maximum(expected, 0), 1e-4, 1e-5)


def test_a_residual_that_lacks_the_last_numbers_of_each_head_is_no_residual() -> None:
    """The channels are two dimensions, so those that are missing are not the last ones."""
    m = Module()
    heads = m.add("bitcast", (m.dot(m.parameter(16, 5), m.constant(random(5, 8))),), (4, 4, 2, 4))
    m.tuple(m.elementwise("add", m.pad(m.parameter(4, 4, 2, 3), 0, 1), heads))
    with pytest.raises(LowerError, match="nothing stores"):
        lowered(m)


def test_a_relu_is_a_clamp_even_where_its_pixels_are_read_as_rows() -> None:
    """A 1x1 convolution reads a bitcast; a leaky ReLU without a slope would be the slower epilogue."""
    m = Module()
    y = m.convolution(m.parameter(1, 4, 4, 3), m.constant(random(3, 3, 3, 8)), padding=1)
    rows = m.add("bitcast", (m.elementwise("maximum", y, m.spread(0.0, (1, 4, 4, 8))),), (16, 8))
    m.tuple(m.dot(rows, m.constant(random(8, 5))))
    _, plan, _ = lowered(m)
    first = next(task for task in plan.tasks if isinstance(task, Layer))
    assert first.activation == Activation("clamp", 0.0)


def test_a_value_that_is_fetched_is_stored() -> None:
    """Pre-activation: the sum is an answer, its normalised and clamped form the next layer's input."""
    m, first, second, scale, shift = Module(), random(3, 3, 4, 6), random(3, 3, 6, 2), random(6), random(6, seed=1)
    shape = (1, 6, 6, 6)
    sums = m.convolution(m.parameter(1, 6, 6, 4), m.constant(first), padding=1)
    normal = m.elementwise("add", m.elementwise("multiply", sums, m.spread(scale, shape)), m.spread(shift, shape))
    after = m.convolution(m.elementwise("maximum", normal, m.spread(0.0, shape)), m.constant(second), padding=1)
    m.tuple(sums, after)
    program, plan, _ = lowered(m)
    assert [t.matched for t in plan.tasks if isinstance(t, Layer)] == [("second output",), ()]
    x = random(1, 6, 6, 4)
    one = conv(x, first, 1, 1)
    answers = Interpreter(program).run([x])
    np.testing.assert_allclose(answers[0], one, 1e-4, 1e-5)
    np.testing.assert_allclose(answers[1], conv(np.maximum(one * scale + shift, 0), second, 1, 1), 1e-4, 1e-4)
    assert not any(isinstance(s, RepackStep) for s in program.steps[1:]), "the second output has its halo"


def test_a_pad_becomes_the_halo_of_what_it_pads() -> None:
    m, first, second = Module(), random(1, 1, 3, 5), random(3, 3, 5, 4)
    c = m.convolution(m.parameter(2, 4, 4, 3), m.constant(first))
    m.tuple(m.convolution(m.pad(c, 1), m.constant(second), stride=2))
    program, _, _ = lowered(m)
    assert [type(s) for s in program.steps] == [LayerStep, LayerStep]
    x = random(2, 4, 4, 3)
    (answer,) = Interpreter(program).run([x])
    np.testing.assert_allclose(answer, conv(conv(x, first), second, 2, 1), 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("padding", "fetched", "also", "states", "space"),
    [
        (1, False, False, 0, "feed"),
        (0, False, False, 0, "arena"),  # a thin layer reads it as it is
        (1, True, False, 0, "arena"),
        (1, False, True, 0, "arena"),  # a layer without a halo reads it as well
        (1, False, False, 1, "arena"),  # no caller has it
    ],
)
def test_a_feed_that_is_only_copied_has_no_place(
    padding: int, fetched: bool, also: bool, states: int, space: str
) -> None:
    m = Module()
    x, kernel = m.parameter(1, 9, 9, 3), random(3, 3, 3, 6)
    outputs = [m.convolution(x, m.constant(kernel), padding=padding)]
    outputs += [x] if fetched else []
    outputs += [m.convolution(x, m.constant(random(1, 1, 3, 2)))] if also else []
    m.tuple(*outputs)
    program, _, _ = lowered(m, states)
    (feed,) = program.feeds
    assert (feed.buffer.space, feed.buffer.size) == (space, 4 * 9 * 9 * 3)
    value = random(1, 9, 9, 3)
    np.testing.assert_allclose(Interpreter(program).run([value])[0], conv(value, kernel, padding=padding), 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("also", "states", "space"),
    [
        ("nothing", 0, "feed"),
        ("a second layer", 0, "feed"),
        ("residual", 0, "arena"),  # epilogues read whole vectors
        ("fetched", 0, "arena"),
        ("nothing", 1, "arena"),  # no caller has it
    ],
)
@pytest.mark.parametrize("rows", [1, 5])
def test_a_feed_that_is_only_multiplied_has_no_place(rows: int, also: str, states: int, space: str) -> None:
    m, size = Module(), 24
    x, kernel, second = m.parameter(rows, size), random(size, size), random(size, 20, seed=1)
    product = m.dot(x, m.constant(kernel))
    outputs = [m.elementwise("add", product, x) if also == "residual" else product]
    outputs += [m.dot(x, m.constant(second))] if also == "a second layer" else []
    outputs += [x] if also == "fetched" else []
    m.tuple(*outputs)
    program, _, _ = lowered(m, states)
    (feed,) = program.feeds
    assert (feed.buffer.space, feed.buffer.size) == (space, 4 * rows * size)
    value = random(rows, size, seed=2)
    answers = Interpreter(program).run([value])
    np.testing.assert_allclose(answers[0], value @ kernel + value * (also == "residual"), 1e-4, 1e-5)
    if also == "a second layer":
        np.testing.assert_allclose(answers[1], value @ second, 1e-4, 1e-5)


def test_grouped_and_depthwise() -> None:
    m, first, second = Module(), random(3, 3, 2, 6), random(3, 3, 1, 6)
    c = m.convolution(m.parameter(1, 6, 6, 4), m.constant(first), groups=2)
    m.tuple(m.convolution(c, m.constant(second), padding=1, groups=6))
    program, _, _ = lowered(m)
    assert [s.algorithm for s in program.steps if isinstance(s, LayerStep)] == ["thin", "depthwise"]
    x = random(1, 6, 6, 4)
    halves = [conv(x[..., 2 * g : 2 * g + 2], first[..., 3 * g : 3 * g + 3]) for g in (0, 1)]
    middle = np.concatenate(halves, -1)
    each = [conv(middle[..., c : c + 1], second[..., c : c + 1], 1, 1) for c in range(6)]
    np.testing.assert_allclose(Interpreter(program).run([x])[0], np.concatenate(each, -1), 1e-4, 1e-4)


@pytest.mark.parametrize("turned", [False, True])
def test_weights_repeated_for_every_matrix_are_those_of_one_product(turned: bool) -> None:
    m, kernel, bias = Module(), random(5, 4), random(4, seed=1)
    matrix = m.constant(kernel.T if turned else kernel)
    if turned:
        matrix = m.add("transpose", (matrix,), (5, 4), dimensions=[1, 0])
    repeated = m.add("broadcast", (matrix,), (3, 5, 4), dimensions=[1, 2])
    m.tuple(m.elementwise("add", m.dot(m.parameter(3, 6, 5), repeated), m.spread(bias, (3, 6, 4))))
    program, plan, _ = lowered(m)
    assert [t.matched for t in plan.tasks if isinstance(t, Layer)] == [("bias",)]
    assert [type(s) for s in program.steps] == [LayerStep]
    x = random(3, 6, 5)
    np.testing.assert_allclose(Interpreter(program).run([x])[0], x @ kernel + bias, 1e-4, 1e-5)


def test_weights_that_differ_from_matrix_to_matrix_are_no_layer() -> None:
    m, kernel = Module(), random(3, 5, 4)
    d = m.dot(m.parameter(3, 6, 5), m.constant(kernel))
    m.tuple(d)
    with pytest.raises(LowerError):
        lowered(m)


def test_the_mean_of_an_image_feeds_a_dense_layer() -> None:
    m, kernel = Module(), random(4, 3)
    x = m.parameter(2, 5, 5, 4)
    total = m.reduce("add", x, [1, 2])
    mean = m.elementwise("multiply", total, m.spread(1 / 25, (2, 4)))
    m.tuple(m.dot(mean, m.constant(kernel)))
    program, plan, _ = lowered(m)
    assert [type(t) for t in plan.tasks] == [Pool, Layer]
    assert [type(s) for s in program.steps] == [PoolStep, LayerStep]
    value = random(2, 5, 5, 4)
    np.testing.assert_allclose(Interpreter(program).run([value])[0], value.mean((1, 2)) @ kernel, 1e-4, 1e-5)


@pytest.mark.parametrize("channels", [40, 31])
def test_the_softmax_of_a_layer_is_one_step_where_its_rows_are_long(channels: int) -> None:
    """Its largest numbers are those of a tensor with an axis of size 1 in front."""
    m, kernel = Module(), random(5, channels)
    scores = m.dot(m.parameter(3, 5), m.constant(kernel))
    largest = m.reduce("maximum", m.add("bitcast", (scores,), (1, 3, channels)), [0, 2])
    less = m.elementwise("subtract", scores, m.add("broadcast", (largest,), (3, channels), dimensions=[0]))
    powers = m.elementwise("exponential", less)
    total = m.add("broadcast", (m.reduce("add", powers, [1]),), (3, channels), dimensions=[0])
    m.tuple(m.elementwise("divide", powers, total))
    if channels < 32:
        with pytest.raises(LowerError, match="nothing stores"):
            lowered(m)  # without XLA's kernels there is nothing to make it with
        return
    program, plan, _ = lowered(m)
    assert [type(t) for t in plan.tasks] == [Layer, Norm]
    x = random(3, 5)
    expected = np.exp(x @ kernel)
    (answer,) = Interpreter(program).run([x])
    np.testing.assert_allclose(answer, expected / expected.sum(-1, keepdims=True), 1e-5)


def storages(seed: int, threads: int) -> list[Storage]:
    """Values of a network and, by some of its steps, scratch for so many threads."""
    rng = np.random.default_rng(seed)
    found = []
    for step in range(40):
        found.append(Storage(int(rng.integers(1, 300_000)), step, step + int(rng.integers(1, 4))))
        if step % 3 == 0:
            alone = int(rng.integers(1, 60_000))
            found.append(Storage(alone * threads, step, step, alone=alone))
    return found


@pytest.mark.parametrize("threads", [1, 16])
def test_places_of_values_that_live_together_do_not_overlap(threads: int) -> None:
    found = storages(3, threads)
    size, touched = place_storages(found)
    assert 0 <= touched <= size
    assert size < sum(s.size for s in found) / 2
    for i, a in enumerate(found):
        assert a.offset % 64 == 0
        assert a.offset + a.size <= size
        for b in found[:i]:
            together = a.first <= b.last and b.first <= a.last
            apart = a.offset + a.size <= b.offset or b.offset + b.size <= a.offset
            assert apart or not together


def test_one_thread_touches_hardly_more_than_what_lives_at_a_time() -> None:
    """Each page is a fault in a function's first request, and stays. Largest first, it would be 1.4 to 2 times that."""
    for seed in range(10):
        found = storages(seed, threads=16)
        place_storages(found)
        least = max(sum(s.touched for s in found if s.first <= step <= s.last) for step in range(40))
        assert len(find_touched_pages(found)) * PAGE < 1.4 * least


def test_what_every_run_touches_ends_where_scratch_for_other_threads_begins() -> None:
    scratch = Storage(160_000, 1, 1, alone=10_000)
    found = [Storage(50_000, 0, 2), scratch]
    size, touched = place_storages(found)
    assert scratch.offset + 10_000 <= touched < scratch.offset + 10_000 + PAGE
    assert size >= scratch.offset + scratch.size


def test_without_scratch_for_threads_the_largest_comes_first() -> None:
    found = [Storage(100, 0, 1), Storage(5000, 1, 2), Storage(300, 1, 1)]
    assert place_storages(found)[0] == 5504
    assert [s.offset for s in found] == [5376, 0, 5056]


def test_equal_weights_are_stored_once() -> None:
    store = WeightStore()
    places = [store.add_constant(b"abcd"), store.add_constant(b"efgh"), store.add_constant(b"abcd")]
    assert places[0] == places[2] != places[1]
    assert [w.offset for w in store.weights] == [0, 64]


def excited(m: Module, *, side: int = 12, outer: int = 24, stored: bool = False, batch: int = 1) -> Any:
    """A 1x1 layer of a picture whose channels are multiplied by what a dense layer gives."""
    first, gates, kernel = random(3, 3, 6, 32), random(5, 32), random(1, 1, 32, outer)
    picture = m.convolution(m.parameter(batch, side, side, 6), m.constant(first), padding=1)
    shape = picture.shape.dimensions
    gate = m.add("bitcast", (activated(m, "sigmoid", m.dot(m.parameter(1, 5), m.constant(gates))),), (32,))
    product = m.elementwise("multiply", picture, m.add("broadcast", (gate,), shape, dimensions=[3]))
    m.tuple(m.convolution(product, m.constant(kernel)), *([product] if stored else []))
    x, y = random(batch, side, side, 6), random(1, 5)
    sums = conv(x, first, 1, 1) / (1 + np.exp(-(y.astype(np.float64) @ gates)))
    return (x, y), sums @ kernel[0, 0].astype(np.float64)


def test_factors_of_channels_multiply_the_weights_of_the_layer_behind() -> None:
    m = Module()
    feeds, expected = excited(m)
    program, plan, _ = lowered(m)
    assert sum(isinstance(task, Layer) for task in plan.tasks) == 3
    last = program.steps[-1]
    assert isinstance(last, LayerStep)
    assert last.factor is not None
    assert (last.factor.size, last.geometry.in_channels) == (4 * 32, 32)
    (answer,) = Interpreter(program).run(feeds)
    np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param({"stored": True}, id="the product is an answer as well"),
        pytest.param({"side": 2, "outer": 64}, id="there are more weights than numbers in the picture"),
        pytest.param({"side": 1}, id="a product with a vector"),
        pytest.param({"outer": 4}, id="pixels are in the lanes"),
        pytest.param({"batch": 2}, id="the factors are of all pictures"),
    ],
)
def test_factors_stay_where_that_saves_nothing(case: dict[str, Any]) -> None:
    m = Module()
    excited(m, **case)
    dag = read_dag(m.result)
    cores = find_cores(dag)
    assert [absorb_factor(core, dag) for core in cores] == cores


def test_factors_stay_where_the_product_is_wanted() -> None:
    """As that which is rounded to bytes, or to be looked at."""
    m = Module()
    excited(m)
    dag = read_dag(m.result)
    with pytest.raises(LowerError, match="nothing stores"):  # none of XLA's steps, which would multiply, is here
        schedule_tasks(dag, [], lambda core: True)
    name = dag.outputs[0].instruction.name
    core = next(core for core in find_cores(dag) if core.value.instruction.name == name)
    assert LoweringOptions(whole=True).is_product_wanted(core)
    assert LoweringOptions(quantisations={core.name: Quantisation(1.0, 0)}).is_product_wanted(core)
    assert not LoweringOptions().is_product_wanted(core)
