"""Every command of README.md and the pages in docs/, once, README's first, in this checkout."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.conftest import ROOT, checkout_lock
from tests.support.pages import all_commands

pytestmark = [pytest.mark.integration, pytest.mark.network]

ELSEWHERE = {
    "make accuracy": "tests/integration/test_weight_types.py",
    ".venv/bin/coldforge export": "tests/integration/test_export.py",
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

COMMANDS = all_commands()

FULL = {'make bundle MODEL="digits emotion"', "dist/digits/digits_benchmark --threads 1"}
"""Of these, the ones that `make test` leaves to `make test-all`."""


def test_readme_begins_with_two_commands() -> None:
    assert list(COMMANDS)[:2] == ["make bundle", "make invoke IMAGE=tests/data/face.jpg"]


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


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
