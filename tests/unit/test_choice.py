"""The rule of ``auto``, on given shares and times, and how a choice is told and kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builder.base.errors import BundleError
from builder.release.statement import recorded_choice
from builder.verify.quantise.precision import (
    FLOAT32,
    SMALLEST_FIRST,
    Precision,
    PrecisionChoice,
    Ratio,
    Timing,
    TriedPrecision,
)

BYTES, WEIGHTS, HALF, _ = SMALLEST_FIRST
V3, V4, VNNI = "x86-64-v3", "x86-64-v4", "x86-64-v4+avx512vnni"


def timing(*times: float, threads: int = 1) -> Timing:
    """One time for each instruction set, the least first."""
    return Timing(tuple(Ratio(isa, threads, time) for isa, time in zip((V3, V4, VNNI), times, strict=False)))


def choice(*tried: TriedPrecision, accuracy: float = 0.99, untimed: str = "") -> PrecisionChoice:
    return PrecisionChoice(accuracy, "400 pictures of calibration", tried, untimed)


CHOICE = choice(
    TriedPrecision(
        BYTES,
        0.995,
        Timing((Ratio(V3, 1, 1.034), Ratio(V4, 1, 0.96), Ratio(V3, 2, 1.19), Ratio(V4, 2, 1.05)), lacking=(VNNI,)),
    ),
    TriedPrecision(WEIGHTS, 0.98),
    TriedPrecision(HALF, 1.0, timing(1.0, 0.99)),
)


@pytest.mark.parametrize(
    ("times", "holds"),
    [
        ((0.8, 0.7, 0.4), True),
        ((1.0, 1.02, 0.4), True),  # within the noise
        ((1.021, 0.7, 0.4), False),  # what is gained elsewhere does not make up for it
        ((0.8, 0.7, 1.5), False),
    ],
)
def test_faster_or_as_fast_with_every_instruction_set(times: tuple[float, ...], holds: bool) -> None:
    assert TriedPrecision(BYTES, 1.0, timing(*times)).is_good_enough(0.99) is holds


def test_two_threads_may_differ_by_more() -> None:
    within, beyond = timing(1.09, threads=2), timing(1.11, threads=2)
    assert TriedPrecision(BYTES, 1.0, within).is_good_enough(0.99)
    one = TriedPrecision(BYTES, 1.0, Timing(timing(0.5, 0.5).ratios + beyond.ratios))
    assert not one.is_good_enough(0.99)
    assert one.slower == beyond.ratios


def test_a_fast_library_must_be_accurate_too_and_without_times_that_alone_counts() -> None:
    assert not TriedPrecision(BYTES, 0.989, timing(0.5)).is_good_enough(0.99)
    assert TriedPrecision(BYTES, 0.99).is_good_enough(0.99)
    assert not TriedPrecision(BYTES, 0.989).is_good_enough(0.99)


def test_the_first_that_holds_is_taken_and_float32_where_none_does() -> None:
    assert CHOICE.chosen == HALF
    assert choice(*CHOICE.tried[:2]).chosen == FLOAT32
    assert choice().chosen == FLOAT32
    assert choice(TriedPrecision(BYTES, 1.0), TriedPrecision(WEIGHTS, 1.0)).chosen == BYTES


def test_it_is_told_how_each_did_in_accuracy_and_in_time() -> None:
    assert [*CHOICE.describe_choice()] == [
        "int8, int8 activations: 99.50 % of 400 pictures of calibration agree with TensorFlow",
        "  time, float32's being 1, on 1 thread: x86-64-v3 1.03, x86-64-v4 0.96",
        "  time, float32's being 1, on 2 threads: x86-64-v3 1.19, x86-64-v4 1.05",
        "  not measured, as this machine does not run them: x86-64-v4+avx512vnni",
        "  passed over, as slower than float32: x86-64-v3 on 1 thread, x86-64-v3 on 2 threads",
        "int8: 98.00 % of 400 pictures of calibration agree with TensorFlow",
        "float16: 100.00 % of 400 pictures of calibration agree with TensorFlow",
        "  time, float32's being 1, on 1 thread: x86-64-v3 1.00, x86-64-v4 0.99",
        "taken: float16",
    ]
    elsewhere = choice(TriedPrecision(BYTES, 1.0), untimed="this machine does not run libraries for arm64")
    assert next(elsewhere.describe_choice()) == (
        "time was not measured, as this machine does not run libraries for arm64: accuracy alone decides"
    )


def test_json_and_back() -> None:
    data = json.loads(json.dumps(CHOICE.to_dict()))
    assert data["chosen"] == {"weights": "float16", "activations": "float32"}
    assert PrecisionChoice.from_dict(data) == CHOICE


def test_what_was_measured_of_a_kind() -> None:
    assert CHOICE.find_timing(HALF) == timing(1.0, 0.99)
    assert CHOICE.find_timing(WEIGHTS) is None
    assert CHOICE.find_timing(Precision("bfloat16")) is None


def test_a_manifest_has_the_choice_or_none(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"schema": 1, "auto": CHOICE.to_dict()}))
    assert recorded_choice(tmp_path) == CHOICE
    path.write_text(json.dumps({"schema": 1}))
    assert recorded_choice(tmp_path) is None


def tried_as(agreement: Any, timing: Any) -> dict[str, Any]:
    """A manifest in which one kind did so."""
    kind = {"weights": "int8", "activations": "int8"}
    return {"auto": CHOICE.to_dict() | {"tried": [{"kind": kind, "agreement": agreement, "timing": timing}]}}


@pytest.mark.parametrize(
    "manifest",
    [
        [],
        {"auto": []},
        {"auto": {"chosen": {"weights": "int8"}}},
        tried_as("high", None),
        tried_as(1.0, {"ratios": [1], "lacking": []}),
        tried_as(1.0, {"ratios": [{"isa": V3, "threads": 3, "time": 1.0}], "lacking": []}),
    ],
)
def test_a_manifest_that_is_none_is_an_error(manifest: Any, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match=r"manifest\.json is not a bundle's manifest"):
        recorded_choice(tmp_path)
