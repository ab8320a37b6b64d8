"""What ``inputs.json`` asks for, worked out: the rows of the tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.scale.batch import ATTEMPTS, Job, Outcome, Quotas, simulated
from benchmarks.scale.queue import Pace, Surge, seconds_until_loss, surged
from builder.batch.plan import OVERHEAD_MS, Load, plan
from builder.prices import list_prices
from builder.targets import DEFAULT

INPUTS = Path(__file__).with_name("inputs.json")
BATCH_OVERHEAD = 0.01
"""Seconds of an invocation for messages besides its messages: log and answer. Assumed."""


def inputs() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(INPUTS.read_text(encoding="utf-8"))
    return found


def study(given: Mapping[str, Any]) -> dict[str, Any]:
    """Every scenario at every concurrency (about a minute), and the queue."""
    scenarios = {
        one["name"]: [batch_row(given, one, concurrency) for concurrency in given["concurrency"]]
        for one in given["scenarios"]
    }
    fewer = batch_row(given, given["scenarios"][0], given["concurrency"][-1], given["fewer_attempts"])
    return {"inputs": given, "batch": scenarios, "fewer_attempts": fewer, "queue": queue_rows(given)}


def batch_row(
    given: Mapping[str, Any], scenario: Mapping[str, Any], concurrency: int, attempts: int = ATTEMPTS
) -> dict[str, Any]:
    """What ``concurrency`` batches at once take and cost in ``scenario``, as `coldforge batch` cuts them."""
    model, function = given["models"][scenario["model"]], given["function"]
    gb_second = list_prices().gb_second[DEFAULT.architecture]
    load = Load(
        items=given["items"], bytes=given["items"] * 100, ms={1: model["ms"]}, cold_ms=model["cold_ms"],
        memory=function["memory"], timeout=function["timeout"], concurrency=concurrency, gb_second=gb_second,
    )  # fmt: skip
    found = plan(load)
    overhead = OVERHEAD_MS / 1000
    job = Job(
        given["items"], found.per_invocation, (found.seconds - overhead) / found.per_invocation, overhead,
        model["cold_ms"] / 1000, function["timeout"], concurrency, attempts,
    )  # fmt: skip
    outcome = simulated(job, _quotas(given["quotas"], scenario))
    return {
        "concurrency": concurrency,
        "per_invocation": job.per_invocation,
        "minutes": round(outcome.seconds / 60, 2),
        "planned_minutes": round(found.minutes, 2),
        "dollars": round(dollars(job, outcome, function["memory"], gb_second), 2),
        **{name: value for name, value in asdict(outcome).items() if name not in ("seconds", "busy")},
    }


def _quotas(quotas: Mapping[str, Any], scenario: Mapping[str, Any]) -> Quotas:
    burst, starts = quotas["burst"], quotas["starts"]
    return Quotas(
        scenario["instances"], burst["value"], burst["per_second"], starts["value"], starts["per_second"],
        quotas["reads"]["value"] * scenario["prefixes"],
    )  # fmt: skip


def dollars(job: Job, outcome: Outcome, memory: int, gb_second: float) -> float:
    """List prices of ``builder/prices.json``. An attempt after the first is one more transition."""
    prices = list_prices()
    again = outcome.throttled - outcome.given_up
    return (
        outcome.busy * memory / 1024 * gb_second
        + outcome.invocations / 1e6 * prices.million_requests
        + (1 + job.batches + again) / 1e3 * prices.thousand_transitions
        + job.items / 1e3 * prices.thousand_reads
        + outcome.invocations / 1e3 * prices.thousand_writes
    )


def queue_rows(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of each bound of concurrency, what a surge does to the queue."""
    asked, model = given["queue"], given["models"][given["queue"]["model"]]
    surge = Surge(asked["usual"], asked["times"], asked["seconds"])
    rows = []
    for most in asked["concurrency"]:
        seconds = asked["batch"] * model["ms"] / 1000 + BATCH_OVERHEAD
        pace = Pace(seconds, asked["batch"], min(asked["first"], most), asked["more"], most)
        lost = seconds_until_loss(surge, pace, asked["retention"])
        found = asdict(surged(surge, pace)) | {"most": most, "per_second": round(pace.per_second, 1)}
        rows.append(found | {"wait": round(found["wait"]), "days_until_loss": lost and round(lost / 86400, 1)})
    return rows
