"""The OpenAPI document as a page for people, without scripts and external resources."""

from __future__ import annotations

import json
from html import escape
from typing import Any


def render_page(document: dict[str, Any]) -> str:
    """Return the page of an OpenAPI ``document``: each path with its requests and answers as JSON schemas."""
    parts = [f"<p>{escape(document['info']['description'])} For programs: <a href=openapi.json>openapi.json</a></p>"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation['summary'])}</p>")
            parts += [
                _format_details(key, operation[key])
                for key in ("parameters", "requestBody", "responses")
                if key in operation
            ]
    parts.append(_format_details("schemas", document["components"]["schemas"]))
    title = escape(document["info"]["title"])
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><main><h1>{title}</h1>'
    return f"{head}{''.join(parts)}</main></html>\n"


def _format_details(name: str, value: object) -> str:
    return f"<details><summary>{name}</summary><pre>{escape(json.dumps(value, indent=1))}</pre></details>"
