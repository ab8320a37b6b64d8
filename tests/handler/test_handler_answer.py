"""Answers that are as large as Lambda passes on, and larger ones, which it would drop without a word to the caller."""

from __future__ import annotations

import base64
import importlib
import io
import json
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from handler.answer import ANSWER_LIMIT, LOAD_BALANCER_LIMIT
from handler.events.gateways import _format_body
from handler.http import HttpResponse
from tests.conftest import ROOT
from tests.support import abi_library

SIDE = 250
OF_ONE = SIDE * SIDE * len("[200], ")
"""Bytes that one picture's answer has, but for a few: the pixels themselves."""
FITS = ANSWER_LIMIT // OF_ONE
CONTEXT = SimpleNamespace(function_name="f", aws_request_id="request-1", get_remaining_time_in_millis=lambda: 15_000)


def fixture(name: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((ROOT / "events" / f"{name}.json").read_text())
    return event


def picture() -> str:
    buffer = io.BytesIO()
    Image.new("L", (8, 8), 200).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def pictures(count: int) -> dict[str, Any]:
    return {"images": [picture()] * count}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    description = abi_library.picture_description(batch=4, width=SIDE, height=SIDE)
    library = abi_library.build(tmp_path_factory.mktemp("answer"), description)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLDFORGE_LIBRARY", str(library))
        sys.modules.pop("handler.app", None)
        yield importlib.import_module("handler.app")
        sys.modules.pop("handler.app", None)


def call(app: ModuleType, event: object, limit: int = ANSWER_LIMIT) -> Any:
    answer = app.lambda_handler(event, CONTEXT)
    assert len(json.dumps(answer)) <= limit
    return answer


def test_a_direct_invocation(app: ModuleType) -> None:
    assert len(call(app, pictures(FITS))["predictions"]) == FITS
    error = call(app, pictures(FITS + 1))["error"]
    assert error["code"] == "answer_too_large"
    assert "Ask for fewer" in error["message"]
    assert "predictions" in call(app, pictures(1))


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("function_url", ANSWER_LIMIT),
        ("rest_api", ANSWER_LIMIT),
        ("alb", LOAD_BALANCER_LIMIT),
        ("alb_multi_value", LOAD_BALANCER_LIMIT),
    ],
)
def test_over_http(app: ModuleType, name: str, limit: int) -> None:
    def post(count: int) -> Any:
        event = fixture(name) | {"body": json.dumps(pictures(count)), "isBase64Encoded": False}
        return call(app, event, limit)

    assert post(limit // OF_ONE)["statusCode"] == 200
    refused = post(limit // OF_ONE + 1)
    assert (refused["statusCode"], json.loads(refused["body"])["error"]["code"]) == (413, "answer_too_large")


def test_a_batch_of_items_has_an_error_for_each(app: ModuleType) -> None:
    assert call(app, {"Items": [pictures(1)] * FITS})["failed"] == 0
    answer = call(app, {"Items": [pictures(1)] * (FITS + 1)})
    assert [result["error"]["code"] for result in answer["results"]] == ["answer_too_large"] * (FITS + 1)
    assert answer["failed"] == FITS + 1
    failed = call(app, {"Items": [pictures(1), pictures(FITS + 1)]})
    assert ["error" in result for result in failed["results"]] == [False, True]


def test_an_event_that_nobody_waits_for_is_not_delivered_again(
    app: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    answer = call(app, fixture("eventbridge") | {"detail": pictures(FITS + 1)})
    assert answer["error"]["code"] == "answer_too_large"
    assert [record.msg for record in caplog.records if record.msg == "result"] == ["result"]


values = st.recursive(
    st.none() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_what_a_response_takes_in_an_event_is_known(value: object) -> None:
    response = HttpResponse.from_json(value)
    text = _format_body(response)["body"]
    assert response.carried == len(json.dumps(text)) - 2


@given(st.binary())
def test_what_bytes_take_in_an_event_is_known(data: bytes) -> None:
    response = HttpResponse(200, {"content-type": "application/octet-stream"}, data)
    assert response.carried == len(_format_body(response)["body"])
