"""A local AWS: the emulator in .venv-aws, on a port of its own, running functions in the test's Docker engine."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.process import stop

ROOT = Path(__file__).parents[2]
EMULATOR = ROOT / ".venv-aws" / "bin" / "ministack"
START_SECONDS, STOP_SECONDS = 60, 30


@dataclass(frozen=True)
class LocalAws:
    """An AWS that answers at ``endpoint``."""

    endpoint: str


def client_environment(endpoint: str) -> dict[str, str]:
    """What any AWS client needs to talk to ``endpoint`` and to nothing else."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "SAM_CLI_TELEMETRY": "0",
    }


@contextmanager
def local_aws(log: Path, host: str = "127.0.0.1", grace: float = STOP_SECONDS) -> Iterator[LocalAws]:
    """The emulator for the length of the block; what it says goes to ``log``.

    ``host``: the address that it answers at, which functions that call AWS have to reach. ``grace``: seconds that it
    gets at the end to remove its containers, and to wait for state machines that wait.
    """
    with socket.socket() as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    settings = {
        "BIND_HOST": host,
        "GATEWAY_PORT": str(port),
        "LAMBDA_EXECUTOR": "docker",
        "LAMBDA_STRICT": "1",  # no running of functions outside Lambda's image
    }
    endpoint = f"http://{host}:{port}"
    with log.open("wb") as file:
        process = subprocess.Popen([EMULATOR], env=os.environ | settings, stdout=file, stderr=subprocess.STDOUT)
    try:
        _await(endpoint, process, log)
        yield LocalAws(endpoint)
    finally:
        stop(process, grace)


def _await(endpoint: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{endpoint}/_ministack/health", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the AWS emulator did not start:\n{log.read_text(errors='replace')[-2000:]}")
