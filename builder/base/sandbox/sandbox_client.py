"""The builder's side of the sandbox: it starts the fork server, sends jobs, and trusts no result.

An answer is JSON of a limited size; results are files in the job's folder, where only regular files are left.
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
from builder.base.sandbox.confinement import KernelFeatures, ProcessLimits, explain_out_of_memory
from builder.base.sandbox.process_output import find_last_words, signal_name
from builder.base.sandbox.sandbox_job import Job, JobStatus, receive_status, send_job
from builder.base.tf import ENVIRONMENT, LOGS
from builder.base.untrusted_files import require_regular

ANSWER_SIZE = 16 << 20
LOG_SIZE = 1 << 16
"""The largest number of bytes that are read of a job's result, and of the end of its output."""

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
"""Names of variables that a confined process gets, and a prefix of others; none contain secrets."""

_TENSORFLOW = (
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
"""The modules that the server loads once for all jobs."""


@dataclass(frozen=True)
class ServerSettings:
    """A fork server's interpreter (``python``), its ``variables`` besides KEPT, and its ``name``.

    ``variables``: None for those of TensorFlow. ``remedy``: the next step if it cannot be loaded.
    """

    name: str = "TensorFlow"
    python: Path = Path(sys.executable)
    variables: tuple[tuple[str, str], ...] | None = None
    remedy: str = f"run `{setup_command()}`"


_END_SECONDS = 10
"""The time for the server to end after its client has gone."""

Failed = Callable[[int, str], ColdforgeError]
"""A function from a job's exit code (negative: a signal) and output to the error to raise."""


@dataclass(frozen=True)
class JobResult:
    """The result of a job as JSON has it (``value``), and its escaped output (``output``)."""

    value: Any
    output: str


@dataclass(frozen=True)
class Sandbox:
    """The settings that confine jobs. ``preloaded``: the modules that the server loads before the first one.

    ``verbose``: whether TensorFlow logs everything, with the output of its loading at the beginning of ``output``.
    """

    limits: ProcessLimits
    kernel: KernelFeatures
    preloaded: tuple[str, ...] = _TENSORFLOW
    verbose: bool = False
    loads: ServerSettings = ServerSettings()

    @classmethod
    def from_machine(cls, *, verbose: bool = False) -> Sandbox:
        """Return a sandbox with all features of this machine. Raises UsageError for invalid variables."""
        return cls(ProcessLimits.from_machine(), KernelFeatures.from_machine(), verbose=verbose)

    def start_server(self) -> None:
        """Start the server, which loads its modules in the background; otherwise the first job waits for it.

        A server that is not needed ends at once with this process.
        """
        self._find_server().ensure_running()

    def _find_server(self) -> _ForkServer:
        return _make_server(os.getpid(), self.preloaded, self.verbose, self.loads)

    def run(
        self, function: Callable[..., Any], *arguments: Any, folder: Path, reads: Iterable[Path] = (), failed: Failed
    ) -> JobResult:
        """Run ``function(*arguments)`` in a child in ``folder``, which it may write; it may read ``reads``.

        Raises the ColdforgeError that the function raises; EnvironmentSetupError if memory or time runs out, or if
        ``require_demanded`` wants a more complete sandbox; SandboxError for forbidden files in ``folder``; and the
        error of ``failed`` for any other end.
        """
        self.kernel.require_demanded()
        folder = folder.resolve()
        job = Job(function, arguments, folder, tuple(path.resolve() for path in reads), self.limits, self.kernel)
        server = self._find_server()
        with tempfile.TemporaryFile() as log, tempfile.TemporaryFile() as answer:
            status = server.run(job, log, answer)
            output = escape_terminal((server.read_output() if self.verbose else "") + read_end(log, LOG_SIZE))
            reply = _read_answer(answer) if status.code == 0 else None
        if reply is None:
            raise self._explain_end(status, output, failed)
        if "error" in reply:
            raise error_of(reply["error"], escape_terminal(str(reply.get("message", ""))[:LOG_SIZE]))
        require_regular(folder)
        return JobResult(reply.get("value"), output)

    def _explain_end(self, status: JobStatus, output: str, failed: Failed) -> ColdforgeError:
        words = find_last_words(status.code, output)
        if status.too_long or status.code == -signal.SIGXCPU:
            return EnvironmentSetupError(
                f"reading or compiling the model took longer than {self.limits.seconds:g} s and was stopped. Give "
                "a large model more time: COLDFORGE_SECONDS=..."
            )
        if status.code == -signal.SIGKILL:
            return EnvironmentSetupError(
                "reading or compiling the model was killed from outside, which usually means that memory ran out.\n"
                + words
            )
        if status.code == 0:
            return SandboxError("the process that read or compiled the model gave no answer that can be read.")
        if "MemoryError" in output or "bad_alloc" in output or "OOM when allocating" in output:
            return EnvironmentSetupError(f"{explain_out_of_memory(self.limits)}\n{words}")
        return failed(status.code, output)


def describe_crash(code: int, output: str, what: str) -> str:
    """Return the message for a process that did ``what`` and ended with ``code``."""
    head = f"{what} crashed ({signal_name(code)})." if code < 0 else f"{what} failed:"
    return f"{head}\n{find_last_words(code, output)}"


class _ForkServer:
    """A fork server, which is started at the first job or before, and again after one that was interrupted."""

    def __init__(self, preloaded: tuple[str, ...], verbose: bool, loads: ServerSettings) -> None:
        self.preloaded = preloaded
        self.verbose = verbose
        self.loads = loads
        self.output_read = 0
        self.used = False
        self.process: subprocess.Popen[bytes] | None = None
        self.socket: socket.socket | None = None
        self.log: IO[bytes] | None = None
        self.folder: Path | None = None

    def run(self, job: Job, log: IO[bytes], answer: IO[bytes]) -> JobStatus:
        """Run a job. Raises EnvironmentSetupError if the server does not run."""
        self.ensure_running()
        self.used = True
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
        """Start the server unless it runs."""
        if self.process is not None and self.process.poll() is None:
            return
        self.stop_process()
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the server
        self.output_read = 0
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
                start_new_session=True,  # Only the builder handles Ctrl-C.
            )
        atexit.register(self._stop_at_exit, os.getpid())

    def _stop_at_exit(self, builder: int) -> None:
        if os.getpid() == builder and not self.used:  # It may still be loading, for seconds.
            self.stop_process()

    def read_output(self) -> str:
        """Return the server's own output since the last call, which TensorFlow printed while it loaded."""
        assert self.log
        new = os.pread(self.log.fileno(), LOG_SIZE, self.output_read)
        self.output_read += len(new)
        return new.decode("utf-8", "replace")

    def stop_process(self) -> None:
        """End the server, with a running job and the temporary files."""
        if self.socket:
            self.socket.close()
        if self.process:
            if not self.used:
                self.process.kill()
            try:
                self.process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.log:
            self.log.close()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)  # The server may have been killed.
        self.process = self.socket = self.log = self.folder = None
        self.used = False

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
        output = escape_terminal(read_end(self.log, LOG_SIZE))
        return f"{self.loads.name} could not be loaded; {self.loads.remedy}.\n{find_last_words(1, output)}"


@functools.cache
def _make_server(_pid: int, preloaded: tuple[str, ...], verbose: bool, loads: ServerSettings) -> _ForkServer:
    """Return this process's own server, because a fork of the builder must not use the same socket."""
    return _ForkServer(preloaded, verbose, loads)


def _make_environment(
    ours: Mapping[str, str], verbose: bool = False, variables: tuple[tuple[str, str], ...] | None = None
) -> dict[str, str]:
    """Return the server's variables: those kept of ``ours``, and ``variables`` or, if None, TensorFlow's."""
    return keep_variables(ours) | (ENVIRONMENT | LOGS[verbose] if variables is None else dict(variables))


def keep_variables(ours: Mapping[str, str]) -> dict[str, str]:
    """Select from ``ours`` the variables for a confined process, and put this code on Python's path."""
    path = os.pathsep.join(filter(None, (str(HOME), ours.get("PYTHONPATH"))))
    passed = {name: value for name, value in ours.items() if name in KEPT or name.startswith(OURS)}
    return passed | {"PYTHONPATH": path}


def _read_answer(answer: IO[bytes]) -> dict[str, Any] | None:
    size = os.fstat(answer.fileno()).st_size
    if size > ANSWER_SIZE:
        return None
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(os.pread(answer.fileno(), size, 0))
        return value if isinstance(value, dict) else None
    return None


def read_end(log: IO[bytes], size: int) -> str:
    """Return the last ``size`` bytes of ``log`` as text."""
    length = os.fstat(log.fileno()).st_size
    return os.pread(log.fileno(), size, max(length - size, 0)).decode("utf-8", "replace")
