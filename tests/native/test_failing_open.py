"""Opening a model while the C library fails, or with weights that are damaged: under gcc's sanitizers."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from builder.emit import emit
from builder.link.library import KERNEL_SOURCES, RUNTIME, THREAD_SOURCES
from builder.lower.program import BoundPort, BoundState, Buffer, CopyStep, KernelStep, Program, Weight
from builder.spec import ModelSpec, Source, Weights
from builder.spec.tensor import TensorSpec
from builder.targets import X86_64
from tests.conftest import ROOT
from tests.support import needs
from tests.support.instrumented import flags
from tests.support.runtime import SANITIZERS

SUPPORT = ROOT / "tests" / "support"
SPEC = ModelSpec(Path("model.toml"), "opened", "1", Source("graph_def", Path("g.pb")), weights=Weights(place="layer"))
WRAPPED = [
    "calloc",
    "malloc",
    "aligned_alloc",
    "open",
    "fstat",
    "mmap",
    "munmap",
    "pthread_attr_init",
    "pthread_create",
]
CF_OK, CF_ERR_MEMORY, CF_ERR_WEIGHTS = 0, 2, 5

KERNEL = """
#include <stdint.h>
typedef struct { uint64_t x, y, z; } dim3;
typedef struct { void *data; uint64_t size; } argument;
typedef struct { const dim3 *groups, *group; uint64_t count; const argument *arguments; } frame;
void *count_groups(const frame *f);
void *count_groups(const frame *f) {
    ((int32_t *)f->arguments[0].data)[f->group->x] = 1;
    return 0;
}
"""


def program() -> Program:
    """Copies 16 weights, counts 30 work groups, and keeps a 7 from call to call."""
    copied, groups, kept = (Buffer("arena", *place) for place in ((64, 64), (128, 120), (256, 4)))
    weights = np.arange(16, dtype=np.float32).tobytes()
    return Program(
        steps=(
            CopyStep("copy", Buffer("weights", 0, 64), copied, 4, (16,), (1,), (1,)),
            KernelStep("count", "count_groups", (groups,), (30, 1, 1)),
        ),
        feeds=(BoundPort(TensorSpec("x", "float32", (1,)), Buffer("arena", 0, 4)),),
        fetches=(
            BoundPort(TensorSpec("copied", "float32", (16,)), copied),
            BoundPort(TensorSpec("groups", "int32", (30,)), groups),
        ),
        weights=(Weight(0, weights), Weight(64, np.int32(7).tobytes())),
        arena_size=320,
        weights_size=128,
        states=(BoundState(TensorSpec("kept", "int32", (1,)), 0, kept, kept, Buffer("weights", 64, 4)),),
    )


Build = Callable[[str, bool], Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """A program of the runtime, a model and a main() of tests/support, with the weights file beside it."""
    gcc, folder = needs.gcc(), tmp_path_factory.mktemp("opened")
    (folder / "kernel.c").write_text(KERNEL)
    options = flags() or [option for option in SANITIZERS if option not in ("-shared", "-Wconversion")]

    def compiled(output: str, sources: list[Path], chosen: Sequence[str] = options) -> None:
        run = [gcc, *chosen, f"-I{RUNTIME}", "-c", *map(str, sources)]
        (folder / output).mkdir()
        subprocess.run(run, cwd=folder / output, check=True)

    compiled("kernel", [folder / "kernel.c"])
    emit(program(), SPEC, X86_64, folder, kernels=[folder / "kernel" / "kernel.o"])
    names = ("abi/model.c", "abi/weights.c", f"platform/cpu_{X86_64.name}.c", *THREAD_SOURCES)
    compiled("runtime", [folder / "program.c", *(RUNTIME / name for name in names)])
    compiled("ops", [RUNTIME / name for name in KERNEL_SOURCES], ["-O0", "-march=x86-64-v3"])  # not what is tested here

    def linked(main: str, wrap: bool) -> Path:
        objects = [path for name in ("kernel", "runtime", "ops") for path in sorted((folder / name).glob("*.o"))]
        wraps = [f"-Wl,--wrap={name}" for name in WRAPPED] if wrap else []
        run = [gcc, *options, *wraps, f"-I{RUNTIME / 'abi'}", str(SUPPORT / main), *map(str, objects), "-lm", "-ldl"]
        subprocess.run([*run, "-o", str(folder / main.removesuffix(".c"))], check=True)
        return folder / main.removesuffix(".c")

    return linked


def lines(program: Path, *arguments: Path) -> list[list[str]]:
    """What it prints, leaks looked for."""
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1"}
    command = [program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return [line.split("|") for line in done.stdout.splitlines()]


EXPECTED = {
    ("calloc", errno.ENOMEM): (CF_ERR_MEMORY, "out of memory"),
    ("malloc", errno.ENOMEM): (CF_ERR_MEMORY, "not enough memory for the model's state"),
    ("aligned_alloc", errno.ENOMEM): (CF_ERR_MEMORY, "memory"),
    ("open", errno.ENOENT): (CF_ERR_WEIGHTS, "is not there"),
    ("open", errno.EACCES): (CF_ERR_WEIGHTS, "may not be read"),
    ("open", errno.EMFILE): (CF_ERR_WEIGHTS, "too many files are open"),
    ("open", errno.EINTR): (CF_OK, ""),  # a signal is no reason to fail
    ("fstat", errno.EIO): (CF_ERR_WEIGHTS, "cannot be mapped"),
    ("mmap", errno.ENOMEM): (CF_ERR_MEMORY, "not enough memory to map the weights file"),
    ("mmap", errno.EACCES): (CF_ERR_WEIGHTS, "cannot be mapped"),
    ("pthread_create", errno.EAGAIN): (CF_OK, ""),  # fewer threads, the same answer
    ("pthread_attr_init", errno.ENOMEM): (CF_OK, ""),
    ("pthread_attr_init", errno.EAGAIN): (CF_OK, ""),
}


def test_every_failing_call_is_an_error_that_the_next_opening_does_not_see(build: Build) -> None:
    """No crash, no leak, no mapping and no file left; then the model opens and answers."""
    program = build("failing_open.c", True)
    failed = set()
    for way, _, call, number, at, status, text in lines(program, program.with_name("model.weights")):
        if number == "0" or way == "run":
            assert (status, text) == ("0", ""), (way, call, at)
            continue
        expected, words = EXPECTED[call, int(number)]
        assert int(status) == expected, (way, call, errno.errorcode[int(number)], at, text)
        assert words in text, (way, call, text)
        failed.add((way, call))
    allocations, files = {"calloc", "malloc", "aligned_alloc"}, {"open", "fstat", "mmap"}
    assert failed >= {(way, call) for way in ("cf_open", "cf_open_file", "flat") for call in allocations | files}
    assert failed >= {("cf_open_memory", call) for call in allocations}


def test_damaged_weights_are_refused_or_harmless(build: Build, tmp_path: Path) -> None:
    """Of each length, and with each bit of the header changed. Only what the loader does not read may be otherwise."""
    program = build("damaged_weights.c", False)
    found = lines(program, program.with_name("model.weights"), tmp_path / "damaged")
    unread = range(56, 112)  # the size of chunks and their hash: for whoever transfers the file
    for what, at, of_file, of_memory in found:
        harmless = what == "whole" or (what == "changed" and int(at) in unread)
        assert {int(of_file), int(of_memory)} == {CF_OK if harmless else CF_ERR_WEIGHTS}, (what, at)
    assert {what for what, *_ in found} == {"whole", "cut", "changed"}
