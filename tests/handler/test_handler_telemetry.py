"""What the operator sees of each request, and what neither the log nor a caller ever does."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.support import abi_library, s3
from tests.support.function import Served, served

EVENTS = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "events").glob("*.json"))}
FACE = (ROOT / "tests/data/face.jpg").read_bytes()
FACE_TEXT = base64.b64encode(FACE).decode()
IDS = ["FunctionName", "ModelName", "ModelVersion"]
SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMIexample",
    "AWS_SESSION_TOKEN": "IQoJb3JpZ2luX2VjEXAMPLE",
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "SOME_SECRET": "correct-horse-battery-staple",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return abi_library.build(tmp_path_factory.mktemp("telemetry"), abi_library.picture_description())


def poisoned() -> str:
    import io

    from PIL import Image

    buffer = io.BytesIO()
    Image.new("L", (8, 8), abi_library.POISON).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def dimensions(line: dict[str, Any]) -> list[str]:
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "coldforge"
    (names,) = directive["Dimensions"]
    assert all(isinstance(line[name], str) for name in names)
    return sorted(names)


def test_metrics(library: Path) -> None:
    seen = served(
        library, {"image": FACE_TEXT}, {"images": [FACE_TEXT] * 3}, {"image": "@"}, POWERTOOLS_SERVICE_NAME="x"
    )
    (first, second) = seen.metrics("BatchSize")
    assert (first["BatchSize"], second["BatchSize"]) == ([1.0], [3.0])
    assert (first["ModelName"], first["ModelVersion"], first["FunctionName"]) == ("brightness", "7", "f")
    assert dimensions(first) == IDS
    for name in ("DecodeMs", "InferMs", "TotalMs"):
        assert first[name][0] >= 0
    (start,) = seen.metrics("ColdStart")
    assert start is not second
    assert start["ColdStart"] == [1.0]
    assert start["LoadMs"][0] > 0
    units = {m["Name"]: m["Unit"] for m in first["_aws"]["CloudWatchMetrics"][0]["Metrics"]}
    assert units == {
        "ColdStart": "Count", "LoadMs": "Milliseconds", "BatchSize": "Count",
        "DecodeMs": "Milliseconds", "InferMs": "Milliseconds", "TotalMs": "Milliseconds",
    }  # fmt: skip


def test_nobody_waited_for_a_provisioned_start(library: Path) -> None:
    seen = served(library, {"image": FACE_TEXT}, AWS_LAMBDA_INITIALIZATION_TYPE="provisioned-concurrency")
    assert seen.answers[0]["cold_start"] is False
    assert seen.metrics("ColdStart") == []
    assert len(seen.metrics("LoadMs")) == 1


def test_errors_are_counted_by_code_for_the_model_and_for_alarms(library: Path) -> None:
    event = {"Items": [{"image": "@"}, {"image": "@"}, {"picture": 1}]}
    seen = served(library, event).metrics("Error")
    counted = {(line["Code"], tuple(dimensions(line))): sum(line["Error"]) for line in seen}
    assert counted == {
        (code, tuple(sorted(names))): count
        for code, count in (("not_base64", 2.0), ("wrong_field", 1.0))
        for names in (["Code", "FunctionName"], ["Code", *IDS])
    }


def test_a_batch_of_a_thousand_items_is_counted_whole(library: Path) -> None:
    seen = served(library, {"Items": [EVENTS["direct"], {"image": "@"}] * 250})
    assert sum(sum(line["BatchSize"]) for line in seen.metrics("BatchSize")) == 250
    for metric, names in (("Error", IDS), ("Error", [])):
        lines = [line for line in seen.metrics(metric) if dimensions(line) == sorted(["Code", *(names or IDS[:1])])]
        assert sum(sum(line["Error"]) for line in lines) == 250


@pytest.mark.parametrize(
    ("name", "correlation_id"),
    [
        ("direct", None),
        ("function_url", "0f3a4b0e-8c5d-4e0e-9c56-1f1f1f1f1f1f"),
        ("http_api", "JKJaXmPLvHcESHA="),
        ("rest_api", "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"),
        ("alb", "Root=1-6740b3c0-3d683b8b04734faae651f476"),
        ("sqs", "00000001-b21e-4ac1-bd88-01bbb068cb78"),
        ("eventbridge", "7bf73129-1428-4cd3-a780-95db273d1602"),
    ],
)
def test_every_line_has_the_ids_to_find_it_by(library: Path, name: str, correlation_id: str | None) -> None:
    trace = {"_X_AMZN_TRACE_ID": "Root=1-6740b3c0-aaaaaaaaaaaaaaaaaaaaaaaa;Parent=53995c3f42cd8ad8;Sampled=0"}
    seen = served(library, EVENTS[name], POWERTOOLS_LOG_LEVEL="DEBUG", **trace)
    lines = [line for line in seen.lines if line.get("message") == "request answered"]
    assert lines[0].get("correlation_id") == correlation_id
    assert lines[0]["function_request_id"] == "request-0"
    assert lines[0]["xray_trace_id"] == "1-6740b3c0-aaaaaaaaaaaaaaaaaaaaaaaa"
    assert (lines[0]["function_name"], lines[0]["function_version"]) == ("f", "3")
    assert (lines[0]["model_name"], lines[0]["model_version"]) == ("brightness", "7")
    assert set(lines[0]["timings_ms"]) == {"decode", "infer", "total"}


@pytest.mark.parametrize(("rate", "expected"), [("0", 0), ("1", 3), ("", 0)])
def test_debug_lines_are_of_the_sampled_share(library: Path, rate: str, expected: int) -> None:
    seen = served(library, *[EVENTS["direct"]] * 3, POWERTOOLS_LOGGER_SAMPLE_RATE=rate)
    assert sum(line.get("message") == "request answered" for line in seen.lines) == expected


@pytest.fixture
def daemon() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        bound.settimeout(5)
        yield bound


def traced(library: Path, daemon: socket.socket, sampled: int) -> Served:
    return served(
        library,
        {"image": FACE_TEXT},
        {"image": "@"},
        COLDFORGE_TRACING="on",
        AWS_XRAY_DAEMON_ADDRESS=f"127.0.0.1:{daemon.getsockname()[1]}",
        _X_AMZN_TRACE_ID=f"Root=1-6740b3c0-aaaaaaaaaaaaaaaaaaaaaaaa;Parent=53995c3f42cd8ad8;Sampled={sampled};Lineage=1:a",
    )


def test_subsegments_for_x_ray(library: Path, daemon: socket.socket) -> None:
    traced(library, daemon, 1)
    segments = []
    for _ in range(2):
        head, _, text = daemon.recv(65_536).decode().partition("\n")
        assert json.loads(head) == {"format": "json", "version": 1}
        segments.append(json.loads(text))
    for segment in segments:
        assert (segment["trace_id"], segment["parent_id"]) == (
            "1-6740b3c0-aaaaaaaaaaaaaaaaaaaaaaaa",
            "53995c3f42cd8ad8",
        )
        assert segment["type"] == "subsegment"
        assert len(segment["id"]) == 16
        assert 0 <= segment["end_time"] - segment["start_time"] < 60
    assert segments[0]["annotations"]["model_name"] == "brightness"
    assert (segments[0]["error"], segments[1]["error"]) == (False, True)
    assert segments[1]["annotations"] == {"code": "not_base64"}


def test_nothing_is_sent_of_what_is_not_sampled(library: Path, daemon: socket.socket) -> None:
    daemon.settimeout(0.2)
    assert "predictions" in traced(library, daemon, 0).answers[0]
    with pytest.raises(TimeoutError):
        daemon.recv(65_536)


@pytest.mark.parametrize("tracing", ["off", "on"])
def test_opentelemetry_is_not_even_looked_for_unless_it_is_on(library: Path, tmp_path: Path, tracing: str) -> None:
    """Although it can be had, as where another layer brings it."""
    (tmp_path / "opentelemetry").mkdir()
    (tmp_path / "opentelemetry" / "__init__.py").write_text("raise RuntimeError('imported')")
    seen = served(library, {"image": FACE_TEXT}, COLDFORGE_TRACING=tracing, PYTHONPATH=f"{ROOT}:{tmp_path}")
    assert "predictions" in seen.answers[0]


def everything(secret: str) -> list[Any]:
    """Every fixture, whole and spoilt in ways that reach each branch, with a picture and a secret in it."""
    spoilt: list[Any] = []
    for event in EVENTS.values():
        text = json.dumps(event)
        for picture in (FACE_TEXT, poisoned(), "@" + FACE_TEXT, FACE_TEXT[:2000]):
            spoilt.append(json.loads(text.replace(EVENTS["direct"]["image"], picture)))
        for old, new in (('"predict"', '"x/../../etc/passwd"'), ("/predict", "/%00"), ("in/a", "../../etc")):
            spoilt.append(json.loads(text.replace(old, new)))
        spoilt.append({key: value for key, value in event.items() if key not in ("body", "detail", "Items")})
    wrong: list[Any] = [None, 5, [secret], {secret: FACE_TEXT}, {FACE_TEXT: 1}, {"image": {"a": secret}}]
    wrong += [{"inputs": {"image": [secret, FACE_TEXT]}}, {"images": [secret]}, {"image": f"data:{secret},{FACE_TEXT}"}]
    return [*EVENTS.values(), *spoilt, *wrong]


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_nothing_that_is_secret_is_told_or_logged(library: Path, level: str) -> None:
    secret = SECRETS["SOME_SECRET"]
    with s3.serving() as bucket:
        bucket.objects["pictures/in/a face (1).jpg"] = FACE
        seen = served(
            library,
            *everything("x" * 100 + secret),
            POWERTOOLS_LOG_LEVEL=level,
            POWERTOOLS_LOGGER_LOG_EVENT="true",
            **(bucket.environment | SECRETS),
        )
    answers = json.dumps(seen.answers)
    assert {"internal", "not_base64", "malformed_event"} <= {
        line["code"]
        for line in seen.lines
        if "refused" in line.get("message", "") or "failed" in line.get("message", "")
    }
    for value in SECRETS.values():
        assert value not in answers
        assert value not in seen.text
    for inside in (
        str(ROOT),
        "site-packages",
        "Traceback",
        ".py",
        'File \\"',
        str(library),
        "kernel",
        "PATH",
        "botocore",
    ):
        assert inside not in answers, inside
    for picture in (FACE_TEXT[:100], FACE_TEXT[-100:], poisoned()[:60]):
        assert picture not in seen.text
        assert picture not in answers


def test_after_anything_the_next_good_request_works(library: Path) -> None:
    good = EVENTS["direct"]
    between = [event for wrong in everything("x") for event in (wrong, good)]
    with s3.serving() as bucket:
        answers = served(library, *between, **bucket.environment).answers[1::2]
    assert len({json.dumps(answer["predictions"]) for answer in answers}) == 1
