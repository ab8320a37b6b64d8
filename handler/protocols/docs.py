"""``GET /docs``: the OpenAPI description as a page for people, without scripts and without anything from elsewhere."""

from __future__ import annotations

import json

from ..http import HttpResponse
from ..typed import Any

POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def render_page(document: dict[str, Any]) -> HttpResponse:
    """Return the page of an OpenAPI ``document``: each path with its requests and answers as JSON schemas."""
    parts = [f"<p>{_text(document['info']['description'])} For programs: <a href=openapi.json>openapi.json</a></p>"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {_text(path)}</code></h2><p>{_text(operation['summary'])}</p>")
            parts += [
                _details(key, operation[key]) for key in ("parameters", "requestBody", "responses") if key in operation
            ]
    parts.append(_details("schemas", document["components"]["schemas"]))
    title = _text(document["info"]["title"])
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><main><h1>{title}</h1>'
    headers = {"content-type": "text/html; charset=utf-8", "content-security-policy": POLICY}
    return HttpResponse(200, headers, (head + "".join(parts) + "</main></html>").encode())


def _details(name: str, value: object) -> str:
    return f"<details><summary>{name}</summary><pre>{_text(json.dumps(value, indent=1))}</pre></details>"


def _text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
