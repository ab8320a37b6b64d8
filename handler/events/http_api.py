"""A Function URL or API Gateway's HTTP API: payload format 2.0."""

from __future__ import annotations

import base64
from typing import Any

from ..errors import WrongTypeError
from ..http import HttpRequest
from ..protocols import respond
from ..server import Call, Server


def matches(event: object) -> bool:
    context = event.get("requestContext") if isinstance(event, dict) else None
    return isinstance(context, dict) and "http" in context


def handle(event: Any, server: Server, call: Call) -> dict[str, Any]:
    try:
        request = _request(event)
    except (ValueError, LookupError, TypeError, AttributeError):
        from ..protocols import predict

        response = predict.refuse(call.refuse(WrongTypeError("the event is not as API Gateway sends it")))
    else:
        response = respond(request, server, call)
    return {"statusCode": response.status, "headers": response.headers, "body": response.body.decode()}


def _request(event: dict[str, Any]) -> HttpRequest:
    http = event["requestContext"]["http"]
    text = event.get("body") or ""
    return HttpRequest(
        method=str(http["method"]),
        path=str(event["rawPath"]),
        query=_texts(event.get("queryStringParameters")),
        headers=_texts(event.get("headers")),
        body=base64.b64decode(text, validate=True) if event.get("isBase64Encoded") else text.encode(),
    )


def _texts(values: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in (values or {}).items()}
