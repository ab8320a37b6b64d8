"""The end of processes that tests start, whatever they do about signals."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests.support.process import stop

BEGIN = "import signal, sys, time\nprint('begin', flush=True)\n"
DEAF = "import signal\n" + "".join(
    f"signal.signal(signal.{name}, signal.SIG_IGN)\n" for name in ("SIGINT", "SIGTERM", "SIGHUP")
)


def started(code: str, **how: bool) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, **how)  # type: ignore[call-overload]
    assert process.stdout.readline() == "begin\n"
    return process  # type: ignore[no-any-return]


@pytest.mark.parametrize("leads", [True, False])
def test_sigterm_comes_first(leads: bool) -> None:
    code = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n" + BEGIN + "time.sleep(60)"
    assert stop(started(code, start_new_session=leads)) == 7


@pytest.mark.parametrize("leads", [True, False])
def test_a_server_that_ignores_every_request_to_end_is_killed(leads: bool) -> None:
    process = started(DEAF + BEGIN + "time.sleep(60)", start_new_session=leads)
    begin = time.monotonic()
    assert stop(process, 0.2) == -signal.SIGKILL
    assert time.monotonic() - begin < 5


def test_a_stopped_process_is_killed() -> None:
    process = started(BEGIN + "time.sleep(60)")
    process.send_signal(signal.SIGSTOP)
    assert stop(process, 0.2) in (-signal.SIGKILL, -signal.SIGTERM)  # which waits for it to go on


def test_the_rest_of_its_group_goes_too() -> None:
    """As with `make`, which ends before what it ran does."""
    rest = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {DEAF + BEGIN + 'time.sleep(60)'!r}])\n"
    process = started(rest + "import time; time.sleep(60)", start_new_session=True)
    with process:
        assert stop(process, 0.5) == -signal.SIGTERM
        assert process.stdout is not None
        assert process.stdout.read() == ""  # nobody holds its other end


def test_one_that_has_ended_is_no_error() -> None:
    process = started(BEGIN + "sys.exit(3)")
    process.wait(10)
    assert stop(process) == 3
