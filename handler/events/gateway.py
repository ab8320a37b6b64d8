"""The common parts of the events that carry HTTP."""

from __future__ import annotations

import binascii
from collections.abc import Callable

from ..errors import MalformedEventError, event_from
from ..http import HttpRequest, HttpResponse
from ..protocols import respond_to_request
from ..server import Invocation, Server
from ..typed import Any


def serve_event(
    event: dict[str, Any], sender: str, parse: Callable[[dict[str, Any]], HttpRequest], server: Server, call: Invocation
) -> HttpResponse:
    """Return the protocols' answer to the request that ``parse`` reads from the event; 400 if it cannot."""
    try:
        with event_from(sender):
            request = parse(event)
    except MalformedEventError as error:
        from ..protocols import predict

        return predict.format_refusal(call.refuse(error))
    return respond_to_request(request, server, call)


def read_body(event: dict[str, Any]) -> bytes:
    """Return the bytes of the request's body, decoding base64 if the event says so. Raises MalformedEventError."""
    text = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return bytes(text.encode())
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise MalformedEventError("the body is not the base64 that the event says it is") from None


def lower_headers(headers: Any) -> dict[str, str]:
    """Return headers of one value each, by name in lower case."""
    return {str(name).lower(): str(value) for name, value in (headers or {}).items()}


def join_values(multiple: Any) -> dict[str, str]:
    """Convert ``{"Name": ["a", "b"]}`` to ``{"name": "a, b"}``."""
    return {str(name).lower(): ", ".join(map(str, values)) for name, values in (multiple or {}).items()}


def take_last_values(multiple: Any) -> dict[str, str]:
    """Convert ``{"name": ["a", "b"]}`` to ``{"name": "b"}``, the last value, as services that pass only one do."""
    return {str(name): str(values[-1]) for name, values in (multiple or {}).items() if values}


def find_routed_path(route: object, parameters: Any) -> str | None:
    """Return the path that a route like ``/v2/{proxy+}`` matched, without stage and base path, or None."""
    if not isinstance(route, str) or not route.startswith("/"):
        return None
    for name, value in (parameters or {}).items():
        route = route.replace(f"{{{name}+}}", str(value).lstrip("/")).replace(f"{{{name}}}", str(value))
    return None if "{" in route else route


def remove_stage(event: dict[str, Any], path: Any) -> str:
    """Return ``path`` without a leading name of the API's stage."""
    stage = f"/{event['requestContext'].get('stage')}"
    text = str(path)
    return text[len(stage) :] or "/" if text == stage or text.startswith(f"{stage}/") else text


def unquote_text(text: str) -> str:
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text)


def encode_body(response: HttpResponse) -> tuple[str, bool]:
    """Return the body as events carry it, and whether it is base64."""
    if response.is_text:
        return response.body.decode(), False
    return binascii.b2a_base64(response.body, newline=False).decode(), True
