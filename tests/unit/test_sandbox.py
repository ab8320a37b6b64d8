"""A job in the sandbox that tries whatever a hostile model could: each attempt is refused, and nothing outside changes.

The server has no TensorFlow here; everything else is as in a build.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from builder.base.errors import ColdforgeError, CompileError, EnvironmentSetupError, SandboxError, UsageError
from builder.base.project import Project
from builder.base.sandbox import KernelFeatures, ProcessLimits, Sandbox
from builder.base.sandbox.sandbox_client import ANSWER_SIZE, LOG_SIZE, _make_environment, describe_crash
from builder.base.sandbox.seccomp import make_filter
from builder.base.targets import X86_64
from builder.pipeline.workspace import Workspace
from tests.conftest import ROOT
from tests.support import attacks
from tests.support.every_step import SPEC

BARE = Sandbox(ProcessLimits(memory=2 << 30, seconds=60), KernelFeatures.from_machine(), preloaded=())
confined = pytest.mark.skipif(
    BARE.kernel.landlock < 6 or not BARE.kernel.seccomp, reason="this kernel has no Landlock 6, or no seccomp"
)


def run(function: Callable[..., Any], *arguments: Any, folder: Path, sandbox: Sandbox = BARE, **options: Any) -> Any:
    done = sandbox.run(
        function,
        *arguments,
        folder=folder,
        failed=lambda code, said: CompileError(describe_crash(code, said, "It")),
        **options,
    )
    return done.value


@dataclass(frozen=True)
class Outside:
    """What a job must not reach: a home folder, sockets that listen, and one that takes datagrams."""

    home: Path
    abstract: str
    port: int
    datagrams: str

    def attempt(self, folder: Path, sandbox: Sandbox) -> dict[str, str]:
        before = self.content()
        found: dict[str, str] = run(
            attacks.attempt, str(self.home), self.abstract, self.port, self.datagrams, folder=folder, sandbox=sandbox
        )
        assert self.content() == before
        return found

    def content(self) -> dict[str, Any]:
        return {
            str(p): (p.stat().st_mode, p.stat().st_mtime_ns, p.is_file() and p.read_bytes())
            for p in self.home.rglob("*")
        }


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    home = tmp_path / "home"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws" / "credentials").write_text("aws_secret_access_key = stand-in")
    (home / "precious").write_text("precious")
    name = f"coldforge-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        tempfile.TemporaryDirectory() as short,  # a socket's path has 107 characters at most
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
    ):
        abstract.bind(f"\0{name}")
        abstract.listen()
        datagrams.bind(f"{short}/s")
        yield Outside(home, name, server.getsockname()[1], f"{short}/s")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A stage's."""
    (tmp_path / "stage").mkdir()
    return tmp_path / "stage"


@confined
def test_nothing_outside_can_be_read_written_reached_or_started(outside: Outside, folder: Path) -> None:
    found = outside.attempt(folder, BARE)
    assert {name for name, how in found.items() if how not in ("EPERM", "EACCES")} == {"a call that is not known"}
    assert found["a call that is not known"] == "ENOSYS"
    assert sorted(path.name for path in folder.iterdir()) == ["mine"]


@confined
def test_landlock_alone_holds_files_network_and_signals(outside: Outside, folder: Path) -> None:
    found = _without_seccomp(outside, folder)
    allowed = {name for name, how in found.items() if how == "allowed"}
    assert not allowed & {
        "read a secret", "list a home folder", "read another's environment", "read another's memory", "write a file",
        "append to a file", "empty a file", "empty a file by opening it", "delete a file", "rename a file",
        "move a file out", "make a folder", "leave a symbolic link", "leave a hard link", "leave a pipe",
        "connect by TCP", "connect to an abstract socket", "run a program", "run a set-user-ID program",
        "signal the builder", "trace the builder", "list connections", "list connections of a thread", "list mounts",
        "list mounts of a thread",
    }  # fmt: skip
    assert "send a datagram from a pair" in allowed  # which is why seccomp refuses it


def _without_seccomp(outside: Outside, folder: Path) -> dict[str, str]:
    kernel = replace(BARE.kernel, seccomp=False)
    skipped = ("change a mode", "change a time", "signal everyone", "limit the builder", "slow the builder down")
    found: dict[str, str] = run(
        _attempt_but, skipped, str(outside.home), outside.abstract, outside.port, outside.datagrams,
        folder=folder, sandbox=replace(BARE, kernel=kernel),
    )  # fmt: skip
    return found


def _attempt_but(skipped: tuple[str, ...], home: str, *sockets: Any) -> dict[str, str]:
    return {n: attacks._tried(a) for n, a in attacks.attacks(Path(home), *sockets).items() if n not in skipped}


@confined
def test_a_job_keeps_what_is_its_own(folder: Path) -> None:
    assert run(attacks.use_what_is_its_own, folder=folder) == "own"


@confined
@pytest.mark.parametrize("path", ["/proc/self/cmdline", "/proc/cpuinfo"])
def test_memory_that_is_short_takes_no_right_away(path: str, folder: Path) -> None:
    """The kernel then forgets what it has of /proc, and TensorFlow ended where it could not read its command line."""
    forget = Path("/proc/sys/vm/drop_caches")
    if not os.access(forget, os.W_OK):
        pytest.skip("only root outside a container can make the kernel forget")
    pause = folder / "pause"
    with ThreadPoolExecutor() as pool:
        job = pool.submit(run, attacks.read_again, path, str(pause), folder=folder)
        while not (pause.exists() or job.done()):
            time.sleep(0.01)
        forget.write_text("2")
        pause.unlink()
        first, second = job.result()
    assert first
    assert second


@confined
def test_what_a_job_has(folder: Path) -> None:
    found = run(attacks.state, folder=folder)
    assert found["capabilities"]
    assert found["no new privileges"] == "1"
    assert found["descriptors"] == [0, 1, 2, 3]
    assert found["home"].startswith(tempfile.gettempdir())
    assert not Path(found["home"]).exists()  # deleted after
    secret = {name for name in found["environment"] + found["first environment"] if "AWS" in name or "TOKEN" in name}
    assert secret == set()


def test_the_server_gets_no_secret_of_the_environment() -> None:
    ours = {"AWS_SECRET_ACCESS_KEY": "x", "GITHUB_TOKEN": "x", "PATH": "/bin", "HTTPS_PROXY": "http://u:p@x"}
    assert not {"AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "HTTPS_PROXY"} & set(_make_environment(ours))
    assert _make_environment(ours)["PATH"] == "/bin"


def test_a_job_reads_what_it_is_given_and_no_neighbour(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "model.keras").write_text("model")
    (tmp_path / "other.keras").write_text("other")
    reads = [tmp_path / "model.keras"]
    assert run(_read, str(tmp_path / "model.keras"), folder=folder, reads=reads) == "model"
    if BARE.kernel.landlock:
        with pytest.raises(CompileError, match="PermissionError"):
            run(_read, str(tmp_path / "other.keras"), folder=folder, reads=reads)


def test_a_job_finds_the_function_although_the_folder_around_it_has_changed(folder: Path) -> None:
    """As it does when a file is saved in the project beside it while a model is built. Python lists it anew then."""
    code = "import importlib; importlib.invalidate_caches(); import handler.errors"
    assert run(exec, code, folder=folder, reads=[ROOT / "handler"]) is None


def _read(path: str) -> str:
    return Path(path).read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA does not count what is mapped elsewhere")
def test_memory_is_limited_and_named(folder: Path) -> None:
    small = replace(BARE, limits=ProcessLimits(memory=1 << 30, seconds=60))
    assert run(attacks.take_memory, 256 << 20, folder=folder, sandbox=small) == 4
    with pytest.raises(EnvironmentSetupError, match=r"more than 1\.1 GB.*COLDFORGE_MEMORY_GB"):
        run(attacks.take_memory, 2 << 30, folder=folder, sandbox=small)


@pytest.mark.parametrize("endless", [attacks.run_for_ever, attacks.sleep_for_ever])
def test_time_is_limited_and_the_child_is_gone(endless: Callable[[], None], folder: Path) -> None:
    with pytest.raises(EnvironmentSetupError, match=r"longer than 0\.3 s.*COLDFORGE_SECONDS"):
        run(endless, folder=folder, sandbox=replace(BARE, limits=ProcessLimits(memory=2 << 30, seconds=0.3)))
    assert not Path("/proc", (folder / "pid").read_text()).exists()


@pytest.mark.parametrize("kernel", [KernelFeatures(0, False)])
def test_a_link_as_a_result_is_refused_where_the_kernel_lets_it_be_made(kernel: KernelFeatures, folder: Path) -> None:
    with pytest.raises(SandboxError, match=r"graph\.pb is a symbolic link"):
        run(attacks.leave_a_link, "/etc/passwd", folder=folder, sandbox=replace(BARE, kernel=kernel))


def test_a_crash_and_an_exception_come_back_in_their_own_words(folder: Path) -> None:
    with pytest.raises(CompileError, match=r"It crashed \(SIGSEGV\)\.\n  about to crash"):
        run(attacks.crash, folder=folder)
    with pytest.raises(CompileError) as error:
        run(attacks.fail, folder=folder)
    assert str(error.value) == "It failed:\n  RuntimeError: the reason\\x1b[2J"


@pytest.mark.skipif(platform.machine() != "x86_64" or not BARE.kernel.seccomp, reason="x86-64's 32-bit calls")
def test_calls_of_another_architecture_end_the_process(folder: Path) -> None:
    with pytest.raises(CompileError, match="SIGSYS"):
        run(attacks.i386_call, folder=folder)


@pytest.mark.parametrize(
    "raw",
    [b"", b"\x80\x04\x95", b"[1]", b'{"value": ', b"[" * 100_000, b" " * (ANSWER_SIZE + 1), b'{"value": "\xff"}'],
    ids=["none", "a pickle", "a list", "half", "deep", "long", "not UTF-8"],
)
def test_an_answer_that_is_no_answer_is_refused(raw: bytes, folder: Path) -> None:
    with pytest.raises(SandboxError, match="gave no answer"):
        run(attacks.answer, raw, folder=folder)


def test_a_job_that_ends_on_its_own_gives_no_answer(folder: Path) -> None:
    with pytest.raises(SandboxError, match="gave no answer"):
        run(attacks.end_without_an_answer, folder=folder)


@pytest.mark.parametrize(("code", "kind"), [(13, CompileError), ("13", ColdforgeError), (-1, ColdforgeError)])
def test_an_error_is_of_a_kind_that_is_known(code: object, kind: type, folder: Path) -> None:
    with pytest.raises(ColdforgeError, match=r"^cl\\x1bear$") as error:
        run(attacks.answer, json.dumps({"error": code, "message": "cl\x1bear"}).encode(), folder=folder)
    assert type(error.value) is kind


def test_what_a_job_prints_is_cut_and_made_harmless(folder: Path) -> None:
    done = BARE.run(attacks.talk, 1 << 20, folder=folder, failed=lambda *_: CompileError())
    assert len(done.output) <= LOG_SIZE + 64
    assert done.output.endswith("\\x1b]0;owned\\x07 the end\n")


@pytest.mark.parametrize(
    ("kernel", "lacks"),
    [
        (KernelFeatures(0, True), ["Landlock"]),
        (KernelFeatures(2, True), ["Landlock"]),
        (KernelFeatures(7, False), ["seccomp"]),
        (KernelFeatures(0, False), ["Landlock", "seccomp"]),
    ],
)
def test_what_a_system_lacks_is_said_in_one_line(kernel: KernelFeatures, lacks: list[str]) -> None:
    line = kernel.describe_missing({})
    assert [word for word in ("Landlock", "seccomp") if word in line] == lacks
    assert "Docker" in line
    assert "\n" not in line
    assert kernel.describe_missing({"COLDFORGE_CONTAINED": "1"}) == ""
    assert KernelFeatures(3, True).describe_missing({}) == ""


@pytest.mark.parametrize("kernel", [KernelFeatures(0, True), KernelFeatures(7, False), KernelFeatures(2, True)])
def test_no_job_is_done_in_an_incomplete_sandbox_where_a_complete_one_is_required(
    kernel: KernelFeatures, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLDFORGE_CONTAINED", raising=False)
    monkeypatch.setenv("COLDFORGE_SANDBOX", "require")
    with pytest.raises(EnvironmentSetupError, match=r"Landlock|seccomp"):
        run((folder / "done").touch, folder=folder, sandbox=replace(BARE, kernel=kernel))
    assert not (folder / "done").exists()
    monkeypatch.setenv("COLDFORGE_CONTAINED", "1")
    kernel.require_demanded()
    monkeypatch.setenv("COLDFORGE_SANDBOX", "required")
    with pytest.raises(UsageError, match="COLDFORGE_SANDBOX"):
        KernelFeatures(7, True).require_demanded()


@confined
def test_a_job_is_done_in_a_complete_sandbox_that_is_required(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLDFORGE_SANDBOX", "require")
    assert run(os.getcwd, folder=folder) == str(folder)


def test_a_job_is_done_where_the_system_lacks_everything(folder: Path) -> None:
    assert run(os.getcwd, folder=folder, sandbox=replace(BARE, kernel=KernelFeatures(0, False))) == str(folder)


@pytest.mark.parametrize("name", ["COLDFORGE_MEMORY_GB", "COLDFORGE_SECONDS"])
@pytest.mark.parametrize("value", ["none", "0", "-1", "nan", "inf"])
def test_limits_that_are_none_are_refused(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name):
        ProcessLimits.from_machine({name: value})


def test_limits_can_be_set() -> None:
    limits = ProcessLimits.from_machine({"COLDFORGE_MEMORY_GB": "1.5", "COLDFORGE_SECONDS": "20"})
    assert limits == ProcessLimits(1_500_000_000, 20.0)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_jump_of_the_filter_stays_inside(machine: str) -> None:
    instructions = make_filter(machine, 1234)
    assert len(instructions) <= 4096
    for place, (code, true, false, _) in enumerate(instructions):
        assert 0 <= true < 256
        assert 0 <= false < 256
        if code & 7 == 5:  # a jump
            assert place + 1 + max(true, false) < len(instructions)


ENDLESS = """
import os, signal, sys
from pathlib import Path
from dataclasses import replace
from tests.support import attacks
from tests.support.every_step import SPEC
from tests.unit.test_sandbox import BARE
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
try:
    BARE.run(attacks.sleep_for_ever, folder=Path(sys.argv[1]), failed=lambda *_: RuntimeError())
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_builder_that_ends_takes_its_job_and_its_files_with_it(
    end: signal.Signals, tmp_path: Path, folder: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")}
    builder = subprocess.Popen([sys.executable, "-c", ENDLESS, str(folder)], cwd=ROOT, env=environment)
    try:
        _wait_for(lambda: (folder / "pid").exists() and bool((folder / "pid").read_text()))
        child = Path("/proc", (folder / "pid").read_text())
        server = Path("/proc", (child / "stat").read_text().rpartition(")")[2].split()[1])
        assert len(list((tmp_path / "tmp").iterdir())) == 1
        builder.send_signal(end)
        assert builder.wait(60) == (130 if end == signal.SIGINT else -end)
        _wait_for(lambda: not _runs(child) and not _runs(server))
        _wait_for(lambda: not list((tmp_path / "tmp").iterdir()))
    finally:
        builder.kill()
        builder.wait()


def _wait_for(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)


def _runs(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_server_that_is_killed_is_not_taken_for_one_that_cannot_start(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    own = replace(BARE, preloaded=("json",))  # a server for this test alone
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(run, attacks.sleep_for_ever, folder=folder, sandbox=own)
        _wait_for(lambda: (folder / "pid").exists() and bool((folder / "pid").read_text()))
        child = Path("/proc", (folder / "pid").read_text())
        os.kill(int((child / "stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
        with pytest.raises(EnvironmentSetupError, match=r"SIGKILL.*memory"):
            job.result(60)
    _wait_for(lambda: not _runs(child))
    assert list((tmp_path / "tmp").iterdir()) == []
    assert run(os.getcwd, folder=folder, sandbox=own) == str(folder)  # by another


def test_a_server_that_cannot_start_says_what_to_do(folder: Path) -> None:
    with pytest.raises(EnvironmentSetupError, match=r"make setup.*\n.*no_such_module"):
        run(os.getcwd, folder=folder, sandbox=replace(BARE, preloaded=("no_such_module",)))


SLOW = """
import gc, json, os, pathlib, sys, time
here = pathlib.Path(__file__).parent
with (here / "loaded").open("a") as file:
    file.write(json.dumps([os.getpid(), gc.isenabled()]) + "\\n")
time.sleep(float((here / "seconds").read_text()))
"""
"""A module that takes time to load, as TensorFlow does, and notes who loads it."""


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Sandbox]:
    """The folder of the module's notes, and a sandbox that loads it."""
    place = tmp_path / "slow"
    place.mkdir()
    name = f"loads_{tmp_path.name}"  # of this test alone, and so a server of its own
    (place / f"{name}.py").write_text(SLOW)
    (place / "seconds").write_text("0")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("PYTHONPATH", str(place))
    return place, replace(BARE, preloaded=(name,))


def _loaded(place: Path) -> list[tuple[int, bool]]:
    notes = place / "loaded"
    return [tuple(json.loads(line)) for line in notes.read_text().splitlines()] if notes.exists() else []


def test_one_server_loads_for_all_models_and_may_begin_before_the_first_job(
    slow: tuple[Path, Sandbox], folder: Path
) -> None:
    place, sandbox = slow
    sandbox.start_server()
    _wait_for(lambda: len(_loaded(place)) == 1)
    another = replace(sandbox)  # each model's workspace has its own
    another.start_server()
    parents = {run(os.getppid, folder=folder, sandbox=one) for one in (sandbox, another, sandbox)}
    assert _loaded(place) == [(*parents, False)]  # without the collector


def test_nothing_loads_ahead_for_a_model_that_was_imported_before(slow: tuple[Path, Sandbox], tmp_path: Path) -> None:
    place, sandbox = slow
    ws = Workspace(SPEC, Project(tmp_path), X86_64, sandbox=sandbox)
    (ws.build / "import").mkdir(parents=True)
    ws.expect_import()
    (ws.build / "import").rename(ws.build / "renamed")
    assert not list((tmp_path / "tmp").iterdir())  # no server's folder
    ws.expect_import()
    _wait_for(lambda: len(_loaded(place)) == 1)


def test_the_collector_leaves_what_was_loaded_alone_and_runs_in_a_job(slow: tuple[Path, Sandbox], folder: Path) -> None:
    enabled, frozen = run(_collector, folder=folder, sandbox=slow[1])
    assert enabled
    assert frozen > 1000


def _collector() -> tuple[bool, int]:
    return gc.isenabled(), gc.get_freeze_count()


def test_a_server_that_loads_for_nobody_ends_with_the_builder(slow: tuple[Path, Sandbox], tmp_path: Path) -> None:
    place, sandbox = slow
    (place / "seconds").write_text("600")
    code = """
import sys, time, pathlib
from dataclasses import replace
from builder.base.sandbox import Sandbox
replace(Sandbox.from_machine(), preloaded=(sys.argv[2],)).start_server()
loaded = pathlib.Path(sys.argv[1])
while not (loaded.exists() and loaded.read_text()):
    time.sleep(0.02)
"""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{place}"}
    command = [sys.executable, "-c", code, str(place / "loaded"), *sandbox.preloaded]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=60)
    ((server, _),) = _loaded(place)
    _wait_for(lambda: not _runs(Path(f"/proc/{server}")))
    assert list((tmp_path / "tmp").iterdir()) == []
