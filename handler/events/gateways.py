"""Events that carry HTTP, from API Gateway, a Function URL, or a load balancer's target group.

Payload format 2.0 is that of a Function URL and of an HTTP API; 1.0 that of a REST API, and of an HTTP API that is set
to it. A load balancer's event is like the latter, with or without multi-value headers.
"""

from __future__ import annotations

import binascii

from ..answer import ANSWER_LIMIT, LOAD_BALANCER_LIMIT
from ..errors import MalformedEventError, event_from
from ..http import HttpRequest, HttpResponse
from ..protocols import predict, respond_to_request
from ..server import Invocation, Server
from ..typed import Any


def matches_event(event: dict[str, Any]) -> bool:
    """Return whether ``event`` carries HTTP."""
    context = event["requestContext"]
    return isinstance(context, dict) and ("http" in context or "elb" in context or "httpMethod" in event)


def handle_event(event: dict[str, Any], server: Server, call: Invocation) -> dict[str, Any]:
    """Answer the request in ``event`` in the form of its sender."""
    if _is_balanced(event):
        return _answer_load_balancer(event, server, call)
    call = call.with_correlation_id(event["requestContext"].get("requestId"))
    response = _serve_event(event, "API Gateway", server, call)
    return {"statusCode": response.status, "headers": response.headers, **_format_body(response)}


def _answer_load_balancer(event: dict[str, Any], server: Server, call: Invocation) -> dict[str, Any]:
    from http import HTTPStatus

    try:
        headers = _read_headers(event)
    except (AttributeError, TypeError):
        headers = {}
    call = call.with_correlation_id(headers.get("x-amzn-trace-id"))
    if headers.get("user-agent", "").startswith("ELB-HealthChecker/"):
        # The check only asks whether the function runs: the model was opened at the start, whatever the path.
        response = HttpResponse.from_json({"status": "healthy"})
    else:
        response = _serve_event(event, "the load balancer", server, call)
    head: dict[str, Any] = {"headers": response.headers}
    if "multiValueHeaders" in event:  # the target group's setting, which the answer has to follow
        head = {"multiValueHeaders": {name: [value] for name, value in response.headers.items()}}
    description = f"{response.status} {HTTPStatus(response.status).phrase}"
    return {"statusCode": response.status, "statusDescription": description, **head, **_format_body(response)}


def _is_balanced(event: dict[str, Any]) -> bool:
    """Return whether a load balancer sent ``event``."""
    return "elb" in event["requestContext"] and "http" not in event["requestContext"]


def _serve_event(event: dict[str, Any], sender: str, server: Server, call: Invocation) -> HttpResponse:
    """Return the protocols' answer to the request in ``event``; 400 if it cannot be read."""
    try:
        with event_from(sender):
            request = _parse_request(event)
    except MalformedEventError as error:
        return predict.format_refusal(call.refuse(error))
    return respond_to_request(request, server, call)


def _parse_request(event: dict[str, Any]) -> HttpRequest:
    context, query, limit = event["requestContext"], _read_query(event), ANSWER_LIMIT
    if "http" in context:
        method, path, route = context["http"]["method"], event["rawPath"], str(event.get("routeKey")).partition(" ")[2]
    else:  # the path has the base path of a custom domain, and in format 1.0 the stage: the route has neither
        method, path, route = event["httpMethod"], event["path"], str(event.get("resource"))
    if _is_balanced(event):  # unlike API Gateway, it passes the query as it stands in the URL, encoded
        query = {_unquote_text(name): _unquote_text(value.replace("+", " ")) for name, value in query.items()}
        limit = LOAD_BALANCER_LIMIT
    routed = _find_routed_path(route, event.get("pathParameters")) or _remove_stage(str(path), context)
    return HttpRequest(str(method), _unquote_text(routed), query, _read_headers(event), _read_body(event), limit)


def _read_body(event: dict[str, Any]) -> bytes:
    """Return the bytes of the request's body, decoding base64 if the event says so. Raises MalformedEventError."""
    text = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return bytes(text.encode())
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise MalformedEventError("the body is not the base64 that the event says it is") from None


def _read_headers(event: dict[str, Any]) -> dict[str, str]:
    """Return the headers by name in lower case, repeated ones joined."""
    multiple = event.get("multiValueHeaders") or {}
    joined = {str(name).lower(): ", ".join(map(str, values)) for name, values in multiple.items()}
    return joined or {str(name).lower(): str(value) for name, value in (event.get("headers") or {}).items()}


def _read_query(event: dict[str, Any]) -> dict[str, str]:
    """Return the query: of repeated parameters the last, or in format 2.0 all of them, which are joined by commas."""
    multiple = event.get("multiValueQueryStringParameters") or {}
    last = {str(name): str(values[-1]) for name, values in multiple.items() if values}
    return last or dict(event.get("queryStringParameters") or {})


def _find_routed_path(route: str, parameters: Any) -> str | None:
    """Return the path that a route like ``/v2/{proxy+}`` matched, without stage and base path, or None."""
    if not route.startswith("/"):
        return None
    for name, value in (parameters or {}).items():
        route = route.replace(f"{{{name}+}}", str(value).lstrip("/")).replace(f"{{{name}}}", str(value))
    return None if "{" in route else route


def _remove_stage(path: str, context: dict[str, Any]) -> str:
    """Return ``path`` without a leading name of the API's stage."""
    stage = f"/{context.get('stage')}"
    return path[len(stage) :] or "/" if path == stage or path.startswith(f"{stage}/") else path


def _unquote_text(text: str) -> str:
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text)


def _format_body(response: HttpResponse) -> dict[str, Any]:
    """Return the body as events carry it, in base64 if it is no text."""
    if response.is_text:
        return {"body": response.body.decode(), "isBase64Encoded": False}
    return {"body": binascii.b2a_base64(response.body, newline=False).decode(), "isBase64Encoded": True}
