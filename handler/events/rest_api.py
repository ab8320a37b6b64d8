"""API Gateway's REST API, and an HTTP API with payload format 1.0."""

from __future__ import annotations

from ..http import HttpRequest
from ..server import Call, Server
from ..typed import Any
from .gateway import body, joined, last, routed, served, single, text_or_base64, unquoted, without_stage


def matches(event: dict[str, Any]) -> bool:
    context = event["requestContext"]
    return isinstance(context, dict) and "httpMethod" in event and "elb" not in context


def handle(event: dict[str, Any], server: Server, call: Call) -> dict[str, Any]:
    call = call.correlated(event["requestContext"].get("requestId"))
    response = served(event, "API Gateway", _request, server, call)
    text, encoded = text_or_base64(response)
    return {"statusCode": response.status, "headers": response.headers, "body": text, "isBase64Encoded": encoded}


def _request(event: dict[str, Any]) -> HttpRequest:
    # "path" has the base path of a custom domain, and with payload format 1.0 the stage: the route has neither.
    path = routed(event.get("resource"), event.get("pathParameters")) or without_stage(event, event["path"])
    return HttpRequest(
        method=str(event["httpMethod"]),
        path=unquoted(path),
        query=last(event.get("multiValueQueryStringParameters")) or dict(event.get("queryStringParameters") or {}),
        headers=joined(event.get("multiValueHeaders")) or single(event.get("headers")),
        body=body(event),
    )
