"""A Function URL or API Gateway's HTTP API: payload format 2.0."""

from __future__ import annotations

import base64
from typing import Any

from ..http import HttpRequest
from ..protocols import respond
from ..server import Call, Server


def matches(event: object) -> bool:
    context = event.get("requestContext") if isinstance(event, dict) else None
    return isinstance(context, dict) and "http" in context


def handle(event: Any, server: Server, call: Call) -> dict[str, Any]:
    response = respond(_request(event), server, call)
    body = response.body.decode() if response.is_text else base64.b64encode(response.body).decode()
    return {
        "statusCode": response.status,
        "headers": response.headers,
        "body": body,
        "isBase64Encoded": not response.is_text,
    }


def _request(event: dict[str, Any]) -> HttpRequest:
    http = event["requestContext"]["http"]
    text = event.get("body") or ""
    return HttpRequest(
        method=http["method"],
        path=event["rawPath"],
        query=event.get("queryStringParameters") or {},
        headers=event.get("headers") or {},
        body=base64.b64decode(text) if event.get("isBase64Encoded") else text.encode(),
    )
