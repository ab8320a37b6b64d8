"""The fork server's child: it gives up everything that a job does not need, then does the job."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import tempfile
import traceback
from pathlib import Path
from typing import NoReturn

from builder.base.errors import ColdforgeError, EnvironmentSetupError
from builder.base.sandbox import privileges
from builder.base.sandbox.confinement import confine_process
from builder.base.sandbox.job_limits import explain_out_of_memory
from builder.base.sandbox.sandbox_job import Job, JobRequest, encode_error, encode_value

_ANSWER = 3
FAILED = 1
"""The exit code of a job that raised anything but a ColdforgeError; the log has its traceback."""


def run_job(request: JobRequest, scratch: Path, server: int) -> NoReturn:
    """Do the job of ``request`` and exit. ``scratch``: an empty folder for temporary files; ``server``: the parent."""
    code = FAILED
    try:
        os.setsid()
        privileges.die_with_parent(server)
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
        answer = encode_value(job.function(*job.arguments))
    except ColdforgeError as error:
        answer = encode_error(error.exit_code, str(error))
    except MemoryError:
        answer = encode_error(EnvironmentSetupError.exit_code, explain_out_of_memory(job.limits))
    with os.fdopen(_ANSWER, "wb") as file:
        file.write(answer)


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
