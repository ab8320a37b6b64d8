"""A batch in parts: the steps for one input, run once for each, side by side where there are threads."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builder.base.errors import VerifyError
from builder.base.targets import X86_64
from builder.compiler.emit import emit_sources
from builder.compiler.lower.program import BoundPort, Program, Weight
from builder.compiler.lower.steps.base import Buffer
from builder.compiler.lower.steps.kernel_step import KernelStep
from builder.config import ModelSpec, Source
from builder.config.tensor import TensorSpec
from builder.verify.library.loaded_library import OpenedModel
from handler.description import parse_description
from tests.support.instrumented import link
from tests.support.places import batch_of

PARTS = 5
POISON = 13
SPEC = ModelSpec(Path("model.toml"), "parts", "1", Source("graph_def", Path("g.pb")), batch=PARTS)
BOTH = replace(SPEC, batch=1, batches=(1, PARTS))

KERNEL = f"""
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>
typedef struct {{ void *data; uint64_t size; }} argument;
typedef struct {{ const void *groups, *group; uint64_t count; const argument *arguments; }} frame;

static pthread_t first;
static int begun, met;

/* Doubles x. If x[1] is set, waits until another thread is here as well, ten seconds at most, and says if it came. */
void *graph_double(const frame *f) {{
    const float *x = f->arguments[0].data;
    float *y = f->arguments[1].data;
    if (x[0] == {POISON}) return (void *)f;
    for (int i = 0; i < 4; i++) y[i] = 2 * x[i];
    if (x[1] == 0) return 0;
    if (__atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST) == 0) first = pthread_self();
    else if (!pthread_equal(first, pthread_self())) __atomic_store_n(&met, 1, __ATOMIC_SEQ_CST);
    const time_t end = time(0) + 10;
    while (!__atomic_load_n(&met, __ATOMIC_SEQ_CST) && time(0) < end) sched_yield();
    y[1] = (float)__atomic_load_n(&met, __ATOMIC_SEQ_CST);
    return 0;
}}
"""


def one() -> Program:
    """y [1, 4] is twice x, and w [1, 2] are weights."""
    x, y, weights = Buffer("arena", 0, 16), Buffer("arena", 64, 16), np.array([3, 4], np.float32)
    return Program(
        steps=(KernelStep("double", "graph_double", (x,), (y,), (1, 1, 1)),),
        feeds=(BoundPort(TensorSpec("x", "float32", (1, 4)), x),),
        fetches=(
            BoundPort(TensorSpec("y", "float32", (1, 4)), y),
            BoundPort(TensorSpec("w", "float32", (1, 2)), Buffer("weights", 0, 8)),
        ),
        weights=(Weight(0, weights.tobytes()),),
        arena_size=128,
        weights_size=64,
    )


def built(folder: Path, *, both: bool) -> Path:
    (folder / "kernel.c").write_text(KERNEL)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-gnu.2.34", "-O1", "-fPIC", "-c"]
    subprocess.run([*command, "kernel.c", "-o", "graph.o"], cwd=folder, check=True)
    if both:
        sources = emit_sources(one(), BOTH, X86_64, folder, others={BOTH.variants[1]: batch_of(one(), PARTS)})
        assert "run_program" not in sources.programs[1].read_text()  # the steps are there once
    else:
        sources = emit_sources(batch_of(one(), PARTS), SPEC, X86_64, folder)
    return link(sources, [folder / "graph.o"], folder)


@pytest.fixture(scope="module", params=[True, False], ids=["beside one input", "alone"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("parts"), both=request.param)


def answers(library: Path, x: np.ndarray, threads: int) -> list[np.ndarray]:
    with OpenedModel(library, threads) as model:
        call = model.bind_call([x], [len(x) * 16, len(x) * 8])
        call()
        return [np.copy(fetch).view(np.float32).reshape(len(x), -1) for fetch in call.fetches]


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_part_is_run_once_in_its_place(library: Path, threads: int) -> None:
    x = np.float32(POISON + 1) + np.arange(4 * PARTS, dtype=np.float32).reshape(PARTS, 4)
    x[:, 1] = 0
    y, w = answers(library, x, threads)
    np.testing.assert_array_equal(y, 2 * x)
    np.testing.assert_array_equal(w, np.tile(np.float32([3, 4]), (PARTS, 1)))


def test_one_input_is_run_as_well(tmp_path: Path) -> None:
    library = built(tmp_path, both=True)
    x = np.float32([[1, 0, 5, 7]])
    np.testing.assert_array_equal(answers(library, x, 2)[0], 2 * x)
    described = json.loads((tmp_path / "model.json").read_text())
    assert (described["batches"], described["in_parts"]) == ([1, PARTS], True)
    assert parse_description(json.dumps(described)).in_parts


def test_parts_run_side_by_side(library: Path) -> None:
    """Each waits for one on another thread."""
    x = np.zeros((PARTS, 4), np.float32)
    x[:, 1] = 1
    assert answers(library, x, 2)[0][:, 1].all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("place", range(PARTS))
def test_a_part_that_fails_is_an_error_of_the_run(library: Path, place: int, threads: int) -> None:
    x = np.zeros((PARTS, 4), np.float32)
    x[place, 0] = POISON
    with pytest.raises(VerifyError, match="a compiled kernel reported an error"):
        answers(library, x, threads)
    assert not answers(library, np.zeros_like(x), threads)[0].any()
