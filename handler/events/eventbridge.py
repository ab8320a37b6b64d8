"""EventBridge: S3's "Object Created", or an event of your own whose ``detail`` is a request of our own protocol."""

from __future__ import annotations

from ..errors import event_from
from ..protocols import predict
from ..server import Call, Server
from ..typed import Any
from ..work import background
from .messages import tasks


def matches(event: dict[str, Any]) -> bool:
    return "source" in event and "detail" in event


def handle(event: dict[str, Any], server: Server, call: Call) -> dict[str, Any]:
    """The answers to all that the event asks for. Raises RetryLater where one may succeed later."""
    try:
        with event_from("EventBridge"):
            name = str(event["id"])
        call = call.correlated(name)
        found = tasks(event)
    except Exception as error:
        return predict.error(call.refuse(error))
    return background(found, name, server, call)
