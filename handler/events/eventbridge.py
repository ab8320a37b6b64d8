"""EventBridge events: S3's "Object Created", or one of your own whose ``detail`` is a request of our own protocol."""

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
    """Return the answers to all tasks of the event. Raises RetryLater if one may succeed later."""
    try:
        with event_from("EventBridge"):
            name = str(event["id"])
        call = call.with_correlation_id(name)
        tasks = find_tasks(event)
    except Exception as error:
        return predict.format_error(call.refuse(error))
    return answer_all_tasks(tasks, name, server, call)
