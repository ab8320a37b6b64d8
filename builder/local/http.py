"""A bundle behind a URL on this machine: sockets become the events of a Function URL, and back.

``make serve`` puts this before the function in Lambda's emulator; no Docker, and no AWS.
"""

from __future__ import annotations

import base64
import binascii
import errno
import io
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote

from builder.errors import EnvironmentSetupError
from builder.local.framing import Refusal, read_head

Invoke = Callable[[dict[str, Any]], Any]
"""The function: takes an event, gives its answer."""

Say = Callable[[str], None]

MAX_EVENT = 6_291_556
"""Bytes of JSON that Lambda takes; its emulator cuts off what is more."""

MAX_BODY = MAX_EVENT * 3 // 4 - 4096
"""Bytes: what is left of Lambda's limit on an event once the body is base64 and the headers are in."""

BAD_GATEWAY = {"statusCode": 502, "body": '{"message": "the function failed; see its log"}'}


def event(method: str, target: str, headers: Message, body: bytes, request_id: str) -> dict[str, Any]:
    """The event of a Function URL (payload format 2.0) for one request. ``target``: path and query, as sent."""
    path, _, query = target.partition("?")
    values: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        values[name] = f"{values[name]},{value}" if name in values else value
    names = {name.lower() for name in headers}
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": unquote(path),
        "rawQueryString": query,
        "headers": {name: ",".join(headers.get_all(name, [])) for name in sorted(names)},
        **({"queryStringParameters": values} if values else {}),
        "requestContext": {
            "accountId": "anonymous",
            "apiId": "local",
            "domainName": headers.get("host", "localhost"),
            "domainPrefix": "local",
            "http": {
                "method": method,
                "path": unquote(path),
                "protocol": "HTTP/1.1",
                "sourceIp": "127.0.0.1",
                "userAgent": headers.get("user-agent", ""),
            },
            "requestId": request_id,
            "routeKey": "$default",
            "stage": "$default",
            "time": time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime()),
            "timeEpoch": int(time.time() * 1000),
        },
        **_body(headers.get_content_type() if "content-type" in names else "", body),
    }


def _body(media: str, body: bytes) -> dict[str, Any]:
    """Text as it is and anything else as base64, as AWS has it."""
    if not body:
        return {"isBase64Encoded": False}
    if media.startswith("text/") or media in ("application/json", "application/xml", "application/javascript"):
        try:
            return {"body": body.decode(), "isBase64Encoded": False}
        except UnicodeDecodeError:
            pass
    return {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}


def response(answer: Any) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the function's answer; 502 for one that is none, as AWS gives it."""
    if not isinstance(answer, dict) or not isinstance(answer.get("statusCode"), int):
        answer = BAD_GATEWAY
    body = str(answer.get("body") or "").encode()
    try:
        body = base64.b64decode(body, validate=True) if answer.get("isBase64Encoded") else body
    except binascii.Error:
        return response(None)
    return answer["statusCode"], {"content-type": "application/json", **(answer.get("headers") or {})}, body


@contextmanager
def serving(invoke: Invoke, port: int = 0, say: Say = lambda line: None) -> Iterator[str]:
    """Serve the function on 127.0.0.1 until the end of the block; gives the URL. ``port`` 0 takes a free one.

    An instance of a function has one request at a time, so they wait for each other. ``say`` gets a line for each.
    Raises EnvironmentSetupError.
    """
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler(invoke, say))
    except OSError as error:
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        raise EnvironmentSetupError(f"port {port} {why}; pass --port.") from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def _handler(invoke: Invoke, say: Say) -> type[BaseHTTPRequestHandler]:
    turn = threading.Lock()
    numbers = itertools.count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version, sys_version = "coldforge", ""

        def parse_request(self) -> bool:
            """Of the request line only if the headers are refused, so that no "100 Continue" is sent."""
            stream, head = self.rfile, read_head(self.rfile, MAX_BODY)
            self.rfile = io.BytesIO(b"\r\n" if isinstance(head, Refusal) else b"".join(head.lines))
            try:
                parsed = super().parse_request()
            finally:
                self.rfile = stream
            if parsed and isinstance(head, Refusal):
                self._refuse(*head)
                return False
            self._length = 0 if isinstance(head, Refusal) else head.length
            return parsed

        def _serve(self) -> None:
            body = self.rfile.read(self._length)
            if len(body) < self._length:
                return self._refuse(400, "the body ended early")
            began = time.perf_counter()
            with turn:
                sent = event(self.command, self.path, self.headers, body, f"local-{next(numbers)}")
                if len(json.dumps(sent)) > MAX_EVENT:
                    return self._refuse(413, f"Lambda takes events of at most {MAX_EVENT:,} bytes")
                try:
                    status, headers, content = response(invoke(sent))
                except EnvironmentSetupError as error:
                    say(str(error))
                    status, headers, content = response(None)
            say(f"{self.command} {self.path} {status} {(time.perf_counter() - began) * 1000:.1f} ms")
            self._send(status, headers, content)

        def _refuse(self, status: int, message: str) -> None:
            self.close_connection = True  # the body stays unread
            self._send(status, {"content-type": "text/plain", "connection": "close"}, message.encode())

        def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: ``say`` has told it."""

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = _serve

    return Handler
