"""A server on this machine for the length of a block, by a handler of ``http.server``."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """A handler that logs nothing."""

    def log_message(self, *_: object) -> None:
        pass


class Files(Handler, SimpleHTTPRequestHandler):
    """Serve the files of a folder."""


@contextmanager
def serve(handler: Callable[..., BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve by ``handler``, encrypted where ``tls`` is given, and yield the port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
