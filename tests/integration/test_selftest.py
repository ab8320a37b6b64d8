"""The test and benchmark programs of a model, built and run for real, here and on an emulated arm64."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from builder.base.errors import VerifyError
from builder.base.targets import X86_64
from builder.cli import main
from builder.config import read_spec
from builder.importers.graph import FrozenGraph
from builder.package.bundle import Bundle
from builder.release.selftest.programs import build_programs, run_program
from builder.verify.golden import GoldenCase, GoldenFile
from builder.verify.target_runner import HERE
from tests.conftest import ROOT, make_bundle
from tests.support import qemu
from tests.support.build import CACHE

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("checkout")]

SPEC = ROOT / "examples" / "digits" / "model.toml"


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.quick
def test_the_command(digits: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "digits"]) == 0
    said = capsys.readouterr().out
    assert "PASSED" in said
    assert "digit: worst error" in said
    assert "median" in said
    test = run(digits.folder / "digits_test")  # finds the bundle's library by itself
    assert test.returncode == 0, test.stdout + test.stderr
    found = run(digits.folder / "digits_benchmark", "--runs", "200", "--warm-up", "3", "--threads", "1", "--json")
    times = json.loads(found.stdout)
    assert (times["model"], times["threads"], times["runs"], times["warm_up"]) == ("digits", 1, 200, 3)
    order = [times[f"{name}_ms"] for name in ("min", "median", "p90", "p99", "max")]
    assert order == sorted(order)
    assert 0 < times["min_ms"] <= times["mean_ms"] <= times["max_ms"]


@pytest.mark.quick
def test_bad_options_are_refused(digits: Bundle) -> None:
    for program in ("digits_test", "digits_benchmark"):
        assert run(digits.folder / program, "--nonsense").returncode == 2
        assert run(digits.folder / program, "--threads", "many").returncode == 2
        assert run(digits.folder / program, "--threads").returncode == 2
        missing = run(digits.folder / program, "/nowhere/libmodel.so")
        assert missing.returncode == 3
        assert "cannot be loaded" in missing.stderr


def changed_golden(change: str, folder: Path) -> FrozenGraph:
    """The graph of digits with other golden answers."""
    graph = FrozenGraph.load(ROOT / "build" / "digits" / "import")
    folder.mkdir()
    shutil.copyfile(graph.ports_path, folder / "ports.json")
    names = [port.spec.name for port in graph.feeds]
    with GoldenFile.open(graph.golden_path) as golden:
        cases = {
            case: GoldenCase(
                {n: golden.read_feed(case, n) for n in names}, {"logits": golden.read_fetch(case, "logits")}
            )
            for case in golden.cases
        }
    logits = cases["random-1"].fetches["logits"]
    if change == "value":
        logits[0, 3] += 1e-3
    elif change == "nan":
        logits[0, 3] = np.nan
    elif change == "class":  # within a wide tolerance of every element, but another one is the highest
        order = logits[0].argsort()
        logits[0, order[-1]], logits[0, order[-2]] = logits[0, order[-2]], logits[0, order[-1]]
    GoldenFile.write(folder / "golden.npz", cases)
    return FrozenGraph.load(folder)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param("value", "1 of 10 elements disagree", marks=pytest.mark.quick),
        ("nan", "1 of 10 elements disagree"),
        ("class", "another class"),
    ],
)
def test_a_wrong_answer_fails_the_test(digits: Bundle, change: str, says: str, tmp_path: Path) -> None:
    graph = changed_golden(change, tmp_path / "graph")
    build_programs(read_spec(SPEC), graph, X86_64, CACHE, tmp_path)
    with pytest.raises(VerifyError, match=says):
        run_program(tmp_path / "test", HERE, str(digits.library))
    build_programs(read_spec(SPEC), changed_golden("nothing", tmp_path / "same"), X86_64, CACHE, tmp_path)
    assert "PASSED" in run_program(tmp_path / "test", HERE, str(digits.library))


def test_for_arm64(capsys: pytest.CaptureFixture[str]) -> None:
    machine = qemu.arm64(CACHE)
    folder = make_bundle("digits", "arm64").folder
    assert main(["selftest", "digits", "--target", "arm64"]) == 0
    assert "PASSED" in capsys.readouterr().out
    assert run_program(folder / "digits_test", machine, "--threads", "1").endswith("PASSED\n")
    assert "median" in run_program(folder / "digits_benchmark", machine, "--runs", "20")


def test_without_a_bundle_the_command_says_which(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "model.toml").write_text(SPEC.read_text().replace('"digits"', '"nobody"', 1))
    assert main(["selftest", str(tmp_path)]) == 2
    assert "make bundle MODEL=nobody" in capsys.readouterr().err
