"""A C program that knows only model.h, and the whole library under sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from builder.base.project import RUNTIME
from builder.importers.graph import FrozenGraph
from tests.conftest import ROOT
from tests.support import instrumented, needs
from tests.support.build import build_library, freeze_function, spec_of
from tests.support.models import run_graph
from tests.support.zoo import CASES

pytestmark = pytest.mark.integration

CALLER = ROOT / "tests" / "support" / "caller.c"
WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True)
class Library:
    """A library of one float feed ``x`` and its sources."""

    folder: Path
    graph: FrozenGraph

    def expected(self) -> np.ndarray:
        """TensorFlow's answer to the values caller.c feeds."""
        feed = self.graph.feeds[0].spec
        x = ((np.arange(feed.elements) % 7).astype(np.float32) / np.float32(7) - np.float32(0.4)).reshape(feed.shape)
        return run_graph(self.graph, {feed.name: x})["y0"].ravel()


@pytest.fixture(scope="module", params=["conv2d_transpose_stride_2", "lstm", "transformer_block"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    case = next(c for c in CASES if c.name == request.param)
    assert [f.name for f in case.feeds] == ["x"]
    folder = tmp_path_factory.mktemp(case.name)
    graph = freeze_function(case.trace(), ["x"], folder)
    before = Path.cwd()
    try:
        build_library(graph, spec_of(case.name), folder)
    finally:
        os.chdir(before)
    return Library(folder, graph)


def _check(output: str, library: Library) -> None:
    ours = np.array(output.split(), np.float32)
    expected = library.expected()
    np.testing.assert_allclose(ours[: expected.size], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.quick
@pytest.mark.parametrize("compiler", ["zig", "gcc"])
def test_a_c_program_that_knows_only_model_h(library: Library, compiler: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ziglang", "cc"] if compiler == "zig" else ["gcc"]
    if compiler == "gcc":
        needs.gcc()
    program = tmp_path / "caller"
    flags = [*WARNINGS, f"-I{library.folder}", f"-L{library.folder}", f"-Wl,-rpath,{library.folder}"]
    subprocess.run([*command, *flags, str(CALLER), "-lmodel", "-o", str(program)], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    _check(done.stdout, library)


@pytest.fixture(scope="module")
def sanitized_runtime(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Objects of all that is the same in every library, with AddressSanitizer and UndefinedBehaviorSanitizer."""
    needs.gcc()
    folder = tmp_path_factory.mktemp("sanitized")
    instrumented.compile_objects(folder, instrumented.ADDRESS)
    return sorted(path for path in folder.glob("*.o") if path.name != "weights.o")  # which loads a file of weights


def test_the_whole_library_under_sanitizers(library: Library, sanitized_runtime: list[Path], tmp_path: Path) -> None:
    """Generated program, runtime and caller with AddressSanitizer and UndefinedBehaviorSanitizer."""
    program, own = tmp_path / "caller", library.folder
    sources = [CALLER, own / "program.c", own / "weights.S", own / "graph.o", *sanitized_runtime]
    flags = [*WARNINGS, *instrumented.ADDRESS, "-march=x86-64-v3", f"-I{own}", f"-I{RUNTIME}"]
    command = ["gcc", *flags, *map(str, sources), "-lm", "-lpthread"]
    subprocess.run([*command, "-o", str(program)], cwd=own, check=True)
    # The flat run() keeps its model for the life of the process, by design.
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run([program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    _check(done.stdout, library)
