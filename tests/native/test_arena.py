"""The working memory of an opened model: large ones ask for huge pages."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from pathlib import Path

import pytest

from builder.base.targets import X86_64
from builder.compiler.emit import emit_sources
from builder.compiler.lower.program import Program
from builder.config import ModelSpec, Source
from tests.support.instrumented import link

SPEC = ModelSpec(Path("model.toml"), "arena", "1", Source("graph_def", Path("g.pb")))
MB = 1 << 20
CF_ERR_MEMORY = 2


def library(folder: Path, arena: int) -> Path:
    sources = emit_sources(Program((), (), (), (), arena, 0), SPEC, X86_64, folder)
    return link(sources, [], folder)


def wished_for() -> int:
    """Bytes of this process that huge pages were asked for."""
    total = size = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line.startswith("Size:"):
            size = 1024 * int(line.split()[1])
        elif line.startswith("VmFlags:") and re.search(r"\bhg\b", line):
            total += size
    return total


@pytest.mark.parametrize(
    ("arena", "huge"), [(0, 0), (64, 0), (4 * MB - 64, 0), (4 * MB, 4 * MB), (9 * MB + 256, 8 * MB), (11 * MB, 10 * MB)]
)
def test_huge_pages_for_whole_ones_of_a_large_arena(tmp_path: Path, arena: int, huge: int) -> None:
    if not Path("/sys/kernel/mm/transparent_hugepage").exists():
        pytest.skip("NOT RUN: this kernel has no huge pages on request")
    code = "import sys; sys.path.insert(0, sys.argv[2]); from tests.native import test_arena as t; t.child(sys.argv[1])"
    command = [sys.executable, "-c", code, str(library(tmp_path, arena)), str(Path(__file__).parents[2])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) == 3 * huge


def test_an_arena_that_no_machine_has_is_refused(tmp_path: Path) -> None:
    made, model = ctypes.CDLL(str(library(tmp_path, 1 << 62))), ctypes.c_void_p(1)
    made.cf_last_error.restype = ctypes.c_char_p
    assert made.cf_open(1, ctypes.byref(model)) == CF_ERR_MEMORY
    assert (model.value, made.cf_last_error(None)) == (None, b"cf_open: not enough memory for the model's buffers")


def child(library: str) -> None:
    """What three opened models ask for, in a process in which nothing else was allocated and freed before."""
    made, before = ctypes.CDLL(library), wished_for()
    models = [ctypes.c_void_p() for _ in range(3)]
    for model in models:
        assert made.cf_open(1, ctypes.byref(model)) == 0
        assert made.cf_run(model, None, ctypes.c_size_t(0), None, ctypes.c_size_t(0)) == 0
    print(wished_for() - before)
    for model in models:
        made.cf_close(model)
