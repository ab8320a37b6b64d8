"""What a batch costs and takes: against a calculation by hand, and against the limits that a batch has to keep."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.base.errors import BatchError
from builder.cli import main
from builder.measure.prices import load_prices
from builder.release.batch.batch_plan import (
    ANSWERS_SHARE,
    INPUT_BYTES,
    MOST_ITEMS,
    READ_AHEAD,
    BatchTimes,
    Capacity,
    Workload,
    describe_plan,
    plan_batches,
)
from handler import map_batch
from handler.budget import MEMORY_SHARE
from tests.support.results import printed

FUNCTION, TIMES = Capacity(1769, 15, 0.0000166667), BatchTimes({1: 70.0}, 250.0)
MILLION = Workload(1_000_000, 120_000_000, TIMES, FUNCTION, 500)
"""A million pictures of 70 ms each."""


def taking(ms: dict[int, float]) -> Workload:
    return replace(MILLION, times=replace(TIMES, ms=ms))


def test_a_million_images_by_hand() -> None:
    found = plan_batches(MILLION)
    # Half of the timeout is 7.5 s; without 0.15 s of overhead it has 105 pictures of 70 ms.
    assert (found.together, found.per_invocation) == (1, 105)
    assert found.invocations == 9524  # 1,000,000 / 105 = 9,523.8
    assert found.seconds == pytest.approx(7.5)  # 105 × 0.07 + 0.15
    # 70,000 s of pictures, 9,524 × 0.15 s = 1,428.6 s of overhead, 500 × 0.25 s = 125 s of starts: 71,553.6 s
    assert found.gb_seconds == pytest.approx(71_553.6 * 1769 / 1024)
    assert found.compute_dollars == pytest.approx(2.0602, abs=1e-4)  # 123,611 GB-seconds
    assert found.invocation_dollars == pytest.approx(0.0019048)  # 0.20 a million
    assert found.transitions == 9525
    assert found.transition_dollars == pytest.approx(0.238125)  # 0.025 a thousand
    assert found.storage_dollars == pytest.approx(0.4 + 0.04762)  # a million reads, 9,524 writes
    assert found.dollars == pytest.approx(2.0602 + 0.0019048 + 0.238125 + 0.44762, abs=1e-4)
    assert found.minutes == pytest.approx((20 * 7.5 + 0.25) / 60)  # 20 rounds of 500
    assert "2.75 USD" in describe_plan(found)
    assert "us-east-1" in describe_plan(found)


def test_a_larger_batch_is_run_where_it_makes_an_item_cheaper() -> None:
    assert plan_batches(taking({1: 70.0, 4: 200.0, 16: 900.0})).together == 4
    assert plan_batches(taking({1: 70.0, 4: 280.0})).together == 1
    assert plan_batches(taking({1: 70.0, 4: 200.0})).per_invocation == 144  # of 147 that fit, whole runs


def test_a_fast_model_waits_for_s3_and_half_a_processor_takes_twice_as_long() -> None:
    fast = taking({1: 1.0})
    assert plan_batches(fast).per_invocation == 1000 < 7350 / 6.25  # 50 ms, eight at once
    assert plan_batches(replace(fast, fetched=False)).storage_dollars < 0.1
    half = plan_batches(replace(MILLION, function=replace(FUNCTION, memory=885)), per_invocation=10)
    assert half.seconds == pytest.approx(10 * 0.07 * 1769 / 885 + 0.15)


def test_answers_fit_into_memory() -> None:
    large = replace(MILLION, times=replace(TIMES, characters=10_000_000))  # 0.075 × 1,769 MB has 13 of them
    assert plan_batches(large).per_invocation == 13
    assert plan_batches(replace(large, function=replace(FUNCTION, memory=128))).per_invocation == 1
    assert plan_batches(replace(MILLION, times=replace(TIMES, characters=900))).per_invocation == 105


def test_the_plan_and_the_function_know_the_same_limits() -> None:
    assert READ_AHEAD == map_batch.READ_AHEAD
    assert ANSWERS_SHARE == map_batch.TEXT_SHARE * MEMORY_SHARE / 2


def test_all_that_may_work_do() -> None:
    assert plan_batches(replace(MILLION, items=1000, bytes=120_000)).per_invocation == 2
    assert plan_batches(MILLION, per_invocation=7).invocations == math.ceil(1e6 / 7)


def test_more_objects_than_s3_delivers_are_said() -> None:
    found = plan_batches(MILLION)
    assert found.reads_per_second == pytest.approx(500 * 105 / 7.5)
    assert "7,000 objects a second, and S3 delivers 5,500 below one prefix" in describe_plan(found)
    assert "objects a second" not in describe_plan(plan_batches(replace(MILLION, concurrency=300)))
    requests = plan_batches(replace(MILLION, fetched=False))
    assert requests.reads_per_second == 0
    assert "objects a second" not in describe_plan(requests)


def test_nothing_to_do_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "none.csv").write_text("key\n")
    assert main(["batch", "start", str(tmp_path / "none.csv"), "--dry-run"]) == BatchError.exit_code
    assert "has no item" in capsys.readouterr().err


@given(
    items=st.integers(1, 10**7),
    item_bytes=st.integers(40, INPUT_BYTES),
    ms=st.floats(0.01, 60_000),
    memory=st.integers(128, 10_240),
    timeout=st.integers(1, 900),
    concurrency=st.integers(1, 10_000),
    characters=st.integers(0, 10**8),
)
def test_a_batch_keeps_every_limit(
    items: int, item_bytes: int, ms: float, memory: int, timeout: int, concurrency: int, characters: int
) -> None:
    load = Workload(
        items, items * item_bytes, BatchTimes({1: ms}, 100.0, characters), Capacity(memory, timeout, 1e-5), concurrency
    )
    found = plan_batches(load)
    assert 1 <= found.per_invocation <= MOST_ITEMS
    assert found.per_invocation == 1 or found.seconds <= timeout
    assert found.per_invocation == 1 or found.per_invocation * item_bytes <= INPUT_BYTES
    assert found.per_invocation == 1 or found.per_invocation * characters <= memory * 2**20 * 0.6 * 0.25
    assert (found.invocations - 1) * found.per_invocation < items <= found.invocations * found.per_invocation
    assert found.dollars > 0
    assert found.minutes > 0


def test_prices_are_data_with_a_date() -> None:
    prices = load_prices()
    assert prices.date.startswith("20")
    assert all(source.startswith("https://aws.amazon.com/") for source in prices.sources)


def test_the_command(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    listing = f"{tmp_path}/keys.csv"
    with open(listing, "w") as file:  # noqa: PTH123
        file.write("key\n" + "".join(f"in/{n}.jpg\n" for n in range(1000)))
    command = [
        "batch",
        "start",
        listing,
        "--dry-run",
        "--bucket",
        "b",
        "--ms",
        "70",
        "--max-concurrency",
        "10",
        "--limit",
        "500",
    ]
    assert main([*command, "--json"]) == 0
    found = printed("batch start", capsys.readouterr().out)["plan"]
    assert (found["items"], found["per_invocation"], found["invocations"]) == (500, 50, 10)
    assert main(command) == 0
    assert "500, 1 in a run" in capsys.readouterr().out
    assert main([*command[:-1], "0"]) == 2
    assert "--limit: 0 cannot be used" in capsys.readouterr().err
