"""The builder's side of the sandbox: starts the fork server, sends jobs, and trusts nothing that comes back.

An answer is JSON of a limited size; results are files in the job's folder, of which none but regular ones are left.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from builder.base.commands import setup_command
from builder.base.errors import ColdforgeError, EnvironmentSetupError, SandboxError, error_of
from builder.base.escape import escape_terminal
from builder.base.project import HOME
from builder.base.sandbox.job_limits import ProcessLimits, explain_out_of_memory
from builder.base.sandbox.kernel import KernelFeatures
from builder.base.sandbox.process_output import find_last_words, signal_name
from builder.base.sandbox.sandbox_job import Job, JobStatus, receive_status, send_job
from builder.base.tensorflow_environment import ENVIRONMENT, LOGS
from builder.base.untrusted_files import require_regular

ANSWER_SIZE = 16 << 20
LOG_SIZE = 1 << 16
"""Bytes of what a job gives, and of the end of what it prints, beyond which nothing is read."""

KEPT = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "PYTHONHASHSEED",
    "KERAS_HOME",
    "HOME",
)
OURS = "COLDFORGE_"
"""Variables that a confined process gets, and the beginning of others: none that a secret is kept in."""

TENSORFLOW = (
    "builder.pipeline.compute_answers",
    "builder.pipeline.import_model",
    "builder.pipeline.verify_library",
    "builder.importers.keras",
    "builder.importers.saved_model",
    "builder.importers.graph_def",
    "builder.importers.freeze",
    "builder.compiler.xla.tfcompile",
    "tensorflow.python._pywrap_tfcompile",
    "tensorflow.python.framework.convert_to_constants",
    "tensorflow.python.saved_model.loader",
    "keras.src.saving.saving_lib",
)
"""What the server loads once, so that no job has to."""


@dataclass(frozen=True)
class ServerSettings:
    """What a fork server is: the interpreter at ``python``, its ``variables`` besides KEPT, and a ``name`` for it.

    ``variables`` None: those that TensorFlow is loaded with. ``remedy``: what to do where it cannot be loaded.
    """

    name: str = "TensorFlow"
    python: Path = Path(sys.executable)
    variables: tuple[tuple[str, str], ...] | None = None
    remedy: str = f"run `{setup_command()}`"


_END_SECONDS = 10
"""What the server may take to end once nobody is there to ask it."""

Failed = Callable[[int, str], ColdforgeError]
"""The error of a job that ended with an exit code (negative: a signal) and printed a text."""


@dataclass(frozen=True)
class JobResult:
    """``value``: what the job gave, as JSON has it; ``said``: what it printed, made harmless."""

    value: Any
    said: str


@dataclass(frozen=True)
class Sandbox:
    """How jobs are confined. ``preloaded``: the modules that the server loads before the first one.

    ``verbose``: TensorFlow logs all that it has to say, and a job's ``said`` begins with what it said while it loaded.
    """

    limits: ProcessLimits
    kernel: KernelFeatures
    preloaded: tuple[str, ...] = TENSORFLOW
    verbose: bool = False
    loads: ServerSettings = ServerSettings()

    @classmethod
    def from_machine(cls, *, verbose: bool = False) -> Sandbox:
        """With all that this machine has. Raises UsageError for limits in the environment that are none."""
        return cls(ProcessLimits.from_machine(), KernelFeatures.from_machine(), verbose=verbose)

    def start_server(self) -> None:
        """Have the server load what it loads while this process does something else; without it, the first job waits.

        A server that is then not needed ends with this process, at once.
        """
        self._find_server().ensure_running()

    def _find_server(self) -> _ForkServer:
        return _make_server(os.getpid(), self.preloaded, self.verbose, self.loads)

    def run(
        self, function: Callable[..., Any], *arguments: Any, folder: Path, reads: Iterable[Path] = (), failed: Failed
    ) -> JobResult:
        """``function(*arguments)`` in a child that may write ``folder`` and read ``reads``, in ``folder``.

        Raises the ColdforgeError that the function raises; EnvironmentSetupError where memory or time runs out, or
        the sandbox is less than ``require_demanded`` wants; SandboxError for what the function should not have left
        in ``folder``; and what ``failed`` makes of any other end.
        """
        self.kernel.require_demanded()
        folder = folder.resolve()
        job = Job(function, arguments, folder, tuple(path.resolve() for path in reads), self.limits, self.kernel)
        server = self._find_server()
        with tempfile.TemporaryFile() as log, tempfile.TemporaryFile() as answer:
            status = server.run(job, log, answer)
            said = escape_terminal((server.read_output() if self.verbose else "") + read_end(log, LOG_SIZE))
            given = _read_answer(answer) if status.code == 0 else None
        if given is None:
            raise self._explain_end(status, said, failed)
        if "error" in given:
            raise error_of(given["error"], escape_terminal(str(given.get("message", ""))[:LOG_SIZE]))
        require_regular(folder)
        return JobResult(given.get("value"), said)

    def _explain_end(self, status: JobStatus, said: str, failed: Failed) -> ColdforgeError:
        if status.too_long or status.code == -signal.SIGXCPU:
            return EnvironmentSetupError(
                f"reading or compiling the model took longer than {self.limits.seconds:g} s and was stopped. Give "
                "a large model more time: COLDFORGE_SECONDS=..."
            )
        if status.code == -signal.SIGKILL:
            return EnvironmentSetupError(
                "reading or compiling the model was killed from outside, which usually means that memory ran out.\n"
                f"{find_last_words(status.code, said)}"
            )
        if status.code == 0:
            return SandboxError("the process that read or compiled the model gave no answer that can be read.")
        if "MemoryError" in said or "bad_alloc" in said or "OOM when allocating" in said:
            return EnvironmentSetupError(f"{explain_out_of_memory(self.limits)}\n{find_last_words(status.code, said)}")
        return failed(status.code, said)


def describe_crash(code: int, said: str, what: str) -> str:
    """The message for a process that did ``what`` and ended with ``code``."""
    head = f"{what} crashed ({signal_name(code)})." if code < 0 else f"{what} failed:"
    return f"{head}\n{find_last_words(code, said)}"


class _ForkServer:
    """A fork server; started at the first job or before, and again after one that was interrupted."""

    def __init__(self, preloaded: tuple[str, ...], verbose: bool, loads: ServerSettings) -> None:
        self.preloaded = preloaded
        self.verbose = verbose
        self.loads = loads
        self.told = 0
        self.asked = False
        self.process: subprocess.Popen[bytes] | None = None
        self.socket: socket.socket | None = None
        self.log: IO[bytes] | None = None
        self.folder: Path | None = None

    def run(self, job: Job, log: IO[bytes], answer: IO[bytes]) -> JobStatus:
        """Raises EnvironmentSetupError where the server does not run."""
        self.ensure_running()
        self.asked = True
        assert self.socket
        try:
            try:
                send_job(self.socket, job, log.fileno(), answer.fileno())
                status = receive_status(self.socket)
            except OSError:
                status = None
            if status is None:
                raise EnvironmentSetupError(self._explain_refusal())
            return status
        except BaseException:
            self.stop_process()
            raise

    def ensure_running(self) -> None:
        """Unless it runs."""
        if self.process is not None and self.process.poll() is None:
            return
        self.stop_process()
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the server
        self.told = 0
        self.folder = Path(tempfile.mkdtemp(prefix="coldforge-sandbox-"))
        self.socket, theirs = socket.socketpair()
        options = [str(theirs.fileno()), str(self.folder), *self.preloaded]
        with theirs:
            self.process = subprocess.Popen(
                [str(self.loads.python), "-P", "-m", "builder.base.sandbox.fork_server", *options],
                env=_make_environment(os.environ, self.verbose, self.loads.variables),
                stdin=subprocess.DEVNULL,
                stdout=self.log,
                stderr=self.log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is the builder's to hear
            )
        atexit.register(self._stop_at_exit, os.getpid())

    def _stop_at_exit(self, builder: int) -> None:
        if os.getpid() == builder and not self.asked:  # it may be loading yet, and would go on for seconds
            self.stop_process()

    def read_output(self) -> str:
        """What the server itself printed since the last call: TensorFlow while it loaded."""
        assert self.log
        new = os.pread(self.log.fileno(), LOG_SIZE, self.told)
        self.told += len(new)
        return new.decode("utf-8", "replace")

    def stop_process(self) -> None:
        """End the server, and with it a job that runs and the temporary files."""
        if self.socket:
            self.socket.close()
        if self.process:
            if not self.asked:
                self.process.kill()
            try:
                self.process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.log:
            self.log.close()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)  # where the server was killed
        self.process = self.socket = self.log = self.folder = None
        self.asked = False

    def _explain_refusal(self) -> str:
        assert self.process
        assert self.log
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
        if (code := self.process.returncode or 0) < 0:
            return (
                f"the process that reads and compiles models was ended from outside ({signal_name(code)}), which "
                "mostly means that memory ran out."
            )
        said = escape_terminal(read_end(self.log, LOG_SIZE))
        return f"{self.loads.name} could not be loaded; {self.loads.remedy}.\n{find_last_words(1, said)}"


@functools.cache
def _make_server(_pid: int, preloaded: tuple[str, ...], verbose: bool, loads: ServerSettings) -> _ForkServer:
    """This process's own: a fork of the builder must not talk into the same socket."""
    return _ForkServer(preloaded, verbose, loads)


def _make_environment(
    ours: Mapping[str, str], verbose: bool = False, variables: tuple[tuple[str, str], ...] | None = None
) -> dict[str, str]:
    """The server's variables: those kept of ``ours``, and ``variables`` or, where they are None, TensorFlow's."""
    return keep_variables(ours) | (ENVIRONMENT | LOGS[verbose] if variables is None else dict(variables))


def keep_variables(ours: Mapping[str, str]) -> dict[str, str]:
    """Take from ``ours`` what a confined process may have, and put this code on Python's path."""
    path = os.pathsep.join(filter(None, (str(HOME), ours.get("PYTHONPATH"))))
    kept = {name: value for name, value in ours.items() if name in KEPT or name.startswith(OURS)}
    return kept | {"PYTHONPATH": path}


def _read_answer(answer: IO[bytes]) -> dict[str, Any] | None:
    size = os.fstat(answer.fileno()).st_size
    if size > ANSWER_SIZE:
        return None
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(os.pread(answer.fileno(), size, 0))
        return found if isinstance(found, dict) else None
    return None


def read_end(log: IO[bytes], size: int) -> str:
    """The last ``size`` bytes of ``log`` as text."""
    whole = os.fstat(log.fileno()).st_size
    return os.pread(log.fileno(), size, max(whole - size, 0)).decode("utf-8", "replace")
