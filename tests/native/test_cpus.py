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

from builder.base.project import RUNTIME
from builder.base.targets import X86_64
from builder.compiler.link.toolchain import Toolchain
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
    head = '#define _GNU_SOURCE\n#include "platform/threads.h"\n'
    declared = '__attribute__((visibility("default"))) uint32_t cpus(void);\n'
    (folder / "ask.c").write_text(head + declared + code)
    sources = ((folder / "ask.c", ()), (RUNTIME / "platform" / "cpus.c", flags))
    if counted := instrumented.flags():
        for source, more in sources:
            subprocess.run(["gcc", *counted, *more, f"-I{RUNTIME}", "-c", str(source)], cwd=folder, check=True)
        subprocess.run(["gcc", *counted, "-shared", "ask.o", "cpus.o", "-o", "libcpus.so"], cwd=folder, check=True)
        return folder / "libcpus.so"
    toolchain = Toolchain(X86_64, CACHE)
    for source, more in sources:
        toolchain.compile_source(source, folder / f"{source.stem}.o", include=(RUNTIME,), baseline=True, flags=more)
    (folder / "exports.map").write_text("{ global: cpus; local: *; };\n")
    toolchain.link_shared_library([folder / "ask.o", folder / "cpus.o"], folder / "exports.map", folder / "libcpus.so")
    return folder / "libcpus.so"


def ask(library: Path, *before: str, memory: str | None = None, **more: str) -> int:
    """The answer of a process of its own, started through ``before``, with ``more`` in its environment."""
    environment = {k: v for k, v in os.environ.items() if k != "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"} | more
    if memory is not None:
        environment["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] = memory
    command = [*before, sys.executable, "-IS", "-c", ASK, str(library)]
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
        ("99999 100000", "200000 100000", 1),
        ("100000 0", None, 8),  # which no kernel writes; and nothing is divided by it
        ("100000 -1", None, 8),
        ("100000", None, 8),
        ("0 100000", None, 8),
        ("-1 100000", None, 8),
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
    """A command prefix: a control group of version 2 in another."""
    texts = {"above/own/cpu.max": own, "above/cpu.max": above}
    return with_files("0::/above/own\n", {name: text for name, text in texts.items() if text is not None})


def with_files(mine: str, files: dict[str, str]) -> list[str]:
    """A command prefix: it has the files that the kernel would show, mounted where it shows them. ``mine``: what
    /proc/self/cgroup is."""
    script = "set -e; mount -t tmpfs none /sys/fs/cgroup; cd /sys/fs/cgroup; "
    for name, text in files.items():
        script += f"mkdir -p {Path(name).parent}; echo '{text}' > {name}; "
    script += f"printf %s '{mine}' > mine; mount --bind mine /proc/$$/cgroup; cd /; "
    return [*namespace(), "sh", "-c", script + 'exec "$@"', "sh"]


ONE = "100000 100000"


def nested(length: int) -> str:
    """A group's path of so many bytes, each folder's name as long as it may be."""
    half = (length - 2) // 2
    return f"/{'d' * half}/{'e' * (length - 2 - half)}"


def version_1(folder: str, quota: str = "100000", period: str | None = "100000") -> dict[str, str]:
    files = {f"{folder}/cpu.cfs_quota_us": quota}
    return files | ({f"{folder}/cpu.cfs_period_us": period} if period else {})


LONG_LINES = f"9:net_cls:/{'n' * 400}\n" * 9


@pytest.mark.parametrize(
    ("mine", "files", "cpus"),
    [
        ("0::/own", {"own/cpu.max": ONE}, 1),  # without a line's end
        ("0::/\n", {"cpu.max": ONE}, 1),
        ("", {"cpu.max": ONE}, 8),
        ("nonsense\n1:name\n\n0::/own\n", {"own/cpu.max": ONE}, 1),
        (f"0::/own\n{LONG_LINES}", {"own/cpu.max": ONE}, 1),
        (f"{LONG_LINES}0::/own\n", {"own/cpu.max": ONE}, 1),
        (f"{LONG_LINES}{LONG_LINES}0::/own\n", {"own/cpu.max": ONE}, 8),  # past the 4095 bytes that are read
        (f"0::{nested(489)}\n", {f"{nested(489)[1:]}/cpu.max": ONE}, 1),
        (f"0::{nested(490)}\n", {f"{nested(490)[1:]}/cpu.max": ONE}, 8),  # past the 511 bytes of a path
        (f"0::/above{nested(490)}\n", {"above/cpu.max": ONE}, 1),  # the groups above it count all the same
        ("2:cpu:/own\n", version_1("cpu/own"), 1),
        ("2:cpu:/own\n", version_1("cpu/own", "99999"), 1),
        ("2:cpu:/own\n", version_1("cpu/own", "200000"), 2),
        ("2:cpu:/above/own\n", version_1("cpu/above"), 1),
        ("2:cpu:/own\n", version_1("cpu/own", "-1"), 8),
        ("2:cpu:/own\n", version_1("cpu/own", "100000", "0"), 8),
        ("2:cpu:/own\n", version_1("cpu/own", "100000", None), 8),
        ("2:cpu,cpuacct:/own\n", version_1("cpu,cpuacct/own"), 1),
        ("2:cpuacct,cpu:/own\n", version_1("cpu/own"), 1),
        ("2:cpuacct,cpu,more:/above/own\n", version_1("cpu,cpuacct/above"), 1),
        ("2:cpuset:/own\n3:cpuacct:/own\n4:net:/own\n5:pu:/own\n6:name=cpu:/own\n", version_1("cpu/own"), 8),
        (f"2:cpu:{nested(475)}\n", version_1(f"cpu{nested(475)}"), 1),
        (f"2:cpu:{nested(476)}\n", version_1(f"cpu{nested(476)}"), 8),  # the quota's path fits, the period's does not
        (f"2:cpu:/above{nested(505)}\n", version_1("cpu/above"), 1),
        (f"2:cpu:/above{nested(506)}\n", version_1("cpu/above"), 8),
    ],
)  # fmt: skip
def test_control_groups(library: Path, mine: str, files: dict[str, str], cpus: int) -> None:
    """Both versions: whose lines they are, where each is looked for, and what is too long to be read."""
    assert ask(library, *with_files(mine, files)) == min(cpus, HERE)


FAULTY = """
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>
ssize_t faulty_read(int file, void *data, size_t size);
int faulty_affinity(pid_t process, size_t size, cpu_set_t *set);
long faulty_sysconf(int name);
static long left;
ssize_t faulty_read(int file, void *data, size_t size) {
    (void)size;
    if (--left != 0) return read(file, data, 1);
    errno = EIO;
    return -1;
}
int faulty_affinity(pid_t process, size_t size, cpu_set_t *set) {
    const char *wanted = getenv("AFFINITY");
    if (wanted == NULL) return sched_getaffinity(process, size, set);
    CPU_ZERO(set);
    for (int i = 0; i < atoi(wanted); i++) CPU_SET(i, set);
    return atoi(wanted) < 0 ? -1 : 0;
}
long faulty_sysconf(int name) { return name == _SC_NPROCESSORS_ONLN ? atol(getenv("ONLINE")) : -1; }
uint32_t cpus(void) {
    left = atol(getenv("FAILING_READ"));
    return cf_usable_cpus();
}
"""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    flags = ("read=faulty_read", "sched_getaffinity=faulty_affinity", "sysconf=faulty_sysconf")
    return build(tmp_path_factory.mktemp("faulty"), FAULTY, *(f"-D{flag}" for flag in flags))


def test_reads_that_are_short_or_fail(faulty: Path) -> None:
    """Of one byte each, they give the same answer. Whichever fails, a library takes one CPU or more, and no more than
    there are."""
    quota = with_quota("max 100000", "100000 100000")
    assert ask(faulty, *quota, FAILING_READ="0") == 1
    found = {ask(faulty, *quota, FAILING_READ=str(at)) for at in (1, 5, 14, 15, 20, 26, 30, 32, 37, 40)}
    assert found <= set(range(1, HERE + 1))


@pytest.mark.parametrize(
    ("affinity", "online", "cpus"),
    [(0, 4, 1), (1, 4, 1), (7, 1, 7), (8, 1, 8), (9, 1, 8), (-1, 5, 5), (-1, 1000, 8), (-1, 0, 1), (-1, -1, 1)],
)
def test_a_machine_with_other_cpus(faulty: Path, affinity: int, online: int, cpus: int) -> None:
    """-1: a call that fails, as sched_getaffinity does where there are more than 1024. No control group can be read."""
    assert ask(faulty, FAILING_READ="1", AFFINITY=str(affinity), ONLINE=str(online)) == cpus


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
