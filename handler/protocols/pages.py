"""Files for people and their tools: ``/openapi.json`` and ``/docs`` describe the API, and ``/`` is to try the models.

builder/package/openapi.py writes the first two beside the first model's library. The playground, which is there if
``COLDFORGE_PLAYGROUND`` is on, is one file that loads no others.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import os

from ..description import Description
from ..errors import MethodNotAllowedError, NotDescribedError, NotFoundError
from ..http import HttpRequest, HttpResponse
from ..server import Invocation, Server
from ..typed import Any
from .predict import format_refusal as format_refusal

PLAYGROUND = __file__.rpartition("/")[0] + "/playground.html"
LARGEST_FORM = 256  # columns of a table
PLACE = '<script type="application/json" id="server">[]</script>'
_POLICY = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def handle_request(request: HttpRequest, server: Server, call: Invocation) -> HttpResponse:
    """Answer with one of the files. Raises NotFoundError, and NotDescribedError for a bundle without the first two."""
    if request.path == "/":
        return _show_playground(server)
    name = {"/openapi.json": "openapi.json", "/docs": "docs.html"}.get(request.path)
    if name is None:
        raise NotFoundError(request.path, server.models)
    path = os.path.join(server.find_model(None).folder, name)  # noqa: PTH118 - pathlib would be imported for this alone
    if not os.path.isfile(path):  # noqa: PTH113
        raise NotDescribedError(request.path)
    if request.method != "GET":
        raise MethodNotAllowedError(request.method, request.path, "GET")
    with open(path, "rb") as file:  # noqa: PTH123
        data = file.read()
    if name == "docs.html":
        return _make_page(data, "default-src 'none'")
    return HttpResponse(200, {"content-type": "application/json"}, data)


def _show_playground(server: Server) -> HttpResponse:
    with open(PLAYGROUND, encoding="utf-8") as file:  # noqa: PTH123
        page = file.read()
    described = [_describe_model(server.find_description(name)) for name in server.models]
    models = json.dumps(described).replace("<", "\\u003c")
    sources = (
        f"default-src 'none'; script-src {_hash_element(page, 'script')}; style-src {_hash_element(page, 'style')}; "
        "img-src blob: data:; connect-src 'self'"
    )
    return _make_page(page.replace(PLACE, PLACE.replace("[]", models)).encode(), sources)


def _make_page(data: bytes, sources: str) -> HttpResponse:
    """Return a response with HTML that may load from ``sources`` alone."""
    policy = f"{sources}; {_POLICY}"
    return HttpResponse(200, {"content-type": "text/html; charset=utf-8", "content-security-policy": policy}, data)


def _describe_model(description: Description) -> dict[str, Any]:
    image = description.image
    return {
        "name": description.name,
        "version": description.version,
        "image": image and {"width": image.width, "height": image.height, "mode": image.mode},
        "text": description.text_alone,
        "audio": description.audio and {"rate": description.audio.rate},
        "kinds": {output.name: output.kind for output in description.outputs},
        "feeds": [{"name": feed.name, "dtype": feed.dtype, "shape": feed.shape} for feed in description.feeds],
        "columns": _describe_columns(description),
    }


def _describe_columns(description: Description) -> list[dict[str, Any]] | None:
    """Describe the columns of a table that is no larger than a form can be; None for another model."""
    table = description.table
    if table is None or len(table.columns) > LARGEST_FORM:
        return None
    dtypes = {port.name: port.dtype for port in description.caller_inputs}
    return [
        {"name": name, "dtype": dtypes[table.feed or name], "categories": table.list_categories(name) or None}
        for name in table.columns
    ]


def _hash_element(page: str, tag: str) -> str:
    """Return the hash of the page's inline element ``tag``, for the content security policy."""
    content = page.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
    return f"'sha256-{binascii.b2a_base64(hashlib.sha256(content.encode()).digest(), newline=False).decode()}'"
