"""The protocols without a network: HTTP requests to a server around a small real library."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builder.measure.local.http_server import serve_function
from builder.package.openapi import make_document, write_document
from handler.budget import RequestLimits
from handler.errors import Refusal, make_refusal
from handler.events import answer_event
from handler.http import HttpRequest, HttpResponse
from handler.model import Model
from handler.protocols import respond_to_request
from handler.server import Invocation, Server
from tests.support import abi_library


@dataclass
class Client:
    """Sends requests as an event adapter does. ``failures``: what was no fault of the caller's."""

    server: Server
    failures: list[Exception] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Write what a build puts beside the library, where no build has been."""
        if not ((folder := Path(self.server.find_model(None).folder)) / "openapi.json").exists():
            models = [self.server.find_description(name) for name in self.server.models]
            write_document(folder, make_document(models, self.server.limits))

    @classmethod
    def of(cls, folder: Path, *descriptions: dict[str, Any], limits: RequestLimits | None = None) -> Client:
        models = {
            d["model"]["name"]: Model(str(abi_library.build(folder / d["model"]["name"], d))) for d in descriptions
        }
        return cls(Server(models, limits or RequestLimits()))

    def send(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None, **query: str
    ) -> HttpResponse:
        return respond_to_request(HttpRequest(method, path, query, headers or {}, body), self.server, self.call())

    def call(self) -> Invocation:
        def refuse(error: Exception) -> Refusal:
            answer = make_refusal(error, "request-1")
            if answer.status == 500:
                self.failures.append(error)
            return answer

        return Invocation("request-1", False, lambda: 15_000, lambda result: None, refuse)

    def get(self, path: str) -> Any:
        response = self.send("GET", path)
        assert response.status == 200, response
        return json.loads(response.body)

    def post(self, path: str, body: Any, **query: str) -> tuple[int, Any]:
        """The status, and the answer as JSON."""
        headers = {"content-type": "application/json"}
        response = self.send("POST", path, json.dumps(body).encode(), headers, **query)
        return response.status, json.loads(response.body)


@contextmanager
def served(client: Client) -> Iterator[str]:
    """The client's server behind a real socket, by way of Function URL events; its URL."""

    def invoke(event: dict[str, Any]) -> Any:
        return answer_event(json.loads(json.dumps(event)), client.server, client.call())

    with serve_function(invoke) as url:
        yield url
