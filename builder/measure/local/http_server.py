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
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote

from builder.base.errors import EnvironmentSetupError, UsageError
from builder.base.escape import escape_invisible
from builder.measure.local.emulator import MAX_REQUEST
from builder.measure.local.request_check import LOOPBACK, AllowedOrigins, RequestRefusal, read_head

Invoke = Callable[[dict[str, Any]], Any]
"""Function that answers an event."""

Say = Callable[[str], None]

MAX_BODY = MAX_REQUEST * 3 // 4 - 4096
"""Largest body in bytes: the rest of Lambda's limit on an event once the body is base64 and the headers are in."""

CALLER_SECONDS = 30.0
"""Time limit of a caller for a request, for the pause between two, and for reading an answer."""

LINGER_SECONDS = 2.0
"""Time for which the rest of a refused request is read and dropped."""

REASON = 500
"""Number of characters of an answer that are shown for a refused request."""

MOST_CALLERS = 32
"""Largest number of connections at once, each of which has a thread."""


def make_url_event(method: str, target: str, headers: Message, body: bytes, request_id: str) -> dict[str, Any]:
    """Make the event of a Function URL (payload format 2.0) for one request. ``target``: path and query, as sent."""
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
        **_encode_body(headers.get_content_type() if "content-type" in names else "", body),
    }


def _encode_body(media: str, body: bytes) -> dict[str, Any]:
    """Return text as it is and anything else as base64, as AWS does."""
    if not body:
        return {"isBase64Encoded": False}
    if media.startswith("text/") or media in ("application/json", "application/xml", "application/javascript"):
        with suppress(UnicodeDecodeError):
            return {"body": body.decode(), "isBase64Encoded": False}
    return {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}


def parse_response(answer: Any) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of the function's answer; 502 for an invalid one, as AWS gives it."""
    if not isinstance(answer, dict) or not isinstance(answer.get("statusCode"), int):
        answer = {"statusCode": 502, "body": '{"message": "the function failed; see its log"}'}
    body = str(answer.get("body") or "").encode()
    try:
        body = base64.b64decode(body, validate=True) if answer.get("isBase64Encoded") else body
    except binascii.Error:
        return parse_response(None)
    return answer["statusCode"], {"content-type": "application/json", **(answer.get("headers") or {})}, body


@contextmanager
def serve_function(
    invoke: Invoke, port: int = 0, say: Say = lambda line: None, *, allowed: AllowedOrigins = LOOPBACK
) -> Iterator[str]:
    """Serve the function on 127.0.0.1 until the end of the block; yield the URL. ``port`` 0 takes a free one.

    An instance of a function handles one request at a time, so requests wait for each other. ``say`` gets a line for
    each. Raises EnvironmentSetupError.
    """
    try:
        server = _FunctionServer(("127.0.0.1", port), _make_handler(invoke, say, allowed), say)
    except OSError as error:
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        raise EnvironmentSetupError(f"port {port} {why}; pass --port.") from error
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


class _FunctionServer(ThreadingHTTPServer):
    """A server with a thread for each of at most ``MOST_CALLERS`` connections; it closes any further connection."""

    daemon_threads = True
    request_queue_size = MOST_CALLERS

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], say: Say) -> None:
        super().__init__(address, handler)
        self._say = say
        self._free = threading.Semaphore(MOST_CALLERS)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Reserve a thread for the connection, and wait a moment for one to become free."""
        return self._free.acquire(timeout=1)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error in one line, unless the caller has gone."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self._say(f"a request failed: {error!r}")


@contextmanager
def _limit_reading(connection: socket.socket, seconds: float) -> Iterator[None]:
    """Stop reading from a caller after ``seconds`` in this block; it can still be answered."""

    def end() -> None:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RD)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _make_handler(invoke: Invoke, say: Say, allowed: AllowedOrigins) -> type[BaseHTTPRequestHandler]:
    turn = threading.Lock()
    numbers = itertools.count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version, default_request_version = "HTTP/1.1", "HTTP/1.0"
        server_version, sys_version = "coldforge", ""
        timeout = CALLER_SECONDS

        def handle_one_request(self) -> None:
            with _limit_reading(self.connection, CALLER_SECONDS):
                super().handle_one_request()

        def parse_request(self) -> bool:
            """Parse the request line alone if the headers are refused, so that no "100 Continue" is sent."""
            stream, head = self.rfile, read_head(self.rfile, MAX_BODY)
            if not isinstance(head, RequestRefusal):
                head = allowed.check_request(head.values.get(b"host", []), head.values.get(b"origin", [])) or head
            self.rfile = io.BytesIO(b"\r\n" if isinstance(head, RequestRefusal) else b"".join(head.lines))
            try:
                parsed = super().parse_request()
            finally:
                self.rfile = stream
            if parsed and isinstance(head, RequestRefusal):
                self._refuse(*head)
                return False
            self._length = 0 if isinstance(head, RequestRefusal) else head.length
            return parsed

        def _serve(self) -> None:
            body = self.rfile.read(self._length)
            if len(body) < self._length:
                return self._refuse(400, "the body ended early")
            began = time.perf_counter()
            with turn:
                sent = make_url_event(self.command, self.path, self.headers, body, f"local-{next(numbers)}")
                if len(json.dumps(sent)) > MAX_REQUEST:
                    return self._refuse(413, f"Lambda takes events of at most {MAX_REQUEST:,} bytes")
                try:
                    status, headers, content = parse_response(invoke(sent))
                except (EnvironmentSetupError, UsageError) as error:
                    say(str(error))
                    status, headers, content = parse_response(None)
            reason = f" {content[:REASON].decode(errors='replace')}" if status >= 400 else ""
            took = (time.perf_counter() - began) * 1000
            say(escape_invisible(f"{self.command} {self.path} {status} {took:.1f} ms{reason}"))
            self._send(status, headers, content)

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            """Refuse a request that Python's own parser refuses, in JSON like every other refusal."""
            self._refuse(code, message or HTTPStatus(code).phrase)

        def _refuse(self, status: int, message: str) -> None:
            self.close_connection = True
            code = "too_large" if status == 413 else HTTPStatus(status).name.lower()
            error = {"code": code, "message": message, "type": "invalid_request_error"}
            tensors = any(part.startswith(("/v1/models", "/v2")) for part in self.requestline.split()[1:2])
            content = json.dumps({"error": message if tensors else error}).encode()  # as each protocol has it
            say(escape_invisible(f"{self.requestline[:REASON]} {status} {content.decode()}"))
            self._send(status, {"content-type": "application/json", "connection": "close"}, content)
            # A caller that still sends would not look at the answer if the connection broke off.
            with suppress(OSError), _limit_reading(self.connection, LINGER_SECONDS):
                self.connection.shutdown(socket.SHUT_WR)
                while self.rfile.read(65_536):
                    pass

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
            """Log nothing, as ``say`` has reported the request."""

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = _serve

    return Handler
