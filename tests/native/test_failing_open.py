"""Opening a model while the C library fails, with weights that are damaged, in forks: under gcc's sanitizers."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from builder.base.project import RUNTIME
from builder.base.targets import X86_64
from builder.compiler.emit import emit_sources
from builder.compiler.link.shared_library import BASELINE_SOURCES, KERNEL_SOURCES
from builder.compiler.lower.program import BoundPort, BoundState, Program, Weight
from builder.compiler.lower.steps.base import Buffer
from builder.compiler.lower.steps.copy_step import CopyStep
from builder.compiler.lower.steps.kernel_step import KernelStep
from builder.config import ModelSpec, Source, Weights
from builder.config.tensor import TensorSpec
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
    "dladdr",
    "cf_missing_cpu_feature",
]
CF_OK, CF_ERR_CPU, CF_ERR_MEMORY, CF_ERR_WEIGHTS = 0, 1, 2, 5

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
            KernelStep("count", "count_groups", (), (groups,), (30, 1, 1)),
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


Build = Callable[..., Path]


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
    emit_sources(program(), SPEC, X86_64, folder, kernels=[folder / "kernel" / "kernel.o"])
    names = ("abi/model.c", "abi/weights.c", f"platform/cpu_{X86_64.name}.c", *BASELINE_SOURCES)
    runtime = [folder / "program.c", *(RUNTIME / name for name in names)]
    compiled("runtime", runtime)
    # AddressSanitizer's allocator keeps, in a child, the locks of its parent's threads: a fork at that moment hangs.
    forkable = [option for option in options if not option.startswith("-fsanitize=address")]
    compiled("forkable", [folder / "kernel.c", *runtime], forkable)
    compiled("ops", [RUNTIME / name for name in KERNEL_SOURCES], ["-O0", "-march=x86-64-v3"])  # not what is tested here

    def linked(main: str, wrap: Sequence[str] = (), without: Sequence[str] = (), forks: bool = False) -> Path:
        folders = ("forkable", "ops") if forks else ("kernel", "runtime", "ops")
        objects = [path for name in folders for path in sorted((folder / name).glob("*.o"))]
        used = [str(path) for path in objects if path.stem not in without]
        include = [f"-I{RUNTIME}", f"-I{RUNTIME / 'abi'}"]
        wraps = [f"-Wl,--wrap={name}" for name in wrap]
        chosen = forkable if forks else options
        run = [gcc, *chosen, *wraps, *include, str(SUPPORT / main), *used, "-lm", "-ldl", "-lpthread"]
        subprocess.run([*run, "-o", str(folder / main.removesuffix(".c"))], check=True)
        return folder / main.removesuffix(".c")

    return linked


def lines(program: Path, *arguments: Path | str) -> list[list[str]]:
    """What it prints, leaks looked for."""
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1"}
    command = [program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return [line.split("|") for line in done.stdout.splitlines()]


EXPECTED = {
    ("calloc", errno.ENOMEM): (CF_ERR_MEMORY, "out of memory"),
    ("malloc", errno.ENOMEM): (CF_ERR_MEMORY, "not enough memory for the model's state"),
    ("aligned_alloc", errno.ENOMEM): (CF_ERR_MEMORY, "memory"),  # the arena first, then the threads' own
    ("open", errno.ENOENT): (CF_ERR_WEIGHTS, "is not there"),
    ("open", errno.EACCES): (CF_ERR_WEIGHTS, "may not be read"),
    ("open", errno.EMFILE): (CF_ERR_WEIGHTS, "too many files are open"),
    ("open", errno.ENFILE): (CF_ERR_WEIGHTS, "too many files are open"),
    ("open", errno.EINTR): (CF_OK, ""),  # a signal is no reason to fail
    ("fstat", errno.EIO): (CF_ERR_WEIGHTS, "cannot be mapped"),
    ("mmap", errno.ENOMEM): (CF_ERR_MEMORY, "not enough memory to map the weights file"),
    ("mmap", errno.EACCES): (CF_ERR_WEIGHTS, "cannot be mapped"),
    ("pthread_create", errno.EAGAIN): (CF_OK, ""),  # fewer threads, the same answer
    ("pthread_attr_init", errno.ENOMEM): (CF_OK, ""),
    ("pthread_attr_init", errno.EAGAIN): (CF_OK, ""),
    ("dladdr", errno.EINVAL): (CF_ERR_WEIGHTS, "is not there"),  # who does not know the library's folder
    ("cf_missing_cpu_feature", errno.ENOSYS): (CF_ERR_CPU, "this CPU lacks AVX2"),
}


def test_every_failing_call_is_an_error_that_the_next_opening_does_not_see(build: Build) -> None:
    """No crash, no leak, no mapping and no file left; then the model opens and answers."""
    program = build("failing_open.c", wrap=WRAPPED)
    failed = set()
    for way, _, call, number, at, status, text in lines(program, program.with_name("model.weights")):
        if number == "0" or way == "run":
            assert (status, text) == ("0", ""), (way, call, at)
            continue
        expected, words = EXPECTED[call, int(number)]
        if call == "aligned_alloc":
            words = "not enough memory for the model's buffers" if at == "1" else "out of memory"
        assert int(status) == expected, (way, call, errno.errorcode[int(number)], at, text)
        assert words in text, (way, call, text)
        failed.add((way, call))
    allocations, files = {"calloc", "malloc", "aligned_alloc", "cf_missing_cpu_feature"}, {"open", "fstat", "mmap"}
    assert failed >= {("cf_open", "dladdr"), ("flat", "dladdr")}
    assert failed >= {(way, call) for way in ("cf_open", "cf_open_file", "flat") for call in allocations | files}
    assert failed >= {("cf_open_memory", call) for call in allocations}


def test_damaged_weights_are_refused_or_harmless(build: Build, tmp_path: Path) -> None:
    """Of each length, and with each bit of the header changed. Only what the loader does not read may be otherwise."""
    program = build("damaged_weights.c")
    found = lines(program, program.with_name("model.weights"), tmp_path / "damaged")
    unread = range(56, 112)  # the size of chunks and their hash: for whoever transfers the file
    for what, at, of_file, of_memory in found:
        harmless = what == "whole" or (what == "changed" and int(at) in unread)
        assert {int(of_file), int(of_memory)} == {CF_OK if harmless else CF_ERR_WEIGHTS}, (what, at)
    assert {what for what, *_ in found} == {"whole", "cut", "changed"}


def test_what_was_opened_may_be_run_and_closed_in_a_fork(build: Build) -> None:
    """And threads that call run() at once wait for each other. A child that waited for its parent's threads, or for a
    lock that one of them holds, would be killed."""
    assert lines(build("forked.c", forks=True)) == []


def test_the_kernels_are_the_processors_or_lesser_ones_that_were_asked_for(build: Build) -> None:
    program = build("kernel_choice.c", without=("program", "weights", f"cpu_{X86_64.name}", "kernel"))
    limits = ("x86-64-v3", "x86-64-v4", "x86-64-v4+avx512vnni", "x86-64", "x86-64-v30", "v3", "neoverse-n1", "")
    most = {"x86-64-v3": 0, "x86-64-v4": 1, "x86-64-v4+avx512vnni": 2, "neoverse-n1": 0}
    found = [(int(level), limit, int(fused), int(integer)) for level, limit, fused, integer in lines(program, *limits)]
    expected = [(level, limit, min(level, most.get(limit, 4))) for limit in ("", *limits) for level in range(5)]
    refused = {4: 2}  # kernels of integer sums, by the system
    assert found == [(level, limit, chosen, refused.get(chosen, chosen)) for level, limit, chosen in expected]
