"""Every event the function takes. An event is a module: ``matches_event`` knows it by its shape, ``handle_event``
answers it.

The usual ones are imported with the function, where Lambda lends a whole processor; any other when an event has
its key, so that only those that are used cost anything.
"""

from __future__ import annotations

from importlib import import_module

from ..errors import RetryLater
from ..server import Invocation, Server
from ..typed import Any
from . import direct, http_api  # noqa: F401

KINDS = (
    ("requestContext", "http_api"),
    ("requestContext", "rest_api"),
    ("requestContext", "load_balancer"),
    ("Records", "sqs"),
    ("Records", "s3"),
    ("Records", "sns"),
    ("detail-type", "eventbridge"),
    ("Items", "step_functions"),
    ("Key", "step_functions"),
)
"""The key that an event has, and the module that may know it. What none knows is a direct invocation."""


def answer_event(event: object, server: Server, call: Invocation) -> Any:
    """What the function returns for ``event``. Raises RetryLater, and nothing else."""
    kind = _find_event_module(event)
    if kind is None:
        return direct.handle_event(event, server, call)
    try:
        return kind.handle_event(event, server, call)
    except RetryLater:
        raise
    except Exception as error:  # an answer of the wrong shape could count as success, and the event would be lost
        raise RetryLater(call.refuse(error).message) from None


def _find_event_module(event: object) -> Any:
    """The module that knows this event, or None."""
    if isinstance(event, dict):
        for key, name in KINDS:
            if key in event:
                kind = import_module(f"{__name__}.{name}")
                if kind.matches_event(event):
                    return kind
    return None
