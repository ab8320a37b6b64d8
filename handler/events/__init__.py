"""The kinds of events that the function takes, each a module with ``matches_event`` and ``handle_event``.

HTTP's is imported with the function, while Lambda lends a whole processor; any other when an event has its key, so that
only those in use cost anything.
"""

from __future__ import annotations

from importlib import import_module

from ..answer import require_room
from ..errors import RetryLater
from ..protocols import predict
from ..server import Invocation, Server
from ..typed import Any
from . import gateways  # noqa: F401

KINDS = (
    ("requestContext", "gateways"),
    ("Records", "sqs"),
    ("Records", "notifications"),
    ("detail-type", "notifications"),
    ("Items", "step_functions"),
    ("Key", "step_functions"),
)
"""The key of an event, and a module that may know it. An event that no module knows is a direct invocation."""


def answer_event(event: object, server: Server, call: Invocation) -> Any:
    """Return the function's answer to ``event``. Raises RetryLater, and nothing else."""
    kind = _find_event_module(event)
    if kind is None:
        return _answer_directly(event, server, call)
    try:
        return kind.handle_event(event, server, call)
    except RetryLater:
        raise
    except Exception as error:  # an answer of the wrong shape could count as success and lose the event
        raise RetryLater(call.refuse(error).message) from None


def _find_event_module(event: object) -> Any:
    """Return the module that knows this event, or None."""
    if isinstance(event, dict):
        for key, name in KINDS:
            if key in event:
                kind = import_module(f"{__name__}.{name}")
                if kind.matches_event(event):
                    return kind
    return None


def _answer_directly(event: object, server: Server, call: Invocation) -> dict[str, Any]:
    """Answer a direct invocation, whose event is the request."""
    try:
        answer = predict.answer_event(event, server, call)
        require_room(answer)
        return answer
    except Exception as error:
        return predict.format_error(call.refuse(error))
