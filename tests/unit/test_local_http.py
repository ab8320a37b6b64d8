"""The local server: what it makes of requests, and of the function's answers."""

from __future__ import annotations

import http.client
import threading
from email.message import Message
from typing import Any
from urllib.parse import urlsplit

import pytest

from builder.errors import EnvironmentSetupError
from builder.local.http import MAX_BODY, event, response, serving


def headers(**values: str) -> Message:
    message = Message()
    for name, value in values.items():
        message[name.replace("_", "-")] = value
    return message


def test_a_request_is_a_function_urls_event() -> None:
    sent = event("POST", "/v2/a%20b?x=1&x=2&y=%C3%A9&z=", headers(Content_Type="application/json", A="1"), b"{}", "id")
    assert (sent["rawPath"], sent["rawQueryString"]) == ("/v2/a b", "x=1&x=2&y=%C3%A9&z=")
    assert sent["queryStringParameters"] == {"x": "1,2", "y": "é", "z": ""}
    assert sent["headers"] == {"content-type": "application/json", "a": "1"}
    assert (sent["body"], sent["isBase64Encoded"]) == ("{}", False)
    assert sent["requestContext"]["http"]["method"] == "POST"
    assert "queryStringParameters" not in event("GET", "/", headers(), b"", "id")


@pytest.mark.parametrize(
    ("media", "body", "expected"),
    [
        ("image/png", b"\x89", ("iQ==", True)),
        ("application/json", b"\xff", ("/w==", True)),
        ("text/plain; charset=utf-8", b"a", ("a", False)),
        ("", b"a", ("YQ==", True)),
    ],
)
def test_only_text_travels_as_it_is(media: str, body: bytes, expected: tuple[str, bool]) -> None:
    sent = event("POST", "/", headers(Content_Type=media) if media else headers(), body, "id")
    assert (sent["body"], sent["isBase64Encoded"]) == expected


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "text",
        {},
        {"errorType": "x"},
        {"statusCode": "200"},
        {"statusCode": 200, "body": "@", "isBase64Encoded": 1},
    ],
)
def test_an_answer_that_is_none_is_a_bad_gateway(answer: Any) -> None:
    assert response(answer)[0] == 502


def test_sockets_to_events_and_back() -> None:
    seen: list[dict[str, Any]] = []
    told: list[str] = []

    def invoke(sent: dict[str, Any]) -> Any:
        seen.append(sent)
        if sent["rawPath"] == "/fail":
            raise EnvironmentSetupError("it is gone")
        return {"statusCode": 201, "headers": {"x-a": "b"}, "body": "iQ==", "isBase64Encoded": True}

    with serving(invoke, say=told.append) as url:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=5)
        for _ in range(2):  # the connection is kept
            connection.request("PUT", "/a?b", b"xy", {"Content-Type": "text/plain"})
            reply = connection.getresponse()
            assert (reply.status, reply.headers["x-a"], reply.read()) == (201, "b", b"\x89")
        connection.request("HEAD", "/")
        assert connection.getresponse().read() == b""
        connection.request("GET", "/fail")
        reply = connection.getresponse()
        assert (reply.status, b"see its log" in reply.read()) == (502, True)
        connection.request("POST", "/", headers={"Transfer-Encoding": "chunked"})
        assert connection.getresponse().status == 411
        connection.close()
        connection.request("POST", "/", headers={"Content-Length": str(MAX_BODY + 1)})
        assert connection.getresponse().status == 413
        connection.close()
    assert (seen[0]["body"], seen[0]["queryStringParameters"]) == ("xy", {"b": ""})
    assert told[0].startswith("PUT /a?b 201 ")
    assert "it is gone" in told
    with pytest.raises(OSError, match="refused"):
        connection.request("GET", "/")


def test_requests_wait_for_each_other() -> None:
    at_once, most = threading.Semaphore(1), []

    def invoke(sent: dict[str, Any]) -> Any:
        most.append(at_once.acquire(blocking=False))
        at_once.release()
        return {"statusCode": 200}

    def get(url: str) -> None:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=5)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        connection.close()

    with serving(invoke) as url:
        threads = [threading.Thread(target=get, args=(url,)) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == [True] * 16


def test_a_port_that_is_taken_is_said() -> None:
    with serving(lambda sent: None) as url:
        port = urlsplit(url).port or 0
        with (
            pytest.raises(EnvironmentSetupError, match=f"port {port} cannot be used"),
            serving(lambda sent: None, port),
        ):
            pass
