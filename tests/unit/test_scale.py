"""The queueing models of docs/scale.md and docs/queues.md, against calculations by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.gallery import DOCS
from benchmarks.scale import batch, report
from benchmarks.scale.batch import Job, Quotas, simulated
from benchmarks.scale.bucket import Bucket
from benchmarks.scale.queue import Pace, Surge, seconds_until_loss, surged
from benchmarks.scale.study import batch_row, dollars, inputs, queue_rows
from builder.batch.plan import PREFIX_READS
from builder.deliver.template_check import Loader
from tests.conftest import ROOT

FREE = Quotas(instances=10**6, burst=1e6, burst_rate=1e6, starts=1e6, start_rate=1e6, reads=1e9)
TEN = Job(items=10, per_invocation=1, seconds=1.0, overhead=0.0, cold=0.0, timeout=900.0, concurrency=2)
"""Ten items of a second, two at once."""


def test_a_bucket_gives_what_it_holds_and_then_its_rate() -> None:
    bucket = Bucket(2, 0.5)
    assert [bucket.take(at) for at in (0, 0, 0, 1, 2, 2)] == [True, True, False, False, True, False]
    bucket = Bucket(2, 0.5)
    assert [bucket.reserve(at) for at in (0, 0, 0, 0, 10)] == [0, 0, 2, 4, 10]


def test_two_at_once_take_half_the_time() -> None:
    found = simulated(TEN, FREE)
    assert (found.seconds, found.busy, found.invocations, found.peak) == (5, 10, 10, 2)
    assert (found.throttled, found.given_up, found.late, found.unanswered) == (0, 0, 0, 0)


def test_overhead_is_for_each_invocation_and_a_cold_start_for_each_instance() -> None:
    found = simulated(replace(TEN, overhead=0.5, cold=2.0), FREE)
    assert found.seconds == pytest.approx(2 + 5 * 1.5)
    assert found.busy == pytest.approx(2 * 2 + 10 * 1.5)
    larger = simulated(replace(TEN, per_invocation=4, overhead=0.5), FREE)
    # 4, 4 and 2 items: 4.5 s, and then 2.5 s more on one of the two
    assert (larger.invocations, larger.seconds, larger.busy) == (3, pytest.approx(7), pytest.approx(11.5))


def test_instances_share_what_s3_delivers() -> None:
    found = simulated(TEN, replace(FREE, reads=1))
    assert (found.seconds, found.busy) == (pytest.approx(10), pytest.approx(20))
    assert simulated(TEN, replace(FREE, reads=2)).seconds == pytest.approx(5)


def test_what_there_is_no_time_for_stays_unanswered() -> None:
    # Half an item a second for each: of two items one is there after 2.5 s, when 0.2 s of the time are left. The fifth
    # batch is alone, and has both of its items after 2 s.
    found = simulated(replace(TEN, per_invocation=2, timeout=2.7), replace(FREE, reads=1))
    assert (found.late, found.unanswered, found.invocations) == (4, 4, 5)
    assert (found.seconds, found.busy) == (pytest.approx(7), pytest.approx(12))


def test_step_functions_starts_no_faster_than_its_bucket() -> None:
    found = simulated(replace(TEN, seconds=0.9, concurrency=10), replace(FREE, starts=1, start_rate=1))
    assert (found.seconds, found.peak) == (pytest.approx(9.9), 1)


def test_new_instances_come_no_faster_than_the_burst() -> None:
    found = simulated(replace(TEN, items=3, concurrency=3, seconds=100.0), replace(FREE, burst=1, burst_rate=0.001))
    assert found.peak == 1  # the second instance would be there after 1,000 s
    assert found.seconds >= 300
    assert found.throttled > 0


def test_of_an_account_without_instances_every_call_is_turned_away() -> None:
    found = simulated(replace(TEN, attempts=20), replace(FREE, instances=0))
    assert (found.throttled, found.given_up, found.unanswered) == (10 * 21, 10, 10)
    # Two at once, each five after one another: at most 2 + 4 + 8 + 16 + 32 + 15 × 60 s of waits
    assert 0 < found.seconds <= 5 * 962


@given(
    items=st.integers(1, 300), size=st.integers(1, 20), concurrency=st.integers(1, 40), instances=st.integers(0, 30),
    reads=st.floats(0.5, 50), timeout=st.floats(1, 20), attempts=st.integers(0, 5),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_no_item_is_lost_and_no_limit_broken(
    items: int, size: int, concurrency: int, instances: int, reads: float, timeout: float, attempts: int
) -> None:
    job = Job(items, size, 0.3, 0.05, 0.1, timeout, concurrency, attempts)
    found = simulated(job, Quotas(instances, 5, 1.0, 3, 2.0, reads))
    assert found.invocations + found.given_up == job.batches
    assert found.peak <= min(concurrency, instances)
    assert 0 <= found.late <= found.unanswered <= items
    answered = items - found.unanswered
    assert found.seconds >= answered / reads - 1e-6
    assert found.seconds >= answered * 0.3 / max(1, found.peak) - 1e-6
    assert found.throttled <= job.batches * (attempts + 1)


def test_the_bill_by_hand() -> None:
    job = replace(TEN, items=1_000_000, per_invocation=100)
    outcome = replace(simulated(TEN, FREE), busy=1024.0, invocations=10_000, throttled=600, given_up=100)
    # 1,024 s × 2 GB × 0.00001; 10,000 × 0.20 a million; 1 + 10,000 + 500 transitions × 0.025 a thousand;
    # a million reads × 0.0004 a thousand; 10,000 writes × 0.005 a thousand
    expected = 0.02048 + 0.002 + 0.262525 + 0.4 + 0.05
    assert dollars(job, outcome, 2048, 1e-5) == pytest.approx(expected)


def test_without_throttling_the_model_and_the_dry_run_agree() -> None:
    asked = inputs()
    row = batch_row(asked | {"items": 200_000}, asked["scenarios"][0], 100)
    assert row["minutes"] == pytest.approx(row["planned_minutes"], rel=0.05)
    assert row["throttled"] == row["unanswered"] == 0


def test_both_know_the_same_quota_of_s3() -> None:
    assert inputs()["quotas"]["reads"]["value"] == PREFIX_READS


def test_the_models_retries_are_the_templates() -> None:
    machine = yaml.load((ROOT / "template.yaml").read_text(), Loader=Loader)["Resources"]["BatchMachine"]
    task = machine["Properties"]["Definition"]["States"]["Answer"]["ItemProcessor"]["States"]["Batch"]
    throttled = task["Retry"][0]
    assert (throttled["IntervalSeconds"], throttled["BackoffRate"]) == (batch.FIRST_WAIT, batch.WAIT_RATE)
    assert (throttled["MaxDelaySeconds"], throttled["MaxAttempts"]) == (batch.LONGEST_WAIT, batch.ATTEMPTS)


def test_advised_is_what_is_about_as_fast_and_answers_everything() -> None:
    minutes = {100: 50.0, 200: 26.0, 400: 25.0, 800: 24.9, 1600: 20.0}
    rows = [{"concurrency": at, "minutes": took, "unanswered": at == 1600} for at, took in minutes.items()]
    assert report.advised(rows)["concurrency"] == 200
    assert report.first(rows, lambda row: row["unanswered"]) == 1600
    assert report.first(rows, lambda row: row["minutes"] > 100) is None


def test_a_surge_that_the_queue_can_take() -> None:
    pace = Pace(seconds=1.0, batch=10, first=5, more=300, most=10)
    found = surged(Surge(usual=5, times=10, seconds=60), pace)
    assert (found.messages, found.behind, found.busy) == (0, 0, 5)  # 50 a second, five batches of ten


def test_a_surge_that_it_cannot_take_waits_and_is_caught_up() -> None:
    pace = Pace(seconds=1.0, batch=10, first=2, more=0, most=2)
    found = surged(Surge(usual=10, times=3, seconds=100), pace)
    # 30 come and 20 are answered each second: 1,000 wait after 100 s, for 50 s. Then 10 a second are caught up.
    assert (found.messages, found.wait, found.behind, found.busy) == (1000, 50, pytest.approx(100, abs=1), 2)
    assert surged(Surge(usual=20, times=3, seconds=100), pace).behind is None
    assert seconds_until_loss(Surge(10, 3, 100), pace, 600) == pytest.approx(1800)
    assert seconds_until_loss(Surge(10, 2, 100), pace, 600) is None


def test_lambda_adds_batches_each_minute() -> None:
    slow, fast = (Pace(seconds=1.0, batch=10, first=2, more=more, most=50) for more in (60, 600))
    surge = Surge(usual=10, times=20, seconds=600)
    assert surged(surge, slow).messages > surged(surge, fast).messages > 0
    assert surged(surge, slow).busy > 20


def test_the_page_and_the_table_are_what_was_worked_out() -> None:
    results = json.loads((DOCS / "scale.json").read_text(encoding="utf-8"))
    assert results["inputs"] == inputs(), "run `make scale`"
    assert (DOCS / "scale.md").read_text(encoding="utf-8") == report.page(results), "run `make scale`"
    shown = report.QUEUE_TABLE.search((DOCS / "queues.md").read_text(encoding="utf-8"))
    assert shown is not None
    assert shown[0] == report.queue_table(results), "run `make scale`"
    assert results["queue"] == queue_rows(inputs()), "run `make scale`"
    fast = next(one for one in inputs()["scenarios"] if one["name"] == "emotion")  # in which batches are few
    row = next(row for row in results["batch"]["emotion"] if row["concurrency"] == 1000)
    assert batch_row(inputs(), fast, 1000) == row, "run `make scale`"
