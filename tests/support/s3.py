"""An S3 of one process, for what boto3's client does with it: objects are got and put, and may be made to fail."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from tests.support import local_server

_ERROR = '<?xml version="1.0"?><Error><Code>{code}</Code><Message>of the test</Message></Error>'


@dataclass
class Bucket:
    """``objects`` by "bucket/key"; ``failing``: HTTP statuses of the next requests for such a name.

    ``cut``: so many of the next objects and ranges break off in the middle.
    """

    endpoint: str = ""
    objects: dict[str, bytes] = field(default_factory=dict, repr=False)
    failing: dict[str, list[int]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list, repr=False)
    cut: int = 0

    @property
    def environment(self) -> dict[str, str]:
        """What makes boto3 come here."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }


@contextmanager
def serving() -> Iterator[Bucket]:
    """The server at ``endpoint``, for the length of the block."""
    bucket = Bucket()

    class Handler(local_server.Handler):
        protocol_version = "HTTP/1.1"  # boto3 waits for its "100 Continue"

        def _failed(self, name: str) -> bool:
            bucket.requests.append(f"{self.command} {name}")
            statuses = bucket.failing.get(name)
            if statuses:
                self._answer(statuses.pop(0), _ERROR.format(code="OfTheTest").encode())
                return True
            return False

        def do_GET(self) -> None:
            name = unquote(urlsplit(self.path).path[1:])
            if not self._failed(name):
                data = bucket.objects.get(name)
                if data is not None:
                    self._answer_object(data)
                    return
                self._answer(404, _ERROR.format(code="NoSuchKey").encode())

        def _answer_object(self, data: bytes) -> None:
            tag = f'"{hashlib.md5(data).hexdigest()}"'
            if self.headers["if-match"] not in (None, tag):
                self._answer(412, _ERROR.format(code="PreconditionFailed").encode())
                return
            first, _, last = (self.headers["range"] or "").removeprefix("bytes=").partition("-")
            part = data[int(first or 0) : int(last) + 1 if last else len(data)]
            self.send_response(206 if first else 200)
            self.send_header("etag", tag)
            if first:
                self.send_header("content-range", f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}")
            self.send_header("content-length", str(len(part)))
            self.end_headers()
            bucket.cut, broken = max(0, bucket.cut - 1), bucket.cut > 0
            with suppress(ConnectionError):
                self.wfile.write(part[: len(part) // 2] if broken else part)
            self.close_connection = broken

        def do_PUT(self) -> None:
            name = unquote(urlsplit(self.path).path[1:])
            body = self.rfile.read(int(self.headers["content-length"]))
            if not self._failed(name):
                bucket.objects[name] = body
                self._answer(200, b"")

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):  # who finds an object too large reads no further
                self.wfile.write(body)

    with local_server.serve(Handler) as port:
        bucket.endpoint = f"http://127.0.0.1:{port}"
        yield bucket
