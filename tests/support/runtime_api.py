"""Lambda's Runtime API for AWS's own client of it: several requests at once, and the moment of a snapshot.

The Runtime Interface Emulator has neither. https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from builder.measure.local.emulator import LambdaEmulator

SECONDS = 60
_END = object()


@dataclass
class RuntimeApi:
    """``polling``: how many processes wait for a request. ``snapshot``: set once the function is ready for one.

    ``restore``: to be set when it goes on from there. ``failed``: what it reported instead of an answer.
    """

    snapshot: threading.Event = field(default_factory=threading.Event)
    restore: threading.Event = field(default_factory=threading.Event)
    failed: list[Any] = field(default_factory=list)
    polling: int = 0
    process: subprocess.Popen[bytes] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _events: queue.Queue[Any] = field(default_factory=queue.Queue)
    _answers: dict[str, Future[Any]] = field(default_factory=dict)

    def send(self, event: Any) -> Future[Any]:
        """The function's answer to ``event``, once it is there."""
        name, answer = str(uuid.uuid4()), Future[Any]()
        self._answers[name] = answer
        self._events.put((name, json.dumps(event).encode()))
        return answer

    def wait(self, processes: int) -> None:
        """Until so many wait for a request."""
        end = time.monotonic() + SECONDS
        while self.polling < processes:
            assert time.monotonic() < end, f"{self.polling} of {processes} processes are ready"
            assert self.process is None or self.process.poll() is None, "the function ended"
            time.sleep(0.02)


@contextmanager
def running(function: LambdaEmulator, log: Path, **environment: str) -> Iterator[RuntimeApi]:
    """The function of ``function`` under AWS's client, without the emulator. Its output goes to ``log``."""
    api = RuntimeApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path.endswith("/restore/next"):
                api.snapshot.set()
                api.restore.wait(SECONDS)
                self._answer(200, b"")
                return
            with api._lock:
                api.polling += 1
            found = api._events.get()
            with api._lock:
                api.polling -= 1
            if found is _END:
                self.close_connection = True
                return
            name, body = found
            headers = {
                "Lambda-Runtime-Aws-Request-Id": name,
                "Lambda-Runtime-Deadline-Ms": str(int((time.time() + 15) * 1000)),
                "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:us-east-1:1:function:f",
                "Content-Type": "application/json",
            }
            self._answer(200, body, **headers)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"null")
            *_, name, kind = self.path.split("/")
            if kind == "response":
                api._answers[name].set_result(body)
            else:
                api.failed.append(body)
                if name in api._answers:
                    api._answers[name].set_exception(RuntimeError(str(body)))
            self._answer(202, b"")

        def _answer(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for header, value in headers.items():
                self.send_header(header, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A function that is ended leaves its connections as they are."""

    with Server(("127.0.0.1", 0), Handler) as server, log.open("wb") as out:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        variables = {
            **function.make_environment(log.parent),
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{server.server_port}",
        }
        command = [str(function.python.path), "-S", "-m", "awslambdaric", function.handler]
        api.process = subprocess.Popen(
            command, cwd=function.function, env=variables | environment, stdout=out, stderr=out, start_new_session=True
        )
        try:
            yield api
        finally:
            os.killpg(api.process.pid, signal.SIGKILL)  # its children wait for requests
            api.process.wait(SECONDS)
            for _ in range(api.polling):
                api._events.put(_END)
            server.shutdown()
