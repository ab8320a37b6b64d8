"""The fuzzers run, reach the code and find nothing in the time that a test may take; ``make fuzz`` goes on longer."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.fuzz.targets import BUILD, TARGETS

pytestmark = pytest.mark.xdist_group("fuzz")


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-m", "tests.fuzz", "--seconds", "3", "--seed", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("| target"), done.stderr
    return {outcome["target"]: outcome for outcome in json.loads((BUILD / "report.json").read_text())}


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_found(target: str, outcomes: dict[str, dict[str, Any]]) -> None:
    outcome = outcomes[target]
    assert not outcome["finding"], outcome["finding"]
    assert outcome["executions"] > 10
    assert outcome["covered"] > 10
