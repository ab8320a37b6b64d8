"""The function's benchmark runs from end to end and says what it should; how fast anything is, is not tested."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.network]

BENCH_PYTHON = ROOT / ".venv-bench" / "bin" / "python"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of ``--quick``, with the peers where `bench-lambda` of benchmarks/Makefile has installed them."""
    python = BENCH_PYTHON if BENCH_PYTHON.exists() else Path(sys.executable)
    output = tmp_path_factory.mktemp("bench")
    command = [python, "-m", "benchmarks.function", "--quick", "--starts", "1", "--output", output]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (output / "stdout.txt").write_text(done.stdout)
    return output


@pytest.fixture(scope="module")
def results(quick: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((quick / "results.json").read_text())
    return found


def test_every_function_is_measured_or_left_out_with_a_reason(results: dict[str, Any]) -> None:
    from benchmarks.function.functions import EMOTION, EMPTY, OURS

    assert set(results["functions"]) | set(results["excluded"]) == set(EMOTION.kinds)
    assert not set(results["functions"]) & set(results["excluded"])
    assert {EMPTY, OURS, "tensorflow"} <= set(results["functions"])  # what the builder itself needs is here
    assert all("not installed" in why for why in results["excluded"].values())


def test_a_start_is_split_and_weighed(results: dict[str, Any]) -> None:
    from benchmarks.function.functions import EMPTY, OURS

    python = results["python_start_ms"]["median"]
    for name, row in results["functions"].items():
        init, answer = row["init_ms"]["median"], row["answer_ms"]["median"]
        assert 0 < python < init <= answer
        assert row["own_init_ms"]["median"] == pytest.approx(init - python)
        assert row["first_ms"]["median"] == pytest.approx(answer - init)
        assert row["init_cpu_ms"]["median"] > 0
        assert row["warm_ms"]["median"] > 0
        assert row["peak_rss_mb"]["median"] > 5
        assert row["unzipped_bytes"] == sum(row["sizes"].values())
        if name != EMPTY:
            assert row["sizes"]["function"] > 1000
    assert results["functions"][OURS]["sizes"]["model"] > 200_000
    assert results["functions"]["tensorflow"]["sizes"]["engine"] > 500e6


def test_ratios_are_of_the_best_peer(results: dict[str, Any]) -> None:
    from benchmarks.function.measure import compare

    rows = results["functions"]
    ours = rows["coldforge"]["init_ms"]["median"]
    peers = [row["init_ms"]["median"] for name, row in rows.items() if name not in ("coldforge", "empty")]
    assert results["ratios"]["init_ms"] == pytest.approx(min(peers) / ours)
    assert set(compare({"coldforge": rows["coldforge"]}).values()) == {None}


def test_another_answer_is_not_measured() -> None:
    """A function must answer as ours does before its times count."""
    from benchmarks.function.measure import FunctionFailed, check_answer

    def answer(happy: float) -> dict[str, Any]:
        return {"predictions": [{"emotion": [{"label": "happy", "probability": happy}]}]}

    assert check_answer(answer(0.5), {"happy": 0.5001}) == {"happy": 0.5}
    for value in (0.6, math.nan):
        with pytest.raises(FunctionFailed, match="happy"):
            check_answer(answer(value), {"happy": 0.5})


def test_another_vector_is_not_measured() -> None:
    from benchmarks.function.measure import FunctionFailed, check_answer

    def answer(*vector: float) -> dict[str, Any]:
        return {"predictions": [{"embedding": list(vector)}]}

    ours = check_answer(answer(0.6, 0.8), None)
    assert check_answer(answer(0.6001, 0.8), ours) == {"0": 0.6001, "1": 0.8}
    for other in (answer(0.8, 0.6), answer(0.6)):
        with pytest.raises(FunctionFailed, match="answers"):
            check_answer(other, ours)


def test_the_table_shows_the_results(quick: Path, results: dict[str, Any]) -> None:
    from benchmarks.function.functions import EMOTION

    shown = (quick / "stdout.txt").read_text()
    assert all(EMOTION.kinds[name].label in shown for name in results["functions"])
    assert all(f"{EMOTION.kinds[name].label} is left out: {why}" in shown for name, why in results["excluded"].items())
