"""``coldforge explain`` and ``coldforge tune`` from the command line, on real models."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from builder.base.project import Project
from builder.measure import explain_steps
from builder.package.bundle import Bundle
from builder.pipeline.workspace import Workspace
from tests.conftest import ROOT
from tests.support.results import printed

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("checkout")]


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.quick
def test_the_table_of_digits(digits: Bundle) -> None:
    table = run(sys.executable, "-m", "builder.cli", "explain", "digits")
    assert re.search(r"^dot\S* +layer +direct bias \+ relu +0\.2 +[\d,]+ +[\d.]+ +[\d.]+ +[\d.]+$", table, re.MULTILINE)
    assert "x86-64-v" in table
    assert "1 thread;" in table


@pytest.mark.quick
def test_the_json_of_digits(digits: Bundle) -> None:
    text = run(sys.executable, "-m", "builder.cli", "explain", "digits", "--json", "--seconds", "0.5")
    data = printed("explain", text)
    manifest = json.loads(digits.manifest.read_text())["lowering"]
    steps = {step["step"]: step for step in data["steps"]}
    assert (data["path"], len(steps)) == (manifest["path"], manifest["steps"])
    for fused in manifest["fused_steps"]:
        step = steps[fused["step"]]
        assert (step["kind"], step["algorithm"], step["matched"]) == ("layer", fused["algorithm"], fused["fused"])
        assert step["microseconds"] > 0
    # 784-128-10, batch 1, a multiply-add counted as two
    assert data["together"]["flop"] == sum(s["flop"] for s in data["steps"]) == 2 * (784 * 128 + 128 * 10)
    assert all(step["calls"] == 1 for step in data["steps"])
    assert all(0 <= step["microseconds"] <= step["median_microseconds"] for step in data["steps"])
    total = data["together"]["microseconds"]
    assert total == pytest.approx(sum(step["microseconds"] for step in data["steps"]))
    assert 0 < total <= data["run_microseconds"]
    large, small = sorted((s for s in data["steps"] if s["flop"]), key=lambda s: -s["flop"])
    assert large["microseconds"] > small["microseconds"]  # of 80 times the work


def test_table_and_json_of_one_measurement_agree(digits: Bundle) -> None:
    from builder.cli.command import load_named_spec

    project = Project.in_current_folder()
    ws = Workspace.from_spec(load_named_spec("digits", project), project)
    found = explain_steps.study_model(ws, seconds=0.2).explanation
    lines = explain_steps.format_explanation(found).splitlines()[2:]
    for line, step in zip(lines, found.to_dict()["steps"], strict=False):
        assert line.startswith(f"{step['step']} ")
        assert line.endswith(f"{100 * step['share']:.1f}")
        assert f"{step['microseconds']:.1f}" in line
