"""`make local-invoke` and `make local-api`: the bundle in Lambda's container image, through SAM."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builder.package.bundle import Bundle
from tests.support.process import stop

ROOT = Path(__file__).parents[2]
FACE = ROOT / "tests" / "data" / "face.jpg"
START_SECONDS, STOP_SECONDS = 120, 30  # it takes its containers away

pytestmark = pytest.mark.usefixtures("lambda_image", "emotion")


def make(*words: str) -> list[str]:
    return ["make", "--no-print-directory", *words, "SAM_FLAGS=--skip-pull-image"]


def answer_of(stdout: str) -> dict[str, Any]:
    """The function's answer: the last line that is JSON."""
    lines = [line for line in stdout.splitlines() if line.startswith("{")]
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def test_local_invoke(emotion: Bundle) -> None:
    command = make("local-invoke", f"IMAGE={FACE}")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = answer_of(done.stdout)
    assert answer["model"]["name"] == "emotion"
    assert answer["predictions"][0]["emotion"][0]["label"] == "happy"
    assert answer["cold_start"] is True


def test_the_same_function_as_a_container_image(emotion: Bundle) -> None:
    command = make("local-invoke", "PACKAGE=image", f"IMAGE={FACE}")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert answer_of(done.stdout)["predictions"][0]["emotion"][0]["label"] == "happy"


@pytest.fixture(scope="module")
def api(emotion: Bundle) -> Iterator[str]:
    """The base URL of `make local-api`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = make("local-api", f"PORT={port}")
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            _await_port(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            stop(process, STOP_SECONDS)


def _await_port(port: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    raise AssertionError(f"no server on port {port}")


def post(url: str, body: Any) -> tuple[int, Any]:
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_local_api(api: str) -> None:
    image = base64.b64encode(FACE.read_bytes()).decode()
    status, answer = post(f"{api}/predict", {"image": image})
    assert status == 200
    assert answer["predictions"][0]["emotion"][0]["label"] == "happy"
    status, answer = post(f"{api}/predict", {"image": "not base64!"})
    assert status == 400
    assert answer["error"]["code"] == "not_base64"
    status, answer = post(f"{api}/predict", {"image": image})
    assert (status, answer["cold_start"]) == (200, False)
