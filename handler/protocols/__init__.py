"""The protocols over HTTP, each a module: ``handle_request`` answers its paths, ``format_refusal`` formats an error.

A module is imported when its first request comes, so that an unused protocol does not slow down the cold start.
"""

from __future__ import annotations

import importlib
import os

from ..answer import require_size
from ..description import Description
from ..errors import MethodNotAllowedError, Refusal, UnknownModelError, WrongMediaTypeError
from ..http import HttpRequest, HttpResponse
from ..server import Invocation, Server
from ..typed import Any

SECURITY = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""The headers of every response, unless it sets its own."""

RETRY_AFTER = "1"
"""Seconds after which to repeat a request for which the time, or an image from S3, was missing."""

_MODULES = {"v1": "tf_serving", "v2": "open_inference", "openapi.json": "pages", "docs": "pages"}
"""The protocols by the first segment of the path."""


def respond_to_request(request: HttpRequest, server: Server, call: Invocation) -> HttpResponse:
    """Answer ``request``; an error becomes a response, too."""
    cors = importlib.import_module(".cors", __name__) if os.environ.get("COLDFORGE_CORS_ORIGINS") else None
    response: HttpResponse | None = cors.answer_preflight(request) if cors else None
    if response is None:
        response = _call_protocol(request, _find_protocol(request), server, call)
    headers = {**SECURITY, **response.headers, **(cors.make_headers(request) if cors else {})}
    return response._replace(headers=headers, body=b"" if request.method == "HEAD" else response.body)


def format_refusal(refusal: Refusal) -> HttpResponse:
    """Answer with the message alone."""
    return HttpResponse.from_json({"error": refusal.message}, refusal.status)


def split_model_path(path: str) -> tuple[str, str | None, list[str]] | None:
    """Return the name and version in a ``path`` like ``/v2/models/NAME[/versions/VERSION]``, and the segments after.

    Returns None for a path of no model.
    """
    match path.strip("/").split("/")[1:]:
        case ["models", name, "versions", version, *rest] if name and version:
            return name, version, rest
        case ["models", name, *rest] if name:
            return name, None, rest
    return None


def find_version(server: Server, name: str, version: str | None) -> Description:
    """Return the description of the model ``name``. Raises UnknownModelError, also where it has another version."""
    description = server.find_description(name)
    if version not in (None, description.version):
        raise UnknownModelError(f"{description.name} has only the version {description.version}")
    return description


def _find_protocol(request: HttpRequest) -> Any:
    """Return the module that serves the path; for an unknown one it is our own, which refuses it."""
    first = request.path.split("/")[1] if request.path.startswith("/") else ""
    name = _MODULES.get(first, "predict")
    if request.path == "/v1/embeddings":
        name = "openai"
    playground = os.environ.get("COLDFORGE_PLAYGROUND", "").lower() in ("1", "on", "true", "yes")
    if request.path == "/" and request.method in ("GET", "HEAD") and playground:
        name = "pages"
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
