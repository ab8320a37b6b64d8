"""``coldforge bench`` on a real bundle: what it says fits together, whatever the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder import __version__
from builder.base.errors import UsageError
from builder.cli import main
from builder.measure.bench import Benchmark, Spread, format_benchmark, format_one_line
from builder.package.bundle import Bundle
from tests.support.results import printed

pytestmark = [pytest.mark.integration, pytest.mark.network]


def test_the_library_and_the_function_cold_and_warm(digits: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "digits", "--json", "--seconds", "0.1", "--starts", "1"]) == 0
    found = printed("bench", capsys.readouterr().out)
    assert (found["model"], found["version"], found["coldforge"]) == ("digits", "1", __version__)
    function = found["function"]
    for spread in (found["library"], function["warm"]):
        assert spread["runs"] >= 10
        assert 0 < spread["min"] <= spread["p50"] <= spread["p90"] <= spread["p99"]
    assert function["warm"]["min"] > found["library"]["min"]  # which is a part of it
    start = function["start"]
    assert min(start["imports"], start["load"], start["first"], start["decode"], start["infer"]) > 0
    assert start["decode"] + start["infer"] < start["first"]


def test_the_library_alone_ends_with_a_line_to_paste(digits: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "digits", "--seconds", "0.05", "--starts", "0", "--threads", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("library, warm")
    assert lines[-1].startswith(f"digits 1 · coldforge {__version__} · ")
    assert ", 2 threads · library " in lines[-1]
    assert "function" not in lines[-1]


def test_a_batch_is_planned_with_times_measured_here(
    digits: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listing = tmp_path / "keys.csv"
    listing.write_text("bucket,key\n" + "b,1.png\n" * 1000)
    assert main(["batch", "start", str(listing), "--model", "digits", "--dry-run", "--json"]) == 0
    found = printed("batch start", capsys.readouterr().out)
    assert (found["run"], found["items"], found["plan"]["together"]) == (None, 1000, 1)
    assert found["plan"]["gb_seconds"] > 1000 * 0.00625 * 1769 / 1024  # waiting for S3 alone takes as long


def test_a_cost_follows_from_the_times_measured_here(digits: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "digits", "--json", "--memory", "1769", "221"]) == 0
    found = printed("cost", capsys.readouterr().out)
    eighth, whole = found["sizes"]
    assert (eighth["memory"], whole["memory"]) == (221, 1769)
    assert whole["ms"] == found["function"]["handler"]
    assert eighth["ms"] == pytest.approx(8 * whole["ms"], rel=0.01)
    assert found["million_starts"] > whole["dollars"] > found["prices"]["million_requests"]
    assert main(["cost", "digits", "--memory", "64"]) == UsageError.exit_code
    assert "Lambda has functions of 128 to 10,240 MB" in capsys.readouterr().err


def test_percentiles_are_of_the_times() -> None:
    spread = Spread.from_times([float(n) for n in range(101)])
    assert (spread.runs, spread.min, spread.p50, spread.p90, spread.p99) == (101, 0, 50, 90, 99)
    found = Benchmark("m", "2", "0.1.0", "x86_64", "a processor", 1, spread, None)
    assert format_one_line(found) == (
        "m 2 · coldforge 0.1.0 · a processor, 1 thread · library 50/90/99 ms (p50/p90/p99)"
    )
    assert "library, warm  50.000  90.000  99.000    0.000   101" in format_benchmark(found)


def test_without_a_bundle_the_command_to_make_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    toml = tmp_path / "model.toml"
    toml.write_text('[model]\nname = "unbuilt"\nsource = "x.keras"\n')
    assert main(["bench", str(toml)]) == UsageError.exit_code
    assert "there is no bundle of unbuilt" in capsys.readouterr().err
