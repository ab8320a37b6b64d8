"""Processes that tests start and have to end: none of them is waited for without a limit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

GRACE_SECONDS = 10.0


def stop(process: subprocess.Popen[Any], grace: float = GRACE_SECONDS) -> int:
    """End ``process`` and return its exit status, negative for a signal's number.

    It gets SIGTERM, and SIGKILL if it still runs ``grace`` seconds later. A process that leads a process group
    (``start_new_session=True``) takes the group with it. Not SIGINT: a shell makes its background jobs ignore that,
    and so do all that they start.
    """
    leads = _leads_group(process.pid)
    _send(process, signal.SIGTERM, leads)
    end = time.monotonic() + grace
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(grace)
    while leads and _group_runs(process.pid) and time.monotonic() < end:
        time.sleep(0.05)
    _send(process, signal.SIGKILL, leads)
    return process.wait(GRACE_SECONDS)


def _leads_group(pid: int) -> bool:
    """Also where ``pid`` has ended and others of its group go on."""
    with contextlib.suppress(ProcessLookupError):
        return os.getpgid(pid) == pid
    return _group_runs(pid)


def _group_runs(group: int) -> bool:
    """Whether any process of ``group`` runs. One that has ended but was not waited for does not."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            state, _, of = stat.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state != "Z":
                return True
    return False


def _send(process: subprocess.Popen[Any], number: signal.Signals, group: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if group:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
