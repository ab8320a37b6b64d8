"""A direct invocation: the event is the request."""

from __future__ import annotations

from typing import Any

from ..protocols import predict
from ..server import Call, Server


def handle(event: object, server: Server, call: Call) -> dict[str, Any]:
    try:
        return predict.answer(event, server, call)
    except Exception as error:
        return predict.error(call.refuse(error))
