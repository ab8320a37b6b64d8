"""Which change of a ratio is a fall: made results on both sides of the limit."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import compare, run
from benchmarks.compare import Change, NotComparable, RatiosFell
from benchmarks.latency import compare as ratio_of

ROUNDS = (-0.02, -0.01, 0.0, 0.01, 0.02)  # what disturbs the rounds: logarithms
STEADY = tuple(0.0 for _ in ROUNDS)


def setting(ratio: float, noise: Sequence[float] = ROUNDS) -> dict[str, Any]:
    """As a run has it in which the best peer took ``ratio`` times as long as coldforge."""
    turns = {"coldforge": [1.0] * len(noise), "litert": [ratio * math.exp(one) for one in noise]}
    return ratio_of(turns | {"openvino": [9.0] * len(noise)})


def results(**networks: dict[str, Any]) -> dict[str, Any]:
    machine = {"processor": "AMD EPYC", "family_model_stepping": ["25", "1", "1"], "cpus": 2}
    return {
        "machine": machine,
        "batch": 1,
        "rounds": 8,
        "networks": {name: {"latency": one} for name, one in networks.items()},
    }


def one(old: dict[str, Any], new: dict[str, Any]) -> Change:
    (found,) = compare.changes(results(net={"1": old}), results(net={"1": new}))
    return found


@pytest.mark.parametrize(("now", "fell"), [(0.979, False), (0.977, True), (1.5, False), (0.5, True)])
def test_the_limit_is_both_runs_spreads_together(now: float, fell: bool) -> None:
    """A spread of 0.016 each: half of what lies between -0.016 and 0.016, the percentiles of ROUNDS."""
    change = one(setting(1.2), setting(1.2 * now))
    assert change.least == pytest.approx(1.2 * math.exp(-0.016 * math.sqrt(2)))
    assert change.fell is fell


@pytest.mark.parametrize(("now", "fell"), [(0.981, False), (0.979, True)])
def test_two_steady_runs_may_differ_by_the_floor(now: float, fell: bool) -> None:
    change = one(setting(2.0, STEADY), setting(2.0 * now, STEADY))
    assert change.least == pytest.approx(2.0 * (1 - compare.FLOOR))
    assert change.fell is fell


def test_a_noisy_run_of_either_side_allows_more() -> None:
    noisy = [10 * one for one in ROUNDS]
    assert one(setting(1.2), setting(1.1)).fell
    assert not one(setting(1.2, noisy), setting(1.1)).fell
    assert not one(setting(1.2), setting(1.1, noisy)).fell


def test_a_ratio_that_is_no_more_has_fallen() -> None:
    change = one(setting(1.2), ratio_of({"litert": [1.0]}))
    assert change.fell
    assert change.new is None


def test_a_fall_is_a_table_and_an_error() -> None:
    old = results(fast={"1": setting(2), "2": setting(2)}, slow={"1": setting(0.9)})
    new = results(fast={"1": setting(2.1), "2": setting(1.5)}, slow={"1": setting(0.9)})
    with pytest.raises(RatiosFell, match=r"fallen by more than noise: fast$") as raised:
        compare.check(old, new)
    lines = [line for line in str(raised.value).splitlines() if "FELL" in line]
    assert [[cell.strip() for cell in line.split("|")][1:6] for line in lines] == [
        ["fast", "2", "2.00", "1.50", "1.96"]
    ]
    assert "FELL" not in compare.check(old, old)


def test_what_only_one_of_them_measured_is_left_out() -> None:
    old = results(a={"1": setting(2), "2": setting(2)}, b={"1": setting(2)})
    new = results(a={"1": setting(2)}, c={"1": setting(2)})
    assert [(change.network, change.setting) for change in compare.changes(old, new)] == [("a", "1")]
    with pytest.raises(NotComparable, match="in common"):
        compare.check(old, results(c={"1": setting(2)}))
    with pytest.raises(NotComparable, match="in common"):
        compare.check(old, new | {"batch": 16})


def test_int8_is_compared_too() -> None:
    old, new = setting(2) | {"int8": setting(1.5)}, setting(2) | {"int8": setting(1.2)}
    found = list(compare.changes(results(net={"1": old}), results(net={"1": new})))
    assert [(change.setting, change.fell) for change in found] == [("1", False), ("1, int8", True)]


def test_two_processors_are_not_compared() -> None:
    other = results(a={"1": setting(2)})
    other["machine"] = other["machine"] | {"family_model_stepping": ["25", "17", "1"]}
    with pytest.raises(NotComparable, match=r"AMD EPYC 25/1/1, 2 CPUs, and AMD EPYC 25/17/1, 2 CPUs"):
        compare.check(results(a={"1": setting(2)}), other)


@pytest.mark.parametrize("few", [{"rounds": 7}, {"rounds": 2}])
def test_a_run_of_few_rounds_has_no_spread(few: dict[str, int]) -> None:
    whole = results(a={"1": setting(2)})
    for pair in ((whole, whole | few), (whole | few, whole)):
        with pytest.raises(NotComparable, match="8 are the least"):
            compare.check(*pair)
    del whole["rounds"]
    with pytest.raises(NotComparable, match="0 rounds"):
        compare.check(whole, whole)


def test_the_command_fails_with_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, ratio in (("old", 2.0), ("same", 1.97), ("worse", 1.5)):
        (tmp_path / name).write_text(json.dumps(results(a={"1": setting(ratio)})))
    compare.main([str(tmp_path / "old"), str(tmp_path / "same")])
    assert "| a" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="FELL"):
        compare.main([str(tmp_path / "old"), str(tmp_path / "worse")])
    (tmp_path / "none").write_text("[]")
    with pytest.raises(SystemExit) as raised:
        compare.main([str(tmp_path / "none"), str(tmp_path / "same")])
    assert raised.value.code == 2
    assert "no results of a benchmark" in capsys.readouterr().err


def test_a_run_refuses_another_machines_results_before_it_measures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old.json").write_text(
        json.dumps(
            results(lstm={"1": setting(2)})
            | {"machine": {"processor": "none", "family_model_stepping": ["0", "0", "0"], "cpus": 1}}
        )
    )
    with pytest.raises(SystemExit) as raised:
        run.main(["lstm", "--compare", str(tmp_path / "old.json"), "--output", str(tmp_path / "out")])
    assert raised.value.code == 2
    assert "two processors" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
