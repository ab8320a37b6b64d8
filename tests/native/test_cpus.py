"""How many CPUs the library takes: affinity, control groups of both versions, and the memory of a Lambda function."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.link.library import RUNTIME
from builder.link.toolchain import Toolchain
from builder.targets import X86_64
from tests.support import instrumented
from tests.support.instrumented import CACHE

HERE = len(os.sched_getaffinity(0))
ASK = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).cpus())"
V1, V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cpus.c with one function that can be called."""
    folder = tmp_path_factory.mktemp("cpus")
    return build(folder, "uint32_t cpus(void) { return cf_usable_cpus(); }\n")


def build(folder: Path, code: str, *flags: str) -> Path:
    """cpus.c and ``code``, whose ``cpus`` can be called. ``flags``: of cpus.c."""
    (folder / "ask.c").write_text(
        '#include "platform/threads.h"\n__attribute__((visibility("default"))) uint32_t cpus(void);\n' + code
    )
    sources = ((folder / "ask.c", ()), (RUNTIME / "platform" / "cpus.c", flags))
    if counted := instrumented.flags():
        for source, more in sources:
            subprocess.run(["gcc", *counted, *more, f"-I{RUNTIME}", "-c", str(source)], cwd=folder, check=True)
        subprocess.run(["gcc", *counted, "-shared", "ask.o", "cpus.o", "-o", "libcpus.so"], cwd=folder, check=True)
        return folder / "libcpus.so"
    toolchain = Toolchain(X86_64, CACHE)
    for source, more in sources:
        toolchain.compile(source, folder / f"{source.stem}.o", include=(RUNTIME,), baseline=True, flags=more)
    (folder / "exports.map").write_text("{ global: cpus; local: *; };\n")
    toolchain.link([folder / "ask.o", folder / "cpus.o"], folder / "exports.map", folder / "libcpus.so")
    return folder / "libcpus.so"


def ask(library: Path, *before: str, memory: str | None = None, **more: str) -> int:
    """The answer of a process of its own, started through ``before``, with ``more`` in its environment."""
    environment = {k: v for k, v in os.environ.items() if k != "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"} | more
    if memory is not None:
        environment["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] = memory
    command = [*before, sys.executable, "-c", ASK, str(library)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("cpus", range(1, min(HERE, 8) + 1))
def test_affinity(library: Path, cpus: int) -> None:
    some = ",".join(map(str, sorted(os.sched_getaffinity(0))[:cpus]))
    assert ask(library, "taskset", "--cpu-list", some) == cpus


@pytest.mark.parametrize(
    ("memory", "share"),
    [("128", 1), ("1769", 1), ("2653", 1), ("2654", 2), ("3538", 2), ("5307", 3), ("10240", 6), ("", 8), ("-1", 8)],
)
def test_the_memory_of_a_lambda_function(library: Path, memory: str, share: int) -> None:
    """1769 MB are one CPU; a share of two CPUs is better used by one thread than by two that are throttled."""
    assert ask(library, memory=memory) == min(share, HERE)


def namespace() -> list[str]:
    """A command prefix that may mount: a mount namespace, with a user namespace for those who are not root."""
    prefix = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    script = [*prefix, "sh", "-c", "mount -t tmpfs none /sys/fs/cgroup"]
    if subprocess.run(script, capture_output=True, check=False).returncode:
        pytest.skip("NOT RUN: this process may not make a mount namespace")
    return prefix


@pytest.mark.parametrize(
    ("own", "above", "cpus"),
    [
        ("100000 100000", None, 1),
        ("200000 100000", None, 2),
        ("150000 100000", None, 1),  # two threads would be throttled
        ("50000 100000", None, 1),
        ("20000 10000", None, 2),
        ("max 100000", None, 8),
        ("max 100000", "100000 100000", 1),  # a group has no more than the group it is in
        ("100000 100000", "max 100000", 1),
        ("nonsense", None, 8),
        ("", None, 8),
        (None, None, 8),
    ],
)
def test_quota_of_a_control_group_version_2(library: Path, own: str | None, above: str | None, cpus: int) -> None:
    assert ask(library, *with_quota(own, above)) == min(cpus, HERE)


def with_quota(own: str | None, above: str | None) -> list[str]:
    """A command prefix: it has the files that the kernel would show, mounted where it shows them."""
    script = "set -e; mount -t tmpfs none /sys/fs/cgroup; mkdir -p /sys/fs/cgroup/above/own; "
    for name, text in (("above/own", own), ("above", above)):
        if text is not None:
            script += f"echo '{text}' > /sys/fs/cgroup/{name}/cpu.max; "
    script += "echo 0::/above/own > /sys/fs/cgroup/mine; mount --bind /sys/fs/cgroup/mine /proc/$$/cgroup; "
    return [*namespace(), "sh", "-c", script + 'exec "$@"', "sh"]


FAULTY_READ = """
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
ssize_t faulty_read(int file, void *data, size_t size);
static long left;
ssize_t faulty_read(int file, void *data, size_t size) {
    (void)size;
    if (--left != 0) return read(file, data, 1);
    errno = EIO;
    return -1;
}
uint32_t cpus(void) {
    left = atol(getenv("FAILING_READ"));
    return cf_usable_cpus();
}
"""


def test_reads_that_are_short_or_fail(tmp_path: Path) -> None:
    """Of one byte each, they give the same answer. Whichever fails, a library takes one CPU or more, and no more than
    there are."""
    library = build(tmp_path, FAULTY_READ, "-Dread=faulty_read")
    quota = with_quota("max 100000", "100000 100000")
    assert ask(library, *quota, FAILING_READ="0") == 1
    found = {ask(library, *quota, FAILING_READ=str(at)) for at in (1, 5, 14, 15, 20, 26, 30, 32, 37, 40)}
    assert found <= set(range(1, HERE + 1))


@pytest.fixture
def group() -> Iterator[tuple[Path, int]]:
    """A real control group of our own that can have a quota, and its version."""
    controllers = V2 / "cgroup.controllers"
    v2 = controllers.exists() and "cpu" in (V2 / "cgroup.subtree_control").read_text().split()
    folder = (V2 if v2 else V1) / f"coldforge-test-{uuid.uuid4().hex[:8]}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"NOT RUN: a control group with a CPU quota can't be made here: {error}")
    if not (folder / ("cpu.max" if v2 else "cpu.cfs_quota_us")).exists():
        folder.rmdir()
        pytest.skip("NOT RUN: control groups have no CPU quota here")
    yield folder, 2 if v2 else 1
    folder.rmdir()


@pytest.mark.parametrize(("quota", "cpus"), [("50000", 1), ("100000", 1), ("200000", 2), ("-1", 8)])
def test_quota_of_a_real_control_group(library: Path, group: tuple[Path, int], quota: str, cpus: int) -> None:
    folder, version = group
    if version == 2:
        (folder / "cpu.max").write_text(f"{quota.replace('-1', 'max')} 100000")
    else:
        (folder / "cpu.cfs_quota_us").write_text(quota)
    enter = f'echo $$ > {folder}/cgroup.procs && exec "$@"'
    assert ask(library, "sh", "-c", enter, "sh") == min(cpus, HERE)


def test_the_process_that_asks_is_not_changed(library: Path) -> None:
    before = os.sched_getaffinity(0)
    assert 1 <= ctypes.CDLL(str(library)).cpus() <= HERE
    assert os.sched_getaffinity(0) == before
