"""Events of API Gateway's REST API, and of an HTTP API with payload format 1.0."""

from __future__ import annotations

from ..http import HttpRequest
from ..server import Invocation, Server
from ..typed import Any
from .gateway import (
    encode_body,
    find_routed_path,
    join_values,
    lower_headers,
    read_body,
    remove_stage,
    serve_event,
    take_last_values,
    unquote_text,
)


def matches_event(event: dict[str, Any]) -> bool:
    context = event["requestContext"]
    return isinstance(context, dict) and "httpMethod" in event and "elb" not in context


def handle_event(event: dict[str, Any], server: Server, call: Invocation) -> dict[str, Any]:
    call = call.with_correlation_id(event["requestContext"].get("requestId"))
    response = serve_event(event, "API Gateway", _parse_request, server, call)
    text, encoded = encode_body(response)
    return {"statusCode": response.status, "headers": response.headers, "body": text, "isBase64Encoded": encoded}


def _parse_request(event: dict[str, Any]) -> HttpRequest:
    # "path" has the base path of a custom domain, and with payload format 1.0 the stage: the route has neither.
    path = find_routed_path(event.get("resource"), event.get("pathParameters")) or remove_stage(event, event["path"])
    return HttpRequest(
        method=str(event["httpMethod"]),
        path=unquote_text(path),
        query=take_last_values(event.get("multiValueQueryStringParameters"))
        or dict(event.get("queryStringParameters") or {}),
        headers=join_values(event.get("multiValueHeaders")) or lower_headers(event.get("headers")),
        body=read_body(event),
    )
