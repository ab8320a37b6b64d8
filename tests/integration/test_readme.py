"""Every command in README.md, in its order, in this checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from tests.conftest import ROOT, checkout_lock

pytestmark = [pytest.mark.integration, pytest.mark.network]

ELSEWHERE = {
    "make serve": "tests/integration/test_clients.py",
    "make local-invoke": "tests/e2e/test_local_lambda.py",
    "make deploy": "tests/e2e/test_deploy.py",
    "make publish": "tests/integration/test_publish.py",
    "make reproduce": "tests/integration/test_building_again.py",
    "make tools": ".ci/run",
    "make lint": ".ci/run",
    "make test": ".ci/run",  # this very test is part of both
}
"""Commands that need an engine or an AWS, that do not end, or that this run is part of; and what runs them."""

COMMANDS = re.findall(r"^\$ (.+)$", (ROOT / "README.md").read_text(), re.MULTILINE)


def test_readme_begins_with_two_commands() -> None:
    assert COMMANDS[:2] == ["make bundle", "make invoke IMAGE=tests/data/face.jpg"]


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_of_an_earlier_run() -> None:
    shutil.rmtree(ROOT / "build" / "mine", ignore_errors=True)


def elsewhere(command: str) -> str | None:
    return next((test for start, test in ELSEWHERE.items() if command.startswith(start)), None)


@pytest.mark.parametrize("command", [c for c in COMMANDS if elsewhere(c)])
def test_command_runs_elsewhere(command: str) -> None:
    target, text = command.split()[1], (ROOT / (elsewhere(command) or "")).read_text()
    assert f'"{target}"' in text or f"\nmake {target}" in text


@pytest.mark.parametrize("command", [c for c in COMMANDS if not elsewhere(c)])
def test_command_runs(command: str) -> None:
    environment = {**os.environ, "SAM_CLI_TELEMETRY": "0"}
    (ROOT / "build" / "mine").mkdir(parents=True, exist_ok=True)
    with checkout_lock():
        done = subprocess.run(
            command, shell=True, cwd=ROOT, capture_output=True, text=True, env=environment, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    if command.startswith("make invoke"):
        assert '"label": "happy"' in done.stdout
