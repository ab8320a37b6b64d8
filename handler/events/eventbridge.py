"""EventBridge: S3's "Object Created", or an event of your own whose ``detail`` is a request of our own protocol."""

from __future__ import annotations

from ..errors import event_from
from ..protocols import predict
from ..server import Invocation, Server
from ..typed import Any
from ..work import answer_all_tasks
from .messages import find_tasks


def matches_event(event: dict[str, Any]) -> bool:
    return "source" in event and "detail" in event


def handle_event(event: dict[str, Any], server: Server, call: Invocation) -> dict[str, Any]:
    """The answers to all that the event asks for. Raises RetryLater where one may succeed later."""
    try:
        with event_from("EventBridge"):
            name = str(event["id"])
        call = call.with_correlation_id(name)
        found = find_tasks(event)
    except Exception as error:
        return predict.format_error(call.refuse(error))
    return answer_all_tasks(found, name, server, call)
