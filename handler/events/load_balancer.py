"""An Application Load Balancer's target group, with or without multi-value headers."""

from __future__ import annotations

from http import HTTPStatus

from ..answer import LOAD_BALANCER_LIMIT
from ..http import HttpRequest, HttpResponse
from ..server import Call, Server
from ..typed import Any
from .gateway import body, joined, last, served, single, text_or_base64, unquoted


def matches(event: dict[str, Any]) -> bool:
    context = event["requestContext"]
    return isinstance(context, dict) and "elb" in context


def handle(event: dict[str, Any], server: Server, call: Call) -> dict[str, Any]:
    multiple = "multiValueHeaders" in event  # the target group's setting, which the answer has to follow
    headers = _headers(event)
    call = call.correlated(headers.get("x-amzn-trace-id"))
    if headers.get("user-agent", "").startswith("ELB-HealthChecker/"):
        # That the function runs is what is asked: the model was opened when it started, whatever the path.
        response = HttpResponse.of_json({"status": "healthy"})
    else:
        response = served(event, "the load balancer", _request, server, call)
    text, encoded = text_or_base64(response)
    told: dict[str, Any] = {name: [value] for name, value in response.headers.items()} if multiple else response.headers
    return {
        "statusCode": response.status,
        "statusDescription": f"{response.status} {HTTPStatus(response.status).phrase}",
        "multiValueHeaders" if multiple else "headers": told,
        "body": text,
        "isBase64Encoded": encoded,
    }


def _headers(event: dict[str, Any]) -> dict[str, str]:
    try:
        return joined(event["multiValueHeaders"]) if "multiValueHeaders" in event else single(event.get("headers"))
    except (AttributeError, TypeError):
        return {}


def _request(event: dict[str, Any]) -> HttpRequest:
    """Unlike API Gateway it passes the query as it stands in the URL, encoded."""
    query = last(event.get("multiValueQueryStringParameters")) or event.get("queryStringParameters") or {}
    return HttpRequest(
        method=str(event["httpMethod"]),
        path=unquoted(str(event["path"])),
        query={unquoted(name): unquoted(value.replace("+", " ")) for name, value in query.items()},
        headers=joined(event["multiValueHeaders"]) if "multiValueHeaders" in event else single(event.get("headers")),
        body=body(event),
        answer_limit=LOAD_BALANCER_LIMIT,
    )
