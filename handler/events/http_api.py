"""Events of a Function URL or of API Gateway's HTTP API: payload format 2.0."""

from __future__ import annotations

from ..http import HttpRequest
from ..server import Invocation, Server
from ..typed import Any
from .gateway import encode_body, find_routed_path, lower_headers, read_body, remove_stage, serve_event, unquote_text


def matches_event(event: dict[str, Any]) -> bool:
    context = event["requestContext"]
    return isinstance(context, dict) and "http" in context


def handle_event(event: dict[str, Any], server: Server, call: Invocation) -> dict[str, Any]:
    call = call.with_correlation_id(event["requestContext"].get("requestId"))
    response = serve_event(event, "API Gateway", _parse_request, server, call)
    text, encoded = encode_body(response)
    return {"statusCode": response.status, "headers": response.headers, "body": text, "isBase64Encoded": encoded}


def _parse_request(event: dict[str, Any]) -> HttpRequest:
    _, _, route = str(event.get("routeKey")).partition(" ")
    return HttpRequest(
        method=str(event["requestContext"]["http"]["method"]),
        path=unquote_text(
            find_routed_path(route, event.get("pathParameters")) or remove_stage(event, event["rawPath"])
        ),
        # Repeated parameters arrive joined by commas.
        query=dict(event.get("queryStringParameters") or {}),
        headers=lower_headers(event.get("headers")),
        body=read_body(event),
    )
