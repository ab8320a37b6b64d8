"""The local server: what it makes of requests, and of the function's answers."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from email.message import Message
from typing import Any
from urllib.parse import urlsplit

import pytest

from builder.base.errors import EnvironmentSetupError
from builder.measure.local import http_server as local_http
from builder.measure.local.emulator import MAX_REQUEST
from builder.measure.local.http_server import MAX_BODY, make_url_event, parse_response, serve_function
from builder.measure.local.request_check import LONGEST_HEAD, LOOPBACK, MOST_LINES, AllowedOrigins


def headers(**values: str) -> Message:
    message = Message()
    for name, value in values.items():
        message[name.replace("_", "-")] = value
    return message


def test_a_request_is_a_function_urls_event() -> None:
    sent = make_url_event(
        "POST", "/v2/a%20b?x=1&x=2&y=%C3%A9&z=", headers(Content_Type="application/json", A="1"), b"{}", "id"
    )
    assert (sent["rawPath"], sent["rawQueryString"]) == ("/v2/a b", "x=1&x=2&y=%C3%A9&z=")
    assert sent["queryStringParameters"] == {"x": "1,2", "y": "é", "z": ""}
    assert sent["headers"] == {"content-type": "application/json", "a": "1"}
    assert (sent["body"], sent["isBase64Encoded"]) == ("{}", False)
    assert sent["requestContext"]["http"]["method"] == "POST"
    assert "queryStringParameters" not in make_url_event("GET", "/", headers(), b"", "id")


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
    sent = make_url_event("POST", "/", headers(Content_Type=media) if media else headers(), body, "id")
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
    assert parse_response(answer)[0] == 502


def test_sockets_to_events_and_back() -> None:
    seen: list[dict[str, Any]] = []
    told: list[str] = []

    def invoke(sent: dict[str, Any]) -> Any:
        seen.append(sent)
        if sent["rawPath"] == "/fail":
            raise EnvironmentSetupError("it is gone")
        return {"statusCode": 201, "headers": {"x-a": "b"}, "body": "iQ==", "isBase64Encoded": True}

    with serve_function(invoke, say=told.append) as url:
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
        connection.request("POST", "/", bytes(MAX_BODY + 1))  # sent whole, whatever the answer is
        reply = connection.getresponse()
        assert (reply.status, reply.headers["content-type"]) == (413, "application/json")
        assert json.loads(reply.read())["error"]["code"] == "too_large"
        connection.close()
    assert (seen[0]["body"], seen[0]["queryStringParameters"]) == ("xy", {"b": ""})
    assert told[0].startswith("PUT /a?b 201 ")
    assert "it is gone" in told
    assert any("413" in line and "too_large" in line for line in told)
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

    with serve_function(invoke) as url:
        threads = [threading.Thread(target=get, args=(url,)) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == [True] * 16


def test_a_port_that_is_taken_is_said() -> None:
    with serve_function(lambda sent: None) as url:
        port = urlsplit(url).port or 0
        with (
            pytest.raises(EnvironmentSetupError, match=f"port {port} is in use; pass --port"),
            serve_function(lambda sent: None, port),
        ):
            pass


class Server:
    """The local server, and the bodies that reached the function."""

    def __init__(self, url: str, bodies: list[bytes]) -> None:
        self.address, self.bodies = (urlsplit(url).hostname, urlsplit(url).port), bodies

    def says(self, sent: bytes) -> list[int]:
        """The statuses of all that it answers to these bytes, read to the end of the connection."""
        got = b""
        # What it leaves unread makes the end of the connection a reset.
        with socket.create_connection(self.address, timeout=30) as connection, suppress(ConnectionError):
            connection.sendall(sent)
            with suppress(OSError):  # ENOTCONN after a reset, which is no ConnectionError
                connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65_536):
                got += part
        return [int(part[:3]) for part in got.split(b"HTTP/1.1 ")[1:]]


@contextmanager
def server_for(allowed: AllowedOrigins) -> Iterator[Server]:
    bodies: list[bytes] = []

    def invoke(sent: dict[str, Any]) -> Any:
        bodies.append(sent.get("body", "").encode())
        return {"statusCode": 200}

    with serve_function(invoke, allowed=allowed) as url:
        yield Server(url, bodies)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with server_for(LOOPBACK) as started:
        yield started


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """A server that a tunnel leads to, and whose caller is a page of another origin."""
    with server_for(AllowedOrigins(("tunnel.example",), ("https://app.example",))) as started:
        yield started


INNER = b"POST /inner HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\ninner"
"""What must not be taken for a request when it stands in the body of another one."""


def test_requests_one_after_the_other(server: Server) -> None:
    server.bodies.clear()
    assert server.says(INNER * 3) == [200] * 3
    assert server.bodies == [b"inner"] * 3


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (b"Content-Length: 5\r\nContent-Length: 0", 400),
        (b"Content-Length: 5\r\nContent-Length: 5", 400),
        (b"Content-Length: 5\r\ncontent-length: 0", 400),
        (b"Content-Length: 5, 5", 400),
        (b"Content-Length: +5", 400),
        (b"Content-Length: -5", 400),
        (b"Content-Length: 1e3", 400),
        (b"Content-Length: 0x5", 400),
        (b"Content-Length: 5_0", 400),
        (b"Content-Length: 5 0", 400),
        (b"Content-Length: \xb2", 400),
        (b"Content-Length:", 400),
        (b"Content-Length: " + b"9" * 5_000, 400),
        (b"Content-Length: " + b"0" * 5_000, 400),
        (b"Content-Length: %d" % (MAX_BODY + 1), 413),
        (b"Transfer-Encoding: chunked", 411),
        (b"Transfer-Encoding: identity", 411),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 5", 400),
        (b"Content-Length: 5\r\nTRANSFER-ENCODING: x", 400),
        (b"Content-Length : 5", 400),
        (b"X y: 1\r\nContent-Length: 5", 400),
        (b": 1\r\nContent-Length: 5", 400),
        (b"no header\r\nContent-Length: 5", 400),
        (b"A: b\r\n Content-Length: 5", 400),
        (b"A: b\r\n\tc", 400),
        (b"A: b\rContent-Length: 5", 400),
        (b"A: b\0", 400),
        (b"\r\n".join(b"A%d: b" % i for i in range(MOST_LINES + 1)), 431),
        (b"A: " + b"b" * LONGEST_HEAD, 431),
        (b"\r\n".join(b"A%d: " % i + b"b" * 40_000 for i in range(2)), 431),
    ],
)
def test_a_request_whose_end_is_in_doubt_is_refused(server: Server, lines: bytes, status: int) -> None:
    """And the connection with it: nothing after such headers is a request."""
    server.bodies.clear()
    assert server.says(b"POST / HTTP/1.1\r\n" + lines + b"\r\n\r\n" + INNER) == [status]
    assert server.bodies == []


@pytest.mark.parametrize(
    "sent",
    [
        b"POST / HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhalf",
        b"POST / HTTP/1.1\r\nContent-Length: 5",
        b"POST / HTTP/1.1\r\n",
    ],
)
def test_half_a_request_is_none(server: Server, sent: bytes) -> None:
    server.bodies.clear()
    assert server.says(sent) == [400]
    assert server.bodies == []


def test_a_body_that_is_refused_is_not_asked_for(server: Server) -> None:
    head = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    assert server.says(head % (MAX_BODY + 1)) == [413]
    assert server.says(head % 2 + b"xy") == [100, 200]


def test_a_text_that_json_makes_too_long_is_refused(server: Server) -> None:
    """Lambda's limit is on the event, in which a quotation mark has two bytes."""
    server.bodies.clear()
    text = b'"' * (MAX_REQUEST // 2)
    head = b"POST / HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(text)
    assert server.says(head + text) == [413]
    assert server.bodies == []


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (b"Host: localhost:8080", 200),
        (b"Host: LOCALHOST.", 200),
        (b"Host: 127.0.0.1:8080\r\nOrigin: http://127.0.0.1:3000", 200),
        (b"Host: [::1]:8080\r\nOrigin: http://[::1]:8080", 200),
        (b"Host: tunnel.example\r\nOrigin: https://tunnel.example", 200),
        (b"Host: localhost\r\nOrigin: https://app.example", 200),
        (b"Host: evil.example:8080", 403),
        (b"Host: localhost.evil.example", 403),
        (b"Host: localhost@evil.example", 403),
        (b"Host: 127.0.0.1.evil.example", 403),
        (b"Host: 192.168.1.5:8080", 403),
        (b"Host: localhost\r\nHost: evil.example", 403),
        (b"Host: [::1", 403),
        (b"Host:", 403),
        (b"Host: localhost\r\nOrigin: https://evil.example", 403),
        (b"Host: localhost\r\nOrigin: https://app.example.evil.example", 403),
        (b"Host: localhost\r\nOrigin: http://app.example", 403),
        (b"Host: localhost\r\nOrigin: null", 403),
        (b"Host: localhost\r\nOrigin:", 403),
    ],
)
def test_pages_of_other_sites_do_not_reach_the_function(guarded: Server, lines: bytes, status: int) -> None:
    """Also where a site's own name leads to this machine."""
    guarded.bodies.clear()
    head = b"POST / HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n" + lines
    assert guarded.says(head + b"\r\n\r\nx") == [status]
    assert guarded.bodies == ([b"x"] if status == 200 else [])


@pytest.mark.parametrize(
    "sent",
    [
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.x\r\n\r\n",
        b"BREW / HTTP/1.1\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    ],
)
def test_every_refusal_is_json_and_is_told_in_a_line(sent: bytes) -> None:
    told: list[str] = []
    with serve_function(lambda event: {"statusCode": 200}, say=told.append) as url:
        address = urlsplit(url)
        with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
            connection.sendall(sent)
            reply = http.client.HTTPResponse(connection)
            reply.begin()
            error = json.loads(reply.read())["error"]
    (line,) = told
    assert reply.headers["content-type"] == "application/json"
    assert f" {reply.status} " in line
    assert error["code"] in line
    assert line.isprintable()


def test_a_refusal_of_the_functions_is_told_with_its_reason() -> None:
    told: list[str] = []
    with serve_function(lambda event: {"statusCode": 400, "body": event["body"]}, say=told.append) as url:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=5)
        connection.request(
            "POST", "/", '{"error": {"code": "a", "message": "b\x1b[2J"}}', {"Content-Type": "text/plain"}
        )
        connection.getresponse().read()
        connection.close()
    (line,) = told
    assert line.endswith(' ms {"error": {"code": "a", "message": "b\\x1b[2J"}}')


@pytest.mark.parametrize("sent", [b"", b"POST / HT", b"POST / HTTP/1.1\r\nA: b\r\n", INNER[:-1], INNER])
def test_callers_that_never_finish_are_hung_up_on(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """And with as many of them as there are threads, the next caller is answered."""
    monkeypatch.setattr(local_http, "CALLER_SECONDS", 0.3)
    monkeypatch.setattr(local_http, "MOST_CALLERS", 2)
    with serve_function(lambda event: {"statusCode": 200}) as url:
        address = (urlsplit(url).hostname, urlsplit(url).port)
        idle = [socket.create_connection(address, timeout=30) for _ in range(2)]
        for one in idle:
            one.sendall(sent)
        assert Server(url, []).says(INNER) == [200]
        for one in idle:
            while one.recv(65_536):
                pass
            one.close()


def test_a_byte_now_and_then_does_not_keep_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_http, "CALLER_SECONDS", 0.3)
    with serve_function(lambda event: {"statusCode": 200}) as url:
        address = (urlsplit(url).hostname, urlsplit(url).port)
        sent = 0
        with socket.create_connection(address, timeout=30) as connection, suppress(OSError):
            connection.sendall(b"GET /")
            while sent < 1_000:
                connection.sendall(b"a")
                sent += 1
                time.sleep(0.02)
    assert sent < 1_000


def test_a_caller_beyond_the_last_thread_is_hung_up_on() -> None:
    with serve_function(lambda event: {"statusCode": 200}) as url, ExitStack() as stack:
        address = (urlsplit(url).hostname, urlsplit(url).port)
        for _ in range(local_http.MOST_CALLERS):
            stack.enter_context(socket.create_connection(address, timeout=30))
        assert Server(url, []).says(INNER) == []


def test_a_caller_who_has_gone_leaves_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    gone = threading.Event()

    def invoke(sent: dict[str, Any]) -> Any:
        assert gone.wait(30)
        return {"statusCode": 200, "body": "x" * 5_000_000}

    with serve_function(invoke, say=told.append) as url:
        connection = socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=30)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # closing resets it
        connection.sendall(INNER)
        connection.close()
        gone.set()
        assert Server(url, []).says(INNER) == [200]
    assert [line.partition(" 200 ")[0] for line in told] == ["POST /inner"] * 2
    assert "Traceback" not in "".join(capfd.readouterr())
