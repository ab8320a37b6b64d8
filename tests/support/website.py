"""An https server on this machine that serves files in ranges, and may be made to fail."""

from __future__ import annotations

import hashlib
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

from tests.support import local_server

TLS = Path(__file__).parents[1] / "data" / "tls"
AUTHORITY = TLS / "ca.pem"
"""To be named in SSL_CERT_FILE."""


@dataclass(frozen=True)
class Asked:
    method: str
    path: str  # with the query
    headers: Mapping[str, str]  # names in lower case


Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Website:
    """``files`` by their paths, without query. ``answers`` come instead of a file. ``cuts``: after how many bytes of a
    body the next answers break off. ``tag``: whether files have an ETag.
    """

    port: int
    encrypted: bool = True
    files: dict[str, bytes] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    requests: list[Asked] = field(default_factory=list)
    tag: bool = True

    @property
    def origin(self) -> str:
        return f"http{'s' * self.encrypted}://localhost:{self.port}"

    def paths(self, method: str = "GET") -> list[str]:
        return [asked.path for asked in self.requests if asked.method == method]


def says(status: int, body: bytes = b"", **headers: str) -> Answer:
    """An answer of ``body``. Names of headers have ``_`` for ``-``."""

    def answer(to: BaseHTTPRequestHandler) -> None:
        to.send_response(status)
        for name, value in headers.items():
            to.send_header(name.replace("_", "-"), value)
        to.send_header("Content-Length", str(len(body)))
        to.end_headers()
        if to.command != "HEAD":
            to.wfile.write(body)

    return answer


@contextmanager
def website(*, encrypted: bool = True) -> Iterator[Website]:
    """The server, for the length of the block."""
    site = Website(0, encrypted)

    class Handler(local_server.Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            site.requests.append(Asked(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
            self.close_connection = True
            path = urlsplit(self.path).path
            with suppress(OSError):  # whoever asked may have gone
                if answer := site.answers.get(path):
                    answer(self)
                elif path in site.files:
                    self._file(site.files[path])
                else:
                    says(404)(self)

        do_HEAD = do_GET

        def _file(self, data: bytes) -> None:
            tag = f'"{hashlib.md5(data).hexdigest()}"'
            span = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            begin = int(span[1]) if span and self.headers.get("If-Range") in (None, tag) else 0
            if begin and begin >= len(data):
                says(416, Content_Range=f"bytes */{len(data)}")(self)
                return
            self.send_response(206 if begin else 200)
            if site.tag:
                self.send_header("ETag", tag)
            if begin:
                self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(data) - begin))
            self.end_headers()
            if self.command != "HEAD":
                end = begin + site.cuts.pop(0) if site.cuts else len(data)
                self.wfile.write(data[begin:end])

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "server.pem")
    with local_server.serve(Handler, context if encrypted else None) as site.port:
        yield site
