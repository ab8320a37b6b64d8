"""The benchmarks run from end to end and say what they should; how fast anything is, is not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.integration

BENCH_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
NETWORK = "transformer"
"""It has layers for int8."""


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of ``--quick``, with the peers where they are installed, else with TensorFlow alone."""
    python = BENCH_PYTHON if BENCH_PYTHON.exists() else Path(sys.executable)
    output = tmp_path_factory.mktemp("bench")
    command = [python, "-m", "benchmarks.run", "--quick", NETWORK, "--output", output]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (output / "stdout.txt").write_text(done.stdout)
    return output


@pytest.fixture(scope="module")
def results(quick: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((quick / "results.json").read_text())
    return found


def test_every_engine_is_measured_or_left_out_with_a_reason(results: dict[str, Any]) -> None:
    """Where the processor has AVX-512, rows limited to AVX2 have only the engines that can be kept to it."""
    from benchmarks.engines import ENGINES, KINDS, TREES

    assert set(results["networks"]) == {NETWORK}
    for network in results["networks"].values():
        for key, found in (*network["latency"].items(), ("cold", network["cold"])):
            every = ENGINES.keys() if key == "cold" else KINDS.keys() - TREES.keys()
            expected = {name for name in every if "avx2" not in key or KINDS[name].avx2 is not None}
            assert set(found["engines"]) | set(found["excluded"]) | set(network["failed"]) >= expected
        assert all(network["failed"].values())


def test_coldforge_and_tensorflow_answer_alike_and_are_timed(results: dict[str, Any]) -> None:
    assert results["machine"]["processor"]
    for network in results["networks"].values():
        for setting in network["latency"].values():
            for engine in ("coldforge", "tensorflow", "tensorflow_xla"):
                row = setting["engines"][engine]
                assert row["difference"] <= results["tolerance"]
                assert 0 < row["p10_ms"] <= row["median_ms"] <= row["p90_ms"]
                assert row["rounds"] == results["rounds"]
            assert setting["best_peer"] in setting["engines"]
            assert setting["ratio"] > 0


def test_int8_has_its_accuracy_beside_its_time(results: dict[str, Any]) -> None:
    from benchmarks.held_out import BROKEN

    network = results["networks"][NETWORK]
    assert "layers take bytes" in network["how"]["coldforge_int8"]
    setting = network["latency"]["1"]
    row = setting["engines"]["coldforge_int8"]
    assert 0 < row["accuracy"]["error"] < BROKEN / 2
    assert row["accuracy"]["same_class"] > 0.8
    assert row["p10_ms"] <= row["median_ms"] <= row["p90_ms"]
    assert setting["int8"]["gain"] > 0


def test_a_cold_start_is_split_and_weighed(results: dict[str, Any]) -> None:
    for network in results["networks"].values():
        rows = network["cold"]["engines"]
        for row in rows.values():
            parts = [row[f"{part}_ms"] for part in ("import", "load", "first")]
            assert min(parts) >= 0
            assert max(parts) <= row["start_ms"] <= row["total_ms"]  # each is a median of its own
            assert row["peak_rss_mb"] > 1
        assert rows["coldforge"]["packages"] == {}  # nothing but the library and Python itself
        assert rows["tensorflow"]["engine_bytes"] > 500e6


def test_the_tables_show_the_results(quick: Path, results: dict[str, Any]) -> None:
    shown = (quick / "stdout.txt").read_text()
    for name, network in results["networks"].items():
        assert name in shown
        assert f"{network['latency']['1']['ratio']:.2f}" in shown


def test_quantiles_and_ratio() -> None:
    from benchmarks.latency import compare
    from benchmarks.process import quantiles

    assert quantiles([3, 1, 2]) == {"median": 2, "p10": pytest.approx(1.2), "p90": pytest.approx(2.8)}
    found = compare({"coldforge": [2.0, 2.0], "onnxruntime": [5.0, 5.0], "litert": [3.0, 3.0]})
    assert found["best_peer"] == "litert"
    assert found["ratio"] == pytest.approx(1.5)
    assert compare({"litert": [1.0]})["ratio"] is None


def test_a_sample_is_its_feeds_in_the_order_of_their_names() -> None:
    from benchmarks.engines.arrays import arrays

    feeds = {"tokens": ("int32", (1, 3)), "mask": ("float32", (1, 2))}
    data = np.array([1, 0.5], "float32").tobytes() + np.array([7, 8, 9], "int32").tobytes()
    found = arrays(data, feeds)
    np.testing.assert_array_equal(found["mask"], np.array([[1, 0.5]], "float32"))
    np.testing.assert_array_equal(found["tokens"], np.array([[7, 8, 9]], "int32"))


def test_a_name_may_have_a_batch() -> None:
    from benchmarks.find_network import find_network

    network = find_network("minilm_64-batch16")
    assert (network.name, network.tokens, network.batch) == ("minilm_64", 64, 16)
    assert network.batched(16) is network
    assert find_network("minilm_64").batch == 1


def test_texts_have_ids_up_to_where_their_mask_ends() -> None:
    from benchmarks.find_network import find_network

    feeds = find_network("minilm_16").feeds(None, 8, seed=0)
    ids, mask = feeds["input_ids"], feeds["attention_mask"]
    assert ids.shape == mask.shape == (8, 16)
    assert ids.dtype == mask.dtype == np.int32
    assert (mask == (ids != 0)).all()
    assert (np.sort(mask, axis=1)[:, ::-1] == mask).all()
    assert set(mask.sum(1)) <= set(range(12, 17))
