"""Dense layers that a batch in parts runs for all of its inputs together, between the steps before and behind them."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.errors import VerifyError
from builder.base.targets import X86_64
from builder.compiler.emit import emit_sources
from builder.compiler.lower.geometry import Geometry
from builder.compiler.lower.packing import pack_layer, pad_channels
from builder.compiler.lower.program import BoundPort, Program
from builder.compiler.lower.steps.base import View
from builder.compiler.lower.steps.kernel_step import KernelStep
from builder.compiler.lower.steps.layer_step import Epilogue, LayerStep
from builder.config import ModelSpec, Source
from builder.config.tensor import TensorSpec
from builder.verify.library.loaded_library import OpenedModel
from tests.support.instrumented import link
from tests.support.places import Places, batch_of

PARTS = 7
SIZES = (5, 150, 33, 3)
"""Channels of what the layers read, and of what the last one leaves: none fills its panels."""
POISON = 13
"""The first number of an input with which the step before the layers fails."""
SPEC = ModelSpec(Path("model.toml"), "end", "1", Source("graph_def", Path("g.pb")), batch=PARTS)
BOTH = replace(SPEC, batch=1, batches=(1, PARTS))
RANDOM = np.random.default_rng(2)
WEIGHTS = [RANDOM.standard_normal((1, 1, *pair)).astype(np.float32) for pair in itertools.pairwise(SIZES)]
BIASES = [RANDOM.standard_normal(size).astype(np.float32) for size in SIZES[1:]]

KERNELS = f"""
#include <stdint.h>
typedef struct {{ void *data; uint64_t size; }} argument;
typedef struct {{ const void *groups, *group; uint64_t count; const argument *arguments; }} frame;

/* Doubles. */
void *graph_before(const frame *f) {{
    const float *x = f->arguments[0].data;
    float *y = f->arguments[1].data;
    if (x[0] == {POISON}) return (void *)f;
    for (uint64_t i = 0; i < f->arguments[0].size / 4; i++) y[i] = 2 * x[i];
    return 0;
}}

/* Takes 1 from each; fails if the first is above a million. */
void *graph_behind(const frame *f) {{
    const float *x = f->arguments[0].data;
    float *y = f->arguments[1].data;
    for (uint64_t i = 0; i < f->arguments[0].size / 4; i++) y[i] = x[i] - 1;
    return x[0] > 1e6f ? (void *)f : 0;
}}
"""


def one() -> Program:
    """y [1, 3] of x [1, 5]: a kernel, three dense layers, and a kernel."""
    places = Places()
    x, y = places.buffer(4 * SIZES[0]), places.buffer(4 * SIZES[-1])
    rows = [places.buffer(4 * size) for size in SIZES]
    views = [View(row, 0, size, size, size) for row, size in zip(rows, SIZES, strict=True)]
    layers = [
        LayerStep(
            name=f"dense {number}", algorithm="direct", input=views[number], output=views[number + 1],
            weights=places.constant(pack_layer(weights, "direct", groups=1)),
            epilogue=Epilogue(places.constant(pad_channels(bias)), "hard_swish" if number == 1 else "identity"),
            geometry=Geometry(1, SIZES[number], (1, 1), len(bias)), in_size=(1, 1),
        )
        for number, (weights, bias) in enumerate(zip(WEIGHTS, BIASES, strict=True))
    ]  # fmt: skip
    return Program(
        steps=(
            KernelStep("before", "graph_before", (x,), (rows[0],), (1, 1, 1)),
            *layers,
            KernelStep("behind", "graph_behind", (rows[-1],), (y,), (1, 1, 1)),
        ),
        feeds=(BoundPort(TensorSpec("x", "float32", (1, SIZES[0])), x),),
        fetches=(BoundPort(TensorSpec("y", "float32", (1, SIZES[-1])), y),),
        weights=tuple(places.constants),
        arena_size=places.arena,
        weights_size=places.weights,
        dense_end=(1, 4),
    )


def reference(x: Any) -> Any:
    value = 2.0 * x.astype(np.float64)
    for number, (weights, bias) in enumerate(zip(WEIGHTS, BIASES, strict=True)):
        value = value @ weights[0, 0] + bias
        if number == 1:
            value *= np.clip(value + 3, 0, 6) / 6
    return value - 1


def built(folder: Path, *, both: bool) -> Path:
    (folder / "kernel.c").write_text(KERNELS)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-gnu.2.34", "-O1", "-fPIC", "-c"]
    subprocess.run([*command, "kernel.c", "-o", "graph.o"], cwd=folder, check=True)
    others = {BOTH.variants[1]: batch_of(one(), PARTS)} if both else {}
    program, spec = (one(), BOTH) if both else (batch_of(one(), PARTS), SPEC)
    return link(emit_sources(program, spec, X86_64, folder, others=others), [folder / "graph.o"], folder)


@pytest.fixture(scope="module", params=[True, False], ids=["beside one input", "alone"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("end"), both=request.param)


def answers(library: Path, x: Any, threads: int) -> Any:
    with OpenedModel(library, threads) as model:
        call = model.bind_call([x], [len(x) * 4 * SIZES[-1]])
        for _ in range(2):
            call()
        return np.copy(call.fetches[0]).view(np.float32).reshape(len(x), -1)


@pytest.mark.parametrize("limit", ["", "x86-64-v3"])
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_input_has_its_own_answer(
    library: Path, threads: int, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLDFORGE_CPU", limit)
    x = RANDOM.standard_normal((PARTS, SIZES[0])).astype(np.float32)
    np.testing.assert_allclose(answers(library, x, threads), reference(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_answer_is_the_same_to_the_bit_alone(tmp_path_factory: pytest.TempPathFactory, threads: int) -> None:
    library = built(tmp_path_factory.mktemp("one"), both=True)
    x = RANDOM.standard_normal((PARTS, SIZES[0])).astype(np.float32)
    alone = [answers(library, one[None], threads)[0] for one in x]
    np.testing.assert_array_equal(answers(library, x, threads), alone)


def test_the_layers_are_there_for_all_inputs(tmp_path: Path) -> None:
    built(tmp_path, both=True)
    first, batch = (tmp_path / name for name in ("program.c", f"program{BOTH.variants[1].symbol}.c"))
    assert first.read_text().count("all.batch = (int64_t)inputs;") == 3
    assert "run_program" not in batch.read_text()
    assert "dense_end" not in emitted_alone(tmp_path / "alone")


def emitted_alone(folder: Path) -> str:
    """Of one input, without a batch."""
    folder.mkdir()
    emit_sources(one(), replace(SPEC, batch=1), X86_64, folder)
    return (folder / "program.c").read_text()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("place", [0, PARTS - 1])
@pytest.mark.parametrize("poison", ["before", "behind"])
def test_an_input_that_fails_is_an_error_of_the_run(library: Path, poison: str, place: int, threads: int) -> None:
    x = np.zeros((PARTS, SIZES[0]), np.float32)
    x[place] = POISON if poison == "before" else huge()
    with pytest.raises(VerifyError, match="a compiled kernel reported an error"):
        answers(library, x, threads)
    x[place] = 0
    np.testing.assert_allclose(answers(library, x, threads), reference(x), rtol=1e-4, atol=1e-4)


def huge() -> Any:
    """An input of which the layers make a first number above a million."""
    found = 1e6 * RANDOM.standard_normal((100, SIZES[0]))
    return next(x for x in found if reference(x[None])[0, 0] > 1e7).astype(np.float32)
