"""A Function URL's event (API Gateway's payload version 2.0) around the same request and answer."""

from __future__ import annotations

import base64
import json
from typing import Any

from .errors import HandlerError, WrongTypeError


def is_http(event: object) -> bool:
    """Whether ``event`` came over HTTP."""
    context = event.get("requestContext") if isinstance(event, dict) else None
    return isinstance(context, dict) and "http" in context


def body(event: dict[str, Any]) -> object:
    """The JSON that was sent. Raises WrongTypeError."""
    text = event.get("body") or ""
    try:
        return json.loads(base64.b64decode(text, validate=True) if event.get("isBase64Encoded") else text)
    except (ValueError, RecursionError):  # not base64, not UTF-8, or not JSON
        raise WrongTypeError('the body must be JSON like {"image": "<base64>"}') from None


def response(answer: dict[str, Any], error: Exception | None) -> dict[str, Any]:
    """``answer`` as a response; the status follows from ``error``, 500 for one that is not the caller's."""
    status = 200 if error is None else error.status if isinstance(error, HandlerError) else 500
    return {
        "statusCode": status,
        "headers": {"content-type": "application/json", "x-content-type-options": "nosniff"},
        "body": json.dumps(answer),
    }
