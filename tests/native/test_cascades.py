"""Cascades through the C ABI: layers a stripe of rows at a time give the bits of the same layers one after another."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from builder.base.project import RUNTIME
from builder.base.targets import X86_64
from builder.compiler.emit import emit_sources
from builder.compiler.lower.buffers import SLACK
from builder.compiler.lower.cascade import LayerOutput, compute_most_rows
from builder.compiler.lower.geometry import Geometry
from builder.compiler.lower.layouts import NO_HALO, TensorLayout, choose_pixel_stride
from builder.compiler.lower.packing import MAX_THREADS, pack_layer, pad_channels
from builder.compiler.lower.program import BoundPort, Program
from builder.compiler.lower.steps.base import Buffer, Step, View, align_offset, walk_steps
from builder.compiler.lower.steps.cascade_step import CascadeStep
from builder.compiler.lower.steps.layer_step import Epilogue, LayerStep
from builder.config import ModelSpec, Source
from builder.config.tensor import TensorSpec
from builder.verify.library.loaded_library import OpenedModel
from tests.support import needs
from tests.support.instrumented import OBJECTS, link
from tests.support.places import Places

SPEC = ModelSpec(Path("model.toml"), "cascades", "1", Source("graph_def", Path("g.pb")))


@dataclass(frozen=True)
class Sort:
    """One layer of a cascade; ``channels`` None: depthwise. ``around``: top, left, bottom, right of its padding."""

    kernel: tuple[int, int] = (1, 1)
    channels: int | None = None
    stride: int = 1
    dilation: int = 1
    around: tuple[int, int, int, int] = NO_HALO
    activation: str = "clamp"
    residual: bool = False
    second: bool = False


@dataclass(frozen=True)
class Case:
    """``size``: of the first layer's input, its padding included."""

    name: str
    size: tuple[int, int]
    channels: int
    layers: tuple[Sort, ...]
    rows: int
    batch: int = 1


EVEN = (1, 1, 1, 1)
CASES = (
    Case("expand, depthwise, project", (17, 9), 8, (
        Sort(channels=24), Sort((3, 3), around=EVEN), Sort(channels=8, residual=True),
    ), 3),
    Case("strides of two", (43, 31), 3, (
        Sort((3, 3), 16, 2), Sort((3, 3), stride=2, around=(0, 0, 1, 1)),
        Sort(channels=40, activation="swish", second=True),
    ), 1),
    Case("a batch", (14, 11), 16, (
        Sort((5, 5), around=(2, 2, 2, 2)), Sort((3, 3), dilation=2, around=(2, 2, 2, 2)), Sort(channels=20),
    ), 4, batch=3),
    Case("rows that nothing reads", (23, 12), 16, (
        Sort(channels=16), Sort(channels=32, stride=2), Sort((3, 3), 16, around=EVEN),
    ), 2),
    Case("no padding", (21, 18), 12, (Sort((5, 3), 16), Sort((3, 3)), Sort((1, 5), 24, activation="hard_swish")), 5),
    Case("one stripe", (8, 8), 16, (Sort(channels=16), Sort((3, 3), around=EVEN)), 100),
    Case("more threads than rows", (6, 20), 16, (Sort(channels=32), Sort((3, 3), stride=2, around=(0, 0, 1, 1))), 1),
    Case("a long one", (33, 10), 8, tuple(
        sort for _ in range(5) for sort in (Sort(channels=16), Sort((3, 3), around=EVEN), Sort(channels=8))
    ), 2),
    Case("pixels that are skewed", (9, 7), 512, (Sort(channels=512), Sort((3, 3), around=EVEN)), 2),
)  # fmt: skip


def drawn(count: int) -> Iterator[Case]:
    """Cases by chance, the same ones every time."""
    random = np.random.default_rng(5)
    for number in range(count):
        layers = []
        for _ in range(int(random.integers(2, 6))):
            kernel = int(random.choice([1, 1, 3, 5]))
            around = [int(n) for n in random.integers(0, kernel // 2 + 1, 4)] if layers else [0] * 4
            channels = int(random.choice([3, 16, 24, 33])) if kernel == 1 or random.random() < 0.3 else None
            stride = int(random.choice([1, 1, 2]))
            layers.append(Sort((kernel, kernel), channels, stride, 1, (around[0], around[1], around[2], around[3])))
        size = (int(random.integers(40, 70)), int(random.integers(40, 50)))
        yield Case(f"drawn {number}", size, int(random.choice([3, 16, 20])), tuple(layers), int(random.integers(1, 6)))


class Drawn(Places):
    """With the numbers of what is put there."""

    def __init__(self) -> None:
        super().__init__()
        self.random = np.random.default_rng(7)

    def vector(self, channels: int) -> Buffer:
        return self.constant(pad_channels(self.random.standard_normal(channels).astype(np.float32)))


def layers_of(
    case: Case, places: Drawn, feed: TensorLayout, source: View
) -> tuple[list[LayerStep], list[TensorLayout]]:
    """The case's layers over whole pictures, and the layout of what each leaves."""
    steps: list[LayerStep] = []
    layouts: list[TensorLayout] = []
    picture = feed.image
    for number, sort in enumerate(case.layers):
        batch, height, width, channels = picture
        if number == 0:  # whose feed has its padding inside
            height, width = height - sort.around[0] - sort.around[2], width - sort.around[1] - sort.around[3]
        outer, groups = (channels, channels) if sort.channels is None else (sort.channels, 1)
        reach = [(k - 1) * sort.dilation + 1 for k in sort.kernel]
        out = (
            (height + sort.around[0] + sort.around[2] - reach[0]) // sort.stride + 1,
            (width + sort.around[1] + sort.around[3] - reach[1]) // sort.stride + 1,
        )
        after = case.layers[number + 1].around if number + 1 < len(case.layers) else (1, 2, 1, 0)
        last = number + 1 == len(case.layers)  # which is compared as it lies: nothing writes between its pixels
        layout = TensorLayout((batch, *out, outer), after, outer if last else choose_pixel_stride((batch, *out, outer)))
        weights = places.random.standard_normal((*sort.kernel, channels // groups, outer)).astype(np.float32) / 4
        epilogue = Epilogue(places.vector(outer), sort.activation, low=-1.0, high=2.5)  # type: ignore[arg-type]
        if sort.residual:
            epilogue = replace(epilogue, residual=feed.make_view(source.buffer))
        if sort.second:
            more = replace(layout, halo=NO_HALO)
            epilogue = replace(
                epilogue, second=more.make_view(places.buffer(4 * more.size)), second_scale=places.vector(outer),
                second_shift=places.vector(outer), second_low=0.0,
            )  # fmt: skip
        before = feed.make_view(source.buffer, (-sort.around[0], -sort.around[1])) if number == 0 else steps[-1].stored
        algorithm = "depthwise" if sort.channels is None else "direct"
        strides = (sort.stride, sort.stride), (sort.dilation, sort.dilation)
        geometry = Geometry(batch, channels, out, outer, sort.kernel, *strides, groups)
        steps.append(LayerStep(
            f"{case.name} {number}", algorithm, before, places.constant(pack_layer(weights, algorithm, groups=groups)),
            layout.make_view(places.buffer(4 * layout.size)), epilogue, geometry, (height, width),
            sort.around[:2], after,
        ))  # fmt: skip
        layouts.append(layout)
        picture = layout.image
    return steps, layouts


def cascade_of(case: Case, steps: Sequence[LayerStep], layouts: Sequence[TensorLayout], places: Drawn) -> CascadeStep:
    """The same layers with rolling buffers, and with places of their own for what the last one leaves."""
    rows = compute_most_rows([step.geometry for step in steps], case.rows)
    found: list[LayerStep] = []
    for step, layout, most in zip(steps, layouts, rows, strict=True):
        last = step is steps[-1]
        size = 4 * layout.size if last else MAX_THREADS * LayerOutput(layout, 4).compute_rolling_size(most)
        source = found[-1].stored if found else step.input
        epilogue = step.epilogue
        if epilogue.second is not None:
            epilogue = replace(
                epilogue, second=replace(epilogue.second, buffer=places.buffer(epilogue.second.buffer.size))
            )
        output = layout.make_view(places.buffer(size))
        found.append(replace(step, input=source, output=output, epilogue=epilogue))
    return CascadeStep(case.name, tuple(found), case.rows)


def program(cases: Sequence[Case]) -> Program:
    """Of each case two fetches: what its layers leave one after another, and in a cascade."""
    places, steps = Drawn(), list[Step]()
    feeds, fetches = [], []

    def port(name: str, buffer: Buffer) -> BoundPort:
        return BoundPort(TensorSpec(name, "float32", (buffer.size // 4,)), buffer)

    for number, case in enumerate(cases):
        picture = (case.batch, *case.size, case.channels)
        feed = TensorLayout(picture, NO_HALO, case.channels)
        source = feed.make_view(places.buffer(4 * feed.size))
        feeds.append(port(f"x{number}", source.buffer))
        plain, layouts = layers_of(case, places, feed, source)
        cascade = cascade_of(case, plain, layouts, places)
        steps += [*plain, cascade]
        for name, last in (("plain", plain[-1]), ("cascade", cascade.layers[-1])):
            fetches.append(port(f"{name}{number}", last.stored.buffer))
            if last.epilogue.second:
                fetches.append(port(f"{name}_second{number}", last.epilogue.second.buffer))
    return Program(
        tuple(steps), tuple(feeds), tuple(fetches), tuple(places.constants), places.arena + SLACK, places.weights
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Program]:
    folder = tmp_path_factory.mktemp("cascades")
    made = program((*CASES, *drawn(4 if OBJECTS in os.environ else 16)))
    return link(emit_sources(made, SPEC, X86_64, folder), [], folder), made


def answers(library: Path, made: Program, threads: int) -> dict[str, np.ndarray]:
    """What each fetch has after the second run on one opened model."""
    random = np.random.default_rng(3)
    given = [random.standard_normal(port.spec.shape).astype(np.float32) for port in made.feeds]
    with OpenedModel(library, threads) as model:
        call = model.bind_call(given, [port.spec.size for port in made.fetches])
        for _ in range(2):
            call()
    return {port.spec.name: one.view(np.float32) for port, one in zip(made.fetches, call.fetches, strict=True)}


LIMITS, THREADS = (("",), (2, 8)) if OBJECTS in os.environ else (("", "x86-64-v3"), (1, 2, 3, 8))
"""Those objects have one copy of the kernels, and are slow."""


@pytest.mark.parametrize("limit", LIMITS)
def test_a_cascade_gives_the_bits_of_its_layers(
    built: tuple[Path, Program], limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The zeros around the pictures included, on any number of threads."""
    monkeypatch.setenv("COLDFORGE_CPU", limit)
    for threads in THREADS:
        found = answers(*built, threads)
        pairs = {name: name.replace("plain", "cascade") for name in found if name.startswith("plain")}
        assert len(found) == 2 * len(pairs)
        for plain, cascade in pairs.items():
            assert np.isfinite(found[plain]).all()
            assert np.ptp(found[plain]) > 0
            np.testing.assert_array_equal(found[plain], found[cascade], err_msg=f"{plain}, {threads} threads")


@pytest.mark.skipif(OBJECTS in os.environ, reason="looked into by a macro that those objects lack")
def test_the_clock_is_told_of_each_layer_of_a_cascade(tmp_path: Path) -> None:
    """Once for each stripe: so `coldforge explain` has a time for each of them."""
    made = program(CASES[:1])
    library = ctypes.CDLL(str(link(emit_sources(made, SPEC, X86_64, tmp_path, probe="profile"), [], tmp_path)))
    steps = walk_steps(made.steps)
    library.cf_step_times.restype = ctypes.POINTER(ctypes.c_uint64 * (2 * len(steps)))
    answers(tmp_path / "libmodel.so", made, 1)  # runs twice
    nanoseconds, calls = np.array(library.cf_step_times().contents).reshape(-1, 2).T
    expected = [2 if step in made.steps else 2 * 6 for step in steps]  # seventeen rows, three at a time
    assert calls.tolist() == expected
    assert (nanoseconds[[step not in made.steps for step in steps]] > 0).all()


@pytest.mark.skipif(OBJECTS in os.environ, reason="looked into by a macro that those objects lack")
def test_a_thread_that_is_done_takes_half_of_what_another_has_left(tmp_path: Path) -> None:
    """The caller sleeps in its first stripe: the other thread leaves it at most one row of the rest."""
    made = program(CASES[:1])
    path = link(emit_sources(made, SPEC, X86_64, tmp_path, probe="observe"), [], tmp_path)
    cascade = next(step for step in made.steps if isinstance(step, CascadeStep))
    numbers = [
        number for number, step in enumerate(walk_steps(made.steps)) if any(step is one for one in cascade.layers)
    ]
    begun: list[int] = []

    @ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_void_p)
    def observe(step: int, arena: int) -> None:
        del arena
        if step in numbers:
            begun.append(step)
            if len(begun) == 1:
                time.sleep(0.3)

    ctypes.CDLL(str(path)).cf_observe(observe)
    given = [np.ones(port.spec.shape, np.float32) for port in made.feeds]
    with OpenedModel(path, 2) as model:
        call = model.bind_call(given, [port.spec.size for port in made.fetches])
        for _ in range(20):  # On a busy machine, the other thread may take every stripe before the caller's first.
            call()
            if begun:
                break
    np.testing.assert_array_equal(*call.fetches)
    assert begun[0] == numbers[0]
    assert len(begun) in (len(numbers), 2 * len(numbers)), "its eight rows are three stripes"


def test_rolling_buffers_are_smaller_than_images(built: tuple[Path, Program]) -> None:
    cascades = [step for step in built[1].steps if isinstance(step, CascadeStep)]
    sizes = {step.name: step.rolling for step in cascades}
    first = next(step for step in cascades if step.name == "expand, depthwise, project")
    # Three rows, one above and below, and one of zeros, of 9 pixels and one left and right; and three rows of 9 pixels.
    assert sizes[first.name] == (align_offset(4 * 6 * 11 * 24), align_offset(4 * 3 * 9 * 24))
    assert sum(isinstance(step, LayerStep) for step in walk_steps(built[1].steps)) == 2 * sum(
        len(step.layers) for step in cascades
    )


def test_a_cascade_compiles_without_warnings(built: tuple[Path, Program]) -> None:
    needs.gcc()
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{RUNTIME}", "-c", "-o", "/dev/null"]
    for source in (RUNTIME / "abi" / "cascade.c", built[0].parent / "program.c"):
        subprocess.run([*command, str(source)], check=True)


def test_rows_that_a_stripe_needs() -> None:
    case = next(one for one in CASES if one.name == "strides of two")
    places = Drawn()
    feed = TensorLayout((1, *case.size, case.channels), NO_HALO, case.channels)
    steps, _ = layers_of(case, places, feed, feed.make_view(places.buffer(4 * feed.size)))
    geometries = [step.geometry for step in steps]
    assert compute_most_rows(geometries, 1) == (3, 1, 1)
    assert compute_most_rows(geometries, 4) == (9, 4, 4)
    for rows, more in itertools.pairwise(compute_most_rows(geometries, n)[0] for n in range(1, 9)):
        assert more == rows + 2
