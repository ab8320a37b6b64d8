"""A batch of a list: its answers are one object in S3, with a line for each item, whatever is wrong with any."""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from handler import storage
from handler.errors import RetryLater
from tests.conftest import ROOT
from tests.support import abi_library, s3

FACE = (ROOT / "tests/data/face.jpg").read_bytes()
with io.BytesIO() as _file:
    Image.new("1", (9_000, 9_000)).save(_file, "PNG")
    HUGE = _file.getvalue()
TAG = hashlib.md5(FACE).hexdigest()
PLACE = "s3://results/coldforge/run1/parts/0/"
PART = "results/coldforge/run1/parts/0/00000017.jsonl"
GOOD = {"Bucket": "in", "Key": "good.jpg", "ETag": TAG}
ITEMS = {
    "good": GOOD,
    "untagged": {"Bucket": "in", "Key": "good.jpg"},
    "changed": GOOD | {"ETag": "0" * 32},
    "vanished": {"Bucket": "in", "Key": "none.jpg"},
    "corrupt": {"Bucket": "in", "Key": "corrupt.jpg"},
    "large": {"Bucket": "in", "Key": "large"},
    "huge": {"Bucket": "in", "Key": "huge.png"},
    "request": {"image": {"s3": "s3://elsewhere/1"}},
    "wrong": {"picture": "x"},
}
CODES = {
    "changed": "object_changed",
    "vanished": "object_not_found",
    "corrupt": "truncated_image",
    "large": "too_large",
    "huge": "too_many_pixels",
    "request": "source_not_allowed",
    "wrong": "wrong_field",
}


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("layer")
    (root / "model").mkdir()
    (root / "lib").mkdir()
    (root / "model" / "manifest.json").write_text("{}")
    return root


@pytest.fixture(scope="module")
def app(layer: Path) -> Iterator[ModuleType]:
    library = abi_library.build(layer / "lib", abi_library.picture_description(batch=2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLDFORGE_LIBRARY", str(library))
        sys.modules.pop("handler.app", None)
        yield importlib.import_module("handler.app")
        sys.modules.pop("handler.app", None)


@pytest.fixture(scope="module")
def bucket() -> Iterator[s3.Bucket]:
    with s3.serving() as bucket, pytest.MonkeyPatch.context() as patch:
        for name, value in (bucket.environment | {"COLDFORGE_RESULTS": "s3://results/coldforge/"}).items():
            patch.setenv(name, value)
        patch.setattr(storage, "_clients", {})
        yield bucket


@pytest.fixture
def objects(bucket: s3.Bucket) -> s3.Bucket:
    bucket.objects = {
        "in/good.jpg": FACE,
        "in/corrupt.jpg": FACE[:500],
        "in/large": bytes(11_000_000),
        "in/huge.png": HUGE,
    }
    bucket.failing, bucket.requests = {}, []
    return bucket


def event(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    rows = [{"Row": 1700 + number, **item} for number, item in enumerate(items)]
    return {"Batch": 17, "Items": rows, "BatchInput": {"Results": PLACE}} | more


def run(app: ModuleType, given_event: object, remaining_ms: int = 15_000) -> Any:
    context = SimpleNamespace(
        function_name="f", aws_request_id="request-1", get_remaining_time_in_millis=lambda: remaining_ms
    )
    answer = app.lambda_handler(given_event, context)
    json.dumps(answer, allow_nan=False)
    return answer


def lines(bucket: s3.Bucket) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    head, *rows = (json.loads(line) for line in bucket.objects[PART].decode().splitlines())
    return head, rows


def test_each_item_has_its_line_and_the_wrong_ones_their_code(app: ModuleType, objects: s3.Bucket, layer: Path) -> None:
    answer = run(app, event(*ITEMS.values()))
    assert answer == {"batch": 17, "items": 9, "failed": 7, "part": f"s3://{PART}"}
    head, rows = lines(objects)
    assert head["layer"] == hashlib.sha256((layer / "model" / "manifest.json").read_bytes()).hexdigest()
    assert (head["batch"], head["items"]) == (17, 9)
    assert head["model"] == {"name": app.models.first.description.name, "version": app.models.first.description.version}
    assert [row["Row"] for row in rows] == list(range(1700, 1709))
    found = dict(zip(ITEMS, rows, strict=True))
    assert {name: row["error"]["code"] for name, row in found.items() if "error" in row} == CODES
    assert found["good"]["predictions"] == found["untagged"]["predictions"]
    assert found["good"]["ETag"] == found["untagged"]["ETag"] == TAG
    assert len(found["good"]["predictions"]) == 1


def test_several_in_a_run_give_the_same_answers(app: ModuleType, objects: s3.Bucket) -> None:
    items = [GOOD, ITEMS["corrupt"], GOOD, GOOD, ITEMS["vanished"], GOOD]
    run(app, event(*items))
    one_by_one = lines(objects)
    run(app, event(*items, BatchInput={"Results": PLACE, "Together": 2}))
    assert lines(objects) == one_by_one


def test_what_s3_does_not_deliver_is_tried_again_and_then_a_line(app: ModuleType, objects: s3.Bucket) -> None:
    objects.failing = {"in/good.jpg": [500] * 30}
    for attempt in (None, 0, 1):
        with pytest.raises(RetryLater, match="did not deliver"):
            run(app, event(GOOD, Attempt=attempt))
    assert PART not in objects.objects
    objects.objects["in/other.jpg"] = FACE
    answer = run(app, event(GOOD, {"Bucket": "in", "Key": "other.jpg"}, Attempt=2))
    assert answer["failed"] == 1
    first, second = lines(objects)[1]
    assert first["error"]["code"] == "storage_unavailable"
    assert "predictions" in second


def test_a_part_that_cannot_be_written_fails_the_invocation(app: ModuleType, objects: s3.Bucket) -> None:
    objects.failing = {PART: [500] * 3}
    with pytest.raises(RetryLater, match="did not store"):
        run(app, event(GOOD, Attempt=2))
    run(app, event(GOOD, Attempt=2))
    assert len(lines(objects)[1]) == 1


def test_what_there_is_no_time_for_is_a_line(app: ModuleType, objects: s3.Bucket) -> None:
    assert run(app, event(GOOD, {"picture": "x"}), remaining_ms=150)["failed"] == 2
    assert {row["error"]["code"] for row in lines(objects)[1]} <= {"out_of_time", "storage_unavailable"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"Batch": -1}, {"Batch": True}, {"Batch": "17"}, {"Batch": 10**8}, {"Items": [GOOD]},
        {"Items": [{"Row": 1, "Key": "x"}]}, {"BatchInput": {"Results": 7}},
        {"BatchInput": {"Results": "s3://results/other/"}}, {"BatchInput": {"Results": "s3://others/coldforge/"}},
        {"BatchInput": {"Results": "s3://results/coldforge"}},
    ],
)  # fmt: skip
def test_nothing_is_read_or_written_for_another_event(
    app: ModuleType, objects: s3.Bucket, wrong: dict[str, Any]
) -> None:
    with pytest.raises(RetryLater):
        run(app, event(GOOD, **wrong))
    assert not objects.requests


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(st.lists(st.sampled_from(list(ITEMS)), max_size=12), st.integers(-1, 5))
def test_any_items_in_any_order(app: ModuleType, objects: s3.Bucket, names: list[str], together: int) -> None:
    run(app, event(*(ITEMS[name] for name in names), BatchInput={"Results": PLACE, "Together": together}))
    rows = lines(objects)[1]
    assert [row["Row"] for row in rows] == [1700 + number for number in range(len(names))]
    assert [row.get("error", {}).get("code") for row in rows] == [CODES.get(name) for name in names]
