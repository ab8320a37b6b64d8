"""Every event the function takes, as AWS sends it: the fixtures of ``events/`` and what may be wrong with them."""

from __future__ import annotations

import base64
import contextlib
import copy
import importlib
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handler import background, storage
from handler.budget import RequestLimits
from handler.errors import HandlerError, NotTextError, RetryLater, make_refusal
from handler.events import KINDS, gateways
from handler.inputs import image
from handler.model import Model
from handler.server import Invocation, Server
from tests.conftest import ROOT
from tests.support import abi_library, s3, vocabulary

EVENTS = ROOT / "events"
FACE = (ROOT / "tests/data/face.jpg").read_bytes()
KEY = "in/a face (1).jpg"
HTTP = ("function_url", "http_api", "rest_api", "alb", "alb_multi_value")


def context(remaining_ms: int = 15_000) -> Any:
    return SimpleNamespace(
        function_name="f", aws_request_id="request-1", get_remaining_time_in_millis=lambda: remaining_ms
    )


def fixture(name: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return event


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    library = abi_library.build(tmp_path_factory.mktemp("events"), abi_library.picture_description())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLDFORGE_LIBRARY", str(library))
        sys.modules.pop("handler.app", None)
        yield importlib.import_module("handler.app")
        sys.modules.pop("handler.app", None)


@pytest.fixture(scope="module")
def server() -> Iterator[s3.Bucket]:
    with s3.serving() as bucket, pytest.MonkeyPatch.context() as patch:
        for name, value in bucket.environment.items():
            patch.setenv(name, value)
        patch.setattr(storage, "_clients", {})
        yield bucket


@pytest.fixture
def bucket(server: s3.Bucket) -> s3.Bucket:
    """An S3 that holds one picture."""
    server.objects = {f"pictures/{KEY}": FACE}
    server.failing, server.requests = {}, []
    return server


def call(app: ModuleType, event: object, remaining_ms: int = 15_000) -> Any:
    answer = app.lambda_handler(event, context(remaining_ms))
    json.dumps(answer, allow_nan=False)  # as Lambda does
    return answer


def body(answer: Any) -> Any:
    text = answer["body"]
    return json.loads(base64.b64decode(text) if answer["isBase64Encoded"] else text)


def predicted(answer: Any) -> bool:
    return [set(p) for p in answer["predictions"]] == [{"tone", "level", "pixels"}]


def test_every_event_module_is_known() -> None:
    modules = {path.stem for path in (ROOT / "handler/events").glob("*.py")}
    assert {name for _, name in KINDS} == modules - {"__init__"}


def test_a_direct_invocation(app: ModuleType) -> None:
    assert predicted(call(app, fixture("direct")))


@pytest.mark.parametrize("name", HTTP)
def test_http_events(app: ModuleType, name: str) -> None:
    event = fixture(name)
    answer = call(app, event)
    assert answer["statusCode"] == 200, answer
    assert predicted(body(answer))
    wrong = call(app, event | {"body": '{"image": "@"}', "isBase64Encoded": False})
    assert (wrong["statusCode"], body(wrong)["error"]["code"]) == (400, "not_base64")


@pytest.mark.parametrize("name", HTTP)
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"body": "not base64!", "isBase64Encoded": True}, "malformed_event"),
        ({"body": "äöü", "isBase64Encoded": True}, "malformed_event"),
        ({"body": 5}, "malformed_event"),
        ({"headers": ["a"], "multiValueHeaders": "b"}, "malformed_event"),
        ({"body": None, "isBase64Encoded": False}, "not_json"),
    ],
)
def test_malformed_http_events_are_refused(app: ModuleType, name: str, change: dict[str, object], code: str) -> None:
    if "multiValueHeaders" in change and "multiValueHeaders" not in fixture(name):
        change = {"headers": ["a"]}
    answer = call(app, fixture(name) | change)
    assert (answer["statusCode"], body(answer)["error"]["code"]) == (400, code)
    assert call(app, fixture(name))["statusCode"] == 200


@pytest.mark.parametrize("name", HTTP)
def test_events_without_a_key_never_fail(app: ModuleType, name: str) -> None:
    event = fixture(name)
    for key in event:
        answer = call(app, {k: v for k, v in event.items() if k != key})
        assert answer.get("statusCode") in (200, 400, 404) or answer["error"]["code"] == "wrong_field"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("http_api", {"rawPath": "/v1/nothing"}),
        ("http_api", {"routeKey": "GET /{proxy+}", "pathParameters": {"proxy": "nothing"}}),
        ("rest_api", {"pathParameters": {"proxy": "nothing"}}),
        ("rest_api", {"resource": None, "path": "/nothing"}),
        ("rest_api", {"resource": "$default", "path": "/prod/nothing"}),
        ("alb", {"path": "/nothing"}),
    ],
)
def test_a_path_without_its_stage_is_what_counts(app: ModuleType, name: str, change: dict[str, object]) -> None:
    answer = call(app, fixture(name) | change)
    assert answer["statusCode"] == 404
    assert body(answer)["error"]["message"].startswith("nothing is served at /nothing;")


def test_what_the_protocols_see_of_each_event() -> None:
    parsed = {name: gateways._parse_request(fixture(name)) for name in HTTP}
    for request in parsed.values():
        assert (request.method, request.path) == ("POST", "/predict")
        assert request.headers["content-type"] == "application/json"
        assert json.loads(request.body)["image"]
        assert all(name == name.lower() for name in request.headers)
    assert parsed["rest_api"].headers["x-forwarded-for"] == "192.0.2.1, 198.51.100.7"
    assert parsed["rest_api"].query == {"tag": "b"}
    assert parsed["http_api"].query == {"top": "1", "tag": "a,b"}
    assert parsed["alb"].query == {"note": "two words"}
    assert parsed["alb_multi_value"].query == {"note": "two words"}


def test_a_stage_is_stripped_only_where_it_is_one() -> None:
    def path(raw: str, stage: str) -> str:
        event = fixture("http_api") | {"rawPath": raw}
        event["requestContext"]["stage"] = stage
        return gateways._parse_request(event).path

    assert path("/prod", "prod") == "/"
    assert path("/product", "prod") == "/product"
    assert path("/v2/models/a%20b", "$default") == "/v2/models/a b"


def test_the_load_balancer_gets_the_headers_it_sent_and_its_health_checks(app: ModuleType) -> None:
    single, multiple = call(app, fixture("alb")), call(app, fixture("alb_multi_value"))
    assert (single["statusDescription"], single["isBase64Encoded"]) == ("200 OK", False)
    assert single["headers"]["content-type"] == "application/json"
    assert multiple["multiValueHeaders"]["content-type"] == ["application/json"]
    assert "headers" not in multiple
    health = call(app, fixture("alb_health_check"))
    assert (health["statusCode"], body(health)) == (200, {"status": "healthy"})


@pytest.mark.parametrize("name", HTTP)
def test_who_should_try_again_is_told_when(app: ModuleType, name: str) -> None:
    for remaining_ms, status, after in ((100, 503, "1"), (15_000, 200, None)):
        answer = call(app, fixture(name), remaining_ms)
        told = answer.get("headers") or {key: value for key, [value] in answer["multiValueHeaders"].items()}
        assert (answer["statusCode"], told.get("retry-after")) == (status, after)


def test_what_is_not_text_is_carried_as_base64() -> None:
    from handler.events.gateways import _format_body
    from handler.http import HttpResponse

    data = {"content-type": "application/octet-stream"}
    assert _format_body(HttpResponse(200, data, b"\xff\0")) == {"body": "/wA=", "isBase64Encoded": True}
    page = HttpResponse(200, {"content-type": "text/html"}, "ä".encode())
    assert _format_body(page) == {"body": "ä", "isBase64Encoded": False}
    assert _format_body(HttpResponse(204, {})) == {"body": "", "isBase64Encoded": False}


def test_sqs_gives_back_only_what_failed(app: ModuleType) -> None:
    event = fixture("sqs")
    ids = [record["messageId"] for record in event["Records"]]
    assert call(app, event) == {"batchItemFailures": [{"itemIdentifier": ids[1]}]}
    event["Records"][1]["body"] = event["Records"][0]["body"]
    assert call(app, event) == {"batchItemFailures": []}


class PanicError(BaseException):
    """As pyo3's PanicException, no Exception."""


def test_a_library_s_panic_fails_alone(app: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    event, count = fixture("sqs"), itertools.count()
    ids = [record["messageId"] for record in event["Records"]]
    read = image.read_image

    def panicking(*options: Any) -> Any:
        if next(count) == 0:
            raise PanicError
        return read(*options)

    monkeypatch.setattr("handler.inputs.image.read_image", panicking)
    assert call(app, event) == {"batchItemFailures": [{"itemIdentifier": name} for name in ids[:2]]}


@pytest.mark.parametrize("name", sorted(path.stem for path in EVENTS.glob("*.json")))
@pytest.mark.parametrize("place", ["handler.inputs.image.read_image", "handler.storage.get_client"])
def test_no_event_lets_a_library_s_panic_out(
    app: ModuleType, bucket: s3.Bucket, monkeypatch: pytest.MonkeyPatch, name: str, place: str
) -> None:
    def panicking(*_: Any) -> None:
        raise PanicError

    monkeypatch.setattr(place, panicking)
    with contextlib.suppress(RetryLater):
        call(app, fixture(name))


@pytest.mark.parametrize("ends", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_process_ends_it(
    app: ModuleType, monkeypatch: pytest.MonkeyPatch, ends: type[BaseException]
) -> None:
    def ending(*_: Any) -> None:
        raise ends

    monkeypatch.setattr("handler.inputs.image.read_image", ending)
    with pytest.raises(ends):
        call(app, fixture("sqs"))


@pytest.mark.parametrize("poison", [None, {}, 5, "{}", "[]", '"text"', "[" * 100_000, '{"Records": 5}', "{" * 9])
def test_any_poison_fails_alone(app: ModuleType, poison: object) -> None:
    event = fixture("sqs")
    event["Records"][1]["body"] = poison
    assert call(app, event)["batchItemFailures"] == [{"itemIdentifier": event["Records"][1]["messageId"]}]


def test_a_record_without_an_id_gives_the_batch_back(app: ModuleType) -> None:
    event = fixture("sqs")
    event["Records"][1] = 7
    assert call(app, event)["batchItemFailures"] == [{"itemIdentifier": ""}]


def test_in_a_fifo_queue_nothing_overtakes_a_failure_of_its_group(app: ModuleType) -> None:
    event = fixture("sqs_fifo")
    failed = [failure["itemIdentifier"] for failure in call(app, event)["batchItemFailures"]]
    assert failed == [event["Records"][1]["messageId"], event["Records"][2]["messageId"]]


@given(messages=st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=10))
@settings(max_examples=25, deadline=None)
def test_of_each_group_all_after_a_failure_come_again(app: ModuleType, messages: list[tuple[str, bool]]) -> None:
    good, bad = (record["body"] for record in fixture("sqs_fifo")["Records"][:2])
    records = []
    for number, (group, fails) in enumerate(messages):
        record = copy.deepcopy(fixture("sqs_fifo")["Records"][0])
        record["attributes"]["MessageGroupId"] = group
        records.append(record | {"messageId": str(number), "body": bad if fails else good})
    expected = [
        str(number)
        for number, (group, _) in enumerate(messages)
        if any(fails and other == group for other, fails in messages[: number + 1])
    ]
    answer = call(app, {"Records": records})
    assert [failure["itemIdentifier"] for failure in answer["batchItemFailures"]] == expected


ATTEMPTS = 3


def emptied(app: ModuleType, messages: list[tuple[str, str]]) -> list[str]:
    """Give ``messages``, groups and bodies, to the function as a FIFO queue does, until it has none; the ids of those
    that it has put aside, after ATTEMPTS."""
    waiting, aside = [(str(number), *message, [0]) for number, message in enumerate(messages)], []
    while waiting:
        aside += [name for name, *_, count in waiting if count[0] == ATTEMPTS]
        waiting = [one for one in waiting if one[3][0] < ATTEMPTS]
        if not waiting:
            break
        records = []
        for name, group, text, count in waiting[:10]:
            count[0] += 1
            record = copy.deepcopy(fixture("sqs_fifo")["Records"][0]) | {"messageId": name, "body": text}
            record["attributes"] |= {"MessageGroupId": group, "ApproximateReceiveCount": str(count[0])}
            records.append(record)
        failed = {failure["itemIdentifier"] for failure in call(app, {"Records": records})["batchItemFailures"]}
        waiting = [one for one in waiting if one[0] in failed] + waiting[10:]
    return aside


@given(messages=st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=25))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_fifo_queue_puts_aside_what_fails_and_nothing_behind_it(
    app: ModuleType, bucket: s3.Bucket, messages: list[tuple[str, bool]]
) -> None:
    """And answers all others of each group in their order, once."""
    bucket.objects = {}
    good, bad = (record["body"] for record in fixture("sqs_fifo")["Records"][:2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLDFORGE_RESULTS", "s3://answers/")
        patch.setenv("COLDFORGE_QUEUE_ATTEMPTS", str(ATTEMPTS))
        bucket.requests = []
        aside = emptied(app, [(group, bad if fails else good) for group, fails in messages])
    assert sorted(aside, key=int) == [str(number) for number, (_, fails) in enumerate(messages) if fails]
    for own in "abc":
        answers = [f"PUT answers/{n}.json" for n, (group, fails) in enumerate(messages) if group == own and not fails]
        assert [request for request in bucket.requests if request in answers] == answers


def test_the_messages_behind_a_failure_are_put_aside_with_it_where_nobody_says_how_often_they_come(
    app: ModuleType,
) -> None:
    """Of a queue of one's own: what the test above would not notice otherwise."""
    good, bad = (record["body"] for record in fixture("sqs_fifo")["Records"][:2])
    assert emptied(app, [("a", bad), ("a", good), ("b", good)]) == ["0", "1"]


@pytest.mark.parametrize("count", [None, "", "x", "-1", "²", "9" * 5000, 3, [3]])
def test_a_count_that_is_none_holds_the_group_back(
    app: ModuleType, monkeypatch: pytest.MonkeyPatch, count: object
) -> None:
    monkeypatch.setenv("COLDFORGE_QUEUE_ATTEMPTS", "3")
    event = fixture("sqs_fifo")
    for record in event["Records"]:
        record["attributes"]["ApproximateReceiveCount"] = count
    assert len(call(app, event)["batchItemFailures"]) == (1 if count == 3 else 2)


def test_groups_of_a_queue_without_order_hold_nothing_back(app: ModuleType) -> None:
    """Senders name groups there to share the queue fairly (SQS's fair queues)."""
    event = fixture("sqs_fifo")
    for record in event["Records"]:
        record["eventSourceARN"] = record["eventSourceARN"].removesuffix(".fifo")
    failed = [failure["itemIdentifier"] for failure in call(app, event)["batchItemFailures"]]
    assert failed == [event["Records"][1]["messageId"]]


def test_sqs_gives_back_what_there_was_no_time_for(app: ModuleType) -> None:
    event = fixture("sqs")
    assert [f["itemIdentifier"] for f in call(app, event, remaining_ms=100)["batchItemFailures"]] == [
        record["messageId"] for record in event["Records"]
    ]


@pytest.mark.parametrize("name", ["s3", "sns_s3", "eventbridge_s3"])
def test_a_new_object_is_answered(
    app: ModuleType, bucket: s3.Bucket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    monkeypatch.setenv("COLDFORGE_RESULTS", "s3://answers/of/today/")
    (answer,) = call(app, fixture(name))["results"]
    assert predicted(answer)
    assert json.loads(bucket.objects[f"answers/of/today/pictures/{KEY}.json"]) == answer
    (line,) = [vars(record) for record in caplog.records if record.msg == "result"]
    assert (line["object"], line["result"]) == (f"s3://pictures/{KEY}", answer)
    assert line["correlation_id"] in (EVENTS / f"{name}.json").read_text()


@pytest.mark.parametrize("name", ["sqs_s3", "sqs_sns_s3"])
def test_a_queue_of_notifications(
    app: ModuleType, bucket: s3.Bucket, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLDFORGE_RESULTS", "s3://answers")
    assert call(app, fixture(name)) == {"batchItemFailures": []}
    assert predicted(json.loads(bucket.objects[f"answers/pictures/{KEY}.json"]))
    del bucket.objects[f"pictures/{KEY}"]
    event = fixture(name)
    assert call(app, event) == {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}


def several_in_one(bucket: s3.Bucket, count: int) -> dict[str, Any]:
    """A message of so many objects, which are there."""
    event = fixture("sqs_s3")
    notification = json.loads(event["Records"][0]["body"])
    (record,) = notification["Records"]
    notification["Records"] = []
    for number in range(count):
        bucket.objects[f"pictures/in/{number}.jpg"] = FACE
        one = copy.deepcopy(record)
        one["s3"]["object"]["key"] = f"in/{number}.jpg"
        notification["Records"].append(one)
    event["Records"][0]["body"] = json.dumps(notification)
    return event


def results_of(bucket: s3.Bucket) -> list[str]:
    return sorted(name.rpartition("/")[2].partition(".")[0] for name in bucket.objects if name.startswith("answers/"))


def test_results_are_kept_whatever_fails_beside_them(
    app: ModuleType, bucket: s3.Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLDFORGE_RESULTS", "s3://answers")
    event = several_in_one(bucket, 4)
    bucket.objects["pictures/in/0.jpg"] = b"BM, and no more"
    del bucket.objects["pictures/in/2.jpg"]
    assert call(app, event) == {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}
    assert results_of(bucket) == ["0", "1", "3"]
    assert json.loads(bucket.objects["answers/pictures/in/0.jpg.json"])["error"]["code"] == "damaged_image"


def test_a_message_that_comes_again_has_the_same_result(
    app: ModuleType, bucket: s3.Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLDFORGE_RESULTS", "s3://answers")
    event = fixture("sqs")
    again = copy.deepcopy(event)
    again["Records"].reverse()
    again["Records"][0]["attributes"]["ApproximateReceiveCount"] = "2"
    assert call(app, event) == call(app, again)
    wrong = fixture("sqs") | {"Records": [event["Records"][0] | {"messageId": "wrong", "body": '{"picture": 1}'}]}
    assert call(app, wrong)["batchItemFailures"] == [{"itemIdentifier": "wrong"}]
    ids = {event["Records"][0]["messageId"], event["Records"][2]["messageId"], "wrong"}
    assert {name for name in bucket.objects if name.startswith("answers/")} == {f"answers/{one}.json" for one in ids}
    assert json.loads(bucket.objects["answers/wrong.json"])["error"]["code"] == "wrong_field"


def test_an_object_that_is_gone_when_its_message_comes_again_keeps_its_answer(
    app: ModuleType, bucket: s3.Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLDFORGE_RESULTS", "s3://answers")
    event = fixture("sqs_s3")
    assert call(app, event) == {"batchItemFailures": []}
    answer = bucket.objects[f"answers/pictures/{KEY}.json"]
    del bucket.objects[f"pictures/{KEY}"]
    assert len(call(app, event)["batchItemFailures"]) == 1
    assert bucket.objects[f"answers/pictures/{KEY}.json"] == answer
    bucket.objects[f"pictures/{KEY}"] = b"no picture"
    assert len(call(app, event)["batchItemFailures"]) == 1
    assert json.loads(bucket.objects[f"answers/pictures/{KEY}.json"])["error"]["code"] == "not_an_image"


def test_an_error_that_cannot_be_stored_is_a_failure_all_the_same(
    app: ModuleType, bucket: s3.Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLDFORGE_RESULTS", "s3://answers")
    bucket.objects[f"pictures/{KEY}"] = b"no picture"
    bucket.failing[f"answers/pictures/{KEY}.json"] = [403]
    assert len(call(app, fixture("sqs_s3"))["batchItemFailures"]) == 1
    assert results_of(bucket) == []


def test_time_may_run_out_within_a_message(app: ModuleType, bucket: s3.Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given back before Lambda ends the function, and the rest of the batch with it."""
    monkeypatch.setenv("COLDFORGE_RESULTS", "s3://answers")
    event = several_in_one(bucket, 10)
    event["Records"] *= 2
    left = 15_000

    def remaining() -> int:
        nonlocal left
        left -= 1_000  # at every look at the clock
        return left

    waiting = context()
    waiting.get_remaining_time_in_millis = remaining
    failures = app.lambda_handler(event, waiting)["batchItemFailures"]
    assert len(failures) == 2
    assert 0 < len(results_of(bucket)) < 10


def test_a_request_by_eventbridge(app: ModuleType) -> None:
    (answer,) = call(app, fixture("eventbridge"))["results"]
    assert predicted(answer)
    (answer,) = call(app, fixture("eventbridge") | {"detail": {"image": "@"}})["results"]
    assert answer["error"]["code"] == "not_base64"


def test_other_events_of_s3_are_left_alone(app: ModuleType, bucket: s3.Bucket) -> None:
    event = fixture("s3")
    event["Records"][0]["eventName"] = "ObjectRemoved:Delete"
    assert call(app, event) == {"results": []}
    assert call(app, fixture("eventbridge_s3") | {"detail-type": "Object Deleted"}) == {"results": []}
    assert bucket.requests == []


def test_a_version_is_read_as_that_version(app: ModuleType, bucket: s3.Bucket) -> None:
    event = fixture("eventbridge_s3")
    event["detail"]["object"]["version-id"] = "IYV3p45BT0ac8hjHg1houSdS1a.Mro8e"
    call(app, event)
    assert storage.S3Object("pictures", KEY, "IYV3p45BT0ac8hjHg1houSdS1a.Mro8e") in importlib.import_module(
        "handler.events.notifications"
    ).find_tasks(event)


def test_a_wrong_object_is_an_answer_too(app: ModuleType, bucket: s3.Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLDFORGE_RESULTS", "s3://answers")
    bucket.objects[f"pictures/{KEY}"] = b"no picture"
    (answer,) = call(app, fixture("s3"))["results"]
    assert answer["error"]["code"] == "not_an_image"
    assert json.loads(bucket.objects[f"answers/pictures/{KEY}.json"]) == answer


@pytest.mark.parametrize(("status", "code"), [(403, "object_not_found"), (404, "object_not_found")])
def test_an_object_that_may_not_be_read(app: ModuleType, bucket: s3.Bucket, status: int, code: str) -> None:
    bucket.failing[f"pictures/{KEY}"] = [status]
    (answer,) = call(app, fixture("s3"))["results"]
    assert answer["error"]["code"] == code


def test_s3_in_trouble_is_asked_again_and_then_lambda_is(app: ModuleType, bucket: s3.Bucket) -> None:
    bucket.failing[f"pictures/{KEY}"] = [503]
    assert predicted(call(app, fixture("s3"))["results"][0])
    bucket.failing[f"pictures/{KEY}"] = [503] * 3
    with pytest.raises(RetryLater, match="1 of 1 items") as caught:
        call(app, fixture("s3"))
    assert "pictures" not in str(caught.value)
    assert caught.traceback[-1].name == "lambda_handler"  # the stack goes no further into the function
    assert predicted(call(app, fixture("s3"))["results"][0])


def test_results_that_cannot_be_written_are_tried_again(
    app: ModuleType, bucket: s3.Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLDFORGE_RESULTS", "s3://answers")
    bucket.failing[f"answers/pictures/{KEY}.json"] = [403]
    with pytest.raises(RetryLater):
        call(app, fixture("s3"))


def test_objects_of_one_key_in_two_buckets_have_results_of_their_own(
    app: ModuleType, bucket: s3.Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLDFORGE_RESULTS", "s3://answers/")
    event = fixture("s3")
    event["Records"].append(copy.deepcopy(event["Records"][0]))
    event["Records"][1]["s3"]["bucket"]["name"] = "others"
    bucket.objects[f"others/{KEY}"] = b"no picture"
    first, second = call(app, event)["results"]
    assert predicted(first)
    assert second["error"]["code"] == "not_an_image"
    assert json.loads(bucket.objects[f"answers/pictures/{KEY}.json"]) == first
    assert json.loads(bucket.objects[f"answers/others/{KEY}.json"]) == second


def object_named(key: str) -> dict[str, Any]:
    event = fixture("eventbridge_s3")
    event["detail"]["object"]["key"] = key
    return event


# "é" has two bytes; "pictures/" and ".json" have 14.
@pytest.mark.parametrize(("key", "fits"), [("é" * 505, True), ("é" * 505 + "a", False), ("a" * 1024, False)])
def test_a_result_whose_key_would_be_too_long_is_refused_before_any_work(
    app: ModuleType, bucket: s3.Bucket, monkeypatch: pytest.MonkeyPatch, key: str, fits: bool
) -> None:
    monkeypatch.setenv("COLDFORGE_RESULTS", "s3://answers")
    bucket.objects[f"pictures/{key}"] = FACE
    (answer,) = call(app, object_named(key))["results"]
    if fits:
        assert json.loads(bucket.objects[f"answers/pictures/{key}.json"]) == answer
    else:
        assert answer["error"]["code"] == "key_too_long"
        assert bucket.requests == []
        message = {"messageId": "1", "eventSource": "aws:sqs", "body": json.dumps(object_named(key))}
        assert call(app, {"Records": [message]}) == {"batchItemFailures": [{"itemIdentifier": "1"}]}
        assert bucket.requests == []


@pytest.mark.parametrize("key", ["", "a" * 1025, "é" * 513, "\ud800"])
def test_a_key_that_no_object_has_is_not_asked_for(app: ModuleType, bucket: s3.Bucket, key: str) -> None:
    (answer,) = call(app, object_named(key))["results"]
    assert answer["error"]["code"] == "object_not_found"
    assert bucket.requests == []


def test_a_bucket_that_cannot_be_is_not_asked_for_again(app: ModuleType, bucket: s3.Bucket) -> None:
    answer = call(app, {"Bucket": "no bucket", "Key": "a.jpg"})
    assert answer["error"]["code"] == "object_not_found"
    assert bucket.requests == []


def test_no_result_is_answered_again(app: ModuleType, bucket: s3.Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLDFORGE_RESULTS", "s3://pictures/in/")
    assert call(app, fixture("s3")) == {"results": []}
    assert call(app, fixture("sqs_s3")) == {"batchItemFailures": []}
    assert bucket.requests == []


def test_too_large_an_object_is_not_read(app: ModuleType, bucket: s3.Bucket) -> None:
    bucket.objects[f"pictures/{KEY}"] = bytes(10_000_001)
    (answer,) = call(app, fixture("s3"))["results"]
    assert answer["error"]["code"] == "too_large"


def test_without_time_an_object_is_left_for_later(app: ModuleType, bucket: s3.Bucket) -> None:
    with pytest.raises(RetryLater):
        call(app, fixture("s3"), remaining_ms=100)
    assert bucket.requests == []


def test_an_object_is_a_request_where_the_model_takes_no_image(bucket: s3.Bucket, tmp_path: Path) -> None:
    model = Model(str(abi_library.build(tmp_path, abi_library.tensor_description())))
    server = Server({"product": model}, RequestLimits())
    asking = Invocation("r", False, lambda: 15_000, lambda result: None, lambda error: make_refusal(error, "r"))
    request = {"inputs": {"a": [[1, 2, 3], [4, 5, 6]], "n": [2, -1]}}
    bucket.objects = {"tensors/good.json": json.dumps(request).encode(), "tensors/face.jpg": FACE}
    answer = background.answer_task(storage.S3Object("tensors", "good.json"), server, asking)
    assert [prediction["product"] for prediction in answer["predictions"]] == [[2, 4, 6], [-4, -5, -6]]
    with pytest.raises(HandlerError):
        background.answer_task(storage.S3Object("tensors", "face.jpg"), server, asking)


def test_an_object_is_a_text_where_the_model_takes_one(bucket: s3.Bucket, tmp_path: Path) -> None:
    library = abi_library.build(tmp_path, abi_library.text_description())
    vocabulary.write_prepared(tmp_path)
    server = Server({"sized": Model(str(library))}, RequestLimits())
    asking = Invocation("r", False, lambda: 15_000, lambda result: None, lambda error: make_refusal(error, "r"))
    bucket.objects = {
        "texts/a.txt": b"good film",
        "texts/b.json": b'{"texts": ["bad", "good film"]}',
        "texts/c": b"\xff",
    }
    (one,) = background.answer_task(storage.S3Object("texts", "a.txt"), server, asking)["predictions"]
    assert one["_ids"] == vocabulary.ids("good", "film")
    assert background.answer_task(storage.S3Object("texts", "b.json"), server, asking)["predictions"][1] == one
    with pytest.raises(NotTextError, match=r"s3://texts/c is not UTF-8"):
        background.answer_task(storage.S3Object("texts", "c"), server, asking)
    tasks: list[background.Task] = [{"text": "good film"}, {"text": ""}, {"texts": ["bad"]}]
    first, second, third = background.answer_all_tasks(tasks, "1", server, asking)["results"]
    assert first["predictions"] == [one]
    assert second["error"]["code"] == "wrong_field"
    assert len(third["predictions"]) == 1


def test_a_batch_of_a_distributed_map(app: ModuleType, bucket: s3.Bucket) -> None:
    answer = call(app, fixture("step_functions_batch"))
    first, second, third = answer["results"]
    assert predicted(first)
    assert predicted(second)
    assert third["error"]["code"] == "not_base64"
    assert answer["failed"] == 1


def test_items_that_there_was_no_time_for(app: ModuleType) -> None:
    event = {"Items": [fixture("direct")] * 3}
    assert call(app, event)["failed"] == 0
    answer = call(app, event, remaining_ms=100)
    assert [result["error"]["code"] for result in answer["results"]] == ["out_of_time"] * 3
    assert answer["failed"] == 3


@pytest.mark.parametrize("item", [None, 5, "text", [], {}, {"Key": "a"}, {"Key": 5, "Bucket": "b"}])
def test_a_wrong_item_fails_alone(app: ModuleType, item: object) -> None:
    good = fixture("direct")
    results = call(app, {"Items": [good, item, good]})["results"]
    assert ["error" in result for result in results] == [False, True, False]


def test_a_single_object(app: ModuleType, bucket: s3.Bucket) -> None:
    assert predicted(call(app, fixture("step_functions_object")))


@pytest.mark.parametrize(
    "event",
    [None, [], 5, "text", {}, {"Records": []}, {"Records": 5}, {"Records": [5]}, {"Records": [{"eventSource": 1}]},
     {"requestContext": 5}, {"requestContext": {}}, {"Items": 5}, {"Key": "a"}, {"detail-type": "x"},
     {"requestContext": {"http": None}, "version": "2.0"}, {"requestContext": {"elb": 1}}],
)  # fmt: skip
def test_unknown_events_are_direct_ones_that_are_wrong(app: ModuleType, event: object) -> None:
    answer = call(app, event)
    error = body(answer)["error"] if "statusCode" in answer else answer["error"]
    assert error["code"] in ("wrong_type", "wrong_field", "malformed_event")


@pytest.mark.parametrize("name", ["s3", "sns_s3", "eventbridge_s3"])
def test_events_of_s3_that_lack_something(app: ModuleType, bucket: s3.Bucket, name: str) -> None:
    def holes(value: Any) -> Iterator[Any]:
        """Copies of ``value``, each without one key, or with null in its place."""
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            without = copy.deepcopy(value)
            del without[key]
            yield without
            yield (value | {key: None}) if isinstance(value, dict) else [*value[:key], None, *value[key + 1 :]]
            for hole in holes(value[key]):
                changed = copy.copy(value)
                changed[key] = hole
                yield changed

    seen = set()
    for event in holes(fixture(name)):
        answer = call(app, event)
        for error in [answer.get("error"), *[r.get("error") for r in answer.get("results", [])]]:
            seen.add(error and error["code"])
    assert "malformed_event" in seen
    assert "internal" not in seen
