"""What is served over HTTP: a protocol is a module whose ``handle_request`` answers its paths, and whose
``format_refusal`` gives an error its shape.

A module is imported when its first request comes, so that a protocol nobody uses costs no cold start.
"""

from __future__ import annotations

import importlib
import os

from ..answer import require_size
from ..errors import MethodNotAllowedError, WrongMediaTypeError
from ..http import HttpRequest, HttpResponse
from ..server import Invocation, Server
from ..typed import Any

SECURITY = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Headers of every response that does not say otherwise."""

RETRY_AFTER = "1"
"""Seconds until a request that there was no time for, or whose picture S3 did not give, should be sent again."""

_MODULES = {"v1": "tf_serving", "v2": "open_inference", "openapi.json": "openapi", "docs": "openapi"}
"""By the first segment of the path."""


def respond_to_request(request: HttpRequest, server: Server, call: Invocation) -> HttpResponse:
    """Always a response, an error's too."""
    cors = importlib.import_module(".cors", __name__) if os.environ.get("COLDFORGE_CORS_ORIGINS") else None
    response: HttpResponse | None = cors.answer_preflight(request) if cors else None
    if response is None:
        response = _call_protocol(request, _find_protocol(request), server, call)
    headers = {**SECURITY, **response.headers, **(cors.make_headers(request) if cors else {})}
    return response._replace(headers=headers, body=b"" if request.method == "HEAD" else response.body)


def playground_enabled() -> bool:
    return os.environ.get("COLDFORGE_PLAYGROUND", "").lower() in ("1", "on", "true", "yes")


def _find_protocol(request: HttpRequest) -> Any:
    """The module that serves the path; our own also says that nothing does."""
    first = request.path.split("/")[1] if request.path.startswith("/") else ""
    name = _MODULES.get(first, "predict")
    if request.path == "/v1/embeddings":
        name = "openai"
    if request.path == "/" and request.method in ("GET", "HEAD") and playground_enabled():
        name = "playground"
    return importlib.import_module(f".{name}", __name__)


def _call_protocol(request: HttpRequest, protocol: Any, server: Server, call: Invocation) -> HttpResponse:
    if request.method == "HEAD":
        request = request._replace(method="GET")
    try:
        if request.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            raise WrongMediaTypeError("the body is compressed; send it as it is")
        response: HttpResponse = protocol.handle_request(request, server, call)
        require_size(response.carried, request.answer_limit)
        return response
    except Exception as error:
        refusal = call.refuse(error)
        refused: HttpResponse = protocol.format_refusal(refusal)
        if isinstance(error, MethodNotAllowedError):
            refused.headers["allow"] = error.allow
        if refusal.status == 503:
            refused.headers["retry-after"] = RETRY_AFTER
        return refused
