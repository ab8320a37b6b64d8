"""One Lambda execution environment: AWS's Runtime Interface Emulator around the function's Python.

The emulator takes one request at a time (a second one at once makes it panic) and cuts bodies at
6,291,556 bytes without a word, so larger ones are refused here.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from builder.base.errors import EnvironmentSetupError, UsageError
from builder.base.lambda_python import PythonInterpreter

HANDLER = "handler.app.lambda_handler"
MAX_REQUEST = 6_291_556
"""Largest JSON that Lambda takes, in bytes."""

PATH = "/2015-03-31/functions/function/invocations"
START_SECONDS, STOP_SECONDS, REQUEST_SECONDS = 20, 5, 120


@dataclass
class LambdaEmulator:
    """A context manager that runs the function; ``invoke`` works inside it, and its processes always end with it."""

    binary: Path
    python: PythonInterpreter
    runtime: Path
    bundle_layer: Path  # holds lib/libmodel.so
    dependencies: Path  # holds python/
    function: Path  # holds handler/
    environment: dict[str, str] = field(default_factory=dict)
    memory: int = 1769  # In MB; the function is told this limit, but it is not enforced.
    handler: str = HANDLER
    _process: subprocess.Popen[bytes] | None = None
    _port: int = 0
    _folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        """Start the emulator; the function itself starts with the first request. Raises EnvironmentSetupError."""
        self._folder = tempfile.TemporaryDirectory(prefix="coldforge-emulator-")
        try:
            for _ in range(3):  # Another process may take a free port before the emulator does.
                if self._start_process():
                    return self
                self._stop_processes()
            raise EnvironmentSetupError(
                f"the Runtime Interface Emulator does not start:\n{self._read_file('rapid')[-2000:]}"
            )
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self._stop_processes()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def invoke(self, event: Any) -> Any:
        """Return the function's answer, or the platform's (``errorType``). Raises UsageError, EnvironmentSetupError."""
        body = event if isinstance(event, bytes) else json.dumps(event).encode()
        if len(body) > MAX_REQUEST:
            raise UsageError(
                f"the request has {len(body):,} bytes; Lambda takes {MAX_REQUEST:,}. Send a smaller image."
            )
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=REQUEST_SECONDS)
        try:
            connection.request("POST", PATH, body)
            text = connection.getresponse().read()
            if not text:  # The runtime's process ended.
                return {"errorType": "Runtime.ExitError", "errorMessage": "the function ended"}
            return json.loads(text)
        except (OSError, http.client.HTTPException, ValueError) as failure:
            raise EnvironmentSetupError(
                f"the function gave no answer ({failure}); its log:\n{self.log[-2000:]}"
            ) from failure
        finally:
            connection.close()

    @property
    def log(self) -> str:
        """The function's output so far."""
        return self._read_file("function")

    @property
    def init_ms(self) -> float:
        """Milliseconds from Python's start until it is ready, by the emulator; NaN before the first request."""
        match = re.search(r"INIT REPORT\(durationMs: ([0-9.]+)", self._read_file("rapid"))
        return float(match[1]) if match else float("nan")

    @property
    def peak_rss(self) -> int:
        """Largest memory of the function's process in bytes; 0 before it starts."""
        family = _list_descendants(self._process.pid) if self._process else []
        return max(map(_peak_rss, family), default=0)

    def _start_process(self) -> bool:
        assert self._folder is not None
        folder = Path(self._folder.name)
        with _free_port() as first, _free_port() as second:
            self._port, api = first.getsockname()[1], second.getsockname()[1]
        command = [
            str(self.binary.resolve()), "--log-level", "info",
            "--runtime-interface-emulator-address", f"127.0.0.1:{self._port}",
            "--runtime-api-address", f"127.0.0.1:{api}",
            # With -S there are no site-packages, so that only the content of the layers is imported.
            str(self.python.path), "-S", "-m", "awslambdaric", self.handler,
        ]  # fmt: skip
        with (folder / "function").open("wb") as out, (folder / "rapid").open("wb") as err:
            self._process = subprocess.Popen(
                command,
                cwd=self.function,
                env=self.make_environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return True
            time.sleep(0.02)
        return False

    def make_environment(self, home: str | Path) -> dict[str, str]:
        """Return the function's environment: Lambda's, and no variable of this process."""
        task, layer = self.function.resolve(), self.bundle_layer.resolve()
        packages = self.dependencies.resolve() / "python"
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
            "LAMBDA_TASK_ROOT": str(task),
            "LAMBDA_RUNTIME_DIR": str(self.runtime.resolve()),
            "LD_LIBRARY_PATH": f"{task}/lib:{layer}/lib",
            "PYTHONPATH": f"{task}:{packages}:{self.runtime.resolve()}",
            "COLDFORGE_LIBRARY": f"{layer}/lib/libmodel.so",
            "AWS_EXECUTION_ENV": f"AWS_Lambda_python{self.python.version}",
            "AWS_LAMBDA_FUNCTION_NAME": "coldforge",
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(self.memory),
            "AWS_LAMBDA_FUNCTION_TIMEOUT": str(REQUEST_SECONDS),
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "_HANDLER": self.handler,
            **self.environment,
        }

    def _stop_processes(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        # The emulator gives its runtime a process group of its own, so both are ended by id.
        family = _list_descendants(process.pid)
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pid in family:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _read_file(self, name: str) -> str:
        if self._folder is None:
            return ""
        path = Path(self._folder.name, name)
        return path.read_text(errors="replace") if path.exists() else ""


def _free_port() -> socket.socket:
    """Return a bound socket, whose port is free once it is closed."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    return bound


def _peak_rss(pid: int) -> int:
    """Return the most memory that a process has had, in bytes; 0 for one that has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _list_descendants(root: int) -> list[int]:
    """Return the processes that ``root`` started, and those that these started, from /proc."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    descendants, todo = [], [root]
    while todo:
        born = children.get(todo.pop(), [])
        descendants += born
        todo += born
    return descendants


class ReloadingEmulator(ExitStack):
    """A context manager that runs a bundle's function in the emulator of ``start``, and again when ``library`` changes.

    ``say`` gets a line for each new start, and the function's last error where it fails.
    """

    def __init__(self, start: Callable[[], LambdaEmulator], library: Path, say: Callable[[str], None]) -> None:
        super().__init__()
        self._start, self._library, self._say = start, library, say
        self._running: LambdaEmulator | None = None
        self._stamp = (0, 0)

    def __enter__(self) -> Self:
        self._run_newest()
        return self

    def invoke(self, event: Any) -> Any:
        """Return the function's answer as ``LambdaEmulator.invoke`` does, to one caller at a time."""
        running = self._run_newest()
        answer = running.invoke(event)
        if not isinstance(answer, dict) or answer.get("statusCode", 500) >= 500:
            lines = running.log.splitlines()
            self._say(next((line for line in reversed(lines) if '"ERROR"' in line or '"CRITICAL"' in line), ""))
        return answer

    def _run_newest(self) -> LambdaEmulator:
        """Return an emulator that runs the library as it is now. Each build writes a new file."""
        try:
            status = self._library.stat()
        except OSError:  # The library is being replaced.
            status = None
        stamp = (status.st_ino, status.st_mtime_ns) if status else self._stamp
        if self._running is None or stamp != self._stamp:
            if self._running:
                self._say("the bundle has changed: the function starts again")
            self._running = None  # Nothing runs until the next start succeeds.
            self.close()
            self._running, self._stamp = self.enter_context(self._start()), stamp
        return self._running
