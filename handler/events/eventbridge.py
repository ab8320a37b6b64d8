"""EventBridge: S3's "Object Created", or an event of your own whose ``detail`` is a request of our own protocol."""

from __future__ import annotations

from typing import Any

from ..errors import shape_of
from ..protocols import predict
from ..server import Call, Server
from ..work import background, tasks


def matches(event: dict[str, Any]) -> bool:
    return "source" in event and "detail" in event


def handle(event: dict[str, Any], server: Server, call: Call) -> dict[str, Any]:
    """Raises RetryLater."""
    try:
        with shape_of("EventBridge"):
            name = str(event["id"])
        call = call.correlated(name)
        found = tasks(event)
    except Exception as error:
        return predict.error(call.refuse(error))
    return background(found, name, server, call)
