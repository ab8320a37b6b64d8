"""What an int8 engine's answers are worth, and what the report says of it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from benchmarks import answers, held_out, latency, report
from benchmarks.answers import Output
from benchmarks.engines import INT8, KINDS, OURS_INT8
from benchmarks.find_network import find_network

RNG = np.random.default_rng(0)
RIGHT = RNG.standard_normal((200, 10)).astype(np.float32)


def judge(theirs: list[Any], right: list[Any]) -> dict[str, Any]:
    """Judge arrays [inputs, row], one for each output."""
    return answers.judge(*(list(zip(*arrays, strict=True)) for arrays in (theirs, right)))


def judged(theirs: Any) -> dict[str, Any]:
    return judge([theirs], [RIGHT])


def test_rounding_is_a_small_error_and_something_else_a_large_one() -> None:
    assert judged(RIGHT) == {"error": 0, "same_class": 1}
    rounded = judged(np.round(RIGHT, 1))
    assert 0.02 < rounded["error"] < 0.04
    assert rounded["same_class"] > 0.9
    assert judged(np.broadcast_to(RIGHT.mean(axis=0), RIGHT.shape))["error"] == pytest.approx(1, rel=1e-5)
    assert judged(RIGHT[::-1])["error"] > held_out.BROKEN
    assert judged(np.full_like(RIGHT, np.nan)) == {"error": float("inf"), "same_class": 0}


def test_the_error_is_what_numpy_makes_of_it() -> None:
    theirs = RIGHT + RNG.standard_normal(RIGHT.shape).astype(np.float32)
    deviation = np.sqrt(np.mean(np.square(RIGHT - RIGHT.mean(axis=0))))
    found = judged(theirs)
    assert found["error"] == pytest.approx(np.sqrt(np.mean(np.square(theirs - RIGHT))) / deviation, rel=1e-5)
    assert found["same_class"] == np.mean(theirs.argmax(-1) == RIGHT.argmax(-1))


def test_the_worst_fetch_counts() -> None:
    one = RNG.standard_normal((200, 1)).astype(np.float32)
    assert judge([one], [one]) == {"error": 0, "same_class": None}
    assert judge([RIGHT, one + 1], [RIGHT, one])["error"] > 0.9
    assert judge([RIGHT, one], [RIGHT, one])["same_class"] == 1


def test_a_difference_is_a_share_of_the_largest_answer() -> None:
    right = np.array([1, -4, 2], np.float32)
    assert answers.difference(np.array([1, -4, 2.5], np.float32), right) == 0.125
    assert answers.difference(np.array([np.nan, -4, 2], np.float32), right) == float("inf")


def test_ours_is_compared_with_the_best_int8_peer_and_with_our_float32() -> None:
    found = latency.compare_int8(
        {OURS_INT8: [2.0, 2.0], "litert_int8": [3.0, 3.0], "openvino_int8": [4.0, 4.0]}, [5.0, 5.0]
    )
    assert (found["best_peer"], found["ratio"], found["gain"]) == ("litert_int8", 1.5, 2.5)
    assert latency.compare_int8({"litert_int8": [3.0]}, [5.0])["gain"] is None


def test_an_int8_engine_has_a_model_of_its_own() -> None:
    assert len({kind.model for kind in KINDS.values() if kind.module and kind.cls == "OnnxRuntime"}) == 2
    assert all(kind.int8 and "int8" in kind.model and "int8" in kind.label for kind in INT8.values())


def test_the_page_has_accuracies_beside_times() -> None:
    results = deepcopy(report.read_machines()[0])
    latencies = results["networks"]["digits"]["latency"]["1"]
    latencies["engines"][OURS_INT8] = {
        "median_ms": 0.0046,
        "accuracy": {"error": 0.0123, "same_class": 0.995},
    }
    latencies["engines"]["litert_int8"] = {
        "median_ms": 0.0069,
        "accuracy": {"error": 0.02, "same_class": None},
    }
    latencies["int8"] = {"best_peer": "litert_int8", "ratio": 1.5, "ratio_p10": 1.4, "ratio_p90": 1.6, "gain": 1.39}
    heads, row = report.int8_rows(results, "1")
    assert dict(zip(heads, row, strict=True)) == {
        "": "digits",
        "coldforge int8": "0.0046 (100%, 0.012)",
        "ONNX Runtime int8": "–",
        "OpenVINO int8": "–",
        "LiteRT int8": "0.0069 (–, 0.020)",
        "best peer / ours": "**1.50** (1.40–1.60)",
        "our float32 / ours": "**1.39**",
    }
    assert "0.0046 (100%, 0.012)" in report.text(results)
    page = report.page([results], *map(report.read_results, report.SECONDARY))
    assert "0.0046 (100%, 0.012)" in page


def test_a_network_of_batches_is_judged_by_whole_ones() -> None:
    assert held_out.runs(find_network("digits")) == held_out.JUDGED
    assert held_out.runs(find_network("digits-batch16")) * 16 == held_out.JUDGED
    assert held_out.runs(find_network("digits-batch64")) == 2


def test_answers_are_read_as_they_are_written() -> None:
    data = RIGHT.tobytes() + np.arange(-3, 3, dtype=np.int8).tobytes()
    first, second = answers.read_answers(data, [Output("float32", (200, 10)), Output("int8", (2, 3))])
    np.testing.assert_array_equal(first, RIGHT)
    np.testing.assert_array_equal(second, [[-3, -2, -1], [0, 1, 2]])
    for dtype in ("int8", "float32"):
        with pytest.raises(answers.WrongSize):
            answers.read_answers(data, [Output("float32", (200, 10)), Output(dtype, (200, 4))])
