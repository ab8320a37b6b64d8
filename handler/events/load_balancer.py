"""Events of an Application Load Balancer's target group, with or without multi-value headers."""

from __future__ import annotations

from http import HTTPStatus

from ..answer import LOAD_BALANCER_LIMIT
from ..http import HttpRequest, HttpResponse
from ..server import Invocation, Server
from ..typed import Any
from .gateway import encode_body, join_values, lower_headers, read_body, serve_event, take_last_values, unquote_text


def matches_event(event: dict[str, Any]) -> bool:
    context = event["requestContext"]
    return isinstance(context, dict) and "elb" in context


def handle_event(event: dict[str, Any], server: Server, call: Invocation) -> dict[str, Any]:
    multiple = "multiValueHeaders" in event  # the target group's setting, which the answer has to follow
    headers = _headers(event)
    call = call.with_correlation_id(headers.get("x-amzn-trace-id"))
    if headers.get("user-agent", "").startswith("ELB-HealthChecker/"):
        # The check only asks whether the function runs: the model was opened at the start, whatever the path.
        response = HttpResponse.from_json({"status": "healthy"})
    else:
        response = serve_event(event, "the load balancer", _parse_request, server, call)
    text, encoded = encode_body(response)
    head: dict[str, Any] = {name: [value] for name, value in response.headers.items()} if multiple else response.headers
    return {
        "statusCode": response.status,
        "statusDescription": f"{response.status} {HTTPStatus(response.status).phrase}",
        "multiValueHeaders" if multiple else "headers": head,
        "body": text,
        "isBase64Encoded": encoded,
    }


def _headers(event: dict[str, Any]) -> dict[str, str]:
    try:
        return (
            join_values(event["multiValueHeaders"])
            if "multiValueHeaders" in event
            else lower_headers(event.get("headers"))
        )
    except (AttributeError, TypeError):
        return {}


def _parse_request(event: dict[str, Any]) -> HttpRequest:
    """Parse the request. Unlike API Gateway, a load balancer passes the query as it stands in the URL, encoded."""
    query = take_last_values(event.get("multiValueQueryStringParameters")) or event.get("queryStringParameters") or {}
    return HttpRequest(
        method=str(event["httpMethod"]),
        path=unquote_text(str(event["path"])),
        query={unquote_text(name): unquote_text(value.replace("+", " ")) for name, value in query.items()},
        headers=join_values(event["multiValueHeaders"])
        if "multiValueHeaders" in event
        else lower_headers(event.get("headers")),
        body=read_body(event),
        answer_limit=LOAD_BALANCER_LIMIT,
    )
