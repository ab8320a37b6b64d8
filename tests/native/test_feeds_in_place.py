"""Feeds that are only copied with zeros around them, or multiplied, are read in the caller's memory. They have no place
of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builder.base.targets import X86_64
from builder.compiler.emit import emit_sources
from builder.compiler.lower.program import BoundPort, Program
from builder.compiler.lower.steps.base import Buffer, View
from builder.compiler.lower.steps.image_step import RepackStep
from builder.config import ModelSpec, Source
from builder.config.tensor import TensorSpec
from builder.verify.library.loaded_library import OpenedModel
from tests.native.test_emit_fused import conv, layer
from tests.support.instrumented import link
from tests.support.places import Places, batch_of

SIDE, CHANNELS, PARTS = 12, 3, 5
NUMBERS = 37
"""Of a row of the dense layer's feed."""
SPEC = ModelSpec(Path("model.toml"), "feeds", "1", Source("graph_def", Path("g.pb")))
WEIGHTS = np.random.default_rng(0).standard_normal((3, 3, CHANNELS, 16)).astype(np.float32)

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def program() -> Program:
    layout = Places()
    feed = replace(layout.picture(SIDE, 0, CHANNELS), buffer=Buffer("feed", 0, 4 * SIDE * SIDE * CHANNELS))
    framed, output = layout.picture(SIDE, 1, CHANNELS), layout.picture(SIDE, 0, 16)
    step = layer(layout, "layer", framed, output, WEIGHTS)
    return Program(
        (
            RepackStep("frame", feed, framed, 1, (SIDE, SIDE), CHANNELS, (1, 1, 1, 1)),
            replace(step, halo=(0, 0, 0, 0)),
        ),
        (BoundPort(TensorSpec("x", "float32", (1, SIDE, SIDE, CHANNELS)), feed.buffer),),
        (BoundPort(TensorSpec("y", "float32", (1, SIDE, SIDE, 16)), output.buffer),),
        tuple(layout.constants),
        layout.arena,
        layout.weights,
    )


def dense_program(rows: int, outputs: int) -> tuple[Program, Array]:
    """``rows`` rows of the feed times weights; and the weights."""
    layout = Places()
    weights = np.random.default_rng(2).standard_normal((NUMBERS, outputs)).astype(np.float32)
    feed = View(Buffer("feed", 0, 4 * rows * NUMBERS), 0, rows * NUMBERS, rows * NUMBERS, NUMBERS)
    output = View(layout.buffer(4 * rows * outputs), 0, rows * outputs, rows * outputs, outputs)
    step = layer(layout, "layer", feed, output, weights[None, None])
    step = replace(
        step, geometry=replace(step.geometry, out_size=(1, rows)), in_size=(1, rows), padding=(0, 0), halo=(0, 0, 0, 0)
    )
    made = Program(
        (step,),
        (BoundPort(TensorSpec("x", "float32", (rows, NUMBERS)), feed.buffer),),
        (BoundPort(TensorSpec("y", "float32", (rows, outputs)), output.buffer),),
        tuple(layout.constants),
        layout.arena,
        layout.weights,
    )
    return made, weights


def unaligned(x: Array) -> Array:
    """Equal to ``x``, at an odd address."""
    memory = np.zeros(x.nbytes + 64, np.uint8)
    start = 1 - memory.ctypes.data % 64 + 64 * (memory.ctypes.data % 64 > 1)
    found: Array = np.ndarray(x.shape, np.float32, memory, start)
    found[...] = x
    assert found.ctypes.data % 64 == 1
    return found


@pytest.mark.parametrize("place", [np.ascontiguousarray, unaligned], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("images", [1, PARTS])
def test_a_feed_is_read_where_the_caller_has_it(tmp_path: Path, images: int, place: Callable[[Array], Array]) -> None:
    made = program() if images == 1 else batch_of(program(), images)
    sources = emit_sources(made, replace(SPEC, batch=images), X86_64, tmp_path)
    library = link(sources, [], tmp_path)
    rng = np.random.default_rng(1)
    for threads in (1, 3):
        with OpenedModel(library, threads) as model:
            x = place(rng.standard_normal((images, SIDE, SIDE, CHANNELS)).astype(np.float32))
            call = model.bind_call([x], [images * SIDE * SIDE * 16 * 4])
            assert call.feeds[0] is x
            for _ in range(2):  # the second run with another picture in the same memory
                call()
                y = call.fetches[0].view(np.float32).reshape(images, SIDE, SIDE, 16)
                expected = np.concatenate([conv(picture[None], WEIGHTS) for picture in x])
                np.testing.assert_allclose(y, expected, atol=1e-4)
                x[...] = rng.standard_normal(x.shape)


@pytest.mark.parametrize("limit", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize(("rows", "outputs"), [(1, 16), (1, 80), (2, 80), (14, 64), (33, 80)])
def test_a_feed_that_is_multiplied_has_any_alignment(
    tmp_path: Path, limit: str, rows: int, outputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLDFORGE_CPU", limit)
    made, weights = dense_program(rows, outputs)
    library = link(emit_sources(made, SPEC, X86_64, tmp_path), [], tmp_path)
    rng = np.random.default_rng(3)
    for threads in (1, 3):
        with OpenedModel(library, threads) as model:
            x = unaligned(rng.standard_normal((rows, NUMBERS)).astype(np.float32))
            call = model.bind_call([x], [rows * outputs * 4])
            assert call.feeds[0] is x
            call()
            y = call.fetches[0].view(np.float32).reshape(rows, outputs)
            np.testing.assert_allclose(y, x.astype(np.float64) @ weights, atol=1e-4)
