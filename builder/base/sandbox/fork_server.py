"""The fork server: a process with TensorFlow loaded, whose children each do one job in the sandbox.

    python -P -m builder.base.sandbox.fork_server <descriptor of a socket to the builder> <folder> <modules to load>

The folder is empty, for the jobs' temporary files, and is deleted with the server.

TensorFlow takes 2 s to load, and a fork of a process that has it takes 0.1 s. The server itself never reads a model: it
passes a request to a child, unopened, waits for the child, and reports how it ended. It ends, with its child, when the
builder ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pickle
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from builder.base.errors import ColdforgeError, EnvironmentSetupError
from builder.base.sandbox.confinement import confine_process, explain_out_of_memory
from builder.base.sandbox.libc import die_with_parent
from builder.base.sandbox.sandbox_job import Job, JobRequest, JobStatus, receive_request, send_status

_ANSWER = 3
_FAILED = 1
"""The exit code of a job that raised anything but a ColdforgeError; the log has its traceback."""


def _serve_jobs(client: socket.socket, folder: Path) -> None:
    """Serve the requests of ``client`` in turn until it closes the connection; ``folder``: for temporary files."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while request := receive_request(client):
        scratch = tempfile.mkdtemp(dir=folder)
        try:
            status = _run_request(request, Path(scratch), client, woken)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            os.close(request.log)
            os.close(request.answer)
        if status is None:
            return
        send_status(client, status)


def _run_request(request: JobRequest, scratch: Path, client: socket.socket, woken: int) -> JobStatus | None:
    """Return the status of a request's child, or None if the client has closed the connection."""
    server = os.getpid()
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _run_job(request, scratch, server)
    end = time.monotonic() + request.seconds
    ended = False
    try:
        while True:
            remaining = end - time.monotonic()
            ready, _, _ = select.select([client.fileno(), woken], [], [], max(remaining, 0.0))
            if woken in ready:
                os.read(woken, 64)
                ended_pid, raw = os.waitpid(pid, os.WNOHANG)
                if ended := ended_pid == pid:
                    return JobStatus(os.waitstatus_to_exitcode(raw), too_long=False)
            if client.fileno() in ready:  # A client sends nothing before the answer, so it has ended.
                return None
            if remaining <= 0:
                return JobStatus(-signal.SIGKILL, too_long=True)
    finally:
        if not ended:
            _kill_child(pid)


def _kill_child(pid: int) -> None:
    """Kill the child, and any processes that it could start."""
    for end in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            end(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _run_job(request: JobRequest, scratch: Path, server: int) -> NoReturn:
    """Do the job of ``request`` and exit. ``scratch``: an empty folder for temporary files; ``server``: the parent."""
    code = _FAILED
    try:
        os.setsid()
        die_with_parent(server)
        _keep_only(request.log, request.answer)
        job: Job = pickle.loads(request.pickled)  # It is the builder's own, as no model has been read yet.
        _move_in(job, scratch)
        confine_process(job.limits, job.kernel, job.reads, [job.writes, scratch])
        _write_answer(job)
        sys.stdout.flush()
        code = 0
    except BaseException:
        with contextlib.suppress(OSError):  # The log's disk may be full.
            traceback.print_exc()
            sys.stdout.flush()
    finally:
        os._exit(code)


def _write_answer(job: Job) -> None:
    try:
        answer = {"value": job.function(*job.arguments)}
    except ColdforgeError as error:
        answer = {"error": error.exit_code, "message": str(error)}
    except MemoryError:
        answer = {"error": EnvironmentSetupError.exit_code, "message": explain_out_of_memory(job.limits)}
    with os.fdopen(_ANSWER, "w", encoding="utf-8") as file:
        json.dump(answer, file)


def _keep_only(log: int, answer: int) -> None:
    """Redirect standard output and error to ``log``, and keep ``answer`` as the only other descriptor."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    log, answer, nothing = (os.dup2(d, 64 + i, inheritable=False) for i, d in enumerate((log, answer, nothing)))
    for descriptor, target in ((nothing, 0), (log, 1), (log, 2), (answer, _ANSWER)):
        os.dup2(descriptor, target)
    os.closerange(_ANSWER + 1, os.sysconf("SC_OPEN_MAX"))


def _move_in(job: Job, scratch: Path) -> None:
    """Set the variables that name folders to the private ones."""
    places = ("TMPDIR", "HOME", "KERAS_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")
    os.environ.update(dict.fromkeys(places, str(scratch)))
    tempfile.tempdir = None
    os.chdir(job.writes)


def _main(descriptor: int, folder: Path, modules: Sequence[str]) -> None:
    try:
        gc.disable()  # Repeated collections of the imported modules would take a third of the time.
        # Python lists a changed folder again, and a job may not list the folder of "handler".
        for name in ("handler", *modules):
            importlib.import_module(name)
        gc.freeze()  # A child's collector must not touch, and so copy, earlier objects.
        gc.enable()
        with socket.socket(fileno=descriptor) as client:
            _serve_jobs(client, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
