"""``GET /openapi.json`` and ``GET /docs``: the API's description, which builder/package/openapi.py writes."""

from __future__ import annotations

import os

from ..errors import MethodNotAllowedError, NotDescribedError, NotFoundError, Refusal
from ..http import HttpRequest, HttpResponse
from ..server import Invocation, Server
from . import predict

_HEADERS = {
    "openapi.json": {"content-type": "application/json"},
    "docs.html": {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    },
}
"""The headers of each file, which lies beside the first model's library."""


def handle_request(request: HttpRequest, server: Server, call: Invocation) -> HttpResponse:
    """Answer with one of the two files. Raises NotFoundError, and NotDescribedError for a bundle without them."""
    name = {"/openapi.json": "openapi.json", "/docs": "docs.html"}.get(request.path)
    if name is None:
        raise NotFoundError(request.path, server.models)
    path = os.path.join(server.find_model(None).folder, name)  # noqa: PTH118 - pathlib would be imported for this alone
    if not os.path.isfile(path):  # noqa: PTH113
        raise NotDescribedError(request.path)
    if request.method != "GET":
        raise MethodNotAllowedError(request.method, request.path, "GET")
    with open(path, "rb") as file:  # noqa: PTH123
        return HttpResponse(200, dict(_HEADERS[name]), file.read())


def format_refusal(refusal: Refusal) -> HttpResponse:
    """Answer with an error in the form of ``/predict``."""
    return predict.format_refusal(refusal)
