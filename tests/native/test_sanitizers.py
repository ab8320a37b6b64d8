"""Tests of the runtime once more, where gcc's sanitizers watch: the pool, the kernels, the C ABI, decoders of sound.

The kernels alone are watched by their own tests (test_runtime_kernels.py, test_fused_kernels.py), and what is
generated for a whole network by test_c_abi.py.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import needs
from tests.support.instrumented import (
    ADDRESS,
    OBJECTS,
    THREAD,
    compile_decoders,
    compile_objects,
    preloaded,
    run_tests,
)

pytestmark = [
    pytest.mark.full,
    pytest.mark.xdist_group("sanitized runtime"),
    pytest.mark.skipif(OBJECTS in os.environ, reason="this is the sanitized run"),
]

NATIVE = Path(__file__).parent
POOL = (
    "test_work_groups.py::test_every_group_runs_once",
    "test_work_groups.py::test_a_fork_while_another_thread_is_in_run",
    "test_emit_fused.py::test_a_program_of_fused_steps",
    "test_emit_fused.py::test_a_program_with_integer_sums",
    "test_emit_fused.py::test_two_models_at_once",
    "test_abi.py::test_large_steps_are_shared_out_and_right",
    "test_batch_parts.py",
    "test_cascades.py",
    "test_dense_end.py",
    "test_feeds_in_place.py",
)
ABI = (
    "test_abi.py",
    "test_abi_dynamic.py",
    "test_batches.py::test_the_sizes_choose_the_batch",
    "test_batches.py::test_other_sizes_are_refused",
    "test_batch_parts.py",
    "test_cascades.py",
    "test_dense_end.py",
    "test_feeds_in_place.py",
    "test_index_ranges.py",
    "test_outside_weights.py::test_the_file_beside_the_library_is_taken",
    "test_outside_weights.py::test_two_models_of_one_library_have_weights_of_their_own",
    "test_outside_weights.py::test_weights_may_be_handed_over_in_memory",
    "test_outside_weights.py::test_a_wrong_file_is_refused_by_name",
    "test_outside_weights.py::test_the_function_finds_the_file",
    "test_signatures.py::test_a_run_is_of_the_signature_that_is_named",
    "test_signatures.py::test_the_abi_refuses_an_unknown_name_and_goes_on[False]",
    "test_sizes.py::test_the_sizes_choose_the_program",
    "test_sizes.py::test_an_unknown_size_is_refused_with_those_there_are",
    "test_sizes.py::test_a_fetch_of_another_size_is_refused",
    "test_work_groups.py::test_every_group_runs_once",
)
"""What calls a library. A watched Python is slow, so what only reads descriptions is left out."""
SOUND = "every_kind_of_wav or flac or mp3 or numbers_of or what_is_refused or unknown_length or any_damage"

FOUND = 66
"""The exit status of a process in which ThreadSanitizer found a race."""

WATCHED_THREADS = {"TSAN_OPTIONS": f"exitcode={FOUND}:halt_on_error=0:die_after_fork=0"}
WATCHED_MEMORY = {
    "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "PYTHONMALLOC": "malloc",  # for every object, so that each has bounds
}

RACE = """
#include <pthread.h>
#include <stddef.h>
static int counter;
static void *add(void *unused) { counter++; return unused; }
int wrong(int one) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, add, NULL) != 0) return -1;
    counter += one;
    pthread_join(thread, NULL);
    return counter;
}
"""
OVERFLOW = """
#include <stdlib.h>
int wrong(int one) {
    volatile char *place = malloc(8);
    place[8 * one] = 1;
    free((void *)place);
    return one;
}
"""
SHIFT = "int wrong(int one) { return 1 << (32 * one); }"


def passed(done: subprocess.CompletedProcess[str]) -> int:
    """How many tests passed, and none failed."""
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[:8000]
    counts = dict(re.findall(r"(\d+) (passed|failed|error)", done.stdout.rpartition("\n")[0].splitlines()[-1]))
    return int(next(number for number, what in counts.items() if what == "passed"))


def test_no_race_between_the_pools_threads(tmp_path: Path) -> None:
    """Work groups, every fused kernel, and two models at once, each with threads of its own."""
    needs.gcc()
    compile_objects(tmp_path, THREAD)
    files = [str(NATIVE / name) for name in POOL]
    done = run_tests(tmp_path, files, preloaded("libtsan.so") | WATCHED_THREADS)
    assert passed(done) >= 8


def test_no_wrong_access_through_the_abi(tmp_path: Path) -> None:
    needs.gcc()
    compile_objects(tmp_path, ADDRESS, kernels=False)
    done = run_tests(tmp_path, [str(NATIVE / name) for name in ABI], preloaded("libasan.so") | WATCHED_MEMORY)
    assert passed(done) >= 30


def test_no_wrong_access_in_recordings(tmp_path: Path) -> None:
    needs.gcc()
    compile_decoders(tmp_path, ADDRESS)
    arguments = [str(NATIVE.parent / "handler" / "test_handler_audio.py"), "-k", SOUND]
    done = run_tests(tmp_path, arguments, preloaded("libasan.so") | WATCHED_MEMORY)
    assert passed(done) >= 60


@pytest.mark.parametrize(
    ("code", "flags", "library", "says"),
    [
        (RACE, THREAD, "libtsan.so", "data race"),
        (OVERFLOW, ADDRESS, "libasan.so", "heap-buffer-overflow"),
        (SHIFT, ADDRESS, "libasan.so", "shift exponent 32 is too large"),
    ],
    ids=["race", "overflow", "shift"],
)
def test_a_fault_would_be_found(tmp_path: Path, code: str, flags: Sequence[str], library: str, says: str) -> None:
    """In a process like those of the tests above."""
    needs.gcc()
    (tmp_path / "wrong.c").write_text(code)
    command = ["gcc", *flags, "-g", "-fPIC", "-shared", "wrong.c", "-o", "wrong.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    python = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).wrong(1)"
    environment = os.environ | preloaded(library) | WATCHED_THREADS | WATCHED_MEMORY
    command = [sys.executable, "-c", python, str(tmp_path / "wrong.so")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert says in done.stderr
