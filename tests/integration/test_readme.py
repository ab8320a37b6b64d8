"""Every command of README.md and the pages in docs/, once, README's first, in this checkout."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import re
import shutil
import subprocess
import threading

import pytest

from builder.package.bundle import Bundle
from tests.conftest import ROOT, checkout_lock
from tests.support.pages import all_commands

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.quick, pytest.mark.xdist_group("checkout")]

ELSEWHERE = {
    ".venv/bin/coldforge accuracy": "tests/integration/test_weight_types.py",
    ".venv/bin/coldforge export": "tests/integration/test_export.py",
    "make serve": "tests/integration/test_clients.py",
    "make local-invoke": "tests/e2e/test_local_lambda.py",
    "make deploy": "tests/e2e/test_deploy.py",
    "make publish": "tests/integration/test_publish.py",
    ".venv/bin/coldforge reproduce": "tests/integration/test_building_again.py",
    "make tools": ".ci/run",
    "make lint": ".ci/run",
    "make test": ".ci/run",  # this very test is part of both
}
"""Commands that need an engine or an AWS, that do not end, or that this run is part of; and what runs them."""

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = all_commands()

FULL = {
    'make bundle MODEL="digits emotion"',
    "dist/digits/digits_benchmark --threads 1",
    "make bindings MODEL=age_gender LANGUAGE=python",
    "make bundle MODEL=languages",
    'make invoke MODEL=languages TEXT="Alle Menschen sind frei und gleich an Würde und Rechten geboren."',
}
"""Of these, the ones that `make test` leaves to `make test-all`."""


SIZES = {
    name: [float(cell.split()[0]) for cell in cells.split("|")]
    for name, cells in re.findall(r"^\| ([^|]+?) \| ([\d.]+ MB \| [\d.]+ MB \| [\d.]+ MB) \|$", README, re.MULTILINE)
}
"""The table of README, in MB: a row's name to its columns."""

BUILT = {
    "make bundle": "emotion",
    "make bundle MODEL=digits": "digits",
    "make bindings MODEL=age_gender LANGUAGE=python": "age_gender",
}
"""Commands that leave the bundles of that table, in the order of its columns."""


def test_readme_begins_with_two_commands() -> None:
    assert list(COMMANDS)[:2] == ["make bundle", "make invoke IMAGE=tests/data/face.jpg"]


def test_readme_is_short() -> None:
    assert len(README.splitlines()) < 120


def require_sizes(column: int, bundle: Bundle) -> None:
    """Hold README's table to a bundle: digits had 0.76 MB in it, long after its library had 0.58."""
    whole = json.loads(bundle.manifest.read_text())["sizes"]["unzipped"]
    (library,) = (cells[column] for name, cells in SIZES.items() if name.startswith("`libmodel.so`"))
    assert bundle.library.stat().st_size / 1e6 == pytest.approx(library, rel=0.05)
    assert whole / 1e6 == pytest.approx(SIZES["function with all layers, unzipped"][column], rel=0.05)


def test_each_column_of_sizes_is_of_a_bundle_that_is_built() -> None:
    assert set(BUILT) <= set(COMMANDS)
    assert f"| | {' | '.join(BUILT.values())} |" in README


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_of_an_earlier_run() -> None:
    shutil.rmtree(ROOT / "build" / "mine", ignore_errors=True)


def elsewhere(command: str) -> str | None:
    return next((test for start, test in ELSEWHERE.items() if command.startswith(start)), None)


@pytest.mark.parametrize("command", [c for c in COMMANDS if elsewhere(c)])
def test_command_runs_elsewhere(command: str) -> None:
    target, text = command.split()[1], (ROOT / (elsewhere(command) or "")).read_text()
    assert f'"{target}"' in text or f"\nmake {target}" in text


@pytest.mark.parametrize(
    "command",
    [pytest.param(c, marks=[pytest.mark.full] if c in FULL else []) for c in COMMANDS if not elsewhere(c)],
)
def test_command_runs(command: str) -> None:
    environment = {**os.environ, "SAM_CLI_TELEMETRY": "0"}
    (ROOT / "build" / "mine").mkdir(parents=True, exist_ok=True)
    with checkout_lock():
        done = subprocess.run(
            command, shell=True, cwd=ROOT, capture_output=True, text=True, env=environment, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    if command == "make invoke IMAGE=tests/data/face.jpg":
        assert '"label": "happy"' in done.stdout
    if command in BUILT:
        require_sizes(list(BUILT).index(command), Bundle.load(ROOT / "dist" / BUILT[command]))
    if "Alle Menschen" in command:
        assert re.search(r'"label": "(\w+)"', done.stdout)[1] == "de"  # type: ignore[index]


class _Signed(http.server.BaseHTTPRequestHandler):
    """Keeps what curl sent."""

    def do_POST(self) -> None:
        self.server.sent = self.headers, self.rfile.read(int(self.headers["content-length"]))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_curl_signs_as_aws_does() -> None:
    """README's command for a deployed function, sent to this machine: AWS's own code makes the same signature."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    (command,) = re.findall(r"^```sh\n(curl --aws-sigv4.*?)^```", README, re.MULTILINE | re.DOTALL)
    with http.server.HTTPServer(("127.0.0.1", 0), _Signed) as server:
        url = f"http://127.0.0.1:{server.server_port}/predict"
        threading.Thread(target=server.handle_request, daemon=True).start()
        keys = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}
        subprocess.run(
            ["bash", "-c", re.sub(r"https://[^\"]+", url, command)], cwd=ROOT, env={**os.environ, **keys}, check=True
        )
    headers, body = server.sent  # type: ignore[attr-defined]
    assert body == (ROOT / "tests" / "data" / "face.jpg").read_bytes()
    signed = re.search(r"SignedHeaders=([^,]+), *Signature=(\w+)", headers["authorization"])
    assert signed is not None
    names = signed[1].split(";")
    assert "x-amz-security-token" in names

    class Auth(SigV4Auth):  # over those headers that curl signed
        def headers_to_sign(self, request: AWSRequest) -> http.client.HTTPMessage:
            chosen = http.client.HTTPMessage()
            for name in names:
                chosen[name] = headers[name]
            return chosen

    auth = Auth(Credentials("AKID", "secret", "token"), "lambda", "eu-west-1")
    request = AWSRequest("POST", url, data=body, headers={name: headers[name] for name in names})
    request.context["timestamp"] = headers["x-amz-date"]
    assert auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request) == signed[2]
