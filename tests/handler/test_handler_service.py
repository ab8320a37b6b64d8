"""The function over time: until the deadline, in several threads, and for ten thousand requests."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from handler.budget import RequestLimits
from handler.deadline import CAUTION, RESERVE_MS, Deadline
from handler.errors import OutOfTimeError, Refusal, make_refusal
from handler.inputs import image
from handler.model import Model
from handler.protocols import predict
from handler.request import File, Request
from handler.server import Invocation, Result, Server
from tests.conftest import ROOT
from tests.support import abi_library, measured

EVENTS = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "events").glob("*.json"))}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return abi_library.build(tmp_path_factory.mktemp("service"), abi_library.picture_description(batch=2))


@pytest.fixture(scope="module")
def server(library: Path) -> Server:
    model = Model(str(library))
    return Server({model.description.name: model}, RequestLimits())


def dot(level: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (8, 8), level).save(buffer, "PNG")
    return buffer.getvalue()


class Clock:
    """Time that passes only when told: ``remaining_ms`` of an invocation, and perf_counter's."""

    def __init__(self, milliseconds: float) -> None:
        self.left, self.now = milliseconds, 0.0

    def passes(self, milliseconds: float) -> None:
        self.left -= milliseconds
        self.now += milliseconds / 1000

    def remaining_ms(self) -> int:
        return int(self.left)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(10_000)
    monkeypatch.setattr("time.perf_counter", lambda: clock.now)
    return clock


def call(clock: Clock, refused: list[Exception] | None = None) -> Invocation:
    def refuse(error: Exception) -> Refusal:
        (refused if refused is not None else []).append(error)
        return make_refusal(error, "request-1")

    return Invocation("request-1", False, clock.remaining_ms, lambda result: None, refuse)


def test_the_margin_grows_with_the_slowest_item(clock: Clock) -> None:
    deadline = Deadline(clock.remaining_ms)
    assert deadline.allows_another()
    clock.passes(4_000)
    assert not deadline.allows_another()  # 6,000 ms are left, of which the next may take as many
    clock.passes(10)
    assert not deadline.allows_another()  # the slowest counts, not the last
    clock.left = 4_000 * CAUTION + RESERVE_MS + 1
    assert deadline.allows_another()


def test_nothing_begins_within_the_reserve(clock: Clock) -> None:
    clock.left = RESERVE_MS
    assert not Deadline(clock.remaining_ms).allows_another()


def slow(monkeypatch: pytest.MonkeyPatch, clock: Clock, milliseconds: float) -> list[int]:
    """Every run takes so long; the batches that were run."""
    runs: list[int] = []
    run: Callable[..., Any] = Model.run

    def slowly(self: Model, *arguments: Any) -> Any:
        clock.passes(milliseconds)
        runs.append(len(runs))
        return run(self, *arguments)

    monkeypatch.setattr(Model, "run", slowly)
    return runs


def infer(server: Server, clock: Clock, count: int, *, partial: bool) -> Result:
    pictures = tuple(File(dot(level), f"picture {level}") for level in range(20, 20 + count))
    return server.run_inference(Request(pictures, {}, partial=partial), call(clock))


def test_a_request_stops_between_batches_and_says_what_is_left(
    server: Server, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = slow(monkeypatch, clock, 3_000)
    result = infer(server, clock, 7, partial=True)  # four batches of two, of which two have the time
    assert (len(runs), result.items, result.left) == (2, 4, 3)
    assert clock.left > RESERVE_MS


def test_a_request_that_wants_all_or_nothing_is_refused(
    server: Server, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, clock, 3_000)
    with pytest.raises(OutOfTimeError):
        infer(server, clock, 7, partial=False)
    clock.left = 10_000
    assert infer(server, clock, 3, partial=False).left == 0


def test_our_protocol_marks_what_is_left(server: Server, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    slow(monkeypatch, clock, 3_000)
    refused: list[Exception] = []
    images = [base64.b64encode(dot(level)).decode() for level in range(20, 27)]
    answer = predict.answer_event({"images": images}, server, call(clock, refused))
    assert [p.get("level") for p in answer["predictions"]] == [[20.0], [21.0], [22.0], [23.0], None, None, None]
    assert [p["error"]["code"] for p in answer["predictions"][4:]] == ["out_of_time"] * 3
    assert len(refused) == 1


def test_images_are_decoded_when_their_batch_comes(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    decode, run = image.read_image, Model.run
    monkeypatch.setattr(image, "read_image", lambda *a: (order.append("decode"), decode(*a))[1])
    monkeypatch.setattr(Model, "run", lambda *a: (order.append("run"), run(*a))[1])
    infer(server, Clock(10_000), 3, partial=False)
    assert order == ["decode", "decode", "run", "decode", "run"]


def test_a_queue_and_a_map_stop_in_time(server: Server, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    from handler.events import answer_event

    slow(monkeypatch, clock, 3_000)
    event = EVENTS["sqs"] | {"Records": [EVENTS["sqs"]["Records"][0] | {"messageId": str(i)} for i in range(5)]}
    failures = answer_event(event, server, call(clock))["batchItemFailures"]
    assert [failure["itemIdentifier"] for failure in failures] == ["2", "3", "4"]
    clock.left = 10_000
    results = answer_event({"Items": [EVENTS["direct"]] * 5}, server, call(clock))
    assert [r.get("error", {}).get("code") for r in results["results"]] == [None, None, *["out_of_time"] * 3]
    assert results["failed"] == 3


IN_THREADS = """
import json, sys, types
from concurrent.futures import ThreadPoolExecutor
sys.setswitchinterval(1e-5)
import handler.app
context = lambda number: types.SimpleNamespace(
    function_name="f", aws_request_id=f"request-{number}", get_remaining_time_in_millis=lambda: 15_000)
def one(numbered):
    number, event = numbered
    return handler.app.lambda_handler(event, context(number))
events = json.load(sys.stdin)
with ThreadPoolExecutor(int(sys.argv[1])) as pool:
    answers = list(pool.map(one, enumerate(events)))
json.dump(answers, sys.stderr)
"""


def in_threads(library: Path, events: list[Any], threads: int) -> tuple[list[Any], list[dict[str, Any]]]:
    """(answers, log lines) of a function that has just started."""
    done = subprocess.run(
        [sys.executable, "-c", IN_THREADS, str(threads)],
        env={"PYTHONPATH": str(ROOT), "COLDFORGE_LIBRARY": str(library), "POWERTOOLS_LOG_LEVEL": "DEBUG"}
        | measured.environment(),
        input=json.dumps(events),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stderr), [json.loads(line) for line in done.stdout.splitlines()]


def without_times(answers: list[Any]) -> str:
    """The answers, as text, but for what each request has of its own."""

    def clean(value: Any) -> Any:
        if isinstance(value, list):
            return [clean(item) for item in value]
        if isinstance(value, dict):
            if isinstance(value.get("body"), str):
                value = value | {"body": json.loads(value["body"])}
            return {k: clean(v) for k, v in value.items() if k not in ("cold_start", "timings_ms")}
        return value

    return json.dumps(clean(answers), sort_keys=True)


def test_invocations_in_threads_answer_as_one_after_the_other(library: Path) -> None:
    kinds = ("direct", "function_url", "http_api", "rest_api", "alb", "sqs", "eventbridge")
    pictures = [base64.b64encode(dot(level)).decode() for level in range(14, 244)]
    events: list[Any] = [{"image": picture} for picture in pictures]
    events += [{"images": pictures[i : i + 5]} for i in range(0, 200, 5)]
    events += [EVENTS[kind] for kind in kinds] * 5
    events += [{"image": "@"}, {"images": [pictures[0], "@"]}, None, {"Items": [{"image": p} for p in pictures[:7]]}]
    one, _ = in_threads(library, events, 1)
    many, lines = in_threads(library, events, 8)
    assert without_times(one) == without_times(many)
    assert sum(bool(line.get("ColdStart")) for line in lines if "_aws" in line) == 1
    assert sum(json.dumps(answer).count('"cold_start": true') for answer in many) == 1
    answered = sum(sum(line.get("BatchSize", [])) for line in lines if "_aws" in line)
    assert answered == sum(line["items"] for line in lines if line.get("message") == "request answered")
    # Each line's ids are its own request's, whoever ran beside it.
    for line in lines:
        if line.get("message") == "request refused":
            number = int(line["function_request_id"].removeprefix("request-"))
            assert "predictions" not in many[number]


MEMORY = """
import json, sys, types
import handler.app
context = types.SimpleNamespace(function_name="f", aws_request_id="request-1",
                                get_remaining_time_in_millis=lambda: 15_000)
events = [json.loads(line) for line in sys.stdin]
def resident():
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmRSS"))
seen = {}
for number in range(1, 10_001):
    handler.app.lambda_handler(events[number % len(events)], context)
    if number in (1_000, 10_000):
        seen[number] = resident()
json.dump(seen, sys.stderr)
"""


def test_memory_is_flat_over_ten_thousand_requests(library: Path) -> None:
    poison = {"image": base64.b64encode(dot(abi_library.POISON)).decode()}
    face = {"image": base64.b64encode((ROOT / "tests/data/face.jpg").read_bytes()[:4000]).decode()}
    kinds = ("direct", "function_url", "rest_api", "alb", "sqs")
    events = [EVENTS["direct"], *(EVENTS[kind] for kind in kinds), poison, face, {"image": "@"}, None, {"x": 1}]
    events.append(EVENTS["function_url"] | {"body": "{", "isBase64Encoded": True})
    done = subprocess.run(
        [sys.executable, "-c", MEMORY],
        env={"PYTHONPATH": str(ROOT), "COLDFORGE_LIBRARY": str(library)},
        input="".join(json.dumps(event) + "\n" for event in events),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kilobytes = json.loads(done.stderr)
    assert kilobytes["10000"] - kilobytes["1000"] < 1_024, kilobytes
