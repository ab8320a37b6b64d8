"""A Function URL or API Gateway's HTTP API: payload format 2.0."""

from __future__ import annotations

from ..http import HttpRequest
from ..server import Call, Server
from ..typed import Any
from .gateway import body, routed, served, single, text_or_base64, unquoted, without_stage


def matches(event: dict[str, Any]) -> bool:
    context = event["requestContext"]
    return isinstance(context, dict) and "http" in context


def handle(event: dict[str, Any], server: Server, call: Call) -> dict[str, Any]:
    call = call.correlated(event["requestContext"].get("requestId"))
    response = served(event, "API Gateway", _request, server, call)
    text, encoded = text_or_base64(response)
    return {"statusCode": response.status, "headers": response.headers, "body": text, "isBase64Encoded": encoded}


def _request(event: dict[str, Any]) -> HttpRequest:
    _, _, route = str(event.get("routeKey")).partition(" ")
    return HttpRequest(
        method=str(event["requestContext"]["http"]["method"]),
        path=unquoted(routed(route, event.get("pathParameters")) or without_stage(event, event["rawPath"])),
        # Repeated ones come joined by commas.
        query=dict(event.get("queryStringParameters") or {}),
        headers=single(event.get("headers")),
        body=body(event),
    )
