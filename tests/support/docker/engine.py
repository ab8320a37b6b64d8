"""A Docker engine for the tests: the one that answers, or a private one that leaves nothing behind.

The private engine has its own socket, data folder, containerd, bridge and address range, so it disturbs no
other. Its images stay in ``build/e2e/docker`` and are the cache of the next run. It needs root, docker.io and
mmdebstrap.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from builder.pipeline.docker.docker_client import why_no_engine
from tests.support.process import stop

CLIENT = "/usr/bin/docker"  # Debian's has BuildKit built in; another one on PATH may lack its plugin
START_SECONDS, STOP_SECONDS = 60, 60
_SCRATCH = "coldforge-engine-"
PACKAGES = {"/usr/sbin/dockerd": "docker.io", CLIENT: "docker.io", "/usr/bin/mmdebstrap": "mmdebstrap"}


class NoEngine(Exception):
    """Why there can be no engine here."""


@dataclass(frozen=True)
class Engine:
    """An engine that answers. ``environment``: what its clients need; ``log``: the private engine's own."""

    environment: dict[str, str]
    log: Path | None = None

    @property
    def private(self) -> bool:
        return self.log is not None


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Engine]:
    """An engine for the length of the block, its clients' environment set in ``os.environ``.

    ``folder`` keeps the private engine's data between runs. Raises NoEngine with the reason.
    """
    if why_no_engine() is None:
        yield Engine({})
        return
    _require_packages()
    with _private(folder) as engine, _exported(engine.environment):
        yield engine


def _require_packages() -> None:
    if os.geteuid():
        raise NoEngine(f"no Docker engine answers ({why_no_engine()}), and starting one needs root")
    if missing := sorted({package for path, package in PACKAGES.items() if not Path(path).exists()}):
        raise NoEngine(f"{', '.join(missing)} missing (make tools installs them)")


@contextlib.contextmanager
def _private(folder: Path) -> Iterator[Engine]:
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise NoEngine(f"another test run has the engine of {folder}") from None
        _sweep(lock, folder)
        # A socket's path is limited to 107 bytes, which a checkout's may exceed.
        scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH))
        lock.write(str(scratch))
        lock.flush()
        bridge = _Bridge.of(folder)
        process = None
        try:
            bridge.create()
            log = folder / "dockerd.log"
            process = _start(folder, scratch, bridge, log)
            environment = {"DOCKER_HOST": f"unix://{scratch}/socket", "DOCKER": CLIENT}
            _await_answer(process, environment, log)
            yield Engine(environment, log)
        finally:
            if process is not None:
                stop(process, STOP_SECONDS)  # which ends its containers and its containerd
            _detach_mounts(folder, scratch)
            bridge.delete()
            shutil.rmtree(scratch, ignore_errors=True)


def _sweep(lock: IO[str], folder: Path) -> None:
    """Remove what a killed run left; the lock's file names its scratch folder."""
    _detach_mounts(folder)
    lock.seek(0)
    left = Path(lock.read())
    lock.truncate(0)
    if left.name.startswith(_SCRATCH):
        _detach_mounts(left)
        shutil.rmtree(left, ignore_errors=True)


def _start(folder: Path, scratch: Path, bridge: _Bridge, log: Path) -> subprocess.Popen[bytes]:
    command = ["setpriv", "--pdeathsig", "TERM"]  # a killed test run does not leave an engine behind
    command += ["dockerd", "--host", f"unix://{scratch}/socket", "--data-root", str(folder / "data")]
    command += ["--exec-root", str(scratch / "exec"), "--pidfile", str(scratch / "pid")]
    command += ["--bridge", bridge.name, "--group", "root", "--log-level", "warn"]
    with log.open("wb") as file:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )


def _await_answer(process: subprocess.Popen[bytes], environment: dict[str, str], log: Path) -> None:
    command = [CLIENT, "version"]
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        done = subprocess.run(command, env=os.environ | environment, capture_output=True, check=False)
        if done.returncode == 0:
            return
        if process.poll() is not None:
            break
        time.sleep(0.2)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
    raise NoEngine(f"dockerd did not start:\n{tail}")


def _detach_mounts(*folders: Path) -> None:
    table = Path("/proc/self/mountinfo").read_text().splitlines()
    mounts = [line.split()[4].encode().decode("unicode_escape") for line in table]  # a space is \\040 there
    for point in sorted(mounts, key=len, reverse=True):
        if any(Path(point).is_relative_to(folder) for folder in folders):
            subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)


@dataclass(frozen=True)
class _Bridge:
    """A network bridge of our own, named and numbered after the data folder."""

    name: str
    address: str

    @classmethod
    def of(cls, folder: Path) -> _Bridge:
        hashed = hashlib.sha256(os.fsencode(folder)).digest()
        return cls(f"cf-{hashed.hex()[:8]}", f"10.{200 + hashed[0] % 50}.{hashed[1]}.1/24")

    def create(self) -> None:
        self.delete()
        for command in (
            ["link", "add", "name", self.name, "type", "bridge"],
            ["addr", "add", self.address, "dev", self.name],
            ["link", "set", self.name, "up"],
        ):
            done = subprocess.run(["ip", *command], capture_output=True, text=True, check=False)
            if done.returncode:
                raise NoEngine(f"no network bridge can be made: {done.stderr.strip()}")

    def delete(self) -> None:
        """Take away the bridge and the packet filter's rules for it, which dockerd leaves."""
        subprocess.run(["ip", "link", "delete", self.name], capture_output=True, check=False)
        network = self.address.rpartition(".")[0] + ".0/24"
        for table in ("nat", "filter"):
            listed = subprocess.run(["iptables", "-t", table, "-S"], capture_output=True, text=True, check=False)
            for rule in listed.stdout.splitlines():
                if rule.startswith("-A") and (self.name in rule.split() or network in rule.split()):
                    remove = ["iptables", "-t", table, "-D", *rule.split()[1:]]
                    subprocess.run(remove, capture_output=True, check=False)


@contextlib.contextmanager
def _exported(environment: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
